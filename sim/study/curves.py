"""What figures of a comparison need of a run: little enough to keep for many runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagecast.sim.results.figures import SHARES, SPANS
from pagecast.sim.results.latency import Latencies
from pagecast.sim.results.log import Ints, RunLog
from pagecast.sim.results.metrics import run_s
from pagecast.sim.results.quantiles import Floats, weighted_percentiles
from pagecast.sim.results.timeline import Bins, binned

DISTRIBUTIONS = {"ttft": "TTFT", "itl": "ITL", "e2e": "E2E"}


@dataclass(frozen=True, eq=False)
class Curves:
    """A run as curves.

    quantiles_s: of each of `DISTRIBUTIONS` that was measured, seconds at `figures.SHARES`.
    used_share, waiting: over time; None where nothing ran. used_share is of the pool, from 0 to 1.
    """

    name: str
    run_s: float
    quantiles_s: dict[str, Floats]
    used_share: Bins | None
    waiting: Bins | None


def curves_of(name: str, log: RunLog, latencies: Latencies) -> Curves:
    """The curves of one run."""
    quantiles_s = {}
    for latency in DISTRIBUTIONS:
        values_s, weights = _weighted(latencies, latency)
        if weights.any():
            quantiles_s[latency] = weighted_percentiles(values_s, weights, SHARES * 100)
    ran = len(log.steps) > 0
    return Curves(
        name,
        run_s(log),
        quantiles_s,
        _shares(binned(log, "used_blocks", SPANS), log.pool_blocks) if ran else None,
        binned(log, "waiting", SPANS) if ran else None,
    )


def _weighted(latencies: Latencies, name: str) -> tuple[Floats, Ints]:
    """Seconds, and how often each stands."""
    if name == "itl":
        return latencies.gaps.values_ns / 1e9, latencies.gap_weights
    values_s: Floats = getattr(latencies, f"{name}_s")
    measured = values_s[~np.isnan(values_s)]
    return measured, np.ones(len(measured), dtype=np.int64)


def _shares(bins: Bins, blocks: int) -> Bins:
    return bins._replace(mean=bins.mean / max(blocks, 1))
