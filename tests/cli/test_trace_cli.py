"""`pagecast trace describe` as a user types it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pagecast.cli.main import main

HEADER = "arrival_s,prompt_tokens,output_tokens"


@pytest.fixture
def describe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command; gives status, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pagecast", "trace", "describe", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    return run


def test_the_table_says_what_was_read(describe: Any, data_dir: Path) -> None:
    file = data_dir / "traces/azure2023/AzureLLMInferenceTrace_conv.csv"
    status, out, err = describe(file)
    text = " ".join(out.split())
    assert (status, err) == (0, "")
    for published in ("read as azure, 19,366 rows", "3,501.72 s, 5.530 requests/s", "1.09",
                      "1,154.70", "211.13"):  # fmt: skip
        assert published in text


def test_json_is_one_document(describe: Any) -> None:
    status, out, _ = describe("azure_conv_like", "--json")
    assert status == 0
    assert json.loads(out)["source"]["format"] == "csv"


def test_the_format_can_be_named(describe: Any) -> None:
    status, out, err = describe("azure_conv_like", "--format", "azure")
    assert (status, out) == (2, "")
    assert "has no column TIMESTAMP" in err


def test_names_in_brackets_are_no_markup(describe: Any, tmp_path: Path) -> None:
    folder = tmp_path / "[red]"
    folder.mkdir()
    (folder / "t.csv").write_text(f"{HEADER},[/x]\n0,1,1,2\n")
    status, out, _ = describe(folder / "t.csv")
    assert status == 0
    assert "[red]/t.csv" in out.replace("\n", "")
    assert "columns not used: [/x]" in out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("nowhere.csv",), "nowhere.csv: No such file"),
        (("azure_conv_like", "--format", "parket"), "did you mean parquet"),
        (("azure_conv_like", "--out", "/dev/null"), "/dev/null: "),
    ],
)
def test_a_mistake_is_one_line(describe: Any, arguments: tuple[str, ...], line: str) -> None:
    status, out, err = describe(*arguments)
    assert (status, out) == (2, "")
    assert line in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
