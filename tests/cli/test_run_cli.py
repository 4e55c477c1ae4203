"""`pagecast run` as a user types it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from pagecast.cli.main import main

HEADER = "arrival_s,prompt_tokens,output_tokens\n"
SAMPLE = ("--trace", "azure_conv_like", "--limit", "200")


@pytest.fixture
def pagecast(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command; gives status, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pagecast", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    return run


KEYS = {
    "requests": {"total", "finished", "refused", "failed", "cancelled", "unfinished"},
    "latency_s": {"ttft", "itl", "tpot", "e2e", "queue", "normalized"},
    "throughput": {"requests_per_s", "output_tokens_per_s", "total_tokens_per_s"},
    "goodput": {"requests_per_s", "share"},
    "kv": {"pool_blocks", "block_size", "bytes_per_token", "peak_used_share", "mean_used_share",
           "wasted_share"},
    "preemptions": {"total", "recompute", "swap", "tokens_recomputed", "bytes_swapped"},
    "prefix_cache": {"hit_tokens", "query_tokens", "hit_share"},
    "load": {"saturated", "offered_share", "binding", "advice"},
    "cost": {"gpu_hours", "per_hour", "per_million_output_tokens", "joules_per_output_token"},
    "simulation": {"steps", "simulated_s", "wall_s", "version", "seed"},
    "step_time": {"profile", "provenance", "extrapolated_share", "holdout_error"},
    "scenario": {"load", "model", "gpu", "parallel", "policy", "kv", "step_time", "slo", "seed"},
}  # fmt: skip
COLUMNS = [
    "id", "arrival_s", "prompt_tokens", "output_tokens", "state", "reason", "queue_s", "ttft_s",
    "tpot_s", "itl_p99_s", "itl_max_s", "e2e_s", "preemptions", "swaps",
    "recomputed_tokens", "cached_tokens", "replica",
]  # fmt: skip


def test_json_is_one_document_with_the_documented_keys(pagecast: Any) -> None:
    status, out, _ = pagecast("run", *SAMPLE, "--slo", "ttft_p99=1s,itl_p99=50ms", "--json")
    summary = json.loads(out)
    assert status == 0
    assert {key: keys for key, keys in KEYS.items() if not keys <= set(summary[key])} == {}
    for spread in summary["latency_s"].values():
        assert set(spread) == {"mean", "p50", "p90", "p95", "p99", "max"}
    assert summary["requests"]["total"] == summary["requests"]["finished"] == 200


def test_results_are_tables_figures_and_a_scenario_that_runs_again(
    pagecast: Any, tmp_path: Path
) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    status, out, _ = pagecast("run", *SAMPLE, "--low-watermark", 0.02, "--out", first)
    assert status == 0
    assert "Not saturated" in out
    frame = pd.read_parquet(first / "requests.parquet")
    assert list(frame.columns)[: len(COLUMNS)] == COLUMNS
    assert len(pd.read_parquet(first / "steps.parquet")) > 200
    assert (first / "overview.png").exists()
    assert pagecast("run", first / "scenario.yaml", "--out", again)[0] == 0
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (first, again)]
    for summary in summaries:
        del summary["simulation"]["wall_s"]
    assert summaries[0] == summaries[1]
    pd.testing.assert_frame_equal(frame, pd.read_parquet(again / "requests.parquet"))


def test_options_win_over_the_file_and_set_over_both(pagecast: Any, tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump({
        "load": {"trace": "azure_conv_like", "limit": 20},
        "model": {"name": "llama-3.1-8b"}, "gpu": {"name": "h100"},
        "policy": {"preset": "vllm-v1@0.11", "max_seqs": 7},
    }))  # fmt: skip
    status, out, _ = pagecast("run", file, "--max-seqs", 8, "--set", "load.limit=10", "--json")
    scenario = json.loads(out)["scenario"]
    assert status == 0
    assert scenario["gpu"]["name"] == "h100"
    assert scenario["policy"]["preset"] == "vllm-v1@0.11"
    assert scenario["policy"]["max_seqs"] == 8
    assert scenario["load"]["limit"] == 10


@pytest.mark.parametrize(
    "change",
    [("--preset", "static"), ("--gpu", "h100"), ("--kv-dtype", "fp8"), ("--max-model-len", "9000")],
    ids=lambda change: change[0],
)
def test_a_written_scenario_with_one_change_runs_as_if_typed_anew(
    pagecast: Any, tmp_path: Path, change: tuple[str, str]
) -> None:
    """What followed from the old choice (blocks, limits, price) must follow from the new one."""
    assert pagecast("run", *SAMPLE, "--out", tmp_path / "run")[0] == 0
    again = json.loads(pagecast("run", tmp_path / "run/scenario.yaml", *change, "--json")[1])
    anew = json.loads(pagecast("run", *SAMPLE, *change, "--json")[1])
    for summary in (again, anew):
        del summary["simulation"]["wall_s"]
    assert again == anew


def test_notes_reach_the_reader(pagecast: Any) -> None:
    _, out, _ = pagecast("run", *SAMPLE, "--kv-blocks", 2000)
    text = " ".join(out.split())
    assert "vLLM would not start without --max-model-len" in text
    assert "3,800 requests after the first 200 left out" in text


def test_what_does_not_fit_is_counted_and_explained(pagecast: Any, tmp_path: Path) -> None:
    """50 blocks, 49 of them usable: prompts of 1,002 tokens need 63."""
    trace = tmp_path / "trace.csv"
    trace.write_text(HEADER + "0,20,10\n" * 10 + "0,1002,10\n" * 5)
    status, out, _ = pagecast("run", "--trace", trace, "--kv-blocks", 50, "--json")
    requests = json.loads(out)["requests"]
    assert status == 0
    assert (requests["finished"], requests["refused"]) == (10, 5)
    status, out, _ = pagecast("run", "--trace", trace, "--kv-blocks", 50)
    assert "needs 63 blocks, the pool has 49" in " ".join(out.split())


def test_when_nothing_is_served_no_latency_is_shown(pagecast: Any, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(HEADER + "0,5000,10\n" * 3)
    status, out, _ = pagecast("run", "--trace", trace, "--max-model-len", 4096, "--json")
    summary = json.loads(out)
    assert status == 0
    assert summary["requests"]["refused"] == 3
    assert summary["latency_s"]["ttft"]["mean"] is None
    assert "No answer" in summary["load"]["sentence"]
    assert "context" in summary["load"]["sentence"]


MISTAKES = {
    "--preset vllm-v1@0.20": "unknown preset 'vllm-v1@0.20'; did you mean",
    "--model llama3-8b": "unknown model 'llama3-8b'; did you mean llama-3.1-8b",
    "--gpu a100": "unknown gpu 'a100'; did you mean a100-40gb or a100-80gb?",
    "--low-watermark 1": "policy.low_watermark: 1.0",
    "--low-watermark -0.1": "policy.low_watermark: -0.1",
    "--max-batched-tokens 100": "policy.max_batched_tokens: 100 is below max_seqs 256",
    "--max-seqs 0": "policy.max_seqs: 0",
    "--max-seqs many": "--max-seqs",
    "--limit 0": "load.limit: 0",
    "--rate-scale 0": "load.rate_scale: 0",
    "--tp 3": "tp: 3 does not divide",
    "--model llama-3.1-70b": "needs at least TP 2",
    "--kv-dtype fp4": "kv.dtype: 'fp4'",
    "--preemption never": "preemption never needs a reserve",
    "--refuse-above 0.9": "--refuse-above: '0.9'",
    "--slo ttft=1s": "slo: unknown key 'ttft'",
    "--set policy.lowwatermark=0.1": "did you mean low_watermark",
    "--set policy.low_watermark=high": "policy.low_watermark: 'high'; accepted: ",
    "--set load.rate=3": "load.rate: unknown key",
    "--set novalue": "--set novalue: no assignment",
    "--max-model-len 200000": "exceeds the context of llama-3.1-8b",
    "--trace nowhere.csv": "nowhere.csv: No such file",
    "--bogus": "No such option",
}


@pytest.mark.parametrize("arguments", MISTAKES)
def test_a_mistake_is_one_line_and_status_two(pagecast: Any, arguments: str) -> None:
    status, out, err = pagecast("run", *SAMPLE, *arguments.split())
    assert status == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert MISTAKES[arguments] in err


def test_a_foreign_folder_is_left_alone(pagecast: Any, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    status, _, err = pagecast("run", *SAMPLE, "--out", tmp_path)
    assert status == 2
    assert "left alone" in err
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_scenario_that_is_no_yaml(pagecast: Any, tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    for text, line in (("a: [", "not YAML"), ("just text", "holds no keys")):
        file.write_text(text)
        status, _, err = pagecast("run", file)
        assert status == 2
        assert line in err


def test_describe_prints_what_was_read(pagecast: Any, tmp_path: Path) -> None:
    status, out, _ = pagecast("trace", "describe", "azure_conv_like", "--json")
    facts = json.loads(out)
    assert status == 0
    assert facts["source"]["rows_read"] == facts["requests"] == 4_000
    status, out, _ = pagecast("trace", "describe", "azure_conv_like", "--out", tmp_path)
    assert status == 0
    assert "gap CV" in out
    assert (tmp_path / "trace.png").exists()


def test_version_and_help(pagecast: Any) -> None:
    assert pagecast("--version")[1].startswith("pagecast ")
    assert "run" in pagecast()[1]
