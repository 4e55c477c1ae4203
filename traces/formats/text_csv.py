"""CSV files as tables of text."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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
    """All cells as text, "" where a line ends early; lines are counted in the file.

    Lines without any text are skipped, and noted.

    Raises:
        TraceError: for text that is not UTF-8, a line with more cells than the header, or a
            header that names a column twice.
    """
    frame = _cells(path)
    lines = _first_lines(frame)
    blank = np.logical_and.reduce([frame[place].str.strip() == "" for place in frame])
    names = [name.strip() for name in frame.iloc[0]]
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise at(path, 1, f"names column {twice[0]} twice", "each column once")
    rows = np.flatnonzero(~blank[1:]) + 1
    skipped = len(frame) - 1 - len(rows)
    notes = (f"{skipped:,} blank lines skipped",) if skipped else ()
    return Table(path, frame.iloc[rows].set_axis(names, axis=1), lines[rows], notes)


def _cells(path: Path) -> pd.DataFrame:
    """Every line, the header too: only so does the parser refuse cells beyond the header's."""
    try:
        return pd.read_csv(path, header=None, dtype=str, keep_default_na=False,
                           skip_blank_lines=False, encoding="utf-8-sig", compression=None,
                           on_bad_lines="error", engine="c")  # fmt: skip
    except UnicodeDecodeError as error:
        raise at(path, None, f"is not UTF-8 ({error.reason})", "text in UTF-8") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        problem = str(error).replace("\n", " ").removeprefix("Error tokenizing data. C error: ")
        cells = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", problem)
        if cells:
            problem = f"has {cells[3]} cells, the header {cells[1]}"
        raise at(path, int(cells[2]) if cells else None, problem,
                 "as many cells in each line as in the header") from None  # fmt: skip


def _first_lines(frame: pd.DataFrame) -> NDArray[np.int64]:
    """The line where each row begins; a quoted cell may hold line ends of its own."""
    within = np.sum([frame[place].str.count("\n") for place in frame], axis=0, dtype=np.int64)
    return np.arange(1, len(frame) + 1) + np.cumsum(within) - within
