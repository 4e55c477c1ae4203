"""One replica as a SimPy process: the scheduler plans, time passes, the plan is committed."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import Executor, StepPlan
from pagecast.sim.world.inbox import Inbox
from pagecast.sim.world.recorder import Recorder


class Stuck(RuntimeError):
    """Requests wait, nothing runs, and nothing will ever change that: a fault in the rules."""


def replica(
    env: simpy.Environment,
    inbox: Inbox,
    scheduler: Scheduler,
    executor: Executor,
    recorder: Recorder,
) -> Generator[simpy.Event, Any, None]:
    """Serve all of the inbox; one SimPy event a step, one for each wait in between.

    The clock of `env` must count integer nanoseconds. An arrival is visible to a step if its
    stamp is at most the time at which the step is planned.

    Raises:
        Stuck: if requests are left that nothing can ever serve.
    """
    while True:
        now_ns = int(env.now)
        for request in inbox.drain(now_ns):
            recorder.arrived(request, scheduler.submit(request))
        plan = scheduler.plan(now_ns)
        if plan.failed:
            recorder.failed(plan)
        if not plan.empty:
            result = executor.run(plan)
            recorder.step(plan, result)
            yield env.timeout(result.duration_ns)
            scheduler.commit(plan, result)
            continue
        wake_ns = _wake(plan, inbox.next_ns())
        if wake_ns is None:
            break
        yield env.timeout(wake_ns - now_ns)
    if scheduler.waiting or scheduler.running:
        raise Stuck(f"{len(scheduler.waiting)} requests wait and nothing runs")


def _wake(plan: StepPlan, next_arrival_ns: int | None) -> int | None:
    """When there may be something to do again, after a plan that had nothing to do."""
    times = [time for time in (plan.wake_ns, next_arrival_ns) if time is not None]
    return min(times, default=None)
