"""Reading a KV cache of mixed types, counted token by token and layer by layer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagecast.engine.core.step import StepShape
from pagecast.engine.specs.gpus import gpu
from pagecast.engine.specs.models import model
from pagecast.sim.steptime.analytic import AnalyticModel

LAYER_BYTES = {"wide": 2 * 8 * 128 * 2, "int8": 2 * 8 * (128 + 4)}


def kv_read_s(name: str, kv_dtype: str, sequences: int, context: int) -> float:
    shape = StepShape()
    shape.decode_seqs = shape.sampled_rows = sequences
    shape.decode_context_tokens = sequences * context
    return AnalyticModel(model(name), gpu("h100"), kv_dtype=kv_dtype).explain(shape)["kv_read"]


@given(st.integers(1, 64), st.integers(1, 500), st.integers(0, 16), st.integers(0, 300))
def test_each_token_of_each_layer_costs_its_bytes(
    sequences: int, context: int, wide_layers: int, wide_tokens: int
) -> None:
    lead = -(-wide_tokens // 16) * 16
    read_bytes = 0
    for layer in range(32):
        outer = layer < wide_layers or layer >= 32 - wide_layers
        wide = context if outer else min(context, lead)
        read_bytes += wide * LAYER_BYTES["wide"] + (context - wide) * LAYER_BYTES["int8"]
    kv_dtype = f"int8:layers={wide_layers},tokens={wide_tokens}"
    mixed = kv_read_s("llama-3.1-8b", kv_dtype, sequences, context)
    ratio = mixed / kv_read_s("llama-3.1-8b", "bf16", sequences, context)
    assert ratio == pytest.approx(read_bytes / (context * 131_072))


@given(st.integers(1, 64), st.integers(1, 500), st.integers(0, 300))
def test_a_window_reads_of_the_first_tokens_what_it_covers(
    sequences: int, context: int, wide_tokens: int
) -> None:
    # gpt-oss-120b: half of the 36 layers see the last 128 tokens; K and V of a head of 64 take 256
    # bytes in 16 bit and 128 in fp8.
    lead = -(-wide_tokens // 16) * 16
    read_bytes = wide_bytes = 0
    for first in (0, max(0, context - 128)):
        read_bytes += sum(256 if place < lead else 128 for place in range(first, context))
        wide_bytes += 256 * (context - first)
    mixed = kv_read_s("gpt-oss-120b", f"fp8:tokens={wide_tokens}", sequences, context)
    ratio = mixed / kv_read_s("gpt-oss-120b", "bf16", sequences, context)
    assert ratio == pytest.approx(read_bytes / wide_bytes)


def test_prefills_read_earlier_chunks_as_decodes_do() -> None:
    llama = AnalyticModel(model("llama-3.1-8b"), gpu("h100"), kv_dtype="int8:tokens=64")
    chunk, decode = StepShape(), StepShape()
    chunk.add_chunk(start=1000, tokens=1)
    decode.decode_seqs, decode.decode_context_tokens = 1, 1000
    assert llama.explain(chunk)["kv_read"] == llama.explain(decode)["kv_read"]


@given(st.integers(1, 64), st.integers(0, 100_000), st.integers(0, 300))
def test_a_mixture_lies_between_its_types(sequences: int, tokens: int, wide: int) -> None:
    shape = StepShape()
    shape.decode_seqs, shape.decode_context_tokens = sequences, tokens
    spec, card = model("llama-3.1-8b"), gpu("h100")
    times = [
        AnalyticModel(spec, card, kv_dtype=kv_dtype)(shape)
        for kv_dtype in ("int8", f"int8:tokens={wide}", f"int8:layers=2,tokens={wide}", "bf16")
    ]
    assert times == sorted(times)
