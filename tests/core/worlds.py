"""Random toy worlds under pressure, their runs on the toy engine, and their replays."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import replace
from random import Random

import numpy as np
from toy import Run, ToyEngine, World

from pagecast.engine.core.blocks import make_pool
from pagecast.engine.core.events import DecisionLog
from pagecast.engine.core.policy import Policy
from pagecast.engine.core.presets import PRESETS
from pagecast.engine.core.scheduler import Scheduler
from pagecast.sim.world.executor import TraceExecutor
from pagecast.sim.world.inbox import Inbox
from pagecast.sim.world.replay import LATER, RecordedIdentities, replay
from pagecast.traces.schema import NOT_GIVEN, Trace


def random_policy(random: Random, pool_tokens: int) -> Policy:
    """A preset with axes changed at random, in combinations that policies accept."""
    name = random.choice(list(PRESETS))
    policy = PRESETS[name]
    if name == "static":
        return replace(
            policy,
            max_seqs=random.randint(1, 6),
            fill_wait_ns=random.choice([0, 500, 3000]),
            kv_layout=random.choice(["contiguous", "paged"]),
            reserve="max_len",
        )
    max_seqs = random.randint(1, 12)
    low_watermark = random.choice([0.0, 0.05, 0.2])
    return replace(
        policy,
        max_seqs=max_seqs,
        max_batched_tokens=max_seqs + random.choice([0, 3, 20, 200]),
        long_prefill_cap=random.choice([0, 0, 5, 16]),
        low_watermark=low_watermark,
        watermark_if_busy=random.random() < 0.7,
        preempt_below=random.choice([0.0, low_watermark / 2]),
        refuse_above_used=random.choice([None, None, 0.9]),
        refuse_above_waiting=random.choice([None, None, 5]),
        admit_after_preempt=random.random() < 0.3,
        requeue=random.choice(["front", "back"]),
        prefix=random.choice(["off", "block_hash"]),
        publish=random.choice(["at_plan", "at_commit"]),
        free_order=random.choice(["lru", "unhashed_first"]),
        reserve=random.choice(["chunk", "known", "known+max_new"]),
        null_blocks=random.choice([0, 1]),
    )


def random_world(seed: int, *, forks: bool = True) -> World:
    random = Random(seed)
    block_size = random.choice([1, 2, 4, 16])
    max_model_len = random.randint(12, 120)
    per_request = -(-max_model_len // block_size)
    blocks = random.randint(per_request + 1, 2 * per_request + 2)
    return World(
        seed=seed,
        policy=random_policy(random, blocks * block_size),
        blocks=blocks,
        block_size=block_size,
        max_model_len=max_model_len,
        requests=random.randint(8, 30),
        fork_share=random.choice([0.0, 0.02]) if forks else 0.0,
        cancel_share=random.choice([0.0, 0.002]),
    )


def engine_run(world: World) -> Run:
    return ToyEngine(world).serve()


def simulator_log(world: World, run: Run) -> str:
    """The decision log of the simulator that replays a toy run."""
    stamps, prompts, limits = (list(column) for column in zip(*run.arrivals, strict=True))
    ids = range(len(stamps))
    trace = Trace(
        arrival_ns=np.array(stamps, dtype=np.int64),
        prompt_tokens=np.array(prompts, dtype=np.int64),
        output_tokens=np.array([run.answers.get(id, LATER) for id in ids], dtype=np.int64),
        max_tokens=np.array([limit or NOT_GIVEN for limit in limits], dtype=np.int64),
    )
    pool = make_pool(world.policy, world.blocks, world.block_size, named=run.forks > 0)
    log = DecisionLog()
    scheduler = Scheduler(world.policy, pool, world.max_model_len, log)
    identities = RecordedIdentities(run.identities, world.block_size)
    answers = defaultdict(lambda: LATER, run.answers)
    executor = TraceExecutor(lambda shape: 1, answers, identities, run.reasons)
    replay(run.recording, Inbox(trace, identities), scheduler, executor, identities)
    return log.text()


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        world = random_world(int(argument))
        sys.stdout.write(simulator_log(world, engine_run(world)))
