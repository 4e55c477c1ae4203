"""How the command ends when the system, not the simulator, says no."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MEMORY = ["memory", "--model", "llama-3.1-8b", "--gpu", "a100-80gb", "--json"]
RUN = ["run", "--trace", "azure_conv_like", "--limit", "20", "--model", "llama-3.1-8b",
       "--gpu", "a100-80gb"]  # fmt: skip


def pagecast(arguments: list[str], stdout: int) -> subprocess.CompletedProcess[str]:
    # Buffered, as a user's terminal has it: unbuffered output hides what the last flush meets.
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [sys.executable, "-c", "from pagecast.cli.main import main; main()", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=buffered,
    )


@pytest.mark.parametrize("arguments", [MEMORY, ["--help"], [*RUN, "--json"]])
def test_a_reader_that_left_is_met_with_silence(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = pagecast(arguments, writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = pagecast(MEMORY, full.fileno())
    assert done.returncode == 2
    assert done.stderr == "error: No space left on device\n"


def test_a_result_below_a_file_is_one_line_with_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "result"
    done = pagecast([*RUN, "--out", str(target)], subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert str(tmp_path / "file") in done.stderr


def test_a_group_without_a_command_says_what_is_missing() -> None:
    done = pagecast(["trace"], subprocess.PIPE)
    assert done.stderr.strip() != "error:"
