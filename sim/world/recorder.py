"""Keeps what a run leaves behind, at a cost per step and per request, not per token."""

from __future__ import annotations

from array import array
from struct import Struct

import numpy as np

from pagecast.engine.core.admission import Refusal
from pagecast.engine.core.request import Request
from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import StepPlan, StepResult
from pagecast.sim.results.log import NEVER, STAY_COLUMNS, STEP_COLUMNS, Ints, Outcome, RunLog
from pagecast.traces.schema import Trace

EVERY_STEP = (
    "start_ns", "end_ns", "ticks", "running", "waiting", "used_blocks", "claimed_blocks",
    "kv_tokens", "decode_seqs", "decode_context_tokens", "decode_context_sq",
    "decode_context_max", "dead_rows", "padded_context_tokens",
)  # fmt: skip
"""Columns that every step fills."""

EVENT_STEP = (
    "preempted", "admitted", "finished", "prefill_seqs", "prefill_tokens", "prefill_pairs",
    "prefill_context_tokens", "sampled_rows", "copied_blocks", "padded_tokens",
)  # fmt: skip
"""Columns that are 0 but for the few steps that compute prompts or see someone leave.

`sampled_rows` is the exception: elsewhere it is the number of decodes."""

PACK_STEP = Struct(f"{len(EVERY_STEP)}q")
PACK_EVENT = Struct(f"{1 + len(EVENT_STEP)}q")
"""Rows as bytes: packing a row takes a third of the time of appending it to an array."""


class Recorder:
    """Collects the columns of a `RunLog` while the replica runs.

    Args:
        trace: its rows are the requests, by id.
        scheduler: whose counts are noted after each plan.
    """

    def __init__(self, trace: Trace, scheduler: Scheduler) -> None:
        self._trace = trace
        self._scheduler = scheduler
        self._steps, self._events = bytearray(), bytearray()
        self._stays = array("q")
        self._tick_ends_ns = array("q")
        self._open: dict[int, tuple[int, int, int]] = {}
        self._emitted_ns: dict[int, int] = {}
        self._live: dict[int, Request] = {}
        rows = len(trace)
        self._scheduled_ns, self._first_ns, self._last_ns = (
            array("q", [NEVER]) * rows for _ in range(3)
        )
        self._outcome, self._output, self._preemptions, self._recomputed, self._cached = (
            array("q", [0]) * rows for _ in range(5)
        )
        self._reasons = [""] * rows
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
        if plan.ticks:
            self._tick_ends_ns.append(end_ns)
        computed = self._scheduler.cohort.computed
        for request, reason in result.finished:
            self._close_stay(request.id, plan.clock)
            self._last_ns[request.id] = end_ns
            self._output[request.id] = computed(request) + 1 - request.prompt_tokens
            self._end(request, Outcome.FINISHED, reason)
        self._append_row(plan, result, end_ns)

    def log(self, clipped: int) -> RunLog:
        """All that was noted; requests that did not end are `UNFINISHED`."""
        for request in list(self._live.values()):
            self._note_counts(request)
        trace, scheduler = self._trace, self._scheduler
        return RunLog(
            arrival_ns=trace.arrival_ns,
            prompt_tokens=trace.prompt_tokens,
            output_tokens=_column(self._output),
            outcome=_column(self._outcome),
            scheduled_ns=_column(self._scheduled_ns),
            first_token_ns=_column(self._first_ns),
            last_token_ns=_column(self._last_ns),
            preemptions=_column(self._preemptions),
            recomputed_tokens=_column(self._recomputed),
            cached_tokens=_column(self._cached),
            replica=np.zeros(len(trace), dtype=np.int64),
            reasons=self._reasons,
            request_ids=trace.ids(),
            steps=self._step_columns(),
            stays=_column(self._stays).reshape(-1, len(STAY_COLUMNS)),
            pool_blocks=scheduler.pool.blocks,
            block_size=scheduler.pool.block_size,
            clipped=clipped,
            prefix_query_tokens=scheduler.prefix_query_tokens,
            prefix_hit_tokens=scheduler.prefix_hit_tokens,
        )

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
        self._recomputed[request.id] = request.recomputed_tokens
        self._cached[request.id] = request.cached_tokens

    def _append_row(self, plan: StepPlan, result: StepResult, end_ns: int) -> None:
        """Two rows: what every step has, and what only steps have that change something."""
        scheduler, shape = self._scheduler, plan.shape
        pool = scheduler.pool
        if plan.chunks or plan.preempted or result.finished:
            number = len(self._steps) // PACK_STEP.size
            self._events += PACK_EVENT.pack(number, *_event(plan, result))
        self._steps += PACK_STEP.pack(
            plan.now_ns, end_ns, plan.ticks, len(scheduler.running), len(scheduler.waiting),
            pool.blocks - plan.free_after, pool.claimed, scheduler.kv_tokens(),
            shape.decode_seqs, shape.decode_context_tokens, shape.decode_context_sq,
            shape.decode_context_max, shape.dead_rows, shape.padded_context_tokens,
        )  # fmt: skip

    def _step_columns(self) -> Ints:
        """Both kinds of rows as one table of `STEP_COLUMNS`."""
        every = _column(self._steps).reshape(-1, len(EVERY_STEP))
        events = _column(self._events).reshape(-1, 1 + len(EVENT_STEP))
        table = np.zeros((len(every), len(STEP_COLUMNS)), dtype=np.int64)
        table[:, [STEP_COLUMNS.index(name) for name in EVERY_STEP]] = every
        table[:, STEP_COLUMNS.index("sampled_rows")] = every[:, EVERY_STEP.index("decode_seqs")]
        for place, name in enumerate(EVENT_STEP, start=1):
            table[events[:, 0], STEP_COLUMNS.index(name)] = events[:, place]
        return table


def _event(plan: StepPlan, result: StepResult) -> tuple[int, ...]:
    shape = plan.shape
    return (
        len(plan.preempted), len(plan.admitted), len(result.finished), shape.prefill_seqs,
        shape.prefill_tokens, shape.prefill_pairs, shape.prefill_context_tokens,
        shape.sampled_rows, shape.copied_blocks, shape.padded_tokens,
    )  # fmt: skip


def _column(values: array[int] | bytearray) -> Ints:
    return np.frombuffer(values, dtype=np.int64) if values else np.zeros(0, dtype=np.int64)
