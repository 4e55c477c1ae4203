"""One scheduler, two clocks: a run on the toy engine and its replay decide alike, byte for byte.

The toy engine holds real tokens in named blocks; the replay knows only stamps, lengths and
identities, and counts its blocks where it can. Equal logs show that the simulator needs nothing
that only the engine has.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
import worlds

from pagecast.engine.core.policy import AXES, Policy

WORLDS = 300


@pytest.fixture(scope="module")
def runs() -> list[tuple[worlds.World, worlds.Run]]:
    made = [worlds.random_world(seed) for seed in range(WORLDS)]
    return [(world, worlds.engine_run(world)) for world in made]


def test_replay_takes_the_same_decisions(runs: list[tuple[worlds.World, worlds.Run]]) -> None:
    for world, run in runs:
        assert worlds.simulator_log(world, run) == run.log.text(), world


def test_the_worlds_are_under_pressure(runs: list[tuple[worlds.World, worlds.Run]]) -> None:
    """Identity means little where nothing happens: all that can happen does, and often."""
    assert sum(run.preemptions for _, run in runs) > 600
    assert sum(run.hits for _, run in runs) > 2_000
    assert sum(run.swaps for _, run in runs) > 100
    assert sum(run.copies for _, run in runs) > 50
    assert sum(run.forks for _, run in runs) > 300
    reasons = {reason for _, run in runs for reason in run.reasons.values()}
    assert reasons == {"stop", "length"}
    rows = [row for _, run in runs for row in run.log.rows]
    for key in (
        "refused",
        "cancelled",
        "preempted",
        "swapped_in",
        "failed",
        "copies",
        "filled",
        "rule",
    ):
        assert any(row[key] for row in rows), key


def test_the_worlds_cover_every_axis(runs: list[tuple[worlds.World, worlds.Run]]) -> None:
    seen = {axis: {getattr(world.policy, axis) for world, _ in runs} for axis in AXES}
    assert seen == {axis: set(values) for axis, values in AXES.items()}
    for field in fields(Policy):
        if field.name not in AXES and field.name != "null_blocks":
            assert len({getattr(world.policy, field.name) for world, _ in runs}) > 1, field.name


def test_other_times_give_other_decisions(runs: list[tuple[worlds.World, worlds.Run]]) -> None:
    """Negative control: steps ten times as long meet other arrivals."""
    changed = 0
    for world, run in runs:
        times = [10 * now for now in run.recording.plan_times_ns]
        slow = replace(run.recording, plan_times_ns=times)
        changed += _differs(world, replace(run, recording=slow))
    assert changed > 0.9 * WORLDS


@pytest.mark.parametrize(
    "axis",
    [
        {"low_watermark": 0.6, "watermark_if_busy": True},
        {"requeue": "back"},
        {"reserve": "known"},
        {"free_order": "lru"},
        {"publish": "at_commit"},
        {"max_seqs": 2},
        {"long_prefill_cap": 2},
        {"admit_after_preempt": True},
    ],
    ids=lambda axis: next(iter(axis)),
)
def test_another_axis_gives_other_decisions(
    runs: list[tuple[worlds.World, worlds.Run]], axis: dict[str, object]
) -> None:
    """Negative control: with one axis altered, some world that depends on it differs."""
    assert any(
        _differs(replace(world, policy=replace(world.policy, **axis)), run)
        for world, run in runs
        if world.policy.batching == "iteration" and not world.policy.reserves_all
        and any(getattr(world.policy, name) != value for name, value in axis.items())
    )  # fmt: skip


def test_other_process_and_hash_seed() -> None:
    """Nothing depends on the order of a hash."""
    script = Path(worlds.__file__)
    logs = [
        subprocess.run(
            [sys.executable, str(script), *map(str, range(12))],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    here = "".join(
        worlds.simulator_log(world, worlds.engine_run(world))
        for world in map(worlds.random_world, range(12))
    )
    assert logs[0] == logs[1] == here.encode()


def _differs(world: worlds.World, run: worlds.Run) -> bool:
    """Whether a replay under other conditions takes other decisions, or cannot go on at all."""
    try:
        return worlds.simulator_log(world, run) != run.log.text()
    except (KeyError, IndexError, ValueError):
        return True
