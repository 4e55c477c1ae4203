"""One thing to try, with its numbers."""

from __future__ import annotations

import math

from pagecast.engine.core.policy import Policy
from pagecast.sim.results.log import RunLog

UNSTABLE_SHARE = 0.85
"""From this offered share on, latencies are called unstable.

In the simplest queue (M/M/1) waiting is r / (1 − r) service times at load r, so that a step 1 %
slower lengthens it by 1 / (1 − r) %: by 7 % at 0.85, by 20 % at 0.95."""

ROOMY_SHARE = 0.45
"""Twice as many sequences fit where no more of the blocks than this was in use."""

FOR_REASON = {
    "context": "a model with a longer context, or shorter prompts",
    "capacity": "more KV memory: fewer bytes a token (--kv-dtype fp8), more GPUs (--tp), a larger one",
    "budget": "a larger --max-batched-tokens, or a preset that computes prompts in pieces",
}
"""What helps if all requests ended for a reason."""


def relieve(
    log: RunLog,
    policy: Policy,
    kv_dtype: str,
    binding: str,
    offered_share: float,
    compute_share: float,
) -> str:
    """One thing to try for what requests wait for.

    Larger batches do not complete more where compute takes most of the step's time, so that more
    tokens or sequences a step are then left out.
    """
    less = reserve_less(log) if policy.reserve == "max_len" else None
    if less and binding in ("batching", "kv_blocks"):
        return less
    if binding == "batching":
        return f"a preset that admits at any step; batching is {policy.batching}"
    if binding == "kv_blocks" and kv_dtype in ("bf16", "fp16"):
        return f"--kv-dtype fp8: about {log.pool_blocks:,} more blocks, twice as many as now"
    budget, seqs = policy.max_batched_tokens, policy.seqs_limit
    if binding == "token_budget" and budget and compute_share < 0.5:
        return (
            f"raise --max-batched-tokens from {budget:,} to {2 * budget:,}: prompts wait less, at "
            "the price of longer gaps between tokens"
        )
    if binding == "sequences" and compute_share < 0.5:
        used_share = _used_share_when_full(log, policy)
        if used_share <= ROOMY_SHARE:
            return (
                f"raise --max-seqs from {seqs:,} to {2 * seqs:,}: when all of them ran, at most "
                f"{used_share:.0%} of the KV blocks were in use"
            )
    return more_replicas(offered_share)


def more_replicas(offered_share: float) -> str:
    """How many replicas bring each one below the share from which latencies are unstable."""
    if math.isnan(offered_share):
        return "a second replica"
    replicas = max(2, math.ceil(offered_share / UNSTABLE_SHARE))
    return f"{replicas} replicas, each asked for {offered_share / replicas:.0%} of its capacity"


def headroom() -> str:
    """What a run that is far from saturation leaves room for: bursts decide, so that a run tells."""
    return "nothing to change; --rate-scale shows how much more load it takes"


def shorten_gaps(policy: Policy, offered_share: float) -> str:
    """What brings tokens closer together when a limit on the gaps between them is missed."""
    budget = policy.max_batched_tokens
    if budget and budget // 2 >= (policy.max_seqs or 1):
        return (
            f"lower --max-batched-tokens from {budget:,} to {budget // 2:,}: gaps between tokens "
            "shrink, at the price of longer waits for the first"
        )
    return more_replicas(offered_share)


def reserve_less(log: RunLog) -> str | None:
    """A shorter context, where each request reserves more than twice what the longest one uses."""
    running = log.step("running")
    if not running.any():
        return None
    reserved = int((log.step("claimed_blocks") // running.clip(min=1)).max()) * log.block_size
    longest = int((log.prompt_tokens + log.output_tokens).max())
    if reserved < 2 * longest:
        return None
    return (
        f"--max-model-len {longest}: each request reserves {reserved:,} tokens, and the longest "
        f"uses {longest:,}"
    )


def _used_share_when_full(log: RunLog, policy: Policy) -> float:
    full = log.step("running") >= policy.seqs_limit
    return int(log.step("used_blocks")[full].max(initial=0)) / log.pool_blocks
