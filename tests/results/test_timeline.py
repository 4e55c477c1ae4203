"""Averages over time against sums over every nanosecond of small random runs."""

import numpy as np
import pytest
from random_runs import random_run

from pagecast.sim.results.log import RunLog
from pagecast.sim.results.timeline import binned, bounds_ns, mean


def each_ns(log: RunLog, column: str, length: int) -> np.ndarray:
    values = np.zeros(length, dtype=np.int64)
    rows = zip(log.step("start_ns"), log.step("end_ns"), log.step(column), strict=True)
    for start, end, value in rows:
        values[start:end] = value
    return values


@pytest.mark.parametrize("seed", range(30))
def test_mean_and_extremes_of_spans(seed: int) -> None:
    log = random_run(seed).log
    start, end = bounds_ns(log)
    bins = 7
    column = each_ns(log, "used_blocks", end)
    spans = binned(log, "used_blocks", bins)
    edges = np.linspace(start, end, bins + 1)
    for at in range(bins):
        # Whole nanoseconds that the span touches; its mean counts the cut ones in part.
        touched = column[int(edges[at]) : int(np.ceil(edges[at + 1]))]
        assert spans.low[at] == touched.min()
        assert spans.high[at] == touched.max()
        cover = np.minimum(np.arange(end) + 1, edges[at + 1]) - np.maximum(
            np.arange(end), edges[at]
        )
        expected = (column * np.clip(cover, 0, 1)).sum() / (edges[at + 1] - edges[at])
        assert spans.mean[at] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_mean_between_two_times(seed: int) -> None:
    log = random_run(seed).log
    _, end = bounds_ns(log)
    middle = end // 3
    expected = each_ns(log, "kv_tokens", end)[middle:end].mean()
    assert mean(log, log.step("kv_tokens"), middle, end) == pytest.approx(expected, rel=1e-9)
