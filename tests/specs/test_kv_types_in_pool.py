"""What each type of KV cache makes of the same memory, counted in bytes."""

from __future__ import annotations

from dataclasses import replace
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagecast.engine.core.errors import UserError
from pagecast.engine.specs.gpus import gpu
from pagecast.engine.specs.models import model
from pagecast.engine.specs.pool import Deployment, kv_pool, least_tp

GIB = 1 << 30
BLOCK_BYTES = {"bf16": 16 * 131_072, "int8": 16 * 67_584, "fp8": 16 * 65_536}
# 10 GiB of KV cache, to the byte.
TEN_GIB = Deployment(
    model("llama-3.1-8b"), gpu("h100"), max_seqs=64, utilization=1.0,
    memory_gib=26.0, weights_gib=15.0, activation_gib=1.0, non_torch_gib=0.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("kv_dtype", "blocks"),
    [
        ("bf16", 5_120), ("fp32", 2_560), ("fp8", 10_240),
        ("int8", 9_929),  # 5,120 · 256 / 132
        ("int8:layers=2", 8_886),  # 5,120 · 131,072 / 75,520
        # 64 sequences of one block of 2 MiB take 128 MiB, of four 512 MiB.
        ("int8:tokens=1", 9_805), ("int8:tokens=16", 9_805), ("int8:tokens=64", 9_433),
        ("int8:layers=2,tokens=64", 8_441),
        ("fp8:tokens=64", 9_728),
    ],
)  # fmt: skip
def test_blocks_of_ten_gib(kv_dtype: str, blocks: int) -> None:
    plan = kv_pool(replace(TEN_GIB, kv_dtype=kv_dtype))
    assert plan.blocks == blocks
    assert plan.blocks * plan.block_bytes + plan.wide_bytes <= 10 * GIB


def test_the_wide_pool_is_taken_off_first_and_counts_as_capacity() -> None:
    plan = kv_pool(replace(TEN_GIB, kv_dtype="int8:tokens=50", null_blocks=1))
    assert (plan.wide_blocks_per_sequence, plan.wide_blocks) == (4, 64 * 4)
    assert plan.wide_bytes == 64 * 4 * BLOCK_BYTES["bf16"]
    assert plan.pool_bytes == 10 * GIB - plan.wide_bytes
    assert plan.tokens == 16 * (9_433 - 1 + 64 * 4)
    assert plan.longest_tokens == 16 * (9_433 - 1 + 4)


def test_without_wide_tokens_there_is_one_pool() -> None:
    plan = kv_pool(replace(TEN_GIB, kv_dtype="int8:layers=2"))
    assert (plan.wide_blocks_per_sequence, plan.wide_blocks, plan.wide_bytes) == (0, 0, 0)
    assert plan.tokens == plan.longest_tokens == 16 * plan.blocks


@given(
    st.sampled_from(["int8", "fp8"]), st.integers(1, 300), st.integers(1, 512),
    st.integers(1, 20_000),
)  # fmt: skip
def test_so_many_sequences_fit_and_no_more(
    dtype: str, wide_tokens: int, max_seqs: int, length: int
) -> None:
    what = replace(TEN_GIB, kv_dtype=f"{dtype}:tokens={wide_tokens}", max_seqs=max_seqs)
    wide = -(-wide_tokens // 16)
    left_bytes = 10 * GIB - max_seqs * wide * BLOCK_BYTES["bf16"]
    if left_bytes < BLOCK_BYTES[dtype]:
        with pytest.raises(UserError, match="wide KV blocks"):
            kv_pool(what)
        return
    fit = floor(kv_pool(what).sequences(length))
    beyond = max(0, -(-length // 16) - wide) * BLOCK_BYTES[dtype]
    assert fit * beyond <= left_bytes
    assert fit == max_seqs or (fit < max_seqs and (fit + 1) * beyond > left_bytes)


@given(st.integers(0, 160), st.integers(0, 160), st.integers(1, 64), st.integers(0, 16))
def test_more_in_16_bit_never_holds_more(few: int, more: int, max_seqs: int, layers: int) -> None:
    def tokens(wide_tokens: int, wide_layers: int = layers, seqs: int = max_seqs) -> int:
        kv_dtype = f"int8:layers={wide_layers},tokens={wide_tokens}"
        return kv_pool(replace(TEN_GIB, kv_dtype=kv_dtype, max_seqs=seqs)).tokens

    low, high = sorted((few, more))
    assert tokens(high) <= tokens(low)
    assert tokens(low, max(0, layers - 1)) >= tokens(low)
    assert tokens(low, seqs=max_seqs + 1) <= tokens(low)
    assert kv_pool(TEN_GIB).tokens <= tokens(high) <= 9_929 * 16


@given(st.integers(0, 300), st.integers(1, 10_000), st.integers(0, 10_000))
def test_longer_sequences_never_fit_more_often(wide_tokens: int, length: int, more: int) -> None:
    plan = kv_pool(replace(TEN_GIB, kv_dtype=f"int8:tokens={wide_tokens}"))
    assert plan.sequences(length + more) <= plan.sequences(length)


def test_sequences_within_their_wide_blocks_are_as_many_as_have_a_place() -> None:
    plan = kv_pool(replace(TEN_GIB, kv_dtype="int8:tokens=64"))
    assert plan.sequences(1) == plan.sequences(64) == 64
    assert plan.sequences(65) == 64
    assert plan.sequences(16 * (4 + 9_433)) == 1


def test_the_longest_sequence_fits_and_a_longer_one_does_not() -> None:
    what = replace(TEN_GIB, kv_dtype="int8:tokens=64")
    longest = kv_pool(what).longest_tokens
    assert kv_pool(what, longest).sequences(longest) == 1
    with pytest.raises(UserError, match=r"wide KV blocks 0\.50; .* 9,433 KV blocks of the 9,434"):
        kv_pool(what, longest + 1)


def test_a_wide_pool_that_leaves_no_block_does_not_serve_alone() -> None:
    what = replace(TEN_GIB, kv_dtype="int8:tokens=64", max_seqs=1280)
    with pytest.raises(UserError, match=r"wide KV blocks 10\.00; .* 0 KV blocks of the 1 for 1"):
        kv_pool(what)
    assert least_tp(what) == 2
