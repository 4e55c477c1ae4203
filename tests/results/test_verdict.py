"""The judgement on servers whose load is known."""

from dataclasses import replace

import numpy as np
import pytest
from queues import ONE_BY_ONE, SERVICE_NS, OneStep, even_ns, one_by_one, poisson_ns, turned_away

from pagecast.engine.core.presets import PRESETS, preset
from pagecast.sim.results.advice import headroom, more_replicas, relieve, shorten_gaps
from pagecast.sim.results.latency import latencies
from pagecast.sim.results.log import RunLog
from pagecast.sim.results.verdict import Verdict, judge

CAPACITY = 1e9 / SERVICE_NS


def verdict(log: RunLog, capacity: float | None = CAPACITY) -> Verdict:
    return judge(log, latencies(log), OneStep(), ONE_BY_ONE, "bf16", capacity)


@pytest.mark.parametrize("capacity", [CAPACITY, None])
@pytest.mark.parametrize(
    ("load", "saturated", "unstable", "opens"),
    [
        (0.3, False, False, "Not saturated: the trace asks for 30%"),
        (0.9, False, True, "Near saturation: the trace asks for 90%"),
        (1.5, True, True, "Saturated: the trace asks for 150%"),
        (4.0, True, True, "Saturated: the trace asks for 400%"),
    ],
)
def test_even_arrivals(
    load: float, saturated: bool, unstable: bool, opens: str, capacity: float | None
) -> None:
    judged = verdict(one_by_one(even_ns(load, 3000)), capacity)
    assert (judged.saturated, judged.unstable) == (saturated, unstable)
    assert judged.offered_share == pytest.approx(load, rel=0.001)
    assert judged.sentence.startswith(opens)
    assert ("its latencies are unstable" in judged.sentence) is unstable
    assert "\n" not in judged.sentence


def test_queueing_at_random_near_capacity_is_unstable_and_waits_for_a_slot() -> None:
    judged = verdict(one_by_one(poisson_ns(0.93, 5000)))
    assert judged.unstable
    assert judged.binding == "sequences"
    assert "mostly for a sequence slot" in judged.sentence


def test_steps_bind_where_nobody_waits() -> None:
    judged = verdict(one_by_one(even_ns(0.5, 500)))
    assert judged.binding == "bandwidth"
    assert "requests hardly wait; 50% of step time is bandwidth, mostly reading weights" in (
        judged.sentence
    )
    assert judged.advice == headroom()


def test_the_sentence_ends_with_the_p99_of_the_first_token() -> None:
    judged = verdict(one_by_one(even_ns(0.5, 500)))  # nobody waits: all take one service time
    assert judged.sentence.endswith("p99 TTFT 10 ms.")


def test_a_burst_in_a_calm_day_is_told() -> None:
    calm = even_ns(0.3, 1000)
    burst = np.sort(np.concatenate((calm, np.full(200, calm[400]))))
    judged = verdict(one_by_one(burst))
    assert not judged.saturated
    assert judged.unstable
    assert judged.sentence.startswith("Overloaded at times: the trace asks for 36%")


def test_all_at_once_measures_capacity() -> None:
    judged = verdict(one_by_one(np.zeros(300, dtype=np.int64)), None)
    assert judged.saturated
    assert "300 requests arrive at once" in judged.sentence
    assert "capacity, 100 requests/s" in judged.sentence


def test_a_single_request_is_no_load() -> None:
    judged = verdict(one_by_one(np.array([5])), None)
    assert (judged.saturated, judged.unstable) == (False, False)


def test_nothing_infeasible_is_an_answer() -> None:
    log = one_by_one(even_ns(0.5, 3))
    judged = verdict(turned_away(log, np.arange(3), "capacity: needs 63 blocks, the pool has 49"))
    assert judged.sentence == (
        "No answer: none of 3 requests finished. 3 of 3 requests refused "
        "(first: capacity: needs 63 blocks, the pool has 49)."
    )
    assert judged.binding == "none"
    assert "KV memory" in judged.advice
    assert np.isnan(judged.offered_share)


def test_losses_are_told_with_numbers() -> None:
    log = turned_away(one_by_one(even_ns(0.5, 100)), np.arange(4, 9), "context: 9,000 of 8,192")
    assert verdict(log).sentence.endswith(
        " 5 of 100 requests refused (first: context: 9,000 of 8,192)."
    )


def test_an_empty_trace_is_no_answer() -> None:
    assert verdict(one_by_one(np.array([], dtype=np.int64))).sentence.startswith("No answer")


@pytest.mark.parametrize(
    ("binding", "kv_dtype", "compute_share", "advice"),
    [
        ("kv_blocks", "bf16", 0.9, "--kv-dtype fp8: about 1,000 more blocks"),
        ("kv_blocks", "fp8", 0.1, "2 replicas, each asked for 75%"),
        ("token_budget", "bf16", 0.1, "--max-batched-tokens from 2,048 to 4,096"),
        ("token_budget", "bf16", 0.9, "2 replicas"),
        ("sequences", "bf16", 0.1, "--max-seqs from 1 to 2: when all of them ran, at most 1%"),
        ("sequences", "bf16", 0.9, "2 replicas"),
        ("batching", "bf16", 0.1, "admits at any step"),
    ],
)
def test_advice_names_one_thing(
    binding: str, kv_dtype: str, compute_share: float, advice: str
) -> None:
    log = one_by_one(even_ns(1.5, 50))
    assert advice in relieve(log, ONE_BY_ONE, kv_dtype, binding, 1.5, compute_share)


def test_more_sequences_are_not_advised_where_no_blocks_are_left() -> None:
    log = one_by_one(even_ns(1.5, 50), pool_blocks=12)
    policy = replace(PRESETS["vllm-v1@0.33"], max_seqs=1)
    assert "replicas" in relieve(log, policy, "bf16", "sequences", 1.5, 0.1)


@pytest.mark.parametrize("load", [0.9, 1.0, 1.7, 1.71, 3.3, 12.0])
def test_replicas_are_the_fewest_that_stay_stable(load: float) -> None:
    replicas = int(more_replicas(load).split()[0])
    assert load / replicas <= 0.85
    assert replicas == 2 or load / (replicas - 1) > 0.85


def test_advice_knows_the_limits_that_were_missed() -> None:
    run = one_by_one(even_ns(0.5, 500))
    policy = replace(preset("vllm-v1"), max_batched_tokens=2048, max_seqs=256)
    assert shorten_gaps(policy, 0.5).startswith("lower --max-batched-tokens from 2,048 to 1,024")
    assert shorten_gaps(replace(policy, max_batched_tokens=300), 0.5) == more_replicas(0.5)
    assert verdict(run).advice == headroom()
