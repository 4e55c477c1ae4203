"""Bytes of weights and KV cache against published figures and arithmetic on paper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pagecast.engine.core.errors import UserError
from pagecast.engine.specs.geometry import (
    elements,
    heads_per_rank,
    kv_bytes_per_token,
    parameters,
    tp_degrees,
    weights_bytes,
)
from pagecast.engine.specs.models import model, names

GIB = 1 << 30


def test_qwen_has_four_kv_heads_not_twenty_eight() -> None:
    assert kv_bytes_per_token(model("qwen2.5-7b")) == 57_344


def test_a_block_of_llama_2_7b_is_eight_mib() -> None:
    assert 16 * kv_bytes_per_token(model("llama-2-7b"), "fp16") == 8 << 20


def test_k_and_v_both_count() -> None:
    # 2 GiB, where tables that count only one of K and V say 1 GB.
    assert 4096 * kv_bytes_per_token(model("llama-2-7b"), "fp16") == 2 * GIB


@pytest.mark.parametrize(("kv_heads", "share"), [(8, 4), (1, 32)])
def test_grouped_and_single_kv_heads_take_their_share(kv_heads: int, share: int) -> None:
    full = model("llama-2-7b")
    grouped = replace(full, kv_heads=kv_heads)
    assert kv_bytes_per_token(full) == share * kv_bytes_per_token(grouped)


def test_more_ranks_than_kv_heads_keep_one_head_each() -> None:
    moe = model("qwen3-30b-a3b")
    assert moe.kv_heads == 4
    one_head = 48 * 2 * 128 * 2
    assert [kv_bytes_per_token(moe, tp=tp) // one_head for tp in (1, 2, 4, 8, 16)] == [
        4, 2, 1, 1, 1,
    ]  # fmt: skip


def test_int8_holds_1_94_times_the_tokens_of_bf16_because_of_its_scales() -> None:
    llama = model("llama-3.1-8b")
    ratio = kv_bytes_per_token(llama, "bf16") / kv_bytes_per_token(llama, "int8")
    assert ratio == pytest.approx(1.94, abs=0.001)
    assert kv_bytes_per_token(llama, "fp8") * 2 == kv_bytes_per_token(llama, "bf16")


@pytest.mark.parametrize("name", names())
def test_sixteen_bits_are_two_bytes_a_parameter(name: str) -> None:
    assert weights_bytes(model(name)) == 2 * parameters(model(name))
    assert weights_bytes(model(name), "fp32") == 4 * parameters(model(name))


def test_fp8_leaves_embeddings_in_16_bit() -> None:
    # The published FP8 checkpoint of Llama-3.1-8B-Instruct is 9.08 GB.
    assert weights_bytes(model("llama-3.1-8b"), "fp8") == pytest.approx(9.08e9, rel=0.005)


def test_int4_carries_scales_and_leaves_embeddings_in_16_bit() -> None:
    # The published AWQ checkpoint of Llama-3.1-8B-Instruct (group 128) is 5.73 GB.
    assert weights_bytes(model("llama-3.1-8b"), "int4") == pytest.approx(5.73e9, rel=0.005)


@pytest.mark.parametrize("name", names())
def test_ranks_hold_at_least_their_share_of_the_weights(name: str) -> None:
    spec = model(name)
    whole = elements(spec)
    for tp in tp_degrees(spec):
        rank = elements(spec, tp)
        assert tp * sum(rank) >= sum(whole)
        assert tp * rank.experts >= whole.experts
        # KV projections repeat at most tp times; all else is divided.
        repeated = spec.layers * spec.hidden * 2 * spec.head_dim * max(tp, spec.kv_heads)
        assert tp * rank.linear <= whole.linear + repeated + tp * 3 * spec.layers * spec.hidden


def test_heads_that_cannot_be_divided_are_refused_with_the_degrees_that_can() -> None:
    with pytest.raises(UserError, match=r"tp: 2 .*9 query and 3 KV heads.*accepted: 1, 3, 9"):
        heads_per_rank(model("smollm2-135m"), 2)
    with pytest.raises(UserError, match="tp: 8"):
        kv_bytes_per_token(model("qwen2.5-7b"), tp=8)


def test_unknown_types_are_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"unknown weight dtype 'fp9'.*fp8"):
        weights_bytes(model("llama-3.1-8b"), "fp9")
    with pytest.raises(UserError, match=r"unknown kv dtype 'int4'.*int8"):
        kv_bytes_per_token(model("llama-3.1-8b"), "int4")
