"""The core against a naive scheduler that walks lists: equal decisions in random tight worlds."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
from naive import Job, NaiveScheduler, Step

from pagecast.engine.core.blocks import make_pool
from pagecast.engine.core.policy import Policy
from pagecast.engine.core.presets import preset
from pagecast.engine.core.request import State
from pagecast.engine.core.scheduler import Scheduler
from pagecast.sim.world.executor import TraceExecutor
from pagecast.sim.world.identities import Identities
from pagecast.sim.world.inbox import Inbox
from pagecast.traces.schema import Trace

WORLDS = 600
MOST_STEPS = 5_000


def policy_of(random: Random) -> Policy:
    seqs = random.randint(1, 14)
    return replace(
        preset("vllm-v1@0.33"),
        prefix="off",
        max_seqs=seqs,
        max_batched_tokens=seqs + random.choice([0, 2, 15, 100]),
        long_prefill_cap=random.choice([0, 0, 1, 4, 20]),
        reserve=random.choice(["chunk", "known"]),
        low_watermark=random.choice([0.0, 0.1, 0.4]),
        watermark_if_busy=random.random() < 0.8,
        admit_after_preempt=random.random() < 0.4,
        requeue=random.choice(["front", "back"]),
        null_blocks=random.choice([0, 1]),
    )


def compare(seed: int) -> tuple[int, int, int]:
    """Run both schedulers step by step; returns steps, preemptions and failures of the world."""
    random = Random(seed)
    policy, size = policy_of(random), random.choice([1, 2, 3, 8, 32])
    blocks = random.randint(3, 40)
    count = random.randint(3, 25)
    prompts = [random.randint(1, 60) for _ in range(count)]
    answers = [random.randint(1, 40) for _ in range(count)]
    trace = Trace(
        arrival_ns=np.sort(np.array([random.randint(0, 60) for _ in range(count)])),
        prompt_tokens=np.array(prompts),
        output_tokens=np.array(answers),
    )
    scheduler = Scheduler(policy, make_pool(policy, blocks, size), 1_000)
    executor = TraceExecutor(lambda shape: 1, answers, Identities(trace, size))
    naive, inbox = NaiveScheduler(policy, blocks, size), Inbox(trace, None)
    preemptions = failures = 0
    for now in range(MOST_STEPS):
        for request in inbox.drain(now):
            if scheduler.submit(request) is None:
                id = request.id
                naive.waiting.append(Job(id, prompts[id], answers[id], known=prompts[id]))
        plan = scheduler.plan(now)
        ours = Step(
            [(r.id, tokens, start) for r, start, tokens in scheduler.scheduled(plan)],
            [r.id for r in plan.preempted],
            [ending.request.id for ending in plan.failed],
            scheduler.pool.free,
        )
        assert ours == naive.step(), (seed, now, policy)
        preemptions += len(ours.preempted)
        failures += len(ours.failed)
        if not plan.empty:
            scheduler.commit(plan, executor.run(plan))
        elif not scheduler.waiting and inbox.next_ns > MOST_STEPS:
            assert scheduler.pool.free == scheduler.pool.blocks
            return now, preemptions, failures
    raise AssertionError(f"world {seed} does not end")


def test_both_decide_alike() -> None:
    worlds = [compare(seed) for seed in range(WORLDS)]
    steps, preemptions, failures = (sum(column) for column in zip(*worlds, strict=True))
    assert steps > 20_000
    assert preemptions > 2_000
    assert failures > 50


def test_states_are_done_at_the_end() -> None:
    """A request that was refused is done at once and never waits."""
    policy = policy_of(Random(1))
    scheduler = Scheduler(policy, make_pool(policy, 3, 1), 10)
    request = next(Inbox(Trace(np.array([0]), np.array([9]), np.array([1])), None).drain(0))
    assert scheduler.submit(request) is not None
    assert request.state is State.DONE
    assert not scheduler.waiting
