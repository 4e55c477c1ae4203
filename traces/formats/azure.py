"""The Azure LLM inference traces of 2023 and 2024: TIMESTAMP, ContextTokens, GeneratedTokens.

2023 writes 7 fraction digits and no zone, 2024 six and +00:00. Both are read to the nanosecond,
as text: a float holds no date to a tenth of a microsecond.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from pagecast.traces.formats.table import Table
from pagecast.traces.formats.text_csv import header, read_table
from pagecast.traces.schema import Ints, Source, Trace

REQUIRED = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})?(?:\+00:00)?"


def matches(path: Path, head: bytes) -> bool:
    """Whether the first line names the columns of Azure's traces."""
    return set(REQUIRED) <= set(header(head))


def read(path: Path) -> Trace:
    """Read an Azure trace; arrivals count from its first row.

    Raises:
        TraceError: for the first cell that is not accepted.
    """
    table = read_table(path)
    table.need(REQUIRED)
    stamps = _stamps(table)
    table.check_order("TIMESTAMP", stamps)
    rows = len(stamps)
    return Trace(
        arrival_ns=stamps - stamps[0],
        prompt_tokens=table.tokens("ContextTokens"),
        output_tokens=table.tokens("GeneratedTokens"),
        source=Source(str(path), "azure", rows, rows, notes=table.notes_beside(REQUIRED)),
    )


def _stamps(table: Table) -> Ints:
    """Nanoseconds since 1970, as if all stamps were UTC."""
    texts = table.columns["TIMESTAMP"]
    accepted = "2023-11-16 18:15:46.6805900, or with +00:00"
    table.refuse("TIMESTAMP", ~texts.str.fullmatch(STAMP), "is no date", accepted)
    zoned = texts.str.endswith("+00:00")
    table.refuse("TIMESTAMP", zoned != zoned.iloc[0], "mixes zones", "one zone for all rows")
    dates = pd.to_datetime(texts.str.removesuffix("+00:00"), format="ISO8601", errors="coerce")
    table.refuse("TIMESTAMP", dates.isna(), "is no date", accepted)
    return dates.to_numpy("datetime64[ns]").astype(np.int64)
