"""The trace: what was asked, when, in columns.

Times are integer nanoseconds since the first stamp, or since 0 where the file counts from 0. A
trace knows nothing of what a server made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagecast.engine.core.errors import UserError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NOT_GIVEN = -1
"""Stands for a number that the file does not name, in optional integer columns."""

LATEST_NS = 100 * 365 * 86_400 * 10**9
"""Later than any arrival in a trace that counts from its first: a century."""


@dataclass(frozen=True)
class Source:
    """Where a trace comes from, and what became of each row: read = kept + set aside."""

    path: str = ""
    format: str = ""
    rows_read: int = 0
    rows_kept: int = 0
    set_aside: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Trace:
    """Requests in the order of arrival, one array entry each; optional columns are None if absent.

    arrival_ns: never decreasing.  prompt_tokens, output_tokens: from 1 on.
    prefix_ids: per request the ids of its leading blocks of `prefix_block_tokens` tokens; equal
        ids after equal ids stand for equal tokens.
    max_tokens, predicted_tokens: NOT_GIVEN where a request names none.
    deadline_s: NaN where a request names none.
    """

    arrival_ns: Ints
    prompt_tokens: Ints
    output_tokens: Ints
    request_id: list[str] | None = None
    session: list[str] | None = None
    tenant: list[str] | None = None
    priority: Ints | None = None
    deadline_s: Floats | None = None
    max_tokens: Ints | None = None
    predicted_tokens: Ints | None = None
    prefix_ids: list[tuple[int, ...]] | None = None
    prefix_block_tokens: int | None = None
    source: Source = field(default_factory=Source)

    def __len__(self) -> int:
        return len(self.arrival_ns)

    def ids(self) -> list[str]:
        """Request ids, by default the numbers of the rows."""
        return self.request_id or [str(row) for row in range(len(self))]

    def take(self, rows: Ints | Sequence[int]) -> Trace:
        """The trace of some of the rows, in their order."""
        index = np.asarray(rows, dtype=np.int64)
        taken: dict[str, Any] = {name: _take(getattr(self, name), index) for name in COLUMNS}
        return replace(self, **taken)

    def head(self, count: int) -> Trace:
        """The first requests; the others are noted as left out."""
        if count >= len(self):
            return self
        left = len(self) - count
        note = f"{left:,} requests after the first {count:,} left out"
        source = replace(self.source, notes=[*self.source.notes, note])
        return replace(self.take(np.arange(count)), source=source)

    def scaled_rate(self, factor: float) -> Trace:
        """Arrivals `factor` times as fast: stamps divided, to the nearest nanosecond.

        The division is in double precision: beyond 104 days stamps lose single nanoseconds.

        Raises:
            UserError: if the last of them would arrive centuries later.
        """
        if factor == 1:
            return self
        stamps = self.arrival_ns / factor
        if stamps[-1] >= LATEST_NS:
            raise UserError(
                f"load.rate_scale: {factor} would let the last request arrive after "
                f"{stamps[-1] / 1e9:.3g} s; accepted: a rate with which it arrives within a century"
            )
        return replace(self, arrival_ns=np.rint(stamps).astype(np.int64))


COLUMNS = (
    "arrival_ns", "prompt_tokens", "output_tokens", "request_id", "session", "tenant", "priority",
    "deadline_s", "max_tokens", "predicted_tokens", "prefix_ids",
)  # fmt: skip
"""Fields of `Trace` that hold one entry for each request."""


def _take(column: Any, index: Ints) -> Any:
    if column is None:
        return None
    return column[index] if isinstance(column, np.ndarray) else [column[row] for row in index]
