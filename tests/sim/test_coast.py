"""Coasting changes nothing but the time it takes: every column of the log stays as it was."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from small_worlds import served

from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import StepShape
from pagecast.sim.results.log import RunLog
from pagecast.sim.world import replica

WORLDS = 120


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
