"""Gaps between tokens against the emissions of random runs, request by request."""

import numpy as np
import pytest
from random_runs import random_run

from pagecast.sim.results import gaps as gaps_module
from pagecast.sim.results.gaps import emissions, token_gaps
from pagecast.sim.results.latency import latencies

SEEDS = range(150)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_gap_is_there_once(seed: int) -> None:
    run = random_run(seed)
    gaps = token_gaps(run.log)
    expanded = np.repeat(gaps.values_ns, gaps.weights())
    assert sorted(expanded.tolist()) == sorted(gap for own in run.gaps_ns() for gap in own)


@pytest.mark.parametrize("seed", SEEDS)
def test_own_tails_are_those_of_own_gaps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps_module, "BATCH_GAPS", 1 + seed)
    run = random_run(seed, requests=10 + seed % 7, outputs=150)
    p99_ns, max_ns = token_gaps(run.log).tails_ns(len(run.guests))
    for own, p99, most in zip(run.gaps_ns(), p99_ns, max_ns, strict=True):
        if own:
            assert (p99, most) == (np.percentile(own, 99), max(own))
        else:
            assert np.isnan(p99)
            assert np.isnan(most)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_token_is_emitted_when_it_was(seed: int) -> None:
    run = random_run(seed)
    times_ns, tokens = emissions(run.log)
    emitted = sorted(np.repeat(times_ns, tokens).tolist())
    assert emitted == sorted(time for guest in run.guests for time in guest.emitted_ns)


def test_fleet_itl_is_numpys_on_all_gaps() -> None:
    run = random_run(7, requests=40, outputs=60)
    seconds = np.array([gap for own in run.gaps_ns() for gap in own]) / 1e9
    itl = latencies(run.log).spread("itl")
    assert itl["p99"] == np.percentile(seconds, 99)
    assert itl["max"] == seconds.max()
    assert itl["mean"] == pytest.approx(seconds.mean(), rel=1e-12)


def test_the_random_runs_have_what_is_to_be_tested() -> None:
    runs = [random_run(seed) for seed in SEEDS]
    assert sum(guest.preemptions for run in runs for guest in run.guests) > 100
    joined_late = sum(
        int((run.log.stay("joined_clock") > 0).sum() - np.isin(
            run.log.stay("joined_ns"), run.log.tick_ends_ns()).sum())
        for run in runs
    )  # fmt: skip
    assert joined_late > 100
