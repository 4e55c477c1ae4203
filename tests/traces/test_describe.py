"""Statistics of traces: published ones, closed forms, and the sample against its model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pagecast.traces import load, sample_path
from pagecast.traces.describe import describe
from pagecast.traces.figure import draw_trace
from pagecast.traces.samples.__main__ import texts
from pagecast.traces.schema import Trace
from pagecast.traces.synth import conversation


def test_the_azure_conversation_trace(data_dir: Path) -> None:
    facts = describe(load(data_dir / "traces/azure2023/AzureLLMInferenceTrace_conv.csv"))
    assert facts["requests_per_s"] == pytest.approx(5.530, abs=0.0005)
    assert facts["gap_cv"] == pytest.approx(1.09, abs=0.005)
    source = facts["source"]
    assert source["rows_read"] == source["rows_kept"] + sum(source["set_aside"].values())


def test_a_poisson_process_has_variation_and_dispersion_one() -> None:
    gaps = np.random.default_rng(1).exponential(5e7, 100_000)
    ones = np.ones(len(gaps), dtype=np.int64)
    facts = describe(Trace(np.cumsum(gaps).astype(np.int64), ones, ones))
    assert facts["gap_cv"] == pytest.approx(1, abs=0.02)
    assert facts["index_of_dispersion"]["1s"] == pytest.approx(1, abs=0.06)
    assert facts["requests_per_s"] == pytest.approx(20, rel=0.01)


def test_prefix_hits_of_an_unlimited_cache() -> None:
    """The second request repeats two blocks; the third's block differs in what precedes it."""
    trace = Trace(
        arrival_ns=np.array([0, 1, 2]),
        prompt_tokens=np.array([48, 40, 20]),
        output_tokens=np.array([1, 1, 1]),
        prefix_ids=[(1, 2, 3), (1, 2, 9), (2, 3)],
        prefix_block_tokens=16,
    )
    assert describe(trace)["prefix_hit_share"] == pytest.approx(32 / 108)


def test_prefix_hits_of_mooncake(data_dir: Path, tmp_path: Path) -> None:
    """The share that is known of its synthetic trace: 65.12 % of the prompt tokens."""
    names = {"input_length": "prompt_tokens", "output_length": "output_tokens",
             "hash_ids": "prefix_ids"}  # fmt: skip
    rows = pd.read_json(data_dir / "traces/mooncake/synthetic_trace.jsonl", lines=True)
    rows = rows.rename(columns=names).assign(
        arrival_s=rows["timestamp"] / 1000, prefix_block_tokens=512
    )
    rows.to_json(tmp_path / "trace.jsonl", orient="records", lines=True)
    facts = describe(load(tmp_path / "trace.jsonl"))
    assert facts["prefix_hit_share"] == pytest.approx(0.6512, abs=0.00005)
    assert facts["prompt_tokens"]["mean"] == pytest.approx(15_325.48, abs=0.005)


def test_dispersion_is_variance_by_mean_of_counts_in_windows() -> None:
    """Against the counts of all windows one by one, most of them empty."""
    stamps = np.sort(np.random.default_rng(3).integers(0, 2_000, 300)) * 10**9
    ones = np.ones(300, dtype=np.int64)
    since = (stamps - stamps[0]) // 10**9
    counts = [int((since == second).sum()) for second in range(int(since[-1]))]
    expected = np.var(counts) / np.mean(counts)
    assert describe(Trace(stamps, ones, ones))["index_of_dispersion"]["1s"] == pytest.approx(
        expected
    )


def test_stamps_half_a_century_apart_are_described() -> None:
    """Two arrivals in a billion windows: rare events, whose dispersion is that of a Poisson."""
    one = np.array([1, 1])
    facts = describe(Trace(np.array([0, 1_700_000_000 * 10**9]), one, one))
    assert facts["index_of_dispersion"]["1s"] == pytest.approx(1)


def test_one_request_has_no_rate() -> None:
    one = np.array([1])
    facts = describe(Trace(np.array([5]), one, one))
    assert facts["requests_per_s"] is None
    assert facts["gap_cv"] is None
    assert facts["index_of_dispersion"] == {"1s": None, "10s": None, "60s": None}


def test_the_bundled_sample_is_what_its_generator_makes() -> None:
    for name, text in texts().items():
        assert sample_path(name).read_text() == text


def test_the_sample_follows_the_azure_trace(data_dir: Path) -> None:
    real = describe(load(data_dir / "traces/azure2023/AzureLLMInferenceTrace_conv.csv"))
    ours = describe(load("azure_conv_like"))
    assert ours["requests_per_s"] == pytest.approx(real["requests_per_s"], rel=0.05)
    assert ours["gap_cv"] == pytest.approx(real["gap_cv"], rel=0.05)
    for lengths in ("prompt_tokens", "output_tokens"):
        for statistic in ("mean", "p50", "p90", "p95", "p99"):
            assert ours[lengths][statistic] == pytest.approx(real[lengths][statistic], rel=0.05)


def test_quantities_are_drawn_apart() -> None:
    trace = conversation(20_000, seed=5)
    lengths = np.corrcoef(trace.prompt_tokens, trace.output_tokens)[0, 1]
    gaps = np.corrcoef(np.diff(trace.arrival_ns), trace.prompt_tokens[1:])[0, 1]
    assert abs(lengths) < 0.03
    assert abs(gaps) < 0.03


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    draw_trace(load("azure_conv_like"), tmp_path / "trace.png")
    assert (tmp_path / "trace.png").read_bytes().startswith(b"\x89PNG")
