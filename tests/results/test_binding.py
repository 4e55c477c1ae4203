"""What binds, in simulated runs where one limit is made to, and where step time goes."""

from dataclasses import replace

import numpy as np
import pytest
from queues import ONE_BY_ONE, OneStep, even_ns, one_by_one, poisson_ns

from pagecast.engine.core.presets import PRESETS
from pagecast.engine.core.step import StepShape
from pagecast.sim.results.binding import TERMS as MEANINGS
from pagecast.sim.results.binding import by_kind, largest, step_terms, waits
from pagecast.sim.results.log import STEP_COLUMNS
from pagecast.sim.simulate import Server, serve
from pagecast.sim.steptime.analytic import TERMS
from pagecast.traces.schema import Trace


def crowd(count: int, prompt: int, output: int) -> Trace:
    sizes = np.ones(count, dtype=np.int64)
    return Trace(np.arange(count, dtype=np.int64), prompt * sizes, output * sizes)


@pytest.mark.parametrize(
    ("axes", "blocks", "prompt", "output", "cause"),
    [
        ({"max_seqs": 4}, 4000, 50, 50, "sequences"),
        ({"max_seqs": 64, "max_batched_tokens": 64}, 4000, 500, 5, "token_budget"),
        ({"low_watermark": 0.0}, 100, 300, 200, "kv_blocks"),
        ({"low_watermark": 0.4}, 100, 300, 50, "kv_blocks"),
    ],
)
def test_the_limit_that_was_made_to_bind_is_named(
    axes: dict[str, float], blocks: int, prompt: int, output: int, cause: str
) -> None:
    policy = replace(PRESETS["vllm-v1@0.33"], **axes)
    log = serve(crowd(60, prompt, output), Server(policy, blocks, 16, 4096, OneStep()))
    shares = waits(log, policy)
    assert largest(shares) == cause
    assert shares[cause] > 0.6
    assert shares["batching"] == 0


def test_static_batching_waits_for_the_batch() -> None:
    policy = replace(PRESETS["static"], max_seqs=4)
    log = serve(crowd(40, 50, 50), Server(policy, 4000, 16, 512, OneStep()))
    starved = replace(policy, max_seqs=8)
    assert largest(waits(log, starved)) == "batching"


@pytest.mark.parametrize("seed", range(5))
def test_shares_are_those_of_the_time_with_a_queue(seed: int) -> None:
    log = one_by_one(poisson_ns(0.7, 500, seed))
    queued = (log.step("waiting") > 0).mean()  # all steps are equally long
    assert sum(waits(log, ONE_BY_ONE).values()) == pytest.approx(queued)


def test_terms_are_shares_of_step_time() -> None:
    terms = step_terms(one_by_one(even_ns(0.5, 77)), OneStep())
    assert list(terms) == ["compute", "weights", "kv_read", "host"]
    assert terms == pytest.approx({"compute": 0.4, "weights": 0.3, "kv_read": 0.2, "host": 0.1})
    assert largest(by_kind(terms)) == "bandwidth"


class TwoKinds(OneStep):
    """Steps with a prompt compute, all others read weights."""

    def explain(self, shape: StepShape) -> dict[str, float]:
        return {"compute": 1.0} if shape.prefill_tokens else {"weights": 1.0}


def test_long_steps_count_by_their_time() -> None:
    log = one_by_one(even_ns(1.0, 4000))
    steps = log.steps.copy()
    at = {name: STEP_COLUMNS.index(name) for name in STEP_COLUMNS}
    steps[::2, at["prefill_tokens"]] = 0
    steps[::2, at["end_ns"]] -= 9_000_000  # a tenth of the time of the others
    terms = step_terms(replace(log, steps=steps), TwoKinds())
    assert terms == pytest.approx({"compute": 10 / 11, "weights": 1 / 11}, abs=0.002)


def test_nothing_ran_has_no_terms() -> None:
    log = one_by_one(np.array([], dtype=np.int64))
    assert step_terms(log, OneStep()) == {}
    assert set(waits(log, ONE_BY_ONE).values()) == {0.0}


def test_every_term_of_the_analytic_model_has_a_meaning() -> None:
    assert set(TERMS) <= set(MEANINGS)
