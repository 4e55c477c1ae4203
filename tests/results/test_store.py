"""Result folders: all or nothing, and nobody else's."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from pagecast.engine.core.errors import UserError
from pagecast.sim.results.store import check_target, load_summary, save_results, to_json

SUMMARY = {"requests": {"total": np.int64(3)}, "latency_s": {"ttft": {"p99": float("nan")}}}
SCENARIO = {"model": {"name": "llama-3.1-8b"}, "seed": 0}


def save(target: Path, mark: int = 1, draw: Callable[[Path], object] = lambda folder: None) -> None:
    frames = {"requests": pd.DataFrame({"id": ["a", "b"], "ttft_s": [0.5, np.nan]})}
    save_results(target, {**SUMMARY, "mark": mark}, SCENARIO, frames, draw)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    target = tmp_path / "runs" / "one"
    save(target, draw=lambda folder: (folder / "overview.png").write_bytes(b"png"))
    assert sorted(path.name for path in target.iterdir()) == [
        ".pagecast", "overview.png", "requests.parquet", "scenario.yaml", "summary.json",
    ]  # fmt: skip
    summary = load_summary(target)
    assert summary == load_summary(target / "summary.json")
    assert summary["requests"]["total"] == 3
    assert summary["latency_s"]["ttft"]["p99"] is None
    assert yaml.safe_load((target / "scenario.yaml").read_text()) == SCENARIO
    assert pd.read_parquet(target / "requests.parquet")["ttft_s"].isna().tolist() == [False, True]


def test_an_earlier_result_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "run"
    save(target, 1, lambda folder: (folder / "old.png").touch())
    save(target, 2)
    assert load_summary(target)["mark"] == 2
    assert not (target / "old.png").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    save(tmp_path / "run")
    assert load_summary(tmp_path / "run")["mark"] == 1


@pytest.mark.parametrize("name", ["thesis.tex", "summary.json"])
def test_a_foreign_folder_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    for write in (check_target, save):
        with pytest.raises(UserError, match="left alone; accepted: ") as error:
            write(tmp_path)
        assert "\n" not in str(error.value)
    assert (tmp_path / name).read_text() == "{}"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(UserError, match="is a file"):
        save(tmp_path / "run")
    assert (tmp_path / "run").read_text() == "mine"


def test_an_error_half_way_leaves_the_earlier_result(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        assert (folder / "requests.parquet").exists()
        raise RuntimeError("no ink")

    save(tmp_path / "run", 1)
    with pytest.raises(RuntimeError, match="no ink"):
        save(tmp_path / "run", 2, fail)
    assert load_summary(tmp_path / "run")["mark"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


KILLED = """
import os, signal, sys
from pathlib import Path
from pagecast.sim.results.store import save_results
save_results(Path(sys.argv[1]), {"requests": {}}, {}, {},
             lambda folder: os.kill(os.getpid(), signal.SIGKILL))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
@pytest.mark.parametrize("earlier", [True, False])
def test_a_killed_run_leaves_no_half_result(tmp_path: Path, earlier: bool) -> None:
    target = tmp_path / "run"
    if earlier:
        save(target, 7)
    command = [sys.executable, "-c", KILLED, str(target)]
    killed = subprocess.run(command, env=dict(os.environ), check=False)
    assert killed.returncode == -signal.SIGKILL
    if earlier:
        assert load_summary(target)["mark"] == 7
    else:
        assert not target.exists()
    save(target, 8)
    assert load_summary(target)["mark"] == 8


@pytest.mark.parametrize(
    ("text", "why"), [(None, "No such file"), ("{", "not JSON"), ("[1]", "no summary")]
)
def test_what_is_no_result_is_told_in_one_line(tmp_path: Path, text: str | None, why: str) -> None:
    if text is not None:
        (tmp_path / "summary.json").write_text(text)
    with pytest.raises(UserError, match=why) as error:
        load_summary(tmp_path)
    assert "\n" not in str(error.value)


def test_json_knows_no_nan() -> None:
    document = {
        "a": [np.nan, float("inf"), np.float64(-np.inf), (1, np.int64(2))],
        "b": {"c": np.bool_(True), "d": "µ"},
    }
    text = to_json(document)
    assert json.loads(text) == {"a": [None, None, None, [1, 2]], "b": {"c": True, "d": "µ"}}
    assert "NaN" not in text
    assert "Infinity" not in text
