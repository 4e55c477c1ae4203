"""A policy made concrete for one pool: what stays the same from the first step to the last."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from pagecast.engine.core.costs import PreemptCost
from pagecast.engine.core.rules import PREEMPTION, RESERVE, VICTIM

if TYPE_CHECKING:
    from pagecast.engine.core.blocks import BlockPool
    from pagecast.engine.core.policy import Policy
    from pagecast.engine.core.request import Request
    from pagecast.engine.core.step import StepPlan

UNLIMITED = 1 << 62
FREE = PreemptCost(0, 0, 0, 0)


def takes_turns(policy: Policy) -> bool:
    """Whether prompts computed in part could push each other out for ever, none coming to its end.

    Who has room for all known tokens makes one more before long, and a fixed order that admission
    and preemption share keeps the first of it from giving way.
    """
    in_order = policy.victim == "last" and policy.queue_order == "fcfs"
    return policy.reserve == "chunk" and not in_order


class Limits:
    """The numbers and rules that a policy comes to.

    Args:
        policy: the rules.
        pool: the KV blocks.
        max_model_len: longest context, prompt and answer together, in tokens.
    """

    def __init__(self, policy: Policy, pool: BlockPool, max_model_len: int) -> None:
        self.policy = policy
        self.pool = pool
        self.block_size = pool.block_size
        self.max_model_len = max_model_len
        self.budget = policy.max_batched_tokens or UNLIMITED
        self.chunk_cap = policy.long_prefill_cap or UNLIMITED
        self.max_seqs = policy.seqs_limit
        self.total_cap = policy.max_total_tokens or 0
        self.decode_charge = 1 if policy.budget_counts == "all" else 0
        self.reserve = RESERVE[policy.reserve]
        self.claims_ahead = policy.claim == "reserved"
        self.victim = VICTIM[policy.victim]
        self.wants_swap = PREEMPTION[policy.preemption]
        self.forgets = policy.keep_kv == "drop"
        all_blocks = pool.blocks + policy.null_blocks
        watermark = int(policy.low_watermark * all_blocks)
        self.kept_on_admit = watermark if "admit" in policy.watermark_on else 0
        self.kept_on_swap_in = watermark if "swap_in" in policy.watermark_on else 0
        self.kept_when_idle = not policy.watermark_if_busy
        kept = watermark if self.kept_when_idle else 0
        self.usable_blocks = pool.blocks - kept
        """What a request can have when it is alone."""
        self.lead_tokens = pool.lead_blocks * pool.block_size
        """Tokens at the head of each request that take no blocks of the pool."""
        self.arranges = policy.queue_order == "lpm"
        """Whether the order of waiting may change from step to step."""
        self.may_take_turns = takes_turns(policy)
        """Whether who is preempted again must wait until somebody has left."""
        self.grows = not policy.reserves_all
        """Whether requests take blocks as they grow."""
        self.keep_free_blocks = ceil(policy.preempt_below * all_blocks)
        self.publishes_at_plan = pool.caching and policy.publish == "at_plan"

    def blocks_for(self, tokens: int) -> int:
        """Whole blocks of the pool that hold so many tokens of a request."""
        blocks = -(-tokens // self.block_size)
        return max(0, blocks - self.pool.lead_blocks) if self.lead_tokens else blocks

    def cost(self) -> PreemptCost:
        """The price of preemptions; the policy has one wherever a rule asks (see `Policy`)."""
        return self.policy.preempt_cost or FREE

    def longest_answer(self, request: Request) -> int:
        """Tokens that an answer can come to, as far as the scheduler may know."""
        room = self.max_model_len - request.prompt_tokens
        return room if request.max_tokens is None else min(request.max_tokens, room)

    def reach(self, request: Request) -> int:
        """Tokens that a request can come to."""
        return request.prompt_tokens + self.longest_answer(request)

    def piece(self, plan: StepPlan, remaining: int) -> int:
        """How much of `remaining` tokens a prompt may compute in this step; 0 is nothing yet."""
        tokens = min(remaining, self.chunk_cap, plan.left)
        if tokens == remaining:
            return tokens
        chunk, align = self.policy.chunk, self.policy.chunk_align
        if chunk == "none" or (chunk == "first_only" and plan.chunks):
            return 0
        return tokens - tokens % align if align else tokens

    def short_of(self, need: int) -> str:
        """The numbers behind a want of blocks."""
        kept = self.pool.blocks - self.usable_blocks
        watermark = f", {kept} of them below the watermark" if kept else ""
        return f"needs {need} blocks, the pool has {self.pool.blocks}{watermark}"
