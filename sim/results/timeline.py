"""Step columns as functions of time: averages over intervals, exact and without sampling.

A column holds during its step and is 0 while nothing runs. Its integral is then piecewise linear
in time, with corners at the starts and ends of steps, so that any average is one interpolation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pagecast.sim.results.log import Ints, RunLog
from pagecast.sim.results.quantiles import Floats


class Bins(NamedTuple):
    """A column over equal spans of time: [bins] each, `edges_s` [bins + 1] since the start."""

    edges_s: Floats
    mean: Floats
    low: Ints
    high: Ints

    @property
    def middles_s(self) -> Floats:
        """Seconds from the start to the middle of each span."""
        return (self.edges_s[:-1] + self.edges_s[1:]) / 2


def bounds_ns(log: RunLog) -> tuple[int, int]:
    """First arrival, and the end of the last step or the last arrival: what a run spans."""
    if not len(log.arrival_ns):
        return 0, 0
    ends_ns = log.step("end_ns")
    last_ns = int(log.arrival_ns.max())
    return int(log.arrival_ns.min()), max(last_ns, int(ends_ns[-1]) if len(ends_ns) else last_ns)


def integral(log: RunLog, values: Ints | Floats, upto_ns: Ints | Floats) -> Floats:
    """Value · seconds from the beginning to each of some times; `values` is one for each step."""
    start_ns, end_ns = log.step("start_ns"), log.step("end_ns")
    if not len(values):
        return np.zeros(len(upto_ns))
    after = np.cumsum(values * ((end_ns - start_ns) / 1e9))
    before = np.append(0.0, after[:-1])
    corners_ns = np.column_stack((start_ns, end_ns)).ravel()
    areas: Floats = np.interp(upto_ns, corners_ns, np.column_stack((before, after)).ravel())
    return areas


def mean(log: RunLog, values: Ints, start_ns: float, end_ns: float) -> float:
    """Time-weighted mean of a column from one time to a later one."""
    before, after = integral(log, values, np.array([start_ns, end_ns]))
    return float((after - before) / ((end_ns - start_ns) / 1e9))


def binned(log: RunLog, column: str, bins: int) -> Bins:
    """Mean, lowest and highest value of a column in each of `bins` equal spans of the run."""
    start_ns, end_ns = bounds_ns(log)
    edges_ns = np.linspace(start_ns, end_ns, bins + 1)
    values = log.step(column)
    width_s = (end_ns - start_ns) / 1e9 / bins
    means = np.diff(integral(log, values, edges_ns)) / width_s
    busy_s = np.diff(integral(log, np.ones_like(values), edges_ns))
    low, high = _extremes(log, values, edges_ns)
    rested = busy_s < width_s * (1 - 1e-9)
    return Bins((edges_ns - start_ns) / 1e9, means, np.where(rested, 0, low), high)


def _extremes(log: RunLog, values: Ints, edges_ns: Floats) -> tuple[Ints, Ints]:
    """Lowest and highest value among the steps that touch each span, 0 where none does."""
    first = np.searchsorted(log.step("end_ns"), edges_ns[:-1], side="right")
    stop = np.searchsorted(log.step("start_ns"), edges_ns[1:], side="left")
    touched = stop > first
    # Odd ranges of `reduceat`, from one span's stop to the next one's first, are thrown away.
    ranges = np.column_stack((first, np.maximum(stop, first))).ravel()
    padded = np.append(values, 0)
    low, high = (extreme.reduceat(padded, ranges)[::2] for extreme in (np.minimum, np.maximum))
    return np.where(touched, low, 0), np.where(touched, high, 0)
