"""Small random worlds under all presets, served to their end."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from pagecast.engine.core.costs import PreemptCost
from pagecast.engine.core.policy import AXES, Policy
from pagecast.engine.core.presets import PRESETS
from pagecast.engine.core.step import StepShape
from pagecast.sim.results.log import RunLog
from pagecast.sim.simulate import Server, serve
from pagecast.traces.schema import Trace


def latency(shape: StepShape) -> int:
    """Depends on all that coasting derives."""
    return (
        1_000
        + 50 * shape.decode_seqs
        + shape.decode_context_tokens
        + shape.decode_context_sq % 97
        + shape.decode_context_max
        + 7 * shape.prefill_tokens
        + 3 * shape.dead_rows
        + shape.padded_context_tokens
        + 11 * shape.finished
        + 13 * (shape.swapped_out_blocks + shape.swapped_in_blocks)
    )


COST = PreemptCost(token_ps=2_000_000, pair_ps=60_000, block_ns=11_000, call_ns=20_000)
"""Swap wins from some dozen tokens on."""


def policy_of(random: Random) -> Policy:
    name = random.choice(list(PRESETS))
    policy = PRESETS[name]
    if policy.reserves_all:
        return replace(policy, max_seqs=random.randint(1, 6))
    seqs, watermark = random.randint(1, 16), random.choice([0.0, 0.1])
    return replace(
        policy,
        max_seqs=seqs,
        max_batched_tokens=200 if policy.chunk == "none" else seqs + random.choice([4, 30, 300]),
        prefix=random.choice(["off", "block_hash"]),
        publish=random.choice(["at_plan", "at_commit"]),
        low_watermark=watermark,
        preempt_below=random.choice([0.0, watermark / 2]),
        reserve=policy.reserve
        if policy.claim == "reserved"
        else random.choice(["chunk", policy.reserve]),
        refuse_above_waiting=random.choice([None, 6]),
        preemption=random.choice(["recompute", "swap", "hybrid", "auto"]),
        preempt_cost=COST,
        victim=random.choice(AXES["victim"]),
        readmit=random.choice(AXES["readmit"]),
        admit_every_n_decodes=random.choice([0, 0, 2]),
        queue_order=random.choice(["fcfs", "fcfs", "sjf", "lpm"]),
    )


def served(seed: int, concurrency: int | None = None) -> RunLog:
    random = Random(seed)
    draws = np.random.default_rng(seed)
    policy = policy_of(random)
    block_size, requests = random.choice([1, 4, 16]), random.randint(5, 60)
    lengths: NDArray[np.int64] = draws.integers(1, 60, (2, requests))
    trace = Trace(
        arrival_ns=np.cumsum(draws.exponential(random.choice([3e3, 3e4, 3e5]), requests)).astype(
            np.int64
        ),
        prompt_tokens=lengths[0],
        output_tokens=lengths[1],
        prefix_ids=[(int(draws.integers(4)),) for _ in range(requests)] if seed % 2 else None,
        prefix_block_tokens=16 if seed % 2 else None,
    )
    blocks = -(-130 // block_size) * random.choice([1, 2, 5]) + 2
    swap_blocks = random.choice([0, blocks, 10 * blocks])
    server = Server(policy, blocks, block_size, 128, latency, swap_blocks=swap_blocks)
    return serve(trace, server, concurrency=concurrency)
