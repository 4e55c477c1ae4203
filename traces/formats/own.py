"""Our own columns, the same in CSV, JSONL and Parquet."""

from __future__ import annotations

from collections.abc import Callable

from pagecast.traces.formats.table import Table, prefix_ids
from pagecast.traces.schema import Source, Trace

REQUIRED = ("arrival_s", "prompt_tokens", "output_tokens")
OPTIONAL = (
    "request_id", "session", "tenant", "priority", "deadline_s", "max_tokens", "predicted_tokens",
    "prefix_ids", "prefix_block_tokens",
)  # fmt: skip


def trace_of(
    table: Table, format: str, parse_ids: Callable[[object], tuple[int, ...] | None]
) -> Trace:
    """The trace in a table with our columns; columns that we do not know are noted.

    Raises:
        TraceError: for the first cell that is not accepted.
    """
    table.need(REQUIRED)
    stamps, rounded = table.seconds_to_ns("arrival_s")
    table.check_order("arrival_s", stamps)
    prompt_tokens = table.tokens("prompt_tokens")
    ids, block_tokens = prefix_ids(table, prompt_tokens, parse_ids)
    rows = len(stamps)
    return Trace(
        arrival_ns=stamps,
        prompt_tokens=prompt_tokens,
        output_tokens=table.tokens("output_tokens"),
        request_id=table.optional_texts("request_id"),
        session=table.optional_texts("session"),
        tenant=table.optional_texts("tenant"),
        priority=table.optional_whole("priority", 0, "a whole number from 0, or nothing"),
        deadline_s=table.optional_seconds("deadline_s"),
        max_tokens=table.optional_whole("max_tokens", 1, "a whole number from 1, or nothing"),
        predicted_tokens=table.optional_whole("predicted_tokens", 1, "from 1, or nothing"),
        prefix_ids=ids,
        prefix_block_tokens=block_tokens,
        source=Source(str(table.path), format, rows, rows, notes=_notes(table, rounded)),
    )


def _notes(table: Table, rounded: int) -> list[str]:
    digits = f"{rounded:,} arrival times rounded to whole nanoseconds"
    return [*([digits] if rounded else []), *table.notes_beside((*REQUIRED, *OPTIONAL))]
