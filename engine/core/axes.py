"""The axes of a policy: which values each takes, and which of them contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagecast.engine.core import rules
from pagecast.engine.core.errors import UserError
from pagecast.engine.core.queue import QUEUE_ORDER

if TYPE_CHECKING:
    from pagecast.engine.core.policy import Policy

AXES: dict[str, tuple[str, ...]] = {
    "batching": ("iteration", "request"),
    "padding": ("none", "longest"),
    "mix": ("mixed", "prefill_first"),
    "service_order": ("running_in_order", "decodes_partials_new", "waiting_first"),
    "queue_order": tuple(QUEUE_ORDER),
    "budget_counts": ("all", "prefill"),
    "chunk": ("none", "first_only", "any"),
    "reserve": tuple(rules.RESERVE),
    "claim": ("chunk", "reserved"),
    "watermark_on": ("admit", "swap_in", "admit+swap_in"),
    "readmit": ("at_once", "after_finish"),
    "victim": tuple(rules.VICTIM),
    "preemption": tuple(rules.PREEMPTION),
    "requeue": ("front", "back"),
    "keep_kv": ("drop", "cached"),
    "kv_layout": ("paged", "contiguous"),
    "prefix": ("off", "block_hash"),
    "publish": ("at_plan", "at_commit"),
    "free_order": ("lru", "unhashed_first"),
    "infeasible": ("reject", "abort_last"),
}
"""Axes with named values. The others are numbers or yes/no."""

ANY = 1 << 62


def check(policy: Policy) -> None:
    """Refuse values and combinations that mean nothing.

    Raises:
        UserError: naming the axis, its value and what would be accepted.
    """
    for axis, accepted in AXES.items():
        value = getattr(policy, axis)
        if value not in accepted:
            raise UserError(f"policy.{axis}: {value!r}; accepted: {', '.join(accepted)}")
    _check_numbers(policy)
    _check_budget(policy)
    for what, holds in _contradictions(policy).items():
        if holds:
            raise UserError(f"policy: {what}")


def _check_numbers(policy: Policy) -> None:
    cap = policy.long_prefill_cap or ANY
    if not 0 <= policy.low_watermark < 1:
        raise UserError(
            f"policy.low_watermark: {policy.low_watermark} would keep all blocks from ever being "
            "used; accepted: a share from 0 to below 1"
        )
    bounds: dict[str, tuple[float, float, str]] = {
        "max_seqs": (1, ANY, "a whole number from 1, or none"),
        "max_batched_tokens": (1, ANY, "a whole number from 1, or none"),
        "max_total_tokens": (1, ANY, "a whole number from 1, or none"),
        "long_prefill_cap": (0, ANY, "0 (no cap) or more tokens"),
        "max_partials": (0, ANY, "0 (no limit) or more prompts"),
        "chunk_align": (0, min(policy.max_batched_tokens or ANY, cap),
                        "0 or 1 (any length), up to max_batched_tokens and long_prefill_cap"),
        "admit_every_n_decodes": (0, ANY, "0 (at any step) or more decode steps"),
        "hybrid_swaps": (0, ANY, "0 or more swaps"),
        "null_blocks": (0, ANY, "0 or more blocks"),
        "fill_wait_ns": (0, ANY, "0 or more nanoseconds"),
        "preempt_below": (0, policy.low_watermark, "a share from 0 to low_watermark"),
        "refuse_above_waiting": (0, ANY, "0 or more requests"),
        "refuse_above_used": (0, 1, "a share from 0 to 1"),
        "max_cached_prompt": (0, ANY, "0 or more tokens, or none"),
    }  # fmt: skip
    for axis, (low, high, accepted) in bounds.items():
        value = getattr(policy, axis)
        if value is not None and not low <= value <= high:
            raise UserError(f"policy.{axis}: {value}; accepted: {accepted}")


def _check_budget(policy: Policy) -> None:
    budget, seqs = policy.max_batched_tokens, policy.max_seqs
    if budget is not None and policy.budget_counts == "all" and (seqs is None or budget < seqs):
        if policy.mix == "prefill_first" or seqs is None:
            return
        raise UserError(
            f"policy.max_batched_tokens: {budget} is below max_seqs {seqs}, so that the running "
            f"requests could not all decode in one step; accepted: {seqs} or more"
        )


def _contradictions(policy: Policy) -> dict[str, bool]:
    cut = policy.chunk != "none"
    whole = ", ".join(rules.RESERVES_ALL)
    return {
        "padding longest needs batching request": policy.padding == "longest"
        and policy.batching != "request",
        "padding longest needs chunk none and max_batched_tokens none, so that a batch is "
        "prefilled in one step": policy.padding == "longest"
        and (cut or policy.max_batched_tokens is not None),
        "padding longest needs mix mixed": policy.padding == "longest" and policy.mix != "mixed",
        "mix prefill_first and service_order waiting_first need each other": (
            policy.mix == "prefill_first"
        )
        != (policy.service_order == "waiting_first"),
        "mix prefill_first needs budget_counts prefill, since decodes have steps of their own":
            policy.mix == "prefill_first" and policy.budget_counts != "prefill",
        "long_prefill_cap, max_partials and chunk_align need a chunk": not cut
        and (policy.long_prefill_cap > 0 or policy.max_partials > 0 or policy.chunk_align > 1),
        "preempt_below needs a preemption": policy.preempt_below > 0
        and policy.preemption == "never",
        "kv_layout contiguous needs reserve max_len": policy.kv_layout == "contiguous"
        and policy.reserve != "max_len",
        "prefix block_hash needs kv_layout paged": policy.prefix != "off"
        and policy.kv_layout != "paged",
        f"reserve {whole} needs claim reserved": policy.reserves_all
        and policy.claim != "reserved",
        "reserve ratio and peak need claim chunk": policy.reserve in ("ratio", "peak")
        and policy.claim != "chunk",
        "preemption never needs a reserve that leaves nothing to be taken later (policy.reserve "
        f"one of {whole})": policy.preemption == "never" and not policy.reserves_all,
    }  # fmt: skip
