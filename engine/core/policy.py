"""Policy as data: a scheduler is a point on these axes, and none needs a subclass.

`Policy` holds one value per axis, `AXES` the values each named axis accepts. The points that bear
an engine's name are in `presets.py`, the functions behind the names of values in `rules.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args, get_type_hints

from pagecast.engine.core import rules
from pagecast.engine.core.errors import UserError, nearest

AXES: dict[str, tuple[str, ...]] = {
    "batching": ("iteration", "request"),
    "padding": ("none", "longest"),
    "mix": ("mixed",),
    "service_order": ("running_in_order",),
    "queue_order": ("fcfs",),
    "chunk": ("none", "any"),
    "reserve": tuple(rules.RESERVE),
    "victim": tuple(rules.VICTIM),
    "preemption": ("recompute", "never"),
    "requeue": ("front", "back"),
    "kv_layout": ("paged", "contiguous"),
    "prefix": ("off", "block_hash"),
    "publish": ("at_plan", "at_commit"),
    "free_order": ("lru", "unhashed_first"),
}
"""Axes with named values. The others are numbers or yes/no."""


@dataclass(frozen=True)
class Policy:
    """One scheduler, as data.

    batching: `iteration` admits at any step, `request` only when the last batch has left.
    padding: `longest` charges every row of a batch at the length of the longest.
    fill_wait_ns: how long a new batch may be held to fill up (batching `request`).
    max_batched_tokens: tokens that one step may compute; None is no limit.
    max_seqs: requests that may run at a time.
    chunk: whether a prompt may be computed in pieces.
    long_prefill_cap: most tokens of one prompt in one step; 0 is no cap.
    reserve: what must be free before a request is admitted, a key of `rules.RESERVE`.
    low_watermark: share of all blocks that admission leaves free for running work.
    watermark_if_busy: whether the watermark is waived while nothing runs.
    preempt_below: share of all blocks below which running work is preempted.
    refuse_above_used, refuse_above_waiting: an arrival is refused when the share of blocks in use
        or the number of waiting requests is above; None never refuses.
    admit_after_preempt: whether a step that preempted may also admit.
    victim: who gives way, a key of `rules.VICTIM`.  preemption: how.  requeue: where to.
    kv_layout: `contiguous` gives every request max_model_len tokens at once.
    prefix: whether blocks are found again by content; publish: from when on; free_order: see
        `blocks.NamedPool`.
    null_blocks: blocks that the engine keeps to itself; shares of all blocks count them.
    """

    batching: str
    padding: str
    fill_wait_ns: int
    mix: str
    service_order: str
    queue_order: str
    max_batched_tokens: int | None
    max_seqs: int
    chunk: str
    long_prefill_cap: int
    reserve: str
    low_watermark: float
    watermark_if_busy: bool
    preempt_below: float
    refuse_above_used: float | None
    refuse_above_waiting: int | None
    admit_after_preempt: bool
    victim: str
    preemption: str
    requeue: str
    kv_layout: str
    prefix: str
    publish: str
    free_order: str
    null_blocks: int

    def __post_init__(self) -> None:
        """Refuse values and combinations that mean nothing.

        Raises:
            UserError: naming the axis, its value and what would be accepted.
        """
        for axis, accepted in AXES.items():
            value = getattr(self, axis)
            if value not in accepted:
                raise UserError(f"policy.{axis}: {value!r}; accepted: {', '.join(accepted)}")
        _check_numbers(self)
        _check_combinations(self)

    @property
    def reserves_all(self) -> bool:
        """Whether admission claims all blocks that a request can ever use."""
        return self.reserve in rules.CLAIMED_AT_ADMISSION


def _check_numbers(policy: Policy) -> None:
    budget = policy.max_batched_tokens
    bounds: list[tuple[str, float | None, float, float, str]] = [
        ("max_seqs", policy.max_seqs, 1, 1 << 40, "a whole number from 1"),
        ("max_batched_tokens", budget, 1, 1 << 40, "a whole number from 1"),
        ("long_prefill_cap", policy.long_prefill_cap, 0, 1 << 40, "0 (no cap) or more tokens"),
        ("null_blocks", policy.null_blocks, 0, 1 << 40, "0 or more blocks"),
        ("fill_wait_ns", policy.fill_wait_ns, 0, 1 << 62, "0 or more nanoseconds"),
        ("preempt_below", policy.preempt_below, 0, policy.low_watermark,
         "a share from 0 to low_watermark"),
        ("refuse_above_waiting", policy.refuse_above_waiting, 0, 1 << 40, "0 or more requests"),
        ("refuse_above_used", policy.refuse_above_used, 0, 1, "a share from 0 to 1"),
    ]  # fmt: skip
    if not 0 <= policy.low_watermark < 1:
        raise UserError(
            f"policy.low_watermark: {policy.low_watermark} would keep all blocks from ever being "
            "used; accepted: a share from 0 to below 1"
        )
    for axis, value, low, high, accepted in bounds:
        if value is not None and not low <= value <= high:
            raise UserError(f"policy.{axis}: {value}; accepted: {accepted}")


def _check_combinations(policy: Policy) -> None:
    budget = policy.max_batched_tokens
    if budget is not None and budget < policy.max_seqs:
        raise UserError(
            f"policy.max_batched_tokens: {budget} is below max_seqs {policy.max_seqs}, so that "
            f"the running requests could not all decode in one step; accepted: {policy.max_seqs} "
            "or more"
        )
    wrong = {
        "padding longest needs batching request": policy.padding == "longest"
        and policy.batching != "request",
        "padding longest needs chunk none and max_batched_tokens none, so that a batch is "
        "prefilled in one step": policy.padding == "longest"
        and (policy.chunk != "none" or budget is not None),
        "long_prefill_cap needs chunk any": policy.chunk == "none" and policy.long_prefill_cap > 0,
        "preempt_below needs a preemption": policy.preempt_below > 0
        and policy.preemption == "never",
        "kv_layout contiguous needs reserve max_len": policy.kv_layout == "contiguous"
        and policy.reserve != "max_len",
        "prefix block_hash needs kv_layout paged": policy.prefix != "off"
        and policy.kv_layout != "paged",
        "preemption never needs a reserve that claims all at admission (policy.reserve one of "
        f"{', '.join(rules.CLAIMED_AT_ADMISSION)})": policy.preemption == "never"
        and not policy.reserves_all,
    }
    for what, holds in wrong.items():
        if holds:
            raise UserError(f"policy: {what}")


def with_axes(policy: Policy, axes: Mapping[str, Any]) -> Policy:
    """The policy with some axes replaced.

    Raises:
        UserError: for an unknown axis, with the nearest names, or a value an axis refuses.
    """
    types = get_type_hints(Policy)
    for axis, value in axes.items():
        if axis not in types:
            raise UserError(nearest("policy axis", axis, types))
        accepted = get_args(types[axis]) or (types[axis],)
        whole = type(value) is int and float in accepted
        if type(value) not in accepted and not whole:
            names = " or ".join("none" if t is type(None) else t.__name__ for t in accepted)
            raise UserError(f"policy.{axis}: {value!r}; accepted: {names}")
    return replace(policy, **axes)
