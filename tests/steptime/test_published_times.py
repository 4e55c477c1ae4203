"""The analytic model against public measurements.

Whole steps of an A100 as sums of measured kernels (public kernel tables, Llama-3.1-8B in bf16), and
single layers (profiles of Vidur, microsoft/vidur). A roofline from datasheets is expected within a
quarter, except where kernels meet the ridge between bandwidth and arithmetic (some 64 to 256
tokens).
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from pagecast.engine.core.step import StepShape
from pagecast.engine.specs.gpus import gpu
from pagecast.engine.specs.models import model
from pagecast.sim.steptime.analytic import AnalyticModel

LAYER_COLUMNS = (
    "input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj", "post_attention_layernorm",
    "mlp_up_proj", "mlp_act", "mlp_down_proj", "add", "add",
)  # fmt: skip
"""What a layer computes beside attention; it adds to the residual twice."""


def shape(prefill_tokens: int = 0, sequences: int = 0, context: int = 0) -> StepShape:
    step = StepShape()
    if prefill_tokens:
        step.add_chunk(0, prefill_tokens)
        step.sampled_rows = 1
    step.decode_seqs = sequences
    step.decode_context_tokens = sequences * context
    step.sampled_rows += sequences
    return step


@pytest.mark.parametrize(
    ("step", "measured_ms"),
    [
        (shape(sequences=1, context=1024), 11.05),
        (shape(sequences=32, context=2048), 18.08),
        (shape(sequences=64, context=4096), 32.32),
        (shape(prefill_tokens=2048), 115.6),
    ],
    ids=["1 x 1024", "32 x 2048", "64 x 4096", "prefill 2048"],
)
def test_whole_steps_on_an_a100(step: StepShape, measured_ms: float) -> None:
    terms = AnalyticModel(model("llama-3.1-8b"), gpu("a100-80gb")).explain(step)
    device_ms = (sum(terms.values()) - terms["host"]) * 1e3
    assert device_ms == pytest.approx(measured_ms, rel=0.25)


@pytest.mark.parametrize(
    ("name", "folder", "tp"),
    [
        ("llama-3.1-8b", "Meta-Llama-3-8B", 1),
        ("llama-2-7b", "Llama-2-7b-hf", 1),
        ("llama-2-70b", "Llama-2-70b-hf", 1),
        ("llama-2-70b", "Llama-2-70b-hf", 4),
    ],
)
def test_layers_without_attention_on_an_a100(
    name: str, folder: str, tp: int, data_dir: Path
) -> None:
    spec = model(name)
    latency = AnalyticModel(spec, gpu("a100-80gb"), tp=tp)
    measured_ms = layer_times_ms(data_dir / "profiles/vidur_a100" / folder / "mlp.csv", tp)
    for tokens in (1, 8, 512, 1024, 2048, 4096):
        step = shape(prefill_tokens=tokens)
        step.sampled_rows = 0
        terms = latency.explain(step)
        forecast_ms = (terms["weights"] + terms["compute"] + terms["launch"]) * 1e3
        assert forecast_ms == pytest.approx(spec.layers * measured_ms[tokens], rel=0.25), tokens


def layer_times_ms(table: Path, tp: int) -> dict[int, float]:
    """Median time of one layer without attention, by number of tokens."""
    with table.open(encoding="utf-8") as file:
        return {
            int(row["num_tokens"]): sum(
                float(row[f"time_stats.{column}.median"]) for column in LAYER_COLUMNS
            )
            for row in csv.DictReader(file)
            if int(row["num_tensor_parallel_workers"]) == tp
        }
