"""What holds a run back: what requests waited for, and where the time of a step goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pagecast.engine.core.forecasts import FORECAST
from pagecast.engine.core.policy import Policy
from pagecast.engine.core.step import StepShape
from pagecast.sim.results.log import NEVER, STEP_COLUMNS, Outcome, RunLog

if TYPE_CHECKING:
    from pagecast.sim.steptime.latency import LatencyModel


class Meaning(NamedTuple):
    """What a term of step time exhausts, and the term in words."""

    kind: str
    words: str


TERMS = {
    "weights": Meaning("bandwidth", "reading weights"),
    "kv_read": Meaning("bandwidth", "reading the KV cache"),
    "compute": Meaning("compute", "the arithmetic of linear layers"),
    "attention": Meaning("compute", "the arithmetic of attention"),
    "all_reduce": Meaning("interconnect", "all-reduce between GPUs"),
    "launch": Meaning("launch overhead", "starting kernels"),
    "sampling": Meaning("bandwidth", "sampling"),
    "swap": Meaning("host link", "swapping blocks"),
    "copy": Meaning("bandwidth", "copying blocks"),
    "host": Meaning("host", "preparing steps"),
}
"""Terms that the step-time models share; one that is not here speaks for itself."""

SAMPLED_STEPS = 2000
GOLDEN_RATIO = (1 + 5**0.5) / 2

SHAPE_COLUMNS = ("admitted", "finished", *STEP_COLUMNS[STEP_COLUMNS.index("decode_seqs") :])
"""Columns of a step that are fields of its `StepShape`."""


def waits(log: RunLog, policy: Policy) -> dict[str, float]:
    """Share of the busy time in which requests waited, by what they waited for.

    `kv_blocks`: too few were free for the next in line, or a preempted request waited.
    `sequences`: as many ran as may.  `token_budget`: the step's tokens were spent.
    `batching`: none of these, the running batch had to end first. Where several hold, the first.
    """
    duration_ns = log.step("end_ns") - log.step("start_ns")
    waiting = (log.step("waiting") > 0) | (log.step("swapped") > 0)
    computed = log.step("prefill_tokens")
    if policy.budget_counts == "all":
        computed = computed + log.step("decode_seqs")
    budget = policy.max_batched_tokens
    causes = {
        "kv_blocks": _short_of_blocks(log, policy),
        "sequences": log.step("running") >= policy.seqs_limit,
        "token_budget": computed >= budget if budget else np.zeros_like(waiting),
        "batching": waiting,
    }
    shares, busy_ns = {}, int(duration_ns.sum())
    for name, holds in causes.items():
        shares[name] = int(duration_ns[waiting & holds].sum()) / busy_ns if busy_ns else 0.0
        waiting = waiting & ~holds
    if policy.reserve in FORECAST:
        # What a forecast held back is not to be told from the log; nothing else is left.
        shares["kv_blocks"] += shares.pop("batching")
    return shares


def _short_of_blocks(log: RunLog, policy: Policy) -> NDArray[np.bool_]:
    """For each step, whether its free blocks kept the head of the queue from being admitted.

    Who is next in line is told by who was admitted next. More requests waiting than have arrived
    and were not served yet means that preempted ones are among them.
    """
    start_ns = log.step("start_ns")
    entered = np.flatnonzero(log.scheduled_ns != NEVER)
    entered = entered[np.argsort(log.scheduled_ns[entered], kind="stable")]
    served = np.searchsorted(log.scheduled_ns[entered], start_ns, side="right")
    arrivals_ns = np.sort(log.arrival_ns[log.outcome != Outcome.REFUSED])
    arrived = np.searchsorted(arrivals_ns, start_ns, side="right")
    resuming = (log.step("waiting") > arrived - served) | (log.step("swapped") > 0)
    tokens = (log.prompt_tokens - log.cached_tokens)[entered]
    need = np.append(-(-tokens // log.block_size), 0)[served]
    if policy.reserves_all:
        need = -(-log.step("claimed_blocks") // np.maximum(log.step("running"), 1))
    kept = int(policy.low_watermark * (log.pool_blocks + policy.null_blocks))
    left = log.pool_blocks - log.step("used_blocks") - need
    short: NDArray[np.bool_] = resuming | (left < kept)
    return short


def step_terms(log: RunLog, latency: LatencyModel) -> dict[str, float]:
    """Share of the busy time by term of the step-time model, largest first.

    Explains the steps at 2,000 instants, one in each of as many equal spans of the time in which
    steps ran. Where in its span differs from one to the next, by multiples of the golden ratio, so
    that steps which alternate regularly are not met at the same beat each time.
    """
    spent_ns = np.cumsum(log.step("end_ns") - log.step("start_ns"))
    if not len(spent_ns):
        return {}
    spans = np.arange(SAMPLED_STEPS)
    instants = (spans + spans * GOLDEN_RATIO % 1) / SAMPLED_STEPS * spent_ns[-1]
    sampled, times = np.unique(np.searchsorted(spent_ns, instants), return_counts=True)
    rows = log.steps[sampled][:, [STEP_COLUMNS.index(name) for name in SHAPE_COLUMNS]]
    totals: dict[str, float] = {}
    for row, weight in zip(rows.tolist(), times.tolist(), strict=True):
        terms_s = latency.explain(_shape(row))
        whole_s = sum(terms_s.values())
        for name, term_s in terms_s.items():
            totals[name] = totals.get(name, 0.0) + weight * term_s / whole_s / SAMPLED_STEPS
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def meaning(term: str) -> Meaning:
    """What a term exhausts, and the term in words."""
    return TERMS.get(term, Meaning(term, term))


def by_kind(terms: dict[str, float]) -> dict[str, float]:
    """The shares of terms that exhaust the same, summed."""
    kinds: dict[str, float] = {}
    for term, share in terms.items():
        kind = meaning(term).kind
        kinds[kind] = kinds.get(kind, 0.0) + share
    return kinds


def largest(shares: dict[str, float]) -> str:
    """The name of the largest share."""
    return max(shares, key=shares.__getitem__)


def _shape(row: list[int]) -> StepShape:
    shape = StepShape()
    for name, value in zip(SHAPE_COLUMNS, row, strict=True):
        setattr(shape, name, value)
    return shape
