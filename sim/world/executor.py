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
        self.latency = latency
        self._answer_tokens = answer_tokens
        self._identities = identities
        self._reasons = reasons or {}
        self._calendar: dict[int, list[Request]] = {}
        self._last_tick: dict[int, int] = {}

    def run(self, plan: StepPlan) -> StepResult:
        """Predict the step's duration and who ends with it."""
        result = StepResult(self.latency(plan.shape))
        # First who starts to decode: it makes stale what the calendar still holds of them.
        starting = [*plan.completing, *plan.rejoined] if plan.rejoined else plan.completing
        at_once = self._expect_all(plan, starting) if starting else ()
        if plan.ticks:
            result.finished = self.endings_at(plan.clock)
        if at_once:
            result.finished = [*result.finished, *at_once]
        if plan.filling:
            result.identities = self.answer_blocks(plan.filling)
        return result

    def endings_at(self, clock: int) -> Sequence[Ending]:
        """Who ends with the tick that brought the decode clock to this value; asked once."""
        due = self._calendar.pop(clock, None)
        if due is None:
            return ()
        endings = []
        for request in due:
            if request.state is State.DECODING and self._last_tick.get(request.id) == clock:
                del self._last_tick[request.id]
                endings.append(self._ending(request))
        return endings

    def answer_blocks(self, requests: Sequence[Request]) -> list[int]:
        """Identities of the blocks that the newest tokens of requests complete."""
        return [self._identities.answer_block(request) for request in requests]

    def _expect_all(self, plan: StepPlan, starting: Sequence[Request]) -> list[Ending]:
        """Note the last ticks of those who start to decode; returns who ends with the first token."""
        finished: list[Ending] = []
        for request in starting:
            self._expect(plan, request, finished)
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

    def _ending(self, request: Request) -> Ending:
        return Ending(request, self._reasons.get(request.id, "stop"))
