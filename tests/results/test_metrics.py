"""The summary of random runs, each number recomputed from single emissions."""

import json
from dataclasses import replace

import numpy as np
import pytest
from queues import SERVICE_NS, one_by_one, poisson_ns, turned_away
from random_runs import BLOCK, POOL, RandomRun, random_run

from pagecast.sim.results.frames import requests_frame, steps_frame
from pagecast.sim.results.latency import latencies
from pagecast.sim.results.log import STEP_COLUMNS, Outcome
from pagecast.sim.results.metrics import summarize
from pagecast.sim.results.slo import make_slo
from pagecast.sim.results.store import to_json

COLUMNS = [
    "id", "arrival_s", "prompt_tokens", "output_tokens", "state", "reason", "queue_s", "ttft_s",
    "tpot_s", "itl_p99_s", "itl_max_s", "e2e_s", "preemptions", "swaps",
    "recomputed_tokens", "cached_tokens", "replica",
]  # fmt: skip

runs = pytest.mark.parametrize("run", [random_run(seed) for seed in range(40)])


@runs
def test_latencies_of_requests(run: RandomRun) -> None:
    frame = requests_frame(run.log, latencies(run.log))
    assert list(frame.columns) == COLUMNS
    for guest, row in zip(run.guests, frame.itertuples(), strict=True):
        if not guest.emitted_ns:
            assert (row.state, row.reason) == ("refused", "overload")
            assert np.isnan([row.queue_s, row.ttft_s, row.tpot_s, row.e2e_s, row.itl_p99_s]).all()
            continue
        first, last, count = guest.emitted_ns[0], guest.emitted_ns[-1], len(guest.emitted_ns)
        assert row.state == "finished"
        assert row.queue_s == pytest.approx((guest.scheduled_ns - guest.arrival_ns) / 1e9)
        assert row.ttft_s == pytest.approx((first - guest.arrival_ns) / 1e9)
        assert row.e2e_s == pytest.approx((last - guest.arrival_ns) / 1e9)
        tpot_s = (last - first) / (count - 1) / 1e9 if count > 1 else np.nan
        assert row.tpot_s == pytest.approx(tpot_s, nan_ok=True)


@runs
def test_throughput_of_run_and_of_arrival_window(run: RandomRun) -> None:
    throughput = summarize(run.log, latencies(run.log), None, 1)["throughput"]
    first = min(guest.arrival_ns for guest in run.guests)
    last_arrival = max(guest.arrival_ns for guest in run.guests)
    end = max(last_arrival, int(run.log.step("end_ns")[-1]))
    for rates, until in ((throughput, end), (throughput["arrival_window"], last_arrival)):
        seconds = (until - first) / 1e9
        served = [guest for guest in run.guests if guest.emitted_ns]
        tokens = sum(time <= until for guest in served for time in guest.emitted_ns)
        prompts = sum(guest.prompt for guest in served if guest.emitted_ns[0] <= until)
        whole = sum(guest.emitted_ns[-1] <= until for guest in served)
        assert rates["requests_per_s"] == pytest.approx(whole / seconds)
        assert rates["output_tokens_per_s"] == pytest.approx(tokens / seconds)
        assert rates["total_tokens_per_s"] == pytest.approx((tokens + prompts) / seconds)


@runs
def test_goodput_judges_each_request_by_itself(run: RandomRun) -> None:
    slo = make_slo({"ttft_p99": 80e-9, "itl_p99": 70e-9})
    goodput = summarize(run.log, latencies(run.log), slo, 1)["goodput"]
    good = [
        bool(guest.emitted_ns)
        and guest.emitted_ns[0] - guest.arrival_ns <= 80
        and (not own or np.percentile(own, 99) <= 70)
        for guest, own in zip(run.guests, run.gaps_ns(), strict=True)
    ]
    assert goodput["share"] == pytest.approx(sum(good) / len(good))


@runs
def test_kv_shares_are_weighted_by_time(run: RandomRun) -> None:
    kv = summarize(run.log, latencies(run.log), None, 57_344)["kv"]
    log = run.log
    lasts = log.step("end_ns") - log.step("start_ns")
    used = np.repeat(log.step("used_blocks"), lasts)
    held = np.repeat(log.step("kv_tokens"), lasts)
    claimed = np.repeat(log.step("claimed_blocks"), lasts)
    first = log.arrival_ns.min()
    whole = max(log.step("end_ns")[-1], log.arrival_ns.max()) - first
    assert (kv["pool_blocks"], kv["block_size"], kv["bytes_per_token"]) == (POOL, BLOCK, 57_344)
    assert kv["mean_used_share"] == pytest.approx(used.sum() / whole / POOL)
    assert kv["peak_used_share"] == pytest.approx(used.max() / POOL)
    assert kv["wasted_share"] == pytest.approx(1 - held.sum() / claimed.sum() / BLOCK)


def test_fifty_tokens_in_blocks_of_sixteen_waste_fourteen_slots() -> None:
    log = replace(one_by_one(poisson_ns(0.5, 20), used_blocks=4, claimed_blocks=4, kv_tokens=50))
    kv = summarize(log, latencies(log), None, 1)["kv"]
    assert kv["wasted_share"] == pytest.approx(14 / 64)


def test_one_token_has_no_time_per_output_token() -> None:
    log = one_by_one(np.array([0, 0, 0]))
    latency_s = summarize(log, latencies(log), None, 1)["latency_s"]
    assert set(latency_s["tpot"].values()) == set(latency_s["itl"].values()) == {None}
    assert latency_s["ttft"]["max"] == pytest.approx(3 * SERVICE_NS / 1e9)
    assert latency_s["normalized"] == latency_s["e2e"] == latency_s["ttft"]


def test_all_refused_is_all_null_and_valid_json() -> None:
    log = one_by_one(np.array([0, 5]))
    log = turned_away(replace(log, steps=log.steps[:0]), np.array([0, 1]), "context: too long")
    summary = summarize(log, latencies(log), make_slo({"ttft_p99": 1.0}), 1)
    assert summary["requests"]["refused"] == 2
    assert summary["goodput"]["share"] == 0
    assert summary["slo"]["ttft_p99"]["met"] is False
    assert json.loads(to_json(summary))["latency_s"]["ttft"]["p99"] is None


def test_an_empty_run_has_a_summary() -> None:
    log = one_by_one(np.array([], dtype=np.int64))
    summary = summarize(log, latencies(log), None, 1)
    assert summary["requests"]["total"] == 0
    assert summary["throughput"]["requests_per_s"] is None
    assert len(requests_frame(log, latencies(log))) == len(steps_frame(log)) == 0


def test_every_outcome_is_counted() -> None:
    log = replace(one_by_one(np.arange(10)), outcome=np.repeat(np.array(list(Outcome)), 2))
    requests = summarize(log, latencies(log), None, 1)["requests"]
    ended = {outcome.name.lower() for outcome in Outcome}
    assert {requests[state] for state in ended} == {2}
    assert requests["total"] == 10


def test_steps_keep_their_columns() -> None:
    log = random_run(3).log
    frame = steps_frame(log)
    assert tuple(frame.columns) == STEP_COLUMNS
    assert (frame["end_ns"] == log.step("end_ns")).all()
