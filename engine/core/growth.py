"""Serving what runs: decodes in lockstep, then prompts that are computed in pieces.

The usual step costs O(blocks newly needed): all decodes fit the budget, and whoever needs a block
finds one. Only when blocks are short, or when unfinished prompts stand between decodes, does a
step walk the requests concerned one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from pagecast.engine.core.preempting import keep_free, make_room, one_block
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
    partials = s.partials
    charged = s.cohort.size * s.decode_charge
    if charged > plan.left or (partials and not _one_stands_last(s)):
        _walk(s, plan)
    else:
        serve_decodes_first(s, plan)


def serve_decodes_first(s: Scheduler, plan: StepPlan) -> None:
    """Serve all decodes, then unfinished prompts (Sarathi)."""
    if s.cohort.size:
        grow_decodes(s, plan)
    if s.partials:
        continue_prompts(s, plan)


def _one_stands_last(s: Scheduler) -> bool:
    partials = s.partials
    return len(partials) == 1 and next(reversed(s.running)) in partials


def settle_decodes(s: Scheduler, plan: StepPlan) -> None:
    """Once nobody can give way any more, see who decodes, and offer the blocks they fill."""
    plan.ticks = s.cohort.size > 0
    if s.publishes_at_plan:
        publish_decodes(s)


def grow_decodes(s: Scheduler, plan: StepPlan) -> None:
    """Plan one token for every decoding request; who fills its blocks gets a new one.

    The plan must have budget for all of them.
    """
    due = s.growing()
    if due:
        if len(due) <= s.pool.free:
            s.pool.grow(due)
        else:
            _grow_one_by_one(s, plan, sorted(due, key=admission_order))
    if s.keep_free_blocks:
        keep_free(s, plan)
    plan.left -= s.cohort.size * s.decode_charge


def publish_decodes(s: Scheduler) -> None:
    """Offer the blocks that decodes of this step fill."""
    for request in s.cohort.due(ahead=1):
        s.pool.publish(request, s.cohort.computed(request) + 1)


def _grow_one_by_one(s: Scheduler, plan: StepPlan, due: Iterable[Request]) -> None:
    for request in due:
        if request.state is State.DECODING and (
            s.pool.free or make_room(s, plan, request, one_block)
        ):
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
    tokens = s.piece(plan, request.known - start)
    if not tokens:
        return

    def need() -> int:
        return pool.need(request, start + tokens)

    if need() <= pool.free or make_room(s, plan, request, need):
        if missing := need():
            plan.copies += pool.extend(request, missing)
        s.compute(plan, request, start, tokens)


def _walk(s: Scheduler, plan: StepPlan) -> None:
    """Serve each running request in turn; decodes that the budget passes over are set apart."""
    due, charge = s.growing(), s.decode_charge
    for request in list(s.running):
        if request.state is State.PARTIAL and plan.left > 0:
            _continue(s, plan, request)
        elif request.state is State.DECODING:
            if plan.left < charge:
                s.set_apart(request)
                continue
            if request in due:
                if not s.pool.free and not make_room(s, plan, request, one_block):
                    continue
                s.pool.grow((request,))
            plan.left -= charge
    if s.keep_free_blocks:
        keep_free(s, plan)
