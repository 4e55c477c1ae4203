"""Small random worlds under vLLM's rules and static batching, served to their end."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from pagecast.engine.core.policy import Policy
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
    )


def policy_of(random: Random) -> Policy:
    name = random.choice(list(PRESETS))
    if name == "static":
        return replace(PRESETS[name], max_seqs=random.randint(1, 6))
    seqs, watermark = random.randint(1, 16), random.choice([0.0, 0.1])
    return replace(
        PRESETS[name],
        max_seqs=seqs,
        max_batched_tokens=seqs + random.choice([4, 30, 300]),
        prefix=random.choice(["off", "block_hash"]),
        publish=random.choice(["at_plan", "at_commit"]),
        low_watermark=watermark,
        preempt_below=random.choice([0.0, watermark / 2]),
        reserve=random.choice(["chunk", "known", "known+max_new"]),
        refuse_above_waiting=random.choice([None, 6]),
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
    server = Server(policy, blocks, block_size, 128, latency)
    return serve(trace, server, concurrency=concurrency)
