"""Load against capacity: closed forms of a server of known rate, and the simulator itself."""

from dataclasses import replace

import numpy as np
import pytest
from queues import ONE_BY_ONE, SERVICE_NS, OneStep, even_ns, one_by_one, poisson_ns, turned_away

from pagecast.engine.core.presets import PRESETS
from pagecast.engine.core.step import StepShape
from pagecast.sim.results.latency import latencies
from pagecast.sim.results.load import (
    all_at_once,
    arrivals_per_s,
    queue_growth,
    steady_requests_per_s,
    waiting_makes_tail,
)
from pagecast.sim.results.log import Outcome
from pagecast.sim.simulate import Server, serve
from pagecast.traces.schema import Trace

PER_S = 1e9 / SERVICE_NS
VLLM = PRESETS["vllm-v1@0.33"]


@pytest.mark.parametrize("load", [1.1, 1.25, 2.0, 5.0])
def test_beyond_capacity_the_share_that_stays_is_one_minus_one_over_the_load(load: float) -> None:
    even = queue_growth(one_by_one(even_ns(load, 20_000)))
    assert even == pytest.approx(1 - 1 / load, abs=0.003)
    noisy = queue_growth(one_by_one(poisson_ns(load, 20_000)))
    assert noisy == pytest.approx(1 - 1 / load, abs=0.03)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.85])
@pytest.mark.parametrize("seed", range(5))
def test_below_capacity_no_queue_grows(load: float, seed: int) -> None:
    assert queue_growth(one_by_one(poisson_ns(load, 3000, seed))) == 0


def test_refusal_under_overload_is_load_and_what_never_fits_is_not() -> None:
    log = one_by_one(even_ns(0.5, 400))
    odd = np.arange(1, 400, 2)
    overload, context = (turned_away(log, odd, f"{why}: ...") for why in ("overload", "context"))
    assert arrivals_per_s(overload) == pytest.approx(PER_S * 0.5)
    assert queue_growth(overload) == pytest.approx(0.5, abs=0.01)
    assert arrivals_per_s(context) == pytest.approx(PER_S * 0.25, rel=0.01)
    assert queue_growth(context) == 0


def test_all_at_once_has_no_rate() -> None:
    crowd = one_by_one(np.zeros(20, dtype=np.int64))
    assert all_at_once(crowd)
    assert np.isnan(arrivals_per_s(crowd))
    assert queue_growth(crowd) == 0
    assert not all_at_once(one_by_one(np.array([7])))


def test_the_estimate_is_exact_where_every_request_is_the_same() -> None:
    log = one_by_one(even_ns(0.5, 50))
    assert steady_requests_per_s(log, OneStep(), ONE_BY_ONE) == pytest.approx(PER_S)


def test_batches_run_until_empty_have_no_estimate() -> None:
    log = one_by_one(even_ns(0.5, 50))
    assert np.isnan(steady_requests_per_s(log, OneStep(), PRESETS["static"]))


class Roofline(OneStep):
    """Weights take 10 ms a step; beyond 150 tokens, tokens do; context is read at 10 GB/s."""

    def __call__(self, shape: StepShape) -> int:
        tokens = shape.decode_seqs + shape.prefill_tokens
        context_ns = 13 * shape.decode_context_tokens
        return 2_000_000 + max(10_000_000, 66_000 * tokens) + context_ns


@pytest.mark.parametrize(
    ("axes", "blocks"),
    [
        ({"max_seqs": 8}, 20_000),
        ({"max_seqs": 64, "max_batched_tokens": 512}, 20_000),
        ({"max_seqs": 256, "max_batched_tokens": 2048}, 20_000),
        ({"max_seqs": 256}, 1500),
    ],
)
def test_the_estimate_is_near_a_simulation_with_all_requests_present(
    axes: dict[str, int], blocks: int
) -> None:
    dice = np.random.default_rng(3)
    prompts, outputs = dice.integers(100, 1500, 1500), dice.integers(20, 400, 1500)
    crowd = Trace(np.zeros(1500, dtype=np.int64), prompts, outputs)
    policy = replace(VLLM, **axes)
    log = serve(crowd, Server(policy, blocks, 16, 4096, Roofline()))
    assert (log.outcome == Outcome.FINISHED).all()
    simulated = 1500 / (log.step("end_ns")[-1] / 1e9)
    assert steady_requests_per_s(log, Roofline(), policy) == pytest.approx(simulated, rel=0.1)


def test_waiting_makes_the_tail_where_bursts_come() -> None:
    calm = even_ns(0.5, 1000)
    burst = np.sort(np.concatenate((calm, np.full(50, calm[500]))))
    assert not waiting_makes_tail(latencies(one_by_one(calm)))
    assert waiting_makes_tail(latencies(one_by_one(burst)))
