"""Steps that need no plan: nothing but decodes, whoever they are, one token more.

A simulator knows in advance when somebody arrives and when an answer ends. Between, most steps
repeat the one before: nobody can be admitted, nobody gives way. Such a step is taken at a fraction
of the cost of a plan and its commit, and comes to the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pagecast.engine.core.growth import publish_decodes
from pagecast.engine.core.request import Request
from pagecast.engine.core.step import StepShape

if TYPE_CHECKING:
    from pagecast.engine.core.scheduler import Scheduler

NOBODY: Sequence[Request] = ()


def coast(s: Scheduler, shape: StepShape) -> Sequence[Request] | None:
    """Take the next step at once, if it is sure to be nothing but decodes.

    The step ends with `Scheduler.learn` for the requests returned and `Scheduler.release` of those
    who ended. With a decision log nothing coasts, since each step must be seen.

    Args:
        s: the scheduler, with no step under way and no arrival to be seen.
        shape: of an earlier coasted step or new; becomes the shape of this step.

    Returns:
        Whose next token completes a block. None, and nothing done, if the step needs a plan.
    """
    cohort, pool = s.cohort, s.pool
    if s.partials or not cohort.size or s.log:
        return None
    due = s.growing() if s.lead_tokens else cohort.due() if s.grows else NOBODY
    if pool.free - len(due) < s.keep_free_blocks:
        return None
    if (s.swapped and not _return_is_stuck(s)) or (s.waiting and not _admission_is_stuck(s)):
        return None
    if due:
        pool.grow(due)
    if s.publishes_at_plan:
        publish_decodes(s)
    cohort.tick(shape)
    shape.finished = s.just_finished
    s.just_finished = 0
    s.steps += 1
    if s.padded:
        s.padded.charge_decodes(shape, cohort.clock)
    if not pool.caching:
        return NOBODY
    if not s.publishes_at_plan:
        s.publish_computed()
    return list(cohort.due(ahead=1))


def _admission_is_stuck(s: Scheduler) -> bool:
    """Whether the head of the queue cannot be admitted before somebody ends.

    Blocks that were too few in the last step are fewer now; cached ones aside, which decodes may
    add to.
    """
    policy, clock = s.policy, s.cohort.clock
    if policy.batching == "request" or (s.swapped and policy.blocked_by_swapped):
        return True
    if clock < s.next_try_clock:
        return True
    head = s.waiting.head()
    stays_short = s.waits_for_leavers or not (s.pool.caching or s.forecast)
    stuck = (
        len(s.running) >= s.max_seqs
        or not s.may_return(head)
        or (s.short_of_blocks is head and stays_short)
    )
    if stuck:
        # An attempt in vain, as a planned step would have made it.
        s.next_try_clock = clock + policy.admit_every_n_decodes
    return stuck


def _return_is_stuck(s: Scheduler) -> bool:
    """Whether the first of the swapped cannot return before somebody ends."""
    head = s.swapped[0]
    return len(s.running) >= s.max_seqs or s.short_to_return is head or not s.may_return(head)
