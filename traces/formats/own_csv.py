"""Our columns as CSV; prefix_ids are whole numbers with blanks between."""

from __future__ import annotations

from pathlib import Path

from pagecast.traces.formats.own import REQUIRED, trace_of
from pagecast.traces.formats.text_csv import header, read_table
from pagecast.traces.schema import Trace


def matches(path: Path, head: bytes) -> bool:
    """Whether the first line names any of our columns that are required."""
    return bool(set(REQUIRED) & set(header(head)))


def read(path: Path) -> Trace:
    """Read a CSV file with our columns.

    Raises:
        TraceError: for the first cell that is not accepted.
    """
    return trace_of(read_table(path), "csv", _ids)


def _ids(cell: object) -> tuple[int, ...] | None:
    try:
        return tuple(int(part) for part in str(cell).split())
    except ValueError:
        return None
