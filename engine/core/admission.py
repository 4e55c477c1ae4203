"""Admitting who waits: first the refusal of what can never run, then a place in a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pagecast.engine.core.request import Request, State
from pagecast.engine.core.rules import RESERVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagecast.engine.core.scheduler import Scheduler
    from pagecast.engine.core.step import StepPlan


class Refusal(NamedTuple):
    """Why a request was turned away on arrival: a word, and the numbers behind it."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


def refusal(s: Scheduler, request: Request) -> Refusal | None:
    """Why this arrival cannot be served, or None.

    Room for prompt and answer is asked for only as far as `max_tokens` was given.
    """
    policy, prompt = s.policy, request.prompt_tokens
    if prompt + 1 > s.max_model_len:
        return Refusal("context", f"prompt of {prompt} tokens leaves no room for an answer in a "
                       f"context of {s.max_model_len}")  # fmt: skip
    given = request.max_tokens if policy.infeasible == "reject" else None
    tokens = min(prompt + (given or 1), s.max_model_len)
    if policy.reserves_all:
        tokens = RESERVE[policy.reserve](request, prompt, s.max_model_len)
    need = s.blocks_for(tokens)
    if need > s.usable_blocks:
        return Refusal("capacity", s.short_of(need))
    if s.total_cap and s.reach(request) > s.total_cap:
        return Refusal("capacity", f"may come to {s.reach(request)} tokens, above max_total_tokens "
                       f"{s.total_cap}")  # fmt: skip
    if policy.chunk == "none" and prompt > s.budget:
        return Refusal("budget", f"prompt of {prompt} tokens exceeds max_batched_tokens "
                       f"{s.budget}, and prompts are not computed in pieces")  # fmt: skip
    return _overload(s)


def _overload(s: Scheduler) -> Refusal | None:
    policy, pool = s.policy, s.pool
    used = pool.blocks - pool.free
    if policy.refuse_above_used is not None and used > policy.refuse_above_used * pool.blocks:
        return Refusal("overload", f"{used} of {pool.blocks} blocks in use, above "
                       f"{policy.refuse_above_used:g} of them")  # fmt: skip
    if policy.refuse_above_waiting is not None and len(s.waiting) > policy.refuse_above_waiting:
        return Refusal("overload", f"{len(s.waiting)} requests wait, above "
                       f"{policy.refuse_above_waiting}")  # fmt: skip
    return None


def admit(s: Scheduler, plan: StepPlan) -> None:
    """Admit from the head of the queue until someone does not fit; nobody overtakes."""
    policy = s.policy
    if not s.waiting or (plan.preempted and not policy.admit_after_preempt):
        return
    if s.swapped and policy.blocked_by_swapped:
        return
    if policy.batching == "request" and (s.running or _held_to_fill(s, plan)):
        return
    if s.running and s.cohort.clock < s.next_try_clock:
        return
    s.next_try_clock = s.cohort.clock + policy.admit_every_n_decodes
    if s.arranges:
        s.waiting.arrange(s.count_hits)
    while s.waiting and plan.left > 0 and len(s.running) < s.max_seqs:
        request = s.waiting.head()
        if not _may_be_tried(s, plan, request) or not _try(s, plan, request):
            return


def _may_be_tried(s: Scheduler, plan: StepPlan, request: Request) -> bool:
    """Whether it makes sense to ask for room for the head of the queue."""
    if s.waits_for_leavers and s.short_of_blocks is request:
        return False
    if s.total_cap and s.reach_tokens + s.reach(request) > s.total_cap:
        return False
    return not request.preemptions or (request not in plan.preempted and s.may_return(request))


def _held_to_fill(s: Scheduler, plan: StepPlan) -> bool:
    """Whether a batch that is not full still waits for more; the plan then says until when."""
    if len(s.waiting) >= s.max_seqs:
        return False
    until_ns = s.waiting.head().arrival_ns + s.policy.fill_wait_ns
    if plan.now_ns >= until_ns:
        return False
    plan.wake_ns = until_ns
    return True


def _try(s: Scheduler, plan: StepPlan, request: Request) -> bool:
    """Admit the head of the queue, or fail it if it outgrew the pool; False if it must wait."""
    hits = s.pool.match(request)
    cached = len(hits) * s.pool.block_size
    tokens = s.piece(plan, request.known - cached)
    if not tokens:
        return s.policy.chunk == "none" and _outgrew_budget(s, plan, request)
    end = cached + tokens
    if (
        end < request.known
        and s.policy.max_partials
        and _unfinished(s, plan) >= s.policy.max_partials
    ):
        return False
    reserved = s.blocks_for(s.reserve(request, end, s.max_model_len))
    if reserved > s.usable_blocks:
        s.waiting.take()
        s.fail(plan, request, f"capacity: {s.short_of(reserved)}")
        return True
    if not _has_room(s, plan, request, reserved, hits):
        s.short_of_blocks = request
        return False
    s.waiting.take()
    claimed = reserved if s.claims_ahead else s.blocks_for(end)
    s.pool.admit(request, hits, claimed - len(hits))
    _start(s, plan, request, hits)
    s.compute(plan, request, cached, tokens)
    return True


def _outgrew_budget(s: Scheduler, plan: StepPlan, request: Request) -> bool:
    """A recomputation that no whole step can hold fails; another step may hold the rest."""
    if request.known <= s.budget:
        return False
    s.waiting.take()
    s.fail(plan, request, f"budget: {request.known} tokens to recompute exceed "
           f"max_batched_tokens {s.budget}")  # fmt: skip
    return True


def _has_room(
    s: Scheduler, plan: StepPlan, request: Request, reserved: int, hits: Sequence[int]
) -> bool:
    """Whether so many blocks, hits among them, can be had above the watermark."""
    need = reserved - len(hits) + s.pool.idle(hits)
    asked = need if s.policy.reserve_subtracts_hits else reserved
    kept = s.kept_on_admit if s.running or s.kept_when_idle else 0
    if s.pool.free - asked < kept:
        return False
    return s.forecast is None or s.forecast.fits(plan, request, need)


def _unfinished(s: Scheduler, plan: StepPlan) -> int:
    """Prompts that this step leaves unfinished so far."""
    ends = {chunk.request: chunk.start + chunk.tokens for chunk in plan.chunks}
    return sum(ends.get(request, request.computed) < request.known for request in s.partials)


def _start(s: Scheduler, plan: StepPlan, request: Request, hits: Sequence[int]) -> None:
    request.state = State.PARTIAL
    request.hits = len(hits)
    request.computed = request.hits * s.pool.block_size
    s.place(request)
    plan.admitted.append(request)
    if s.pool.caching and request.preemptions == 0:
        request.cached_tokens = request.computed
        s.prefix_query_tokens += request.known
        s.prefix_hit_tokens += request.computed
