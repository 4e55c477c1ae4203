"""Latencies of whole runs against the time of every single token, noted one by one."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from small_worlds import served

from pagecast.engine.core.step import StepPlan, StepResult
from pagecast.sim import simulate
from pagecast.sim.results.latency import latencies
from pagecast.sim.results.log import Outcome, RunLog
from pagecast.sim.world import replica
from pagecast.sim.world.recorder import Recorder

WORLDS = 100
Emissions = dict[int, list[int]]


class TokenRecorder(Recorder):
    """Notes when each token of each request comes, as no real run could afford."""

    emitted_ns: Emissions

    def step(self, plan: StepPlan, result: StepResult) -> None:
        super().step(plan, result)
        pieces = {chunk.request for chunk in plan.chunks} - set(plan.completing)
        for request, _, _ in self._scheduler.scheduled(plan):
            if request not in pieces:
                self.emitted_ns[request.id].append(plan.now_ns + result.duration_ns)


class UnpreemptedTokenRecorder(TokenRecorder):
    def step(self, plan: StepPlan, result: StepResult) -> None:
        if plan.preempted:
            TokenRecorder.emitted_ns = defaultdict(list)
            raise simulate.SomebodyPreempted
        super().step(plan, result)


@pytest.fixture
def worlds(monkeypatch: pytest.MonkeyPatch) -> list[tuple[RunLog, Emissions]]:
    monkeypatch.setattr(simulate, "Recorder", TokenRecorder)
    monkeypatch.setattr(simulate, "UnpreemptedRecorder", UnpreemptedTokenRecorder)
    monkeypatch.setattr(replica, "coast", lambda scheduler, shape: None)
    made = []
    for seed in range(WORLDS):
        TokenRecorder.emitted_ns = defaultdict(list)
        log = served(seed)
        made.append((log, dict(TokenRecorder.emitted_ns)))
    return made


def test_latencies_are_those_of_the_tokens(worlds: list[tuple[RunLog, Emissions]]) -> None:
    for log, emitted_ns in worlds:
        measured = latencies(log)
        gaps = np.concatenate([np.diff(times) for times in emitted_ns.values()]) / 1e9
        spread = measured.spread("itl")
        expected = [gaps.mean(), *np.percentile(gaps, [50, 90, 95, 99]), gaps.max()]
        names = ("mean", "p50", "p90", "p95", "p99", "max")
        assert [spread[name] for name in names] == pytest.approx(expected, rel=1e-12)
        for id, times in emitted_ns.items():
            assert log.output_tokens[id] == len(times)
            assert measured.ttft_s[id] == pytest.approx((times[0] - log.arrival_ns[id]) / 1e9)
            if len(times) > 1:
                own = np.diff(times) / 1e9
                assert measured.itl_p99_s[id] == pytest.approx(np.percentile(own, 99), rel=1e-12)
                if log.outcome[id] == Outcome.FINISHED:
                    assert measured.tpot_s[id] == pytest.approx(own.mean(), rel=1e-9)


def test_some_were_preempted_between_tokens(worlds: list[tuple[RunLog, Emissions]]) -> None:
    assert sum(int(log.preemptions.sum()) for log, _ in worlds) > 100
