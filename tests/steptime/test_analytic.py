"""Properties of the analytic model: it is a roofline, it is monotone, and its terms are its sum."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pagecast.engine.core.step import StepShape
from pagecast.engine.specs.geometry import kv_bytes_per_token, weights_bytes
from pagecast.engine.specs.gpus import gpu
from pagecast.engine.specs.models import model
from pagecast.sim.steptime.analytic import TERMS, AnalyticModel
from pagecast.sim.steptime.latency import LatencyModel

MODELS = [
    AnalyticModel(model("llama-3.1-8b"), gpu("a100-80gb")),
    AnalyticModel(model("qwen3-30b-a3b"), gpu("h100"), tp=2, weight_dtype="fp8", kv_dtype="fp8"),
    AnalyticModel(model("gpt-oss-120b"), gpu("mi300x"), weight_dtype="int4", kv_dtype="int8"),
    AnalyticModel(model("smollm2-135m"), gpu("l4"), weight_dtype="fp32", kv_dtype="fp32"),
]
COUNTS = [field.name for field in fields(StepShape)]
SMALL = ("decode_seqs", "prefill_seqs", "dead_rows", "sampled_rows", "verify_rows")

models = st.sampled_from(MODELS)


@st.composite
def shapes(draw: st.DrawFn) -> StepShape:
    """Any shape, reachable or not, whose chunks belong to some prefill."""
    shape = StepShape()
    for name in COUNTS:
        setattr(shape, name, draw(st.integers(0, 512 if name in SMALL else 1 << 20)))
    shape.prefill_seqs += 1
    return shape


def decodes(sequences: int, context: int) -> StepShape:
    shape = StepShape()
    shape.decode_seqs = shape.sampled_rows = sequences
    shape.decode_context_tokens = sequences * context
    shape.decode_context_max = context
    return shape


def prefill(tokens: int) -> StepShape:
    shape = StepShape()
    shape.add_chunk(0, tokens)
    shape.sampled_rows = 1
    return shape


@given(models, shapes())
def test_the_terms_sum_to_the_duration(latency: AnalyticModel, shape: StepShape) -> None:
    terms = latency.explain(shape)
    assert tuple(terms) == TERMS
    assert min(terms.values()) >= 0
    assert abs(sum(terms.values()) * 1e9 - latency(shape)) <= 1


@given(models, shapes(), st.sampled_from(COUNTS), st.integers(1, 1000))
def test_more_of_anything_never_takes_less(
    latency: AnalyticModel, shape: StepShape, name: str, more: int
) -> None:
    before = latency(shape)
    setattr(shape, name, getattr(shape, name) + more)
    assert latency(shape) >= before


@given(st.integers(1, 512), st.integers(1, 8192))
def test_no_decode_beats_the_datasheet(sequences: int, context: int) -> None:
    llama, card = model("llama-3.1-8b"), gpu("h100")
    seconds = AnalyticModel(llama, card)(decodes(sequences, context)) / 1e9
    read_bytes = weights_bytes(llama) - 2 * llama.vocab * llama.hidden
    read_bytes += sequences * context * kv_bytes_per_token(llama)
    assert seconds >= read_bytes / (card.memory_bandwidth_gb_s * 1e9)
    flops = 2 * 7.5e9 * sequences
    assert seconds >= flops / (card.bf16_tflops * 1e12)


@given(st.integers(1, 32_768))
def test_no_prefill_beats_the_datasheet(tokens: int) -> None:
    llama, card = model("llama-3.1-8b"), gpu("h100")
    seconds = AnalyticModel(llama, card)(prefill(tokens)) / 1e9
    # 6.98 billion weights in layers; scores and values, half of the square each.
    flops = 2 * 6.98e9 * tokens + 4 * 32 * 4096 * tokens * (tokens + 1) / 2
    assert seconds >= flops / (card.bf16_tflops * 1e12)


@pytest.mark.parametrize(("small", "large"), [(1, 2), (2, 4), (4, 8)])
@pytest.mark.parametrize("shape", [prefill(4096), decodes(128, 4096)], ids=["prefill", "decode"])
def test_more_gpus_are_not_slower_at_large_steps(small: int, large: int, shape: StepShape) -> None:
    llama, card = model("llama-3.1-70b"), gpu("h100")
    times = [AnalyticModel(llama, card, tp=tp)(shape) for tp in (small, large)]
    assert times[1] < times[0]


def test_the_bound_has_a_name() -> None:
    llama = AnalyticModel(model("llama-3.1-8b"), gpu("a100-80gb"))
    few, many, long = decodes(1, 128), prefill(4096), decodes(64, 16_384)
    names = [max(llama.explain(s), key=llama.explain(s).__getitem__) for s in (few, many, long)]
    assert names == ["weights", "compute", "kv_read"]


def test_small_steps_cost_the_weights_once() -> None:
    llama = AnalyticModel(model("llama-3.1-8b"), gpu("a100-80gb"))
    # 312 TFLOP/s against 2,039 GB/s: below 100 tokens, arithmetic is free for 16-bit weights.
    assert llama.explain(decodes(8, 1))["weights"] == llama.explain(decodes(64, 1))["weights"]
    assert llama.explain(decodes(64, 1))["compute"] == 0


@given(st.integers(1, 1 << 14))
def test_a_mixture_reads_the_experts_its_tokens_visit(tokens: int) -> None:
    times = MODELS[1].coefficients.experts
    assert times is not None
    read_ns, compute_ns = times[tokens]
    assume(not compute_ns)
    all_read_ns = times[1][0] * 128 / 8
    assert read_ns == pytest.approx(all_read_ns * (1 - (1 - 8 / 128) ** tokens))


def test_bytes_count_by_their_type() -> None:
    llama, card = model("llama-3.1-8b"), gpu("h100")
    shape = decodes(64, 4096)
    full = AnalyticModel(llama, card).explain(shape)
    halved = AnalyticModel(llama, card, weight_dtype="fp8", kv_dtype="fp8").explain(shape)
    assert halved["kv_read"] == pytest.approx(full["kv_read"] / 2)
    assert full["weights"] / 2 < halved["weights"] < full["weights"]


def test_padding_of_static_batches_is_charged_as_if_real() -> None:
    llama = AnalyticModel(model("llama-3.1-8b"), gpu("a100-80gb"))
    half_dead = decodes(16, 100)
    half_dead.dead_rows, half_dead.padded_context_tokens = 16, 16 * 100
    assert llama(half_dead) == llama(decodes(32, 100))
    padded = prefill(600)
    padded.padded_tokens = 400
    unpadded = prefill(600)
    unpadded.prefill_tokens = 1000
    assert llama(padded) == llama(unpadded)


def test_a_window_bounds_what_is_read() -> None:
    oss = MODELS[2]
    # Half of the layers read at most 128 tokens a sequence.
    short, long = (
        oss.explain(decodes(1, 128))["kv_read"],
        oss.explain(decodes(1, 12_800))["kv_read"],
    )
    assert long / short == pytest.approx((100 + 1) / 2)


def test_swapped_blocks_cross_the_host_link() -> None:
    llama, card = model("llama-3.1-8b"), gpu("a100-80gb")
    shape = StepShape()
    shape.swapped_out_blocks, shape.swapped_in_blocks = 100, 28
    seconds = AnalyticModel(llama, card, block_size=16).explain(shape)["swap"]
    # 128 blocks of 2 MiB at no more than the 32 GB/s of PCIe 4.0.
    assert 256 * 2**20 / 32e9 <= seconds <= 1.5 * 256 * 2**20 / 32e9


def swap_s(**how: Any) -> float:
    shape = decodes(64, 1000)
    shape.swapped_out_blocks = 128
    return AnalyticModel(model("llama-3.1-8b"), gpu("a100-80gb"), **how).explain(shape)["swap"]


def test_blocks_that_move_one_by_one_pay_for_every_copy() -> None:
    """64 tensors (K and V of 32 layers): one copy each at 6 us, or one for each of 128 blocks."""
    assert swap_s(swap_copies="per_block") - swap_s() == pytest.approx(127 * 64 * 6e-6)


def test_a_swap_hides_behind_the_step_as_far_as_there_is_a_step() -> None:
    assert swap_s(swap_overlap=0.25) == pytest.approx(0.75 * swap_s())
    assert swap_s(swap_overlap=1.0, swap_copies="per_block") > 0


def test_preemption_costs_what_the_step_would() -> None:
    """A prompt of 8,192 tokens is bound by arithmetic: the step is its tokens and pairs."""
    for latency in MODELS[:1]:
        cost, terms = latency.preempt_cost(), latency.explain(prefill(8192))
        step_s = terms["compute"] + terms["attention"] + terms["all_reduce"]
        assert cost.recompute_ns(8192) / 1e9 == pytest.approx(step_s, rel=0.01)
    shape = StepShape()
    shape.swapped_out_blocks = shape.swapped_in_blocks = 500
    assert cost.swap_ns(500) / 1e9 == pytest.approx(latency.explain(shape)["swap"], rel=0.001)


def test_it_is_a_latency_model() -> None:
    latency: LatencyModel = MODELS[0]
    assert (latency.provenance, latency.profile) == ("analytic", "analytic")
    assert latency.holdout_error is None
    assert latency.in_range(prefill(1 << 20))
    assert latency(StepShape()) >= 1
