"""The KV pool against start-up logs of real engines, and what does not fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pagecast.engine.core.errors import UserError
from pagecast.engine.specs.gpus import gpu
from pagecast.engine.specs.models import ModelSpec, model
from pagecast.engine.specs.overheads import activation_bytes
from pagecast.engine.specs.pool import Deployment, kv_pool, least_tp

GIB = 1 << 30
LLAMA = model("llama-3.1-8b")
H100 = Deployment(
    LLAMA, gpu("h100"), utilization=0.95, weights_gib=14.99, activation_gib=1.89, non_torch_gib=0.25
)


def test_h100_with_a_16_bit_cache() -> None:
    plan = kv_pool(H100)
    assert plan.pool_bytes / GIB == pytest.approx(58.1, rel=0.001)
    assert plan.tokens == pytest.approx(476_000, rel=0.001)


def test_h100_with_an_8_bit_cache() -> None:
    assert kv_pool(replace(H100, kv_dtype="fp8")).tokens == pytest.approx(952_000, rel=0.001)


def test_h100_in_32_bit() -> None:
    fp32 = replace(
        H100, weight_dtype="fp32", kv_dtype="fp32", weights_gib=29.98, activation_gib=2.45,
        non_torch_gib=0.0,
    )  # fmt: skip
    plan = kv_pool(fp32)
    assert plan.pool_bytes / GIB == pytest.approx(42.80, rel=0.001)
    assert plan.tokens == pytest.approx(175_300, rel=0.001)


def test_rtx_3090_in_whole_blocks() -> None:
    card = Deployment(
        LLAMA, gpu("rtx-3090"), weights_gib=14.99, activation_gib=17.06 - 14.99, non_torch_gib=0.35
    )
    plan = kv_pool(card)
    assert plan.pool_bytes / GIB == pytest.approx(3.81, rel=0.001)
    # The engine, which knew its figures to more digits than it printed, said 1,952.
    assert plan.blocks == 1951
    assert plan.swap_blocks(4) == 2048


def test_estimates_alone_come_close_to_a_real_log() -> None:
    # vLLM 0.31, Llama-3.1-8B on an A100 80GB, all defaults: 460,496 tokens, concurrency 3.51.
    plan = kv_pool(Deployment(LLAMA, gpu("a100-80gb"), utilization=0.92))
    assert plan.tokens == pytest.approx(460_496, rel=0.01)
    assert plan.sequences(131_072) == pytest.approx(3.51, rel=0.01)


@pytest.mark.parametrize(
    ("spec", "tokens", "seqs", "logged_gib"),
    [
        (LLAMA, 2048, 256, 1.44),
        (LLAMA, 8192, 1024, 1.89),
        (replace(model("mistral-7b"), vocab=32_064), 16_384, 1024, 1.97),
    ],
)
def test_activations_are_within_a_tenth_of_logs(
    spec: ModelSpec, tokens: int, seqs: int, logged_gib: float
) -> None:
    assert activation_bytes(spec, 1, tokens, seqs) / GIB == pytest.approx(logged_gib, rel=0.1)


def test_requests_waste_the_rest_of_their_last_block() -> None:
    plan = kv_pool(H100)
    # 50 tokens in blocks of 16 take 64 slots.
    assert plan.sequences(50) == plan.blocks / 4
    assert plan.sequences(64) == plan.sequences(50)
    assert plan.sequences(65) == plan.blocks / 5


def test_a_null_block_holds_no_tokens() -> None:
    assert kv_pool(replace(H100, null_blocks=1)).tokens == kv_pool(H100).tokens - 16
    assert kv_pool(replace(H100, null_blocks=1)).blocks == kv_pool(H100).blocks


def test_what_does_not_fit_says_the_numbers_and_the_least_tp() -> None:
    # 70.6 billion weights in 16 bit are 131.4 GiB.
    with pytest.raises(UserError, match=r"weights take 131\.42.* needs at least TP 2$"):
        kv_pool(Deployment(model("llama-3.1-70b"), gpu("h100")))


def test_the_least_tp_fits_and_the_next_smaller_does_not() -> None:
    large = Deployment(model("llama-3.1-70b"), gpu("l40s"))
    tp = least_tp(large, min_tokens=4096)
    assert tp is not None
    assert kv_pool(replace(large, tp=tp), min_tokens=4096).tokens >= 4096
    with pytest.raises(UserError, match=f"needs at least TP {tp}"):
        kv_pool(replace(large, tp=tp // 2), min_tokens=4096)


def test_given_weights_are_shared_among_more_ranks() -> None:
    large = Deployment(model("llama-3.1-70b"), gpu("h100"), weights_gib=400.0)
    assert least_tp(large) == 8


def test_a_context_that_no_degree_can_hold_is_said_to_be_so() -> None:
    small = Deployment(model("smollm2-135m"), gpu("l4"))
    with pytest.raises(UserError, match="no TP degree of this model is enough"):
        kv_pool(small, min_tokens=10**9)
