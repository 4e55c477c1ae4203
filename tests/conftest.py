"""What all tests share: the folder of public data, and a loud count of what its absence skips."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ABSENT = "needs the public data that docs/data.md names: set PAGECAST_DATA to its folder"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of public traces and recordings; tests that need it are skipped without."""
    folder = Path(os.environ.get("PAGECAST_DATA") or "/nowhere")
    if not (folder / "golden").is_dir():
        pytest.skip(ABSENT)
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests the absence of data skipped: a green run must not hide them."""
    skipped = terminalreporter.stats.get("skipped", [])
    absent = sum(ABSENT in str(report.longrepr) for report in skipped)
    terminalreporter.write_line(
        f"{absent} tests skipped for want of public data (PAGECAST_DATA, docs/data.md)"
    )
