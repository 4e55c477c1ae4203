"""CSV files as tables of text."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd

from pagecast.traces.errors import at
from pagecast.traces.formats.table import Table


def header(head: bytes) -> list[str]:
    """The names in the first line of a CSV file, or nothing if it is not text."""
    try:
        line = head.splitlines()[0].decode("utf-8-sig")
    except (UnicodeDecodeError, IndexError):
        return []
    return [name.strip() for name in next(csv.reader([line]), [])]


def read_table(path: Path) -> Table:
    """All cells as text; blank lines are skipped, and lines are counted in the file.

    Raises:
        TraceError: for text that is not UTF-8, or a line with other than the header's columns.
    """
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, skip_blank_lines=False,
                            encoding="utf-8-sig", index_col=False, on_bad_lines="error",
                            engine="c")  # fmt: skip
    except UnicodeDecodeError as error:
        raise at(path, None, f"is not UTF-8 ({error.reason})", "text in UTF-8") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        problem = str(error).replace("\n", " ").removeprefix("Error tokenizing data. C error: ")
        raise at(path, None, problem, "as many cells in each line as in the header") from None
    frame.columns = frame.columns.str.strip()
    lines = np.arange(2, len(frame) + 2)
    blank = (frame.fillna("").map(str.strip) == "").all(axis=1).to_numpy()
    return Table(path, frame[~blank].reset_index(drop=True), lines[~blank])
