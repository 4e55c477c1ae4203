"""`pagecast compare` as a user types it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

from pagecast.cli.main import main
from pagecast.sim.results.store import check_target

SHARED = ("--trace", "azure_conv_like", "--limit", "60", "--kv-blocks", "700",
          "--max-model-len", "8192")  # fmt: skip
SWAPPING = ("--vary", "preemption=recompute,swap")


@pytest.fixture
def pagecast(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command; gives status, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pagecast", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    return run


def compared(pagecast: Any, *arguments: object) -> dict[str, Any]:
    status, out, err = pagecast("compare", *SHARED, *arguments, "--json")
    assert (status, err) == (0, "")
    document: dict[str, Any] = json.loads(out)
    for variant in document["variants"].values():
        del variant["summary"]["simulation"]["wall_s"]
    return document


def test_a_variant_is_what_run_makes_of_it(pagecast: Any) -> None:
    document = compared(pagecast, *SWAPPING)
    for name in ("recompute", "swap"):
        _, out, _ = pagecast("run", *SHARED, "--preemption", name, "--json")
        alone = json.loads(out)
        del alone["simulation"]["wall_s"]
        assert document["variants"][name]["summary"] == alone


def test_the_document(pagecast: Any) -> None:
    document = compared(pagecast, *SWAPPING, "--slo", "ttft_p99=1s")
    assert list(document) == [
        "baseline", "variants", "table", "sentences", "notes", "crossover",
    ]  # fmt: skip
    assert document["baseline"] == "recompute"
    rows = {row["metric"]: row for row in document["table"]}
    for metric in ("latency_s.ttft.p99", "goodput.share", "preemptions.thrash"):
        assert list(rows[metric]["values"]) == ["recompute", "swap"]
        assert rows[metric]["change_percent"]["recompute"] == 0
    assert rows["preemptions.swap"]["values"]["swap"] > 0
    assert rows["preemptions.swap"]["winner"] is None
    assert 1 <= len(document["sentences"]) <= 3
    (crossover,) = document["crossover"]
    assert crossover["tokens"] > 0
    assert "uninterrupted prefill" in crossover["assumes"]
    assert len(crossover["curve"]) == 29


def test_identical_variants_differ_in_nothing(pagecast: Any) -> None:
    document = compared(pagecast, "--variant", "one:", "--variant", "two:")
    for row in document["table"]:
        assert row["change_percent"] == {"one": 0, "two": 0}
        assert row["winner"] is None
    assert document["sentences"][0].startswith("No winner: one and two tie")
    assert "one and two are one scenario" in document["notes"]


def test_the_file_and_the_command_line_come_to_the_same(pagecast: Any, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(
        "load: {trace: azure_conv_like, limit: 60}\n"
        "model: {name: llama-3.1-8b, max_len: 8192}\n"
        "gpu: {name: a100-80gb}\n"
        "kv: {blocks: 700}\n"
        "variants:\n  recompute: {policy.preemption: recompute}\n  swap: {preemption: swap}\n"
    )
    _, out, _ = pagecast("compare", file, "--json")
    document = json.loads(out)
    for variant in document["variants"].values():
        del variant["summary"]["simulation"]["wall_s"]
    assert document == compared(pagecast, *SWAPPING)


def test_the_table_is_printed(pagecast: Any) -> None:
    status, out, _ = pagecast("compare", *SHARED, "--vary", "kv_dtype=bf16,int8")
    assert status == 0
    lines = {line[:24].strip(): line for line in out.splitlines()}
    assert "*" in lines["TTFT p99"]
    assert "%" in lines["TTFT p99"]
    assert "(baseline)" in lines["metric"]
    assert "int8 wins p99 TTFT (−" in out
    assert "not calibrated" in out
    assert out.count("cheaper than recompute from") == 2


def test_many_variants_are_printed_in_several_tables(pagecast: Any) -> None:
    _, out, _ = pagecast("compare", *SHARED, "--vary", "seed=1,2,3,4,5,6,7,8,9")
    assert out.count("TTFT p50") > 1
    assert all(f"seed={seed}" in out for seed in range(1, 10))
    assert "…" not in out


def test_the_folder(pagecast: Any, tmp_path: Path) -> None:
    target = tmp_path / "study"
    status, out, _ = pagecast("compare", *SHARED, *SWAPPING, "--out", target)
    assert status == 0
    assert f"written to {target}" in out.replace("\n", "")
    assert sorted(path.name for path in target.iterdir()) == [
        ".pagecast", "compare.json", "crossover.png", "latency.png", "over_time.png",
        "recompute", "swap",
    ]  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["study"]
    check_target(target)  # a later comparison may replace it
    document = json.loads((target / "compare.json").read_text())
    for name in ("recompute", "swap"):
        summary = json.loads((target / name / "summary.json").read_text())
        assert summary == document["variants"][name]["summary"]
        assert (target / name / "requests.parquet").exists()
    assert pagecast("run", target / "swap/scenario.yaml", "--json")[0] == 0
    assert all(imread(target / f"{name}.png").std() > 0.05 for name in ("latency", "crossover"))


def test_where_nothing_is_served_there_is_still_a_result(pagecast: Any, tmp_path: Path) -> None:
    status, out, _ = pagecast(
        "compare", *SHARED, *SWAPPING, "--max-model-len", 16, "--out", tmp_path / "study"
    )
    assert status == 0
    assert "n/a" not in out
    assert "latencies leave out 60 of 60 requests" in " ".join(out.split())
    assert (tmp_path / "study/latency.png").exists()


def test_an_error_half_way_leaves_no_folder(pagecast: Any, tmp_path: Path) -> None:
    status, _, err = pagecast(
        "compare", *SHARED, *SWAPPING, "--set", "load.trace=nowhere.csv", "--out", tmp_path / "x"
    )
    assert status == 2
    assert "variant recompute: " in err
    assert "nowhere.csv" in err
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_folder_is_left_alone(pagecast: Any, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    status, _, err = pagecast("compare", *SHARED, *SWAPPING, "--out", tmp_path)
    assert status == 2
    assert "left alone" in err


MISTAKES = {
    "": "no variants to compare; accepted: two or more",
    "--vary seed=1": "one variant to compare",
    "--vary kv_block=1,2": "unknown key 'kv_block'; did you mean kv_blocks",
    "--vary rate_scale=1,2": "rate_scale: variants serve the same load",
    "--vary preset=pagecast,vllm-v9": "variant vllm-v9: unknown preset",
    "--vary seed=1,2 --gpu a100": "unknown gpu 'a100'",
    "--vary seed=1,2 --bogus": "No such option",
}


@pytest.mark.parametrize("arguments", MISTAKES)
def test_a_mistake_is_one_line_and_status_two(pagecast: Any, arguments: str) -> None:
    status, out, err = pagecast("compare", *SHARED, *arguments.split())
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert MISTAKES[arguments] in err
