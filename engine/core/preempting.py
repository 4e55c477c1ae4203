"""Preemption: who gives way when blocks are short, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pagecast.engine.core.request import Request, State
from pagecast.engine.core.swapping import swap_out

if TYPE_CHECKING:
    from pagecast.engine.core.scheduler import Scheduler
    from pagecast.engine.core.step import StepPlan


def one_block() -> int:
    """What a decode needs that has filled its blocks."""
    return 1


def make_room(s: Scheduler, plan: StepPlan, request: Request, need: Callable[[], int]) -> bool:
    """Preempt until so many blocks are free, which they are not; False if the request gave way.

    What exceeds the whole pool fails instead, so that it does not push out others in vain. The
    need is asked anew each time: it shrinks when someone gives way who shared a block.
    """
    most = request.held + need()
    if most > s.pool.blocks:
        s.fail(plan, request, f"capacity: needs {most} blocks, the pool has {s.pool.blocks}")
        return False
    while need() > s.pool.free:
        victim = s.victim(_candidates(s, plan), s)
        preempt(s, plan, victim)
        if victim is request:
            return False
    return True


def keep_free(s: Scheduler, plan: StepPlan) -> None:
    """Preempt while fewer blocks are free than `preempt_below` says and more than one runs."""
    while s.pool.free < s.keep_free_blocks and len(s.running) > 1:
        candidates = _candidates(s, plan)
        if not candidates:
            return
        preempt(s, plan, s.victim(candidates, s))


def _candidates(s: Scheduler, plan: StepPlan) -> Sequence[Request]:
    """Who may give way: not those with a piece of a prompt planned, whose blocks may be offered."""
    if not plan.chunks:
        return list(s.running)
    served = {chunk.request for chunk in plan.chunks}
    return [request for request in s.running if request not in served]


def preempt(s: Scheduler, plan: StepPlan, request: Request) -> None:
    """Take all blocks from a running request; it waits to be swapped in or computed again."""
    s.withdraw(request)
    request.preempted_again = request.left_with == s.departures
    s.preempted_again += request.preempted_again
    request.left_with = s.departures
    request.preemptions += 1
    plan.preempted.append(request)
    if s.swap_fits(request) and s.wants_swap(request, s):
        swap_out(s, plan, request)
        return
    s.pool.release(request, forget=s.forgets)
    request.high = max(request.high, request.computed)
    request.computed = 0
    request.state = State.WAITING
    if s.policy.requeue == "front":
        s.waiting.push_front(request)
    else:
        s.waiting.push(request)
