"""Random toy worlds under pressure, their runs on the toy engine, and their replays."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import replace
from random import Random

import numpy as np
from toy import Run, ToyEngine, World

from pagecast.engine.core.blocks import make_pool
from pagecast.engine.core.costs import PreemptCost
from pagecast.engine.core.events import DecisionLog
from pagecast.engine.core.policy import AXES, Policy
from pagecast.engine.core.presets import PRESETS
from pagecast.engine.core.scheduler import Scheduler
from pagecast.sim.world.executor import TraceExecutor
from pagecast.sim.world.inbox import Inbox
from pagecast.sim.world.replay import LATER, RecordedIdentities, replay
from pagecast.traces.schema import NOT_GIVEN, Trace

COST = PreemptCost(token_ps=2_000_000, pair_ps=60_000, block_ns=11_000, call_ns=20_000)
"""Swap wins from some dozen tokens on."""


def random_policy(random: Random, pool_tokens: int) -> Policy:
    """A preset with axes changed at random, in combinations that policies accept."""
    policy = PRESETS[random.choice(list(PRESETS))]
    if policy.reserves_all:
        return _whole(random, policy)
    max_seqs = random.randint(1, 12)
    low_watermark = random.choice([0.0, 0.05, 0.2])
    budget = max_seqs + random.choice([0, 3, 20, 200])
    align = random.choice([0, 0, 4])
    cut = policy.chunk != "none" or random.random() < 0.5
    reserve = random.choice(["chunk", "known", "ratio", "peak", policy.reserve])
    ahead = reserve == "known" and random.random() < 0.5
    return replace(
        policy,
        queue_order=random.choice(AXES["queue_order"]),
        budget_counts="prefill"
        if policy.mix == "prefill_first"
        else random.choice(["all", "all", "prefill"]),
        max_seqs=max_seqs,
        max_batched_tokens=max(budget, 8),
        max_total_tokens=random.choice([None, None, pool_tokens * 2]),
        chunk=random.choice(["any", "any", "first_only"]) if cut else "none",
        long_prefill_cap=random.choice([0, 0, 5, 16]) if cut else 0,
        max_partials=random.choice([0, 0, 1, 2]) if cut else 0,
        chunk_align=align if cut else 0,
        reserve=reserve,
        reserve_subtracts_hits=random.random() < 0.7,
        claim="reserved" if ahead else "chunk",
        low_watermark=low_watermark,
        watermark_on=random.choice(AXES["watermark_on"]),
        watermark_if_busy=random.random() < 0.7,
        preempt_below=random.choice([0.0, low_watermark / 2]),
        refuse_above_used=random.choice([None, None, 0.9]),
        refuse_above_waiting=random.choice([None, None, 5]),
        admit_after_preempt=random.random() < 0.3,
        swap_in_after_preempt=random.random() < 0.3,
        blocked_by_swapped=random.random() < 0.7,
        admit_every_n_decodes=random.choice([0, 0, 1, 3]),
        readmit=random.choice(["at_once", "at_once", "after_finish"]),
        victim=random.choice(AXES["victim"]),
        preemption=random.choice(["recompute", "swap", "hybrid", "auto"]),
        hybrid_swaps=random.choice([0, 1, 2]),
        preempt_cost=COST,
        requeue=random.choice(["front", "back"]),
        keep_kv=random.choice(["drop", "cached"]),
        prefix=random.choice(["off", "block_hash"]),
        publish=random.choice(["at_plan", "at_commit"]),
        max_cached_prompt=random.choice([None, None, 20]),
        free_order=random.choice(["lru", "unhashed_first"]),
        infeasible=random.choice(["reject", "abort_last"]),
        null_blocks=random.choice([0, 1]),
    )


def _whole(random: Random, policy: Policy) -> Policy:
    """A policy that reserves all a request can ever use."""
    contiguous = policy.reserve == "max_len"
    return replace(
        policy,
        max_seqs=random.randint(1, 6),
        max_batched_tokens=None if policy.padding == "longest" else random.choice([None, 200]),
        fill_wait_ns=random.choice([0, 500, 3000]) if policy.batching == "request" else 0,
        kv_layout=random.choice(["contiguous", "paged"]) if contiguous else "paged",
        prefix="off" if contiguous else random.choice(["off", "block_hash"]),
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
        swap_blocks=random.choice([0, blocks // 2, 4 * blocks]),
        predictions=random.random() < 0.5,
    )


def engine_run(world: World) -> Run:
    return ToyEngine(world).serve()


def simulator_log(world: World, run: Run) -> str:
    """The decision log of the simulator that replays a toy run."""
    columns = (list(column) for column in zip(*run.arrivals, strict=True))
    stamps, prompts, limits, priorities, predicted = columns
    ids = range(len(stamps))
    trace = Trace(
        arrival_ns=np.array(stamps, dtype=np.int64),
        prompt_tokens=np.array(prompts, dtype=np.int64),
        output_tokens=np.array([run.answers.get(id, LATER) for id in ids], dtype=np.int64),
        max_tokens=np.array([limit or NOT_GIVEN for limit in limits], dtype=np.int64),
        priority=np.array(priorities, dtype=np.int64),
        predicted_tokens=np.array([n or NOT_GIVEN for n in predicted], dtype=np.int64),
    )
    pool = make_pool(world.policy, world.blocks, world.block_size, named=run.forks > 0)
    log = DecisionLog()
    scheduler = Scheduler(
        world.policy, pool, world.max_model_len, log, swap_blocks=world.swap_blocks
    )
    identities = RecordedIdentities(run.identities, world.block_size)
    answers = defaultdict(lambda: LATER, run.answers)
    executor = TraceExecutor(lambda shape: 1, answers, identities, run.reasons)
    replay(run.recording, Inbox(trace, identities), scheduler, executor, identities)
    return log.text()


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        world = random_world(int(argument))
        sys.stdout.write(simulator_log(world, engine_run(world)))
