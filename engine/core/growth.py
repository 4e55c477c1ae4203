"""Serving what runs: decodes in lockstep, then prompts that are computed in pieces.

The usual step costs O(blocks newly needed): all decodes fit the budget, and whoever needs a block
finds one. Only when blocks are short, or when unfinished prompts stand between decodes, does a
step walk the requests concerned one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from pagecast.engine.core.request import Request, State

if TYPE_CHECKING:
    from pagecast.engine.core.scheduler import Scheduler
    from pagecast.engine.core.step import StepPlan

admission_order = attrgetter("seq")


def serve_in_order(s: Scheduler, plan: StepPlan) -> None:
    """Serve the running batch in the order of admission (vLLM V1).

    Decodes first and unfinished prompts after them comes to the same, as long as the only
    unfinished prompt was admitted last: so it is, unless one prompt's share of a step is capped.
    """
    partials, decodes = s.partials, s.cohort.size
    if decodes > plan.left or (partials and not _one_stands_last(s)):
        _walk(s, plan)
        return
    if decodes:
        grow_decodes(s, plan)
    if partials:
        continue_prompts(s, plan)


def _one_stands_last(s: Scheduler) -> bool:
    partials = s.partials
    return len(partials) == 1 and next(reversed(s.running)) in partials


def grow_decodes(s: Scheduler, plan: StepPlan) -> None:
    """Plan one token for every decoding request; who fills its blocks gets a new one.

    The plan must have budget for all of them.
    """
    due = s.cohort.due() if s.grows else None
    if due:
        if len(due) <= s.pool.free:
            s.pool.grow(due)
        else:
            _grow_one_by_one(s, plan, sorted(due, key=admission_order))
    _settle_decodes(s, plan)
    plan.left -= s.cohort.size


def _settle_decodes(s: Scheduler, plan: StepPlan) -> None:
    """Once all decodes have grown, see who really runs, and offer the blocks they fill."""
    if s.keep_free_blocks:
        _keep_free(s, plan)
    plan.ticks = s.cohort.size > 0
    if s.publishes_at_plan:
        publish_decodes(s)


def publish_decodes(s: Scheduler) -> None:
    """Offer the blocks that decodes of this step fill."""
    for request in s.cohort.due(ahead=1):
        s.pool.publish(request, s.cohort.computed(request) + 1)


def _grow_one_by_one(s: Scheduler, plan: StepPlan, due: Iterable[Request]) -> None:
    for request in due:
        if request.state is State.DECODING and (s.pool.free or make_room(s, plan, request, 1)):
            s.pool.grow((request,))


def continue_prompts(s: Scheduler, plan: StepPlan) -> None:
    """Plan the next piece of each prompt (or recomputation) that is under way."""
    partials = list(s.partials)
    if len(partials) > 1:
        partials.sort(key=admission_order)
    for request in partials:
        if plan.left <= 0:
            return
        if request.state is State.PARTIAL:
            _continue(s, plan, request)


def _continue(s: Scheduler, plan: StepPlan, request: Request) -> None:
    start, pool = request.computed, s.pool
    tokens = min(request.known - start, s.chunk_cap, plan.left)
    need = pool.need(request, start + tokens)
    if need <= pool.free or make_room(s, plan, request, need):
        if need:
            plan.copies += pool.extend(request, need)
        s.compute(plan, request, start, tokens)


def _walk(s: Scheduler, plan: StepPlan) -> None:
    """Serve each running request in turn; decodes that the budget passes over are set apart."""
    due = s.cohort.due()
    for request in list(s.running):
        if request.state is State.PARTIAL and plan.left > 0:
            _continue(s, plan, request)
        elif request.state is State.DECODING:
            if plan.left <= 0:
                s.set_apart(request)
                continue
            if s.grows and request in due:
                if not s.pool.free and not make_room(s, plan, request, 1):
                    continue
                s.pool.grow((request,))
            plan.left -= 1
    _settle_decodes(s, plan)


def make_room(s: Scheduler, plan: StepPlan, request: Request, need: int) -> bool:
    """Preempt until `need` blocks are free, which they are not; False if the request gave way.

    What exceeds the whole pool fails instead, so that it does not push out others in vain.
    """
    if request.held + need > s.pool.blocks:
        s.fail(plan, request, f"capacity: needs {request.held + need} blocks, the pool has "
               f"{s.pool.blocks}")  # fmt: skip
        return False
    while need > s.pool.free:
        victim = s.victim(s.running)
        s.preempt(plan, victim)
        if victim is request:
            return False
    return True


def _keep_free(s: Scheduler, plan: StepPlan) -> None:
    """Preempt while fewer blocks are free than `preempt_below` says and more than one runs.

    Who already has a piece of a prompt in this step stays: its blocks may have been offered.
    """
    served = {chunk.request for chunk in plan.chunks}
    while s.pool.free < s.keep_free_blocks and len(s.running) > 1:
        victim = s.victim(s.running)
        if victim in served:
            return
        s.preempt(plan, victim)
