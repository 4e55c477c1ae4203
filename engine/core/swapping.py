"""Swapping: a request's blocks leave for host memory, and come back before anyone new is admitted.

Within a step, blocks leave before anything is copied or computed and return after that, so that
what one request gives up another may use in the same step. Whoever returns runs in that step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagecast.engine.core.named_pool import NO_HITS
from pagecast.engine.core.request import Request, State
from pagecast.engine.core.swap_space import Transfer

if TYPE_CHECKING:
    from pagecast.engine.core.scheduler import Scheduler
    from pagecast.engine.core.step import StepPlan


def swap_out(s: Scheduler, plan: StepPlan, request: Request) -> None:
    """Move what a request has computed to host memory, which must have room, and free its blocks."""
    count = s.blocks_for(request.computed)
    request.host_blocks = s.swap_space.take(count)
    plan.swapped_out.append(Transfer(request, request.blocks[:count], request.host_blocks))
    plan.shape.swapped_out_blocks += count
    s.pool.release(request)
    request.swaps += 1
    request.state = State.SWAPPED
    s.swapped.append(request)


def swap_in(s: Scheduler, plan: StepPlan) -> None:
    """Bring back those who were swapped out, first out first, until one finds no room."""
    if not s.swapped or (plan.preempted and not s.policy.swap_in_after_preempt):
        return
    s.short_to_return = None
    while s.swapped and len(s.running) < s.max_seqs and plan.left > 0:
        request = s.swapped[0]
        if request in plan.preempted or not s.may_return(request):
            return
        if s.total_cap and s.reach_tokens + s.reach(request) > s.total_cap:
            return
        if not _bring_back(s, plan, request):
            return


def _bring_back(s: Scheduler, plan: StepPlan, request: Request) -> bool:
    """Let the request run again, or fail it if it outgrew the pool; False if it must wait."""
    start = request.computed
    tokens = s.piece(plan, request.known - start)
    need = s.blocks_for(request.known if s.claims_ahead else start + tokens)
    if need > s.usable_blocks:
        s.drop_swapped(request)
        s.fail(plan, request, f"capacity: {s.short_of(need)}")
        return True
    kept = s.kept_on_swap_in if s.running or s.kept_when_idle else 0
    if not tokens or s.pool.free - need < kept:
        s.short_to_return = request
        return False
    s.swapped.popleft()
    s.pool.admit(request, NO_HITS, need)
    host, request.host_blocks = request.host_blocks, []
    plan.swapped_in.append(Transfer(request, request.blocks[: len(host)], host))
    plan.shape.swapped_in_blocks += len(host)
    s.swap_space.give_back(host)
    request.state = State.PARTIAL
    s.place(request)
    if start == request.known - 1:
        plan.left -= s.decode_charge
        plan.ticks = True
        plan.rejoined.append(request)
        s.rejoin(request)
    else:
        s.compute(plan, request, start, tokens)
    return True
