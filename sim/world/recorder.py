"""Keeps what a run leaves behind, at a cost per step and per request, not per token."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from pagecast.engine.core.admission import Refusal
from pagecast.engine.core.request import Request
from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import Ending, StepPlan, StepResult, StepShape
from pagecast.sim.results.log import NEVER, STAY_COLUMNS, Outcome, RunLog
from pagecast.sim.world.step_log import StepLog, column
from pagecast.traces.schema import Trace


class Recorder:
    """Collects the columns of a `RunLog` while the replica runs.

    Args:
        trace: its rows are the requests, by id.
        scheduler: whose counts are noted after each plan.
    """

    def __init__(self, trace: Trace, scheduler: Scheduler) -> None:
        self._trace = trace
        self._scheduler = scheduler
        self._steps = StepLog(scheduler)
        self._stays = array("q")
        self._tick_ends_ns = array("q")
        self._open: dict[int, tuple[int, int, int]] = {}
        self._emitted_ns: dict[int, int] = {}
        self._live: dict[int, Request] = {}
        rows = len(trace)
        self._scheduled_ns, self._first_ns, self._last_ns = (
            array("q", [NEVER]) * rows for _ in range(3)
        )
        (
            self._outcome,
            self._output,
            self._preemptions,
            self._swaps,
            self._recomputed,
            self._cached,
        ) = (array("q", [0]) * rows for _ in range(6))
        self._reasons = [""] * rows
        self.fill_wait_ns = 0
        """Time during which nothing ran since a batch was held to fill up."""
        self.ended = 0
        """Requests that left, in whatever way."""

    def arrived(self, request: Request, refused: Refusal | None) -> None:
        """Note an arrival, and its end if it was refused."""
        if refused is None:
            self._live[request.id] = request
        else:
            self._end(request, Outcome.REFUSED, str(refused))

    def failed(self, plan: StepPlan) -> None:
        """Note the requests that a plan gave up on."""
        for request, reason in plan.failed:
            self._close_stay(request.id, request.left_clock)
            self._output[request.id] = request.known - request.prompt_tokens
            self._end(request, Outcome.FAILED, reason)

    def step(self, plan: StepPlan, result: StepResult) -> None:
        """Note a step that starts at the plan's time, before it is committed."""
        end_ns = plan.now_ns + result.duration_ns
        for request in plan.preempted:
            self._close_stay(request.id, request.left_clock)
        for request in plan.admitted:
            if self._scheduled_ns[request.id] == NEVER:
                self._scheduled_ns[request.id] = plan.now_ns
        for request in plan.completing:
            self._close_stay(request.id, request.left_clock)
            self._open_stay(request, plan.clock, end_ns)
        for request in plan.rejoined:
            self._open_stay(request, plan.clock, end_ns)
        if plan.ticks:
            self._tick_ends_ns.append(end_ns)
        if result.finished:
            self._finished(result.finished, plan.clock, end_ns)
        self._steps.planned(plan, result)

    def coasted(
        self, shape: StepShape, start_ns: int, end_ns: int, endings: Sequence[Ending]
    ) -> None:
        """Note a step that only decoded, before those who end with it are released."""
        self._tick_ends_ns.append(end_ns)
        self._steps.coasted(shape, start_ns, end_ns, len(endings))
        if endings:
            self._finished(endings, self._scheduler.cohort.clock, end_ns)

    def log(self, clipped: int) -> RunLog:
        """All that was noted; requests that did not end are `UNFINISHED`."""
        for request in list(self._live.values()):
            self._note_counts(request)
        trace, scheduler = self._trace, self._scheduler
        return RunLog(
            arrival_ns=trace.arrival_ns,
            prompt_tokens=trace.prompt_tokens,
            output_tokens=column(self._output),
            outcome=column(self._outcome),
            scheduled_ns=column(self._scheduled_ns),
            first_token_ns=column(self._first_ns),
            last_token_ns=column(self._last_ns),
            preemptions=column(self._preemptions),
            swaps=column(self._swaps),
            recomputed_tokens=column(self._recomputed),
            cached_tokens=column(self._cached),
            replica=np.zeros(len(trace), dtype=np.int64),
            reasons=self._reasons,
            request_ids=trace.ids(),
            steps=self._steps.table(),
            stays=column(self._stays).reshape(-1, len(STAY_COLUMNS)),
            pool_blocks=scheduler.pool.blocks,
            block_size=scheduler.pool.block_size,
            clipped=clipped,
            preempted_again=scheduler.preempted_again,
            fill_wait_ns=self.fill_wait_ns,
            prefix_query_tokens=scheduler.prefix_query_tokens,
            prefix_hit_tokens=scheduler.prefix_hit_tokens,
        )

    def _finished(self, endings: Sequence[Ending], clock: int, end_ns: int) -> None:
        computed = self._scheduler.cohort.computed
        for request, reason in endings:
            self._close_stay(request.id, clock)
            self._last_ns[request.id] = end_ns
            self._output[request.id] = computed(request) + 1 - request.prompt_tokens
            self._end(request, Outcome.FINISHED, reason)

    def _open_stay(self, request: Request, clock: int, end_ns: int) -> None:
        previous_ns = self._emitted_ns.pop(request.id, NEVER)
        if previous_ns == NEVER:
            self._first_ns[request.id] = end_ns
        self._open[request.id] = (clock, end_ns, previous_ns)

    def _close_stay(self, id: int, left_clock: int) -> None:
        """End a stay in the decode cohort, if there is one."""
        stay = self._open.pop(id, None)
        if stay is None:
            return
        joined_clock, joined_ns, previous_ns = stay
        self._stays.extend((id, joined_clock, left_clock, joined_ns, previous_ns))
        stood = left_clock > joined_clock
        self._emitted_ns[id] = self._tick_ends_ns[left_clock - 1] if stood else joined_ns

    def _end(self, request: Request, outcome: Outcome, reason: str) -> None:
        self._outcome[request.id] = outcome
        self._reasons[request.id] = reason
        self._note_counts(request)
        self._live.pop(request.id, None)
        self._emitted_ns.pop(request.id, None)
        self.ended += 1

    def _note_counts(self, request: Request) -> None:
        self._preemptions[request.id] = request.preemptions
        self._swaps[request.id] = request.swaps
        self._recomputed[request.id] = request.recomputed_tokens
        self._cached[request.id] = request.cached_tokens
