"""Our columns as JSON, one object a line; prefix_ids are a list."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pagecast.traces.errors import at
from pagecast.traces.formats.own import REQUIRED, trace_of
from pagecast.traces.formats.table import Table
from pagecast.traces.schema import Trace


def matches(path: Path, head: bytes) -> bool:
    """Whether the first line looks like an object with any of the columns required."""
    first = head.lstrip().splitlines()[0]
    return first.startswith(b"{") and any(f'"{name}"'.encode() in first for name in REQUIRED)


def read(path: Path) -> Trace:
    """Read a JSONL file with our columns.

    Raises:
        TraceError: for the first line that is no object, or the first cell not accepted.
    """
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                rows.append(_object(path, number, line))
                lines.append(number)
    frame = pd.DataFrame(rows, dtype=object)
    return trace_of(Table(path, frame, np.array(lines)), "jsonl", _ids)


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """One line; decimal numbers stay exact."""
    try:
        row = json.loads(line, parse_float=Decimal, object_pairs_hook=_each_key_once)
        if b"\\u" in line:  # an escape can spell half a character, which no column can hold
            json.dumps(row, ensure_ascii=False, default=str).encode()
    except (ValueError, RecursionError) as error:
        raise at(path, number, f"is no JSON ({error})", "one JSON object a line") from None
    if not isinstance(row, dict):
        raise at(path, number, f"is {type(row).__name__}", "one JSON object a line")
    return row


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in keys if keys.count(key) > 1)} stands twice")
    return row


def _ids(cell: object) -> tuple[int, ...] | None:
    whole = isinstance(cell, list) and all(type(part) is int for part in cell)
    return tuple(cell) if isinstance(cell, list) and whole else None
