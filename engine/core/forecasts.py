"""Reserves that look ahead: room for what those who run may still need.

A forecast belongs to one run and may own state. It is asked before each admission, told who gave
way, and its state is a part of the decision log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from pagecast.engine.core.request import Request

if TYPE_CHECKING:
    from pagecast.engine.core.scheduler import Scheduler
    from pagecast.engine.core.step import StepPlan


class Forecast(Protocol):
    """A rule on the axis `reserve` that knows all that run."""

    waits_for_leavers: bool
    """Whether a request that found no room is tried again only once somebody has left."""

    def fits(self, plan: StepPlan, request: Request, need: int) -> bool:
        """Whether a request that needs `need` more blocks for its known tokens may join now."""

    def preempted(self) -> None:
        """Somebody gave way in the step just planned."""

    def idle(self) -> None:
        """A step is planned while nobody runs."""

    def state(self) -> Sequence[int]:
        """What is remembered from step to step, as integers."""


MILLION = 1_000_000


class RatioForecast:
    """Each of the running will use a share of the answer it may still make (SGLang).

    The share falls linearly with decode steps, and is set anew from what was really decoded when
    somebody had to give way. The newcomer counts with its whole answer, as do those admitted in
    the same step. Constants are SGLang's: 0.7 falling to 0.14 of it in 600 decode steps, answers
    counted up to 4,096 tokens, 20 steps of safety after a retraction.
    """

    waits_for_leavers = True
    START, LEAST, STEPS = 700_000, 98_000, 600
    LONGEST_ANSWER, SAFETY_STEPS = 4096, 20

    def __init__(self, scheduler: Scheduler) -> None:
        self._s = scheduler
        self._from, self._since = self.START, 0

    def ratio_millionths(self) -> int:
        """The share, in millionths, at the present value of the decode clock."""
        passed = self._s.cohort.clock - self._since
        return max(self.LEAST, self._from - passed * (self.START - self.LEAST) // self.STEPS)

    def fits(self, plan: StepPlan, request: Request, need: int) -> bool:
        """Room for the newcomer with its answer, beside the share of all other answers."""
        s, ratio = self._s, self.ratio_millionths()
        if not s.running:
            return True
        new, owed = set(plan.admitted), 0
        for other in s.running:
            owed += self._answer_left(other) * (MILLION if other in new else ratio)
        tokens = self._answer_left(request) + -(-owed // MILLION)
        return need + s.blocks_for(tokens) <= s.pool.free

    def preempted(self) -> None:
        """Take what the running have decoded, and a few steps more, for the share to expect."""
        s = self._s
        decoded = sum(s.cohort.known(r) - r.prompt_tokens for r in s.running)
        longest = sum(s.longest_answer(r) for r in s.running)
        share = (decoded + self.SAFETY_STEPS * len(s.running)) * MILLION // (longest + 1)
        self._from, self._since = min(MILLION, share), s.cohort.clock

    def idle(self) -> None:
        """Start over."""
        self._from, self._since = self.START, self._s.cohort.clock

    def state(self) -> Sequence[int]:
        """The share now, in millionths."""
        return (self.ratio_millionths(),)

    def _answer_left(self, request: Request) -> int:
        s = self._s
        made = s.cohort.known(request) - request.prompt_tokens
        return min(s.longest_answer(request) - made, self.LONGEST_ANSWER)


class PeakForecast:
    """The most tokens that all together will ever hold, if each makes its longest answer (LightLLM).

    Sorted by what is left, longest first: when the k-th ends, those before it still run, and each
    has grown by what the k-th had left. Each may waste all but one slot of its last block.
    """

    waits_for_leavers = False

    def __init__(self, scheduler: Scheduler) -> None:
        self._s = scheduler

    def fits(self, plan: StepPlan, request: Request, need: int) -> bool:
        """Whether the peak stays within the pool, the newcomer included."""
        s = self._s
        if need > s.pool.free:
            return False
        known = s.cohort.known
        everyone = [
            (s.longest_answer(r) - (known(r) - r.prompt_tokens), known(r))
            for r in (*s.running, request)
        ]
        everyone.sort(reverse=True)
        most, held, waste = 0, 0, s.pool.block_size - 1
        for place, (left, tokens) in enumerate(everyone, start=1):
            held += tokens
            most = max(most, held + place * (max(left, 0) + waste))
        return most <= s.usable_blocks * s.pool.block_size or not s.running

    def preempted(self) -> None:
        """Nothing is remembered."""

    def idle(self) -> None:
        """Nothing is remembered."""

    def state(self) -> Sequence[int]:
        """Nothing is remembered."""
        return ()


FORECAST: dict[str, Callable[[Scheduler], Forecast]] = {
    "ratio": RatioForecast,
    "peak": PeakForecast,
}
"""Values of the axis `reserve` that look ahead."""
