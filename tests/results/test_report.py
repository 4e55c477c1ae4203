"""The report on a terminal, and the figures, of runs from ordinary to empty."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from queues import ONE_BY_ONE, OneStep, even_ns, one_by_one, poisson_ns, turned_away
from random_runs import random_run
from rich.console import Console

from pagecast.sim.results.figures import draw_figures
from pagecast.sim.results.latency import latencies
from pagecast.sim.results.log import RunLog
from pagecast.sim.results.metrics import summarize
from pagecast.sim.results.report import print_report
from pagecast.sim.results.slo import parse_slo
from pagecast.sim.results.verdict import judge

REFUSED = turned_away(one_by_one(even_ns(0.5, 3)), np.arange(3), "context: 9,000 [of] 8,192")

RUNS = {
    "queue": one_by_one(poisson_ns(0.8, 400)),
    "saturated": one_by_one(even_ns(3.0, 400)),
    "at once": one_by_one(np.zeros(20, dtype=np.int64)),
    "preempting": random_run(5).log,
    "single": one_by_one(np.array([3])),
    "refused": REFUSED,
    "empty": one_by_one(np.array([], dtype=np.int64)),
}

runs = pytest.mark.parametrize("log", RUNS.values(), ids=RUNS)


def summary(log: RunLog) -> dict[str, Any]:
    measured = latencies(log)
    slo = parse_slo("ttft_p99=1s,itl_p99=50ms")
    return {
        **summarize(log, measured, slo, 131_072),
        "load": judge(log, measured, OneStep(), ONE_BY_ONE, "bf16").as_dict(),
        "cost": {"gpu_hours": 1.25, "per_hour": 2.0, "per_million_output_tokens": None},
        "simulation": {
            "steps": len(log.steps), "simulated_s": 9.0, "wall_s": 0.1, "version": "1", "seed": 0,
        },
        "step_time": {
            "profile": "roofline", "provenance": "analytic", "extrapolated_share": 0.0,
            "holdout_error": None,
        },
        "scenario": {
            "load": {"trace": "a.csv", "rate_scale": 2.0}, "parallel": {"tp": 2},
            "model": {"name": "llama-3.1-8b", "weight_dtype": "bf16"}, "gpu": {"name": "l4"},
            "policy": {"preset": "vllm-v1@0.33"}, "kv": {"dtype": "bf16"},
        },
    }  # fmt: skip


def printed(content: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=100)
    print_report(content, console)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def words(text: str) -> str:
    """The text as one line, without the frame."""
    return " ".join(text.replace("│", " ").split())


@runs
def test_the_report_fits_a_screen_and_opens_with_the_judgement(log: RunLog) -> None:
    content = summary(log)
    text = printed(content)
    lines = text.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert words(content["load"]["sentence"]) in words(text)
    assert content["load"]["advice"] in words(text)
    assert "nan" not in text.lower().replace("none of", "")


def test_each_row_has_one_unit_and_the_numbers_of_the_summary() -> None:
    log = one_by_one(even_ns(0.5, 100))  # every first token takes one service time of 10 ms
    text = printed(summary(log))
    row = next(line.split() for line in text.splitlines() if line.startswith("TTFT"))
    assert row[-7:] == ["ms", *["10"] * 6]
    assert "100 in all, 100 finished" in text
    assert "not calibrated: no held-out error is known" in text
    assert "a.csv at 2 times its rate · llama-3.1-8b bf16 · 2 x l4" in text
    tpot = next(line.split() for line in text.splitlines() if line.startswith("TPOT"))
    assert tpot[-6:] == ["n/a"] * 6


def test_no_latency_is_shown_where_nothing_finished() -> None:
    text = printed(summary(REFUSED))
    assert "TTFT" not in text
    assert "3 refused" in text
    assert "9,000 [of] 8,192" in words(text)


@runs
def test_figures_are_drawn_for_every_run(log: RunLog, tmp_path: Path) -> None:
    draw_figures(log, latencies(log), tmp_path)
    names = {path.stem for path in tmp_path.iterdir()}
    assert names == {"overview", "latency", "queue", "kv", "throughput"}
    overview = imread(tmp_path / "overview.png")
    assert overview.shape[1] > overview.shape[0] > 600
    for name in names - {"overview"}:
        panel = imread(tmp_path / f"{name}.png")
        assert panel.shape[0] == overview.shape[0] // 2
        assert panel.std() > 0
