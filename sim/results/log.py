"""What a simulated run leaves behind: columns, nothing summed up yet.

`RunLog` is the one thing that the simulation hands to metrics, figures and verdicts. A request
that decodes in lockstep with others leaves no row per token. Its stay in the decode cohort is one
row of `stays`, and the times of its tokens are those of the clock ticks in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

NEVER = -1
"""Stands for a time that did not come, in every `_ns` column."""


class Outcome(IntEnum):
    """How a request ended."""

    UNFINISHED = 0
    FINISHED = 1
    REFUSED = 2
    FAILED = 3
    CANCELLED = 4


STEP_COLUMNS = (
    "start_ns", "end_ns", "ticks", "running", "waiting", "swapped", "used_blocks", "claimed_blocks",
    "kv_tokens", "preempted", "admitted", "finished", "decode_seqs", "decode_context_tokens",
    "decode_context_sq", "decode_context_max", "prefill_seqs", "prefill_tokens", "prefill_pairs",
    "prefill_context_tokens", "sampled_rows", "swapped_out_blocks", "swapped_in_blocks",
    "copied_blocks", "dead_rows", "padded_tokens",
    "padded_context_tokens",
)  # fmt: skip
"""Columns of `RunLog.steps`, in order. From `decode_seqs` on they are fields of `StepShape`.

`running`, `waiting` and `swapped` (out, to host memory) count requests after the step was planned. `used_blocks` are the KV blocks
that some request references then (cached ones that nobody references are free); `claimed_blocks`
counts a shared block once per request that references it, and `kv_tokens` the tokens computed in
them, so that claimed_blocks · block_size − kv_tokens slots are wasted. `ticks` is 1 where the
decode clock advanced."""

STAY_COLUMNS = ("request", "joined_clock", "left_clock", "joined_ns", "previous_ns")
"""Columns of `RunLog.stays`: one row per uninterrupted stay in the decode cohort.

The step that ends at `joined_ns` emitted a token and put the request into the cohort, when the
decode clock stood at `joined_clock`. Each later tick up to `left_clock` emitted one more.
`previous_ns` is the emission before `joined_ns` (after a preemption), or NEVER for the first
token. A request that ends with its first token has a row with left_clock = joined_clock."""


@dataclass(frozen=True, eq=False)
class RunLog:
    """All columns of a run; per request in the order of the trace, times in nanoseconds.

    `output_tokens` are those made, which a run may end before the trace's. `clipped` counts
    requests whose answer was cut at the model's context. `swaps` are the preemptions that swapped,
    `preempted_again` counts preemptions of requests since whose last one nobody had left (thrash),
    and `fill_wait_ns` is the time that batches were held while nothing ran. `steps` is [steps, STEP_COLUMNS] and
    `stays` [stays, STAY_COLUMNS], both int64. `reasons[i]` says why request i ended as it did.
    """

    arrival_ns: Ints
    prompt_tokens: Ints
    output_tokens: Ints
    outcome: Ints
    scheduled_ns: Ints
    first_token_ns: Ints
    last_token_ns: Ints
    preemptions: Ints
    swaps: Ints
    recomputed_tokens: Ints
    cached_tokens: Ints
    replica: Ints
    reasons: list[str]
    request_ids: list[str]
    steps: Ints
    stays: Ints
    pool_blocks: int
    block_size: int
    clipped: int
    preempted_again: int
    fill_wait_ns: int
    prefix_query_tokens: int
    prefix_hit_tokens: int

    def step(self, column: str) -> Ints:
        """One column of `steps`, by name."""
        values: Ints = self.steps[:, STEP_COLUMNS.index(column)]
        return values

    def stay(self, column: str) -> Ints:
        """One column of `stays`, by name."""
        values: Ints = self.stays[:, STAY_COLUMNS.index(column)]
        return values

    def tick_ends_ns(self) -> Ints:
        """End of the step with tick k, at index k − 1: [ticks]."""
        ends: Ints = self.step("end_ns")[self.step("ticks") == 1]
        return ends
