"""Decision identity over every preset × preemption × layout × prefix cache, each under pressure."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import worlds
from toy import World

from pagecast.engine.core.policy import Policy
from pagecast.engine.core.presets import PRESETS

MODES = ("recompute", "swap", "hybrid", "auto")
SEEDS = range(60)
ENOUGH = 2
"""Preemptions, and swaps where they may be, that each combination must show over its seeds."""


def combinations() -> dict[str, Policy]:
    """All combinations that policies accept, small enough for toy worlds."""
    found = {}
    for name, layout, prefix in product(PRESETS, ("paged", "contiguous"), ("off", "block_hash")):
        policy = PRESETS[name]
        if layout == "contiguous" and (policy.reserve != "max_len" or prefix != "off"):
            continue
        for mode in ("never",) if policy.reserves_all else MODES:
            found[f"{name}-{mode}-{layout}-{prefix}"] = replace(
                policy,
                preemption=mode,
                kv_layout=layout,
                prefix=prefix,
                max_seqs=8,
                max_batched_tokens=None if policy.padding == "longest" else 64,
                preempt_cost=worlds.COST._replace(call_ns=1_000, block_ns=1_000),
            )
    return found


COMBINATIONS = combinations()


def world_of(policy: Policy, seed: int) -> World:
    size = (2, 4, 16)[seed % 3]
    per_request = -(-60 // size)
    return World(
        seed=seed, policy=policy, blocks=per_request + 1 + per_request * (seed % 4) // 4, block_size=size,
        max_model_len=60, requests=20, fork_share=0.01 if seed % 2 else 0.0, cancel_share=0.001,
        gap_ns=80, swap_blocks=(per_request, 10 * per_request)[seed % 2], predictions=seed % 2 == 0,
    )  # fmt: skip


@pytest.mark.parametrize("name", COMBINATIONS)
def test_a_run_and_its_replay_decide_alike(name: str) -> None:
    """Whoever reserves all that can be used never preempts; all others do, and swap where they may:
    who reserves the peak of all that run for the sake of forks, which nobody foresaw."""
    policy, preemptions, swaps = COMBINATIONS[name], 0, 0
    for seed in SEEDS:
        world = world_of(policy, seed)
        run = worlds.engine_run(world)
        assert worlds.simulator_log(world, run) == run.log.text(), world
        preemptions += run.preemptions
        swaps += run.swaps
        pressed = preemptions >= ENOUGH and (swaps >= ENOUGH or not policy.may_swap)
        if seed >= 3 and (pressed or policy.reserves_all):
            break
    assert preemptions == 0 if policy.reserves_all else pressed, (preemptions, swaps)


@pytest.mark.parametrize("preset", PRESETS)
def test_slower_steps_decide_otherwise(preset: str) -> None:
    """Negative control: with times ten times as long, others have arrived."""
    policy = next(p for name, p in COMBINATIONS.items() if name.startswith(f"{preset}-"))
    differs = 0
    for seed in range(6):
        world = world_of(policy, seed)
        run = worlds.engine_run(world)
        slow = replace(run.recording, plan_times_ns=[10 * t for t in run.recording.plan_times_ns])
        try:
            differs += worlds.simulator_log(world, replace(run, recording=slow)) != run.log.text()
        except (KeyError, IndexError, ValueError):
            differs += 1
    assert differs >= 3
