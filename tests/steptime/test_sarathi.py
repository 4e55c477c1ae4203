"""Hybrid steps and chunked prefills against Sarathi-Serve (Agrawal et al., OSDI 2024).

Yi-34B on two A100 80GB, from the artifact (microsoft/sarathi-serve, osdi-experiments, table 2 and
figure 9). Its GPUs are PCIe cards joined by NVLink in pairs, slower than the datasheet used here,
so that ratios are compared; the goal is a tenth.

Measured, a prefill of 2,048 tokens takes some 180 us a token, a step of 512 or 1,024 some 210: with
few rows, tiles fill the GPU badly. `waves` has it for 512 rows, and too little of it for 1,024; and
that a whole prefill of 16,383 tokens was slower than its pieces is not modelled at all. What rests
on these misses the goal and is marked.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from pagecast.engine.core.step import StepShape
from pagecast.engine.specs.gpus import gpu
from pagecast.engine.specs.models import ModelSpec
from pagecast.sim.steptime.analytic import AnalyticModel

YI_34B = ModelSpec(
    name="yi-34b", source="01-ai/Yi-34B-200K", layers=60, hidden=7168, heads=56, kv_heads=8,
    head_dim=128, vocab=64_000, max_position=200_000, intermediate=20_480,
)  # fmt: skip
LATENCY = AnalyticModel(YI_34B, gpu("a100-80gb"), tp=2)
GOAL = 0.10

LENGTHS, CHUNKS = (2047, 4095, 8191, 16_383), (512, 1024, 2048)
ROWS = "a step of 1,024 tokens takes a sixth more a token than one of 2,048; ours a twentieth"
WHOLE = "a whole prefill of more than 8,192 tokens is slower a token than its pieces, not so here"
MISSES = dict.fromkeys([(2047, 1024), (4095, 1024)], ROWS)
MISSES |= dict.fromkeys([(8191, 2048), (16_383, 512), (16_383, 1024), (16_383, 2048)], WHOLE)


def step_ms(tokens: int, earlier: int = 0, decodes: int = 0, context: int = 0) -> float:
    """A step with one piece of a prompt, after so many earlier tokens of it, and some decodes."""
    shape = StepShape()
    shape.add_chunk(earlier, tokens)
    shape.decode_seqs, shape.decode_context_tokens = decodes, decodes * context
    shape.sampled_rows = 1 + decodes
    return LATENCY(shape) / 1e6


def prefill_ms(length: int, chunk: int) -> float:
    """A prompt in pieces, one a step."""
    starts = range(0, length, chunk)
    return sum(step_ms(min(chunk, length - start), start) for start in starts)


def measured_ms(data_dir: Path) -> dict[tuple[int, int], float]:
    """Time of a whole prefill by its length and the size of its pieces."""
    table = data_dir / "profiles/sarathi_osdi/figure-9_chunking-overhead.csv"
    with table.open(encoding="utf-8") as file:
        return {
            (int(row["prefill_length"]), int(row["chunk_size"])): float(
                row["prefill_execution_time"]
            )
            for row in csv.DictReader(file)
        }


# The artifact's requests have prompts of 1,024 tokens and answers of 16.
@pytest.mark.parametrize("context", [1024, 1040])
def test_decodes_ride_along_with_a_prefill(context: int) -> None:
    hybrid, alone = step_ms(1021, decodes=3, context=context), step_ms(1024)
    assert hybrid / alone == pytest.approx(217.6 / 217.2, rel=0.03)
    assert alone == pytest.approx(217.2, rel=0.25)


def test_pieces_cost_more_than_the_whole() -> None:
    for length in LENGTHS:
        times_ms = [prefill_ms(length, chunk) for chunk in (*CHUNKS, length)]
        assert times_ms == sorted(times_ms, reverse=True)


@pytest.mark.parametrize(("length", "overhead"), [(2047, 1.15), (4095, 1.19)])
def test_pieces_of_512_cost_15_to_19_percent(length: int, overhead: float) -> None:
    ours = prefill_ms(length, 512) / prefill_ms(length, length)
    assert ours == pytest.approx(overhead, rel=GOAL)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("chunk", CHUNKS)
def test_pieces_against_the_whole(
    length: int, chunk: int, data_dir: Path, request: pytest.FixtureRequest
) -> None:
    if (length, chunk) in MISSES:
        request.applymarker(pytest.mark.xfail(reason=MISSES[length, chunk], strict=True))
    measured = measured_ms(data_dir)
    overhead = measured[length, chunk] / measured[length, 16_384]
    ours = prefill_ms(length, chunk) / prefill_ms(length, 16_384)
    assert ours == pytest.approx(overhead, rel=GOAL)


@pytest.mark.parametrize("length", LENGTHS)
def test_small_pieces_against_pieces_twice_as_large(length: int, data_dir: Path) -> None:
    """Measured, they come to the same; ours pay 7 to 15 % more for pieces of 512."""
    measured = measured_ms(data_dir)
    ours = prefill_ms(length, 512) / prefill_ms(length, 1024)
    assert ours == pytest.approx(measured[length, 512] / measured[length, 1024], rel=0.15)
