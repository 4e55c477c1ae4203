"""Coasting changes nothing but the time it takes: every column of the log stays as it was."""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from pagecast.engine.core.policy import Policy
from pagecast.engine.core.presets import PRESETS
from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import StepShape
from pagecast.sim.results.log import RunLog
from pagecast.sim.simulate import Server, serve
from pagecast.sim.world import replica
from pagecast.traces.schema import Trace

WORLDS = 120


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


def served(seed: int) -> RunLog:
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
    return serve(trace, Server(policy, blocks, block_size, 128, latency))


def test_coasting_leaves_the_log_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    coasted = [served(seed) for seed in range(WORLDS)]
    monkeypatch.setattr(replica, "coast", lambda scheduler, shape: None)
    for seed in range(WORLDS):
        walked = served(seed)
        for field in fields(RunLog):
            ours, theirs = (getattr(log, field.name) for log in (coasted[seed], walked))
            assert np.array_equal(ours, theirs), (seed, field.name)


def test_most_steps_coast_and_some_worlds_preempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property above would say little if hardly any step coasted, or none met pressure."""
    coasted = 0
    coast = replica.coast

    def counted(scheduler: Scheduler, shape: StepShape) -> object:
        nonlocal coasted
        filling = coast(scheduler, shape)
        coasted += filling is not None
        return filling

    monkeypatch.setattr(replica, "coast", counted)
    logs = [served(seed) for seed in range(WORLDS)]
    assert coasted > sum(len(log.steps) for log in logs) / 3
    assert sum(int(log.preemptions.sum()) for log in logs) > 100
