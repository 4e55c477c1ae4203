"""Policy as data: a scheduler is a point on these axes, and none needs a subclass.

`Policy` holds one value per axis; `axes.py` has the values each takes, `rules.py` the functions
behind them, `presets.py` the points that bear an engine's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args, get_type_hints

from pagecast.engine.core import axes, rules
from pagecast.engine.core.axes import AXES
from pagecast.engine.core.costs import PreemptCost
from pagecast.engine.core.errors import UserError, nearest

__all__ = ["AXES", "Policy", "with_axes"]


@dataclass(frozen=True)
class Policy:
    """One scheduler, as data.

    batching: `iteration` admits at any step, `request` only when the last batch has left.
    padding: `longest` charges every row of a batch at the length of the longest.
    fill_wait_ns: how long a new batch may be held to fill up (batching `request`).
    mix: whether a step holds prompts and decodes, or prompts first and decodes when there are none.
    service_order: who is served first within a step.  queue_order: who is admitted first.
    max_batched_tokens: tokens that one step may compute; None is no limit.
    budget_counts: which tokens they are, all or those of prompts alone.
    max_seqs: requests that may run at a time; None is no limit.
    max_total_tokens: tokens that all running requests may come to, longest answers included.
    chunk: whether a prompt may be computed in pieces, or only the first prompt of a step.
    long_prefill_cap: most tokens of one prompt in one step; 0 is no cap.
    max_partials: prompts that may be unfinished after a step; 0 is no limit.
    chunk_align: pieces are cut to a multiple of this many tokens, the last one aside.
    reserve: what must be free before a request is admitted, a key of `rules.RESERVE`.
    reserve_subtracts_hits: whether cached blocks in use count as had.
    claim: whether admission takes the blocks of the first piece, or all that `reserve` names.
    low_watermark: share of all blocks that is left free for running work.
    watermark_on: by whom.  watermark_if_busy: whether it is waived while nothing runs.
    preempt_below: share of all blocks below which running work is preempted.
    refuse_above_used, refuse_above_waiting: an arrival is refused when the share of blocks in use
        or the number of waiting requests is above; None never refuses.
    admit_after_preempt, swap_in_after_preempt: whether a step that preempted may also do so.
    blocked_by_swapped: whether nobody new is admitted while anybody is swapped out.
    admit_every_n_decodes: decode steps between two attempts to admit, while anybody runs.
    readmit: when a preempted request may run again; `after_finish`: once somebody has left. That
        holds for thrash under `at_once`, too, where it might never end (`limits.takes_turns`).
    victim: who gives way, a key of `rules.VICTIM`.  preemption: how, a key of `rules.PREEMPTION`.
    hybrid_swaps: how often `hybrid` swaps a request before it recomputes it.
    preempt_cost: what `auto` and victim `cost` compare; made from the step-time model if not given.
    requeue: where a request goes that is recomputed.
    keep_kv: whether its full blocks can be hit in the prefix cache (`cached`) or are forgotten.
    kv_layout: `contiguous` gives every request max_model_len tokens at once.
    prefix: whether blocks are found again by content; publish: from when on; free_order: see
        `named_pool.NamedPool`; max_cached_prompt: leading tokens that are looked up, None is all.
    infeasible: whether an arrival that could outgrow the pool with its `max_tokens` is refused, or
        served and given up when it does.
    null_blocks: blocks that the engine keeps to itself; shares of all blocks count them.
    """

    batching: str
    padding: str
    fill_wait_ns: int
    mix: str
    service_order: str
    queue_order: str
    budget_counts: str
    max_batched_tokens: int | None
    max_seqs: int | None
    max_total_tokens: int | None
    chunk: str
    long_prefill_cap: int
    max_partials: int
    chunk_align: int
    reserve: str
    reserve_subtracts_hits: bool
    claim: str
    low_watermark: float
    watermark_on: str
    watermark_if_busy: bool
    preempt_below: float
    refuse_above_used: float | None
    refuse_above_waiting: int | None
    admit_after_preempt: bool
    swap_in_after_preempt: bool
    blocked_by_swapped: bool
    admit_every_n_decodes: int
    readmit: str
    victim: str
    preemption: str
    hybrid_swaps: int
    preempt_cost: PreemptCost | None
    requeue: str
    keep_kv: str
    kv_layout: str
    prefix: str
    publish: str
    max_cached_prompt: int | None
    free_order: str
    infeasible: str
    null_blocks: int

    def __post_init__(self) -> None:
        """Refuse values and combinations that mean nothing.

        Raises:
            UserError: naming the axis, its value and what would be accepted.
        """
        axes.check(self)

    @property
    def reserves_all(self) -> bool:
        """Whether admission claims all blocks that a request can ever use."""
        return self.reserve in rules.RESERVES_ALL

    @property
    def seqs_limit(self) -> int:
        """Requests that may run at a time; larger than any number where there is no limit."""
        return self.max_seqs or axes.ANY

    @property
    def may_swap(self) -> bool:
        """Whether a request may ever be swapped out."""
        return self.preemption in ("swap", "hybrid", "auto")

    @property
    def asks_cost(self) -> bool:
        """Whether a rule compares the price of preemptions."""
        return self.preemption == "auto" or self.victim == "cost"


def with_axes(policy: Policy, changes: Mapping[str, Any]) -> Policy:
    """The policy with some axes replaced.

    Raises:
        UserError: for an unknown axis, with the nearest names, or a value an axis refuses.
    """
    types = get_type_hints(Policy)
    for axis, value in changes.items():
        if axis not in types:
            raise UserError(nearest("policy axis", axis, types))
        if axis == "preempt_cost":
            continue
        accepted = get_args(types[axis]) or (types[axis],)
        whole = type(value) is int and float in accepted
        if type(value) not in accepted and not whole:
            names = " or ".join("none" if t is type(None) else t.__name__ for t in accepted)
            raise UserError(f"policy.{axis}: {value!r}; accepted: {names}")
    if isinstance(changes.get("preempt_cost"), Mapping):
        changes = {**changes, "preempt_cost": _cost(changes["preempt_cost"])}
    return replace(policy, **changes)


def _cost(given: Mapping[str, Any]) -> PreemptCost:
    whole = all(type(value) is int and value >= 0 for value in given.values())
    if set(given) != set(PreemptCost._fields) or not whole:
        raise UserError(f"policy.preempt_cost: {dict(given)}; accepted: {', '.join(PreemptCost._fields)}"
                        ", whole numbers from 0")  # fmt: skip
    return PreemptCost(**given)
