"""Percentiles of values that stand for many: linear interpolation, nothing expanded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pagecast.sim.results.log import Ints

Floats = NDArray[np.float64]


def weighted_percentiles(
    values: Ints | Floats, weights: Ints, percents: Sequence[float] | Floats
) -> Floats:
    """Percentiles of the list in which `values[i]` stands `weights[i]` times: [percents].

    Equal to `np.percentile(np.repeat(values, weights), percents)` to the last bit: definition 7
    of Hyndman and Fan (1996), numpy's default. NaN where all weights are 0.
    """
    order = np.argsort(values)
    ranked = values[order]
    cumulative = np.cumsum(weights[order])
    total = int(cumulative[-1]) if len(cumulative) else 0
    if total == 0:
        return np.full(len(percents), np.nan)
    at = (total - 1) * (np.asarray(percents, dtype=np.float64) / 100)
    lower = np.floor(at)
    upper = np.minimum(lower + 1, total - 1)
    below = ranked[np.searchsorted(cumulative, lower, side="right")]
    above = ranked[np.searchsorted(cumulative, upper, side="right")]
    return interpolate(below, above, at - lower)


def interpolate(below: Ints | Floats, above: Ints | Floats, share: Floats | float) -> Floats:
    """The point at `share` of the way, from the nearer end: numpy's rounding, which is monotone."""
    step = above - below
    near_above = above - step * (1 - np.asarray(share))
    point: Floats = np.where(np.asarray(share) < 0.5, below + step * share, near_above)
    return point
