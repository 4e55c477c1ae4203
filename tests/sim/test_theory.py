"""Queueing theory as an oracle: one request at a time is a queue with a known answer.

Waits must equal Lindley's recursion on the same draws to the nanosecond, and their mean the
closed form of M/D/1 and M/M/1 (Pollaczek and Khinchine) within three standard errors, taken from
batch means since successive waits are correlated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from pagecast.engine.core.presets import preset
from pagecast.engine.core.step import StepShape
from pagecast.sim.simulate import Server, serve
from pagecast.traces.schema import Trace

REQUESTS = 40_000
BATCHES = 40
SERVICE_NS = 1_000_000
LOADS = (0.3, 0.6, 0.9)
ONE_AT_A_TIME = replace(preset("vllm-v1@0.33"), max_seqs=1, prefix="off")

Ints = NDArray[np.int64]


class Draws:
    """A latency model that takes its durations from a list, one step after the other."""

    def __init__(self, durations_ns: Ints) -> None:
        self._next: Iterator[int] = iter(durations_ns.tolist())

    def __call__(self, shape: StepShape) -> int:
        return next(self._next)


def draws(load: float, service: str) -> tuple[Ints, Ints]:
    """Poisson arrivals and service times of one step each, in nanoseconds."""
    arrivals, services = (
        np.random.default_rng(seed) for seed in np.random.SeedSequence(7).spawn(2)
    )
    stamps = np.cumsum(arrivals.exponential(SERVICE_NS / load, REQUESTS)).astype(np.int64)
    if service == "constant":
        return stamps, np.full(REQUESTS, SERVICE_NS)
    return stamps, np.maximum(1, services.exponential(SERVICE_NS, REQUESTS)).astype(np.int64)


def simulated_waits(stamps: Ints, services: Ints, output_tokens: int = 1) -> Ints:
    ones = np.ones(len(stamps), dtype=np.int64)
    trace = Trace(arrival_ns=stamps, prompt_tokens=ones, output_tokens=output_tokens * ones)
    steps = np.repeat(services // output_tokens, output_tokens)
    log = serve(trace, Server(ONE_AT_A_TIME, 64, 16, 128, Draws(steps)))
    waits: Ints = log.scheduled_ns - log.arrival_ns
    return waits


def lindley(stamps: Ints, services: Ints) -> Ints:
    """W(n+1) = max(0, W(n) + S(n) − A(n)), in integers."""
    waits = [0]
    for service, gap in zip(services[:-1].tolist(), np.diff(stamps).tolist(), strict=True):
        waits.append(max(0, waits[-1] + service - gap))
    return np.array(waits)


@cache
def waits_at(load: float, service: str) -> Ints:
    return simulated_waits(*draws(load, service))


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("service", ["constant", "exponential"])
def test_waits_follow_lindley_to_the_nanosecond(load: float, service: str) -> None:
    assert np.array_equal(waits_at(load, service), lindley(*draws(load, service)))


def test_a_service_of_many_steps_waits_alike() -> None:
    """Eight tokens of equal time, one step each, are one service of their sum."""
    stamps, services = (column[:4_000] for column in draws(0.6, "constant"))
    assert np.array_equal(simulated_waits(stamps, services, 8), lindley(stamps, services))


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("service", ["constant", "exponential"])
def test_mean_wait_is_the_closed_form(load: float, service: str) -> None:
    waits = waits_at(load, service)
    expected = SERVICE_NS * load / (1 - load) * (0.5 if service == "constant" else 1)
    means = waits.reshape(BATCHES, -1).mean(axis=1)
    error = means.std(ddof=1) / np.sqrt(BATCHES)
    assert abs(waits.mean() - expected) < 3 * error
