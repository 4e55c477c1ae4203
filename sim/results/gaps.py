"""The gaps between successive tokens of each request, without a list of them.

Requests that decode in lockstep share their gaps: tick k ends at the same time for all of them.
So every gap of a run is one of few values, and a request owns ranges of those values:

    values_ns   | tick 2 − tick 1 | tick 3 − tick 2 | ... | own gaps of stays, one after another |
    a stay             [ joined_clock ..... left_clock − 1 )          first gap, resume gap

The first gap of a stay runs from the step that emitted its first token to the next tick. The
resume gap is the pause before that step, if the request had emitted tokens earlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pagecast.sim.results.log import NEVER, Ints, RunLog
from pagecast.sim.results.quantiles import Floats, interpolate

BATCH_GAPS = 1 << 20
"""Gaps laid out at a time: 8 MiB for each of a few arrays."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """Gap values, and who owns which: request `owner[i]` has `count[i]` values from `first[i]`."""

    values_ns: Ints
    owner: Ints
    first: Ints
    count: Ints

    def weights(self) -> Ints:
        """How many requests own each value: [values]."""
        size = len(self.values_ns) + 1
        opened = np.bincount(self.first, minlength=size)
        closed = np.bincount(self.first + self.count, minlength=size)
        weights: Ints = np.cumsum(opened - closed)[:-1]
        return weights

    def tails_ns(self, requests: int) -> tuple[Floats, Floats]:
        """Each request's own 99th percentile and largest gap: two of [requests].

        NaN for a request that has no gap. A part of all gaps is laid out at a time, one row a
        request, rows of equal length together.
        """
        p99_ns, max_ns = np.full((2, requests), np.nan)
        for members, rows in self._rows():
            at = 0.99 * (rows.shape[1] - 1)
            lower = int(at)
            rows.partition(lower, axis=1)
            tail = rows[:, min(lower + 1, rows.shape[1] - 1) :]
            p99_ns[members] = interpolate(rows[:, lower], tail.min(axis=1), at - lower)
            max_ns[members] = tail.max(axis=1)
        return p99_ns, max_ns

    def _rows(self) -> Iterator[tuple[Ints, Ints]]:
        """Batches of requests with equally many gaps, and their gaps: [members, gaps]."""
        gaps_of = np.bincount(self.owner, weights=self.count).astype(np.int64)
        width = gaps_of[self.owner]
        order = np.lexsort((self.owner, width))
        heads = np.flatnonzero(np.diff(self.owner[order], prepend=-1))
        members, widths = self.owner[order][heads], width[order][heads]
        heads = np.append(heads, len(order))
        start = 0
        while start < len(members):
            row = int(widths[start])
            full = start + max(1, BATCH_GAPS // row)
            stop = min(full, int(np.searchsorted(widths, row, side="right")))
            ranges = order[heads[start] : heads[stop]]
            yield members[start:stop], self._lay_out(ranges).reshape(-1, row)
            start = stop

    def _lay_out(self, ranges: Ints) -> Ints:
        """All values of some ranges, one after another."""
        count = self.count[ranges]
        ends = np.cumsum(count)
        shift = self.first[ranges] - (ends - count)
        gaps_ns: Ints = self.values_ns[np.repeat(shift, count) + np.arange(ends[-1])]
        return gaps_ns


def token_gaps(log: RunLog) -> Gaps:
    """All gaps between successive tokens of a run."""
    ends_ns = log.tick_ends_ns()
    request, joined_ns, previous_ns = (
        log.stay(name) for name in ("request", "joined_ns", "previous_ns")
    )
    joined, left = log.stay("joined_clock"), log.stay("left_clock")
    stood, resumed = left > joined, previous_ns != NEVER
    shared_ns = np.diff(ends_ns)
    first_ns = ends_ns[joined[stood]] - joined_ns[stood]
    resume_ns = joined_ns[resumed] - previous_ns[resumed]
    own = len(first_ns) + len(resume_ns)
    long = left > joined + 1
    return Gaps(
        values_ns=np.concatenate((shared_ns, first_ns, resume_ns)),
        owner=np.concatenate((request[long], request[stood], request[resumed])),
        first=np.concatenate((joined[long], len(shared_ns) + np.arange(own))),
        count=np.concatenate(((left - joined - 1)[long], np.ones(own, dtype=np.int64))),
    )


def emissions(log: RunLog) -> tuple[Ints, Ints]:
    """When tokens came, and how many at each time; times are not in order."""
    ends_ns = log.tick_ends_ns()
    joined, left = log.stay("joined_clock"), log.stay("left_clock")
    size = len(ends_ns) + 1
    change = np.bincount(joined, minlength=size) - np.bincount(left, minlength=size)
    joined_ns = log.stay("joined_ns")
    times_ns = np.concatenate((ends_ns, joined_ns))
    return times_ns, np.concatenate((np.cumsum(change)[:-1], np.ones_like(joined_ns)))
