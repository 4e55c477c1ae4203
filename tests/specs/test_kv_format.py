"""Types of KV cache: their text, their bytes by arithmetic on paper, and what is no type."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagecast.engine.core.errors import UserError
from pagecast.engine.specs.geometry import kv_bytes_per_token
from pagecast.engine.specs.kv_format import KvFormat
from pagecast.engine.specs.models import model, names

LLAMA = model("llama-3.1-8b")

narrow = st.builds(
    KvFormat, st.sampled_from(["fp8", "int8"]), st.integers(0, 99), st.integers(0, 10**9 - 1)
)
plain = st.builds(KvFormat, st.sampled_from(["bf16", "fp16", "fp32"]))


@given(narrow | plain)
def test_a_format_is_read_as_it_is_written(kv_format: KvFormat) -> None:
    assert KvFormat.parse(str(kv_format)) == kv_format


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("int8", "int8"),
        ("int8:layers=2", "int8:layers=2"),
        ("fp8:tokens=64", "fp8:tokens=64"),
        ("int8:tokens=64,layers=2", "int8:layers=2,tokens=64"),
        ("int8:layers=0,tokens=0", "int8"),
        ("bf16:layers=0", "bf16"),
    ],
)
def test_parts_may_stand_in_any_order_and_be_nothing(text: str, written: str) -> None:
    assert str(KvFormat.parse(text)) == written


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("int4", "unknown kv dtype 'int4'; did you mean int8"),
        ("", "unknown kv dtype ''"),
        ("INT8:layers=2", "unknown kv dtype 'INT8'"),
        ("int8:", "''; accepted: layers=N and tokens=N"),
        ("int8:layers", "'layers'; accepted"),
        ("int8:layer=2", "'layer=2'; accepted"),
        ("int8:layers=2,", "''; accepted"),
        ("int8:layers=-1", "'layers=-1'; accepted"),
        ("int8:layers=1.5", "'layers=1.5'; accepted"),
        ("int8:tokens=٣", "'tokens=٣'; accepted"),
        ("int8:tokens=" + "9" * 5000, "accepted: layers=N and tokens=N"),
        ("int8:layers=2,layers=3", "'layers=3'; accepted: .* each once"),
        ("bf16:layers=2", "layers=2 keeps layers in 16 bit.*accepted: fp8, int8"),
        ("fp32:tokens=64", "tokens=64 keeps tokens in 16 bit.*accepted: fp8, int8"),
    ],
)
def test_nonsense_is_refused_in_one_line(text: str, line: str) -> None:
    with pytest.raises(UserError, match=line) as refused:
        KvFormat.parse(text)
    assert "\n" not in str(refused.value)


def test_counts_below_zero_are_refused() -> None:
    with pytest.raises(UserError, match="layers=-1; accepted: from 0"):
        KvFormat("int8", wide_layers=-1)


@given(st.text(max_size=20) | st.from_regex(r"(int8|bf16):[layerstokn=,0-9]{0,20}", fullmatch=True))
def test_any_text_is_a_format_or_a_mistake(text: str) -> None:
    try:
        kv_format = KvFormat.parse(text)
    except UserError:
        return
    assert KvFormat.parse(str(kv_format)) == kv_format


# Bytes per token of Llama-3.1-8B: 32 layers of 8 KV heads of 128, K and V. A layer takes
# 2·8·128·2 = 4,096 in 16 bit, 2,048 in fp8, and 2·8·(128 + 4) = 2,112 in int8.
@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("bf16", 131_072),
        ("fp16", 131_072),
        ("fp32", 262_144),
        ("fp8", 65_536),
        ("int8", 67_584),
        ("int8:layers=2", 4 * 4_096 + 28 * 2_112),
        ("fp8:layers=1", 2 * 4_096 + 30 * 2_048),
        ("int8:layers=16", 131_072),
        ("int8:tokens=64", 67_584),
        ("int8:layers=2,tokens=64", 75_520),
    ],
)
def test_bytes_per_token_of_llama(text: str, size_bytes: int) -> None:
    assert kv_bytes_per_token(LLAMA, text) == size_bytes


@pytest.mark.parametrize(("head_dim", "ratio"), [(64, 1.882), (80, 1.905), (128, 1.939)])
def test_int8_gains_less_with_small_heads(head_dim: int, ratio: float) -> None:
    spec = replace(LLAMA, head_dim=head_dim)
    gain = kv_bytes_per_token(spec) / kv_bytes_per_token(spec, "int8")
    assert gain == pytest.approx(ratio, abs=0.0005)


@pytest.mark.parametrize("name", names())
def test_each_layer_in_16_bit_costs_the_same_more_up_to_all_of_them(name: str) -> None:
    spec = model(name)
    for dtype in ("fp8", "int8"):
        sizes = [
            kv_bytes_per_token(spec, f"{dtype}:layers={n}") for n in range(1 + spec.layers // 2)
        ]
        assert len({after - before for before, after in pairwise(sizes)}) == 1
        assert sizes[0] < sizes[-1]
        assert sizes[-1] == kv_bytes_per_token(spec) or spec.layers % 2


@pytest.mark.parametrize("tp", [1, 2, 4, 8, 16, 32])
def test_ranks_divide_wide_and_narrow_layers_alike(tp: int) -> None:
    # 8 KV heads: from 8 ranks on, each has one.
    whole = kv_bytes_per_token(LLAMA, "int8:layers=3")
    assert kv_bytes_per_token(LLAMA, "int8:layers=3", tp) == whole // min(tp, 8)


def test_more_than_all_layers_are_refused() -> None:
    with pytest.raises(UserError, match=r"first and last 17 of the 32 layers.*layers=0 to 16"):
        kv_bytes_per_token(LLAMA, "int8:layers=17")


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2), (64, 4)])
def test_the_head_of_a_sequence_is_whole_blocks(tokens: int, blocks: int) -> None:
    assert KvFormat("int8", wide_tokens=tokens).wide_blocks(16) == blocks
