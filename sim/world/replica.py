"""One replica as a SimPy process: the scheduler plans, time passes, the plan is committed."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

from pagecast.engine.core.coasting import coast
from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import StepShape
from pagecast.sim.world.executor import TraceExecutor
from pagecast.sim.world.inbox import FOREVER_NS, Inbox
from pagecast.sim.world.recorder import Recorder


class Stuck(RuntimeError):
    """Requests wait, nothing runs, and nothing will ever change that: a fault in the rules."""


def replica(
    env: simpy.Environment,
    inbox: Inbox,
    scheduler: Scheduler,
    executor: TraceExecutor,
    recorder: Recorder,
) -> Generator[simpy.Event, Any, None]:
    """Serve all of the inbox; one SimPy event a step at most, one for each wait in between.

    The clock of `env` must count integer nanoseconds. An arrival is visible to a step if its
    stamp is at most the time at which the step is planned.

    Raises:
        Stuck: if requests are left that nothing can ever serve.
    """
    while True:
        now_ns = int(env.now)
        if inbox.next_ns <= now_ns:
            for request in inbox.drain(now_ns):
                refused = scheduler.submit(request)
                recorder.arrived(request, refused)
                if refused is not None:
                    inbox.left(1, now_ns)
        plan = scheduler.plan(now_ns)
        if plan.failed:
            recorder.failed(plan)
            inbox.left(len(plan.failed), now_ns)
        if plan.empty:
            wake_ns = min(inbox.next_ns, FOREVER_NS if plan.wake_ns is None else plan.wake_ns)
            if wake_ns == FOREVER_NS:
                break
            if plan.wake_ns is not None:
                recorder.fill_wait_ns += wake_ns - now_ns
            yield env.timeout(wake_ns - now_ns)
            continue
        result = executor.run(plan)
        recorder.step(plan, result)
        end_ns = now_ns + result.duration_ns
        if env.peek() < end_ns:
            yield env.timeout(result.duration_ns)
            scheduler.commit(plan, result)
            inbox.left(len(result.finished), end_ns)
        else:
            scheduler.commit(plan, result)
            inbox.left(len(result.finished), end_ns)
            end_ns = run_on(scheduler, executor, recorder, inbox, end_ns, env.peek())
            yield env.timeout(end_ns - now_ns)
    if scheduler.waiting or scheduler.running or scheduler.swapped:
        waiting = len(scheduler.waiting) + len(scheduler.swapped)
        raise Stuck(f"{waiting} requests wait and nothing runs")


def run_on(
    scheduler: Scheduler,
    executor: TraceExecutor,
    recorder: Recorder,
    inbox: Inbox,
    now_ns: int,
    others_ns: float,
) -> int:
    """Run steps that are nothing but decodes in one go; returns when the last of them ends.

    Nobody arrives before the inbox's `next_ns`, which an ending may bring forward, and no other
    actor of the simulation does anything before `others_ns`; so what happens between is known.
    Steps planned before that time may coast, as long as the scheduler has nothing to decide.
    """
    shape, latency, cohort = StepShape(), executor.latency, scheduler.cohort
    undisturbed_ns = min(inbox.next_ns, others_ns)
    while now_ns < undisturbed_ns:
        filling = coast(scheduler, shape)
        if filling is None:
            break
        end_ns = now_ns + latency(shape)
        endings = executor.endings_at(cohort.clock)
        recorder.coasted(shape, now_ns, end_ns, endings)
        if filling:
            scheduler.learn(filling, executor.answer_blocks(filling))
        if endings:
            scheduler.release(endings)
            inbox.left(len(endings), end_ns)
            undisturbed_ns = min(inbox.next_ns, others_ns)
        now_ns = end_ns
    return now_ns
