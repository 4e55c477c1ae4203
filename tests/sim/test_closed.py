"""The closed loop: never more in the system than clients, and nothing else is changed by it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import simpy
from small_worlds import latency, served

from pagecast.engine.core.errors import UserError
from pagecast.engine.core.presets import preset
from pagecast.engine.core.step import StepShape
from pagecast.sim.results.latency import latencies
from pagecast.sim.results.log import NEVER, Outcome, RunLog
from pagecast.sim.simulate import Server, serve
from pagecast.sim.world import replica
from pagecast.traces.schema import Trace

WORLDS = 60
REQUESTS = 80


def at_once(longest: int = 60) -> Trace:
    """Requests that all want to come at 0."""
    draws = np.random.default_rng(5)
    prompts, outputs = draws.integers(1, longest, (2, REQUESTS))
    return Trace(np.zeros(REQUESTS, dtype=np.int64), prompts, outputs)


def server(blocks: int = 40, **axes: Any) -> Server:
    policy = replace(preset("vllm-v1@0.33"), max_seqs=64, max_batched_tokens=64, **axes)
    return Server(policy, blocks, 4, 128, latency)


def most_at_once(log: RunLog) -> int:
    """Finished requests in the system at a time; who leaves makes room for who comes."""
    finished = log.outcome == Outcome.FINISHED
    come, gone = log.arrival_ns[finished], log.last_token_ns[finished]
    times = np.concatenate((gone, come))
    change = np.repeat((-1, 1), len(come))
    order = np.argsort(times, kind="stable")
    return int(np.cumsum(change[order]).max())


def assert_equal(ours: RunLog, theirs: RunLog, note: object) -> None:
    for field in fields(RunLog):
        one, other = (getattr(log, field.name) for log in (ours, theirs))
        assert np.array_equal(one, other), (note, field.name)


@pytest.mark.parametrize("concurrency", [1, 2, 7, 40])
def test_never_more_than_the_clients_and_all_are_served(concurrency: int) -> None:
    log = serve(at_once(), server(), concurrency=concurrency)
    assert (log.outcome == Outcome.FINISHED).all()
    assert most_at_once(log) == concurrency
    in_system = log.step("running") + log.step("waiting")
    assert in_system.max() == concurrency
    # Until the last arrival every place is taken, in every step.
    assert (in_system[log.step("start_ns") < log.arrival_ns.max()] == concurrency).all()


def test_who_comes_comes_when_another_ends() -> None:
    log = serve(at_once(), server(), concurrency=7)
    assert log.preemptions.sum() > 0
    later = log.arrival_ns[7:]
    assert (np.diff(log.arrival_ns) >= 0).all()
    assert np.array_equal(later, np.sort(log.last_token_ns)[: len(later)])


def test_one_client_asks_again_when_he_has_his_answer() -> None:
    log = serve(at_once(), server(), concurrency=1)
    assert np.array_equal(log.arrival_ns[1:], log.last_token_ns[:-1])
    assert latencies(log).queue_s.max() == 0


def test_places_that_are_never_short_change_nothing() -> None:
    for seed in range(WORLDS):
        assert_equal(served(seed, concurrency=60), served(seed), seed)


def test_no_request_comes_before_its_own_stamp() -> None:
    for seed in range(WORLDS):
        few, open_ = served(seed, concurrency=3), served(seed)
        assert (few.arrival_ns >= open_.arrival_ns).all()
        assert most_at_once(few) <= 3


def test_coasting_stops_where_an_ending_lets_somebody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    coasted = [served(seed, concurrency=1 + seed % 8) for seed in range(WORLDS)]
    monkeypatch.setattr(replica, "coast", lambda scheduler, shape: None)
    for seed in range(WORLDS):
        assert_equal(coasted[seed], served(seed, concurrency=1 + seed % 8), seed)


def test_other_actors_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where somebody else acts in the middle of every step, no step coasts."""
    alone = [serve(at_once(), server(), concurrency=n) for n in (1, 7)]

    class Disturbed(simpy.Environment):
        def __init__(self, start: int) -> None:
            super().__init__(start)
            self.process(ticks(self))

    def ticks(env: simpy.Environment) -> Generator[simpy.Event]:
        for _ in range(50_000):
            yield env.timeout(700)

    monkeypatch.setattr(simpy, "Environment", Disturbed)
    for n, log in zip((1, 7), alone, strict=True):
        assert_equal(serve(at_once(), server(), concurrency=n), log, n)


def test_who_is_refused_or_fails_leaves_his_place() -> None:
    refused = serve(at_once(), server(blocks=12), concurrency=3)
    assert {Outcome.REFUSED, Outcome.FAILED} < set(refused.outcome)
    assert (refused.outcome != Outcome.UNFINISHED).all()
    assert most_at_once(refused) <= 3


def test_decisions_do_not_depend_on_how_long_steps_take() -> None:
    """Arrivals follow endings and all are seen between steps."""

    def other(shape: StepShape) -> int:
        return 17 + 1_000 * (shape.decode_seqs % 3)

    ours = serve(at_once(), server(), concurrency=20)
    theirs = serve(at_once(), replace(server(), latency=other), concurrency=20)
    assert ours.preemptions.sum() > 20
    assert np.array_equal(ours.preemptions, theirs.preemptions)
    assert np.array_equal(ours.step("used_blocks"), theirs.step("used_blocks"))


def test_the_prefix_cache_runs_twice_and_comes_to_the_same() -> None:
    log = serve(at_once(), server(prefix="block_hash"), concurrency=20)
    assert log.preemptions.sum() > 0
    assert (log.first_token_ns != NEVER).all()
    assert most_at_once(log) == 20


def test_there_must_be_a_place() -> None:
    with pytest.raises(UserError, match=r"load\.closed: 0 requests at a time; accepted: from 1"):
        serve(at_once(), server(), concurrency=0)
