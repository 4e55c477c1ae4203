"""One thing to try, with its numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pagecast.engine.core.policy import Policy
from pagecast.sim.results.log import RunLog

UNSTABLE_SHARE = 0.85
"""From this offered share on, latencies are called unstable.

In the simplest queue (M/M/1) waiting is r / (1 − r) service times at load r, so that a step 1 %
slower lengthens it by 1 / (1 − r) %: by 7 % at 0.85, by 20 % at 0.95."""

FOR_REASON = {
    "context": "a model with a longer context, or shorter prompts",
    "capacity": "more KV memory: fewer bytes a token (--kv-dtype fp8), more GPUs (--tp), a larger one",
    "budget": "a larger --max-batched-tokens, or a preset that computes prompts in pieces",
}
"""What helps if all requests ended for a reason."""


@dataclass(frozen=True)
class Setting:
    """What advice may turn: the rules, the pool, and how KV entries are stored."""

    policy: Policy
    log: RunLog
    kv_dtype: str


def advise(setting: Setting, binding: str, offered_share: float, compute_share: float) -> str:
    """One thing to try for what binds; what only moves the bound within compute is left out."""
    policy, log = setting.policy, setting.log
    if binding == "kv_blocks" and setting.kv_dtype in ("bf16", "fp16"):
        return (
            f"--kv-dtype fp8: about {log.pool_blocks:,} more blocks in the same memory, beside "
            f"{log.pool_blocks:,} now"
        )
    if binding == "batching":
        return f"--preset vllm-v1@0.33, which admits at any step: {policy.batching} batching waits"
    if compute_share < 0.5 and binding == "token_budget" and policy.max_batched_tokens:
        budget = policy.max_batched_tokens
        return f"raise --max-batched-tokens from {budget:,} to {2 * budget:,}"
    if compute_share < 0.5 and binding == "sequences":
        used_share = _used_share_when_full(setting)
        if used_share < UNSTABLE_SHARE:
            seqs = int(policy.max_seqs * UNSTABLE_SHARE / max(used_share, UNSTABLE_SHARE / 2))
            return (
                f"raise --max-seqs from {policy.max_seqs:,} to {seqs:,}: at most "
                f"{used_share:.0%} of the KV blocks are in use when all of them run"
            )
    return more_replicas(offered_share)


def more_replicas(offered_share: float) -> str:
    """How many replicas bring each one below the share from which latencies are unstable."""
    if math.isnan(offered_share):
        return "a second replica"
    replicas = max(2, math.ceil(offered_share / UNSTABLE_SHARE))
    return f"{replicas} replicas, each asked for {offered_share / replicas:.0%} of its capacity"


def headroom(offered_share: float) -> str:
    """What a run that is far from saturation leaves room for."""
    if math.isnan(offered_share):
        return "nothing: no limit was reached"
    times = UNSTABLE_SHARE / offered_share
    return f"nothing: load may grow {times:.1f} times before latencies become unstable"


def _used_share_when_full(setting: Setting) -> float:
    log = setting.log
    full = log.step("running") >= setting.policy.max_seqs
    return int(log.step("used_blocks")[full].max(initial=0)) / log.pool_blocks
