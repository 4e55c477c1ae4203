"""The simulator's executor: durations from a latency model, endings from the trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pagecast.engine.core.request import Request, State
from pagecast.engine.core.step import Ending, StepPlan, StepResult, StepShape


class AnswerIdentities(Protocol):
    """Names the contents of answer blocks."""

    def answer_block(self, request: Request) -> int:
        """Identity of the block that the request's newest token completes."""


class TraceExecutor:
    """Carries plans out on paper.

    Who ends when follows from the trace, so each decoding request waits in a calendar keyed by
    the decode clock. An entry that a preemption made stale is skipped when its day comes.

    Args:
        latency: predicted duration of a step, in nanoseconds, from its shape.
        answer_tokens: answer length by request id, as far as the model's context lets it grow.
        identities: contents of answer blocks, for the prefix cache.
        reasons: why a request ended, by id, where it is known to be other than `stop`.
    """

    def __init__(
        self,
        latency: Callable[[StepShape], int],
        answer_tokens: Sequence[int] | Mapping[int, int],
        identities: AnswerIdentities,
        reasons: Mapping[int, str] | None = None,
    ) -> None:
        self._latency = latency
        self._answer_tokens = answer_tokens
        self._identities = identities
        self._reasons = reasons or {}
        self._calendar: dict[int, list[Request]] = {}
        self._last_tick: dict[int, int] = {}

    def run(self, plan: StepPlan) -> StepResult:
        """Predict the step's duration and who ends with it."""
        result = StepResult(self._latency(plan.shape))
        if plan.completing or plan.clock in self._calendar:
            result.finished = self._endings(plan)
        if plan.filling:
            result.identities = [self._identities.answer_block(r) for r in plan.filling]
        return result

    def _endings(self, plan: StepPlan) -> list[Ending]:
        finished: list[Ending] = []
        for request in plan.completing:
            self._expect(plan, request, finished)
        if plan.ticks:
            self._end_due(plan.clock, finished)
        return finished

    def _expect(self, plan: StepPlan, request: Request, finished: list[Ending]) -> None:
        """Note at which tick a request that joins the decodes makes its last token."""
        made = request.known - request.prompt_tokens
        left = self._answer_tokens[request.id] - made
        if left <= 0:
            self._last_tick.pop(request.id, None)
            finished.append(self._ending(request))
            return
        tick = plan.clock + left
        self._last_tick[request.id] = tick
        self._calendar.setdefault(tick, []).append(request)

    def _end_due(self, clock: int, finished: list[Ending]) -> None:
        for request in self._calendar.pop(clock, ()):
            if request.state is State.DECODING and self._last_tick.get(request.id) == clock:
                del self._last_tick[request.id]
                finished.append(self._ending(request))

    def _ending(self, request: Request) -> Ending:
        return Ending(request, self._reasons.get(request.id, "stop"))
