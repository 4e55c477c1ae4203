"""Parts and paces of a trace."""

from __future__ import annotations

import numpy as np

from pagecast.traces import load
from pagecast.traces.schema import Trace

TRACE = Trace(
    arrival_ns=np.array([0, 10, 30]),
    prompt_tokens=np.array([1, 2, 3]),
    output_tokens=np.array([4, 5, 6]),
    request_id=["a", "b", "c"],
    prefix_ids=[(1,), (2,), ()],
    prefix_block_tokens=16,
)


def test_head_takes_every_column_and_notes_what_it_left() -> None:
    head = TRACE.head(2)
    assert head.ids() == ["a", "b"]
    assert head.prefix_ids == [(1,), (2,)]
    assert head.prompt_tokens.tolist() == [1, 2]
    assert head.source.notes == ["1 requests after the first 2 left out"]
    assert TRACE.head(3) is TRACE


def test_rate_scales_time_and_nothing_else() -> None:
    fast = TRACE.scaled_rate(2)
    assert fast.arrival_ns.tolist() == [0, 5, 15]
    assert fast.prompt_tokens is TRACE.prompt_tokens
    assert TRACE.scaled_rate(1) is TRACE


def test_ids_default_to_row_numbers() -> None:
    assert load("azure_conv_like").head(2).ids() == ["0", "1"]
