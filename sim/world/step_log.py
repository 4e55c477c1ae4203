"""The log of steps, at a cost per change: steps that only decode on are told in two numbers.

A planned step is a full row. So is the first of a run of coasted steps, which lasts until somebody
ends; of those that follow only the end and the blocks in use are kept, since all else moves by what
the row before them says: each of n decodes has one token more.
"""

from __future__ import annotations

from array import array
from struct import Struct

import numpy as np

from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import StepPlan, StepResult, StepShape
from pagecast.sim.results.log import STEP_COLUMNS, Ints

PACK = Struct(f"{1 + len(STEP_COLUMNS)}q")
"""A full row as bytes: the number of its step, then `STEP_COLUMNS`."""

PACK_ENDING = Struct("2q")
"""The number of a step that ends a run of coasted ones, and how many requests ended in it."""

LASTING = ("running", "waiting", "swapped", "decode_seqs", "dead_rows")
"""Columns that a run of coasted steps does not change; the others that are not derived are 0."""


class StepLog:
    """Collects the rows of `RunLog.steps`.

    Args:
        scheduler: whose counts are noted after each step was planned.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._rows, self._endings = bytearray(), bytearray()
        self._ends_ns, self._used_blocks = array("q"), array("q")
        self._coasting = False

    def planned(self, plan: StepPlan, result: StepResult) -> None:
        """Note a planned step, before it is committed."""
        self._coasting = False
        changes = (len(plan.preempted), len(plan.admitted), len(result.finished))
        self._row(plan.shape, plan.now_ns, plan.now_ns + result.duration_ns, plan.ticks, changes)

    def coasted(self, shape: StepShape, start_ns: int, end_ns: int, finished: int) -> None:
        """Note a step that only decoded, before those who end with it are released."""
        if self._coasting:
            if finished:
                self._endings += PACK_ENDING.pack(len(self._ends_ns), finished)
            pool = self._scheduler.pool
            self._ends_ns.append(end_ns)
            self._used_blocks.append(pool.blocks - pool.free)
        else:
            self._row(shape, start_ns, end_ns, True, (0, 0, finished))
        self._coasting = not finished

    def _row(
        self, shape: StepShape, start_ns: int, end_ns: int, ticks: bool, changes: tuple[int, ...]
    ) -> None:
        scheduler, pool = self._scheduler, self._scheduler.pool
        used_blocks = pool.blocks - pool.free
        self._rows += PACK.pack(
            len(self._ends_ns), start_ns, end_ns, ticks, len(scheduler.running),
            len(scheduler.waiting), len(scheduler.swapped), used_blocks, pool.claimed, scheduler.kv_tokens(), *changes,
            shape.decode_seqs, shape.decode_context_tokens, shape.decode_context_sq,
            shape.decode_context_max, shape.prefill_seqs, shape.prefill_tokens,
            shape.prefill_pairs, shape.prefill_context_tokens, shape.sampled_rows,
            shape.swapped_out_blocks, shape.swapped_in_blocks, shape.copied_blocks, shape.dead_rows, shape.padded_tokens,
            shape.padded_context_tokens,
        )  # fmt: skip
        self._ends_ns.append(end_ns)
        self._used_blocks.append(used_blocks)

    def table(self) -> Ints:
        """All steps with all their columns: [steps, STEP_COLUMNS].

        k steps into a run of n decodes, contexts sum to Σc + n·k, and their squares to
        Σc² + 2·k·Σc + n·k².
        """
        rows = column(self._rows).reshape(-1, 1 + len(STEP_COLUMNS))
        ends_ns, used_blocks = column(self._ends_ns), column(self._used_blocks)
        table = np.zeros((len(ends_ns), len(STEP_COLUMNS)), dtype=np.int64)
        numbers = rows[:, 0]
        table[numbers] = rows[:, 1:]
        row_of = np.repeat(np.arange(len(rows)), np.diff(numbers, append=len(ends_ns)))
        coasted = np.ones(len(ends_ns), dtype=bool)
        coasted[numbers] = False
        run = row_of[coasted]
        k = np.flatnonzero(coasted) - numbers[run]

        def first(name: str) -> Ints:
            """A column of the first step of the run that each coasted step is in."""
            values: Ints = rows[run, 1 + STEP_COLUMNS.index(name)]
            return values

        def fill(name: str, values: Ints | int) -> None:
            table[coasted, STEP_COLUMNS.index(name)] = values

        for name in LASTING:
            fill(name, first(name))
        decodes, contexts = first("decode_seqs"), first("decode_context_tokens")
        fill("start_ns", ends_ns[np.flatnonzero(coasted) - 1])
        fill("end_ns", ends_ns[coasted])
        fill("ticks", 1)
        fill("used_blocks", used_blocks[coasted])
        shared = first("claimed_blocks") - first("used_blocks")
        fill("claimed_blocks", used_blocks[coasted] + shared)
        fill("kv_tokens", first("kv_tokens") + decodes * k)
        fill("decode_context_tokens", contexts + decodes * k)
        fill("decode_context_sq", first("decode_context_sq") + k * (2 * contexts + decodes * k))
        fill("decode_context_max", first("decode_context_max") + k)
        fill("sampled_rows", decodes)
        fill("padded_context_tokens", first("padded_context_tokens") + first("dead_rows") * k)
        endings = column(self._endings).reshape(-1, 2)
        table[endings[:, 0], STEP_COLUMNS.index("finished")] = endings[:, 1]
        return table


def column(values: array[int] | bytearray) -> Ints:
    """Integers that were collected one by one, without a copy."""
    return np.frombuffer(values, dtype=np.int64) if values else np.zeros(0, dtype=np.int64)
