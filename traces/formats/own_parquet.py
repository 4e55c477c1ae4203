"""Our columns as Parquet; prefix_ids are lists of integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pagecast.traces.errors import at
from pagecast.traces.formats.own import trace_of
from pagecast.traces.formats.table import Table
from pagecast.traces.schema import Trace


def matches(path: Path, head: bytes) -> bool:
    """Whether the file begins as Parquet does."""
    return head.startswith(b"PAR1")


def read(path: Path) -> Trace:
    """Read a Parquet file with our columns; its rows are counted as lines, from 1.

    Raises:
        TraceError: if it cannot be read, or for the first cell that is not accepted.
    """
    try:
        # As it is stored: no column hidden in an index, no whole number made a float by a null.
        frame: pd.DataFrame = pq.read_table(path).to_pandas(
            ignore_metadata=True, integer_object_nulls=True
        )
    except (pa.ArrowException, OSError) as error:
        raise at(path, None, f"is no Parquet that can be read ({error})", "Parquet") from None
    return trace_of(Table(path, frame, np.arange(1, len(frame) + 1)), "parquet", _ids)


def _ids(cell: object) -> tuple[int, ...] | None:
    if not isinstance(cell, np.ndarray) or (len(cell) and cell.dtype.kind not in "iu"):
        return None
    return tuple(cell.tolist())
