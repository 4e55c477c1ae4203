"""Writes a trace as our CSV."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from pagecast.traces.schema import Trace


def to_csv(trace: Trace) -> str:
    """The three required columns of a trace as CSV, arrival times to the microsecond."""
    text = StringIO()
    text.write("arrival_s,prompt_tokens,output_tokens\n")
    for line in _rows(trace):
        text.write(line)
    return text.getvalue()


def _rows(trace: Trace) -> Iterator[str]:
    columns = (trace.arrival_ns, trace.prompt_tokens, trace.output_tokens)
    for stamp, prompt, output in zip(*(column.tolist() for column in columns), strict=True):
        microseconds = stamp // 1000
        yield f"{microseconds // 10**6}.{microseconds % 10**6:06d},{prompt},{output}\n"
