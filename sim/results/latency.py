"""Latencies of each request, and the spread of a latency over all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pagecast.sim.results.gaps import Gaps, token_gaps
from pagecast.sim.results.log import NEVER, Ints, Outcome, RunLog
from pagecast.sim.results.quantiles import Floats, weighted_percentiles

LATENCIES = ("ttft", "itl", "tpot", "e2e", "queue", "normalized")
"""Names after vLLM's Prometheus metrics: `time_to_first_token`, `inter_token_latency`, ..."""

PERCENTS = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
STATISTICS = ("mean", *PERCENTS, "max")

Spread = dict[str, float | None]
"""A value in seconds for each of `STATISTICS`; None where nothing was measured."""


@dataclass(frozen=True, eq=False)
class Latencies:
    """Seconds per request, [requests], NaN where it does not apply; and the gaps of all tokens.

    queue: first scheduled − arrival.  ttft: first token − arrival.  e2e: last token − arrival.
    tpot: (last token − first token) / (output − 1), for two tokens and more.
    normalized: e2e / output tokens.  itl_p99, itl_max: of the request's own gaps.
    e2e, tpot and normalized are those of finished requests, the others of all that got so far.
    """

    queue_s: Floats
    ttft_s: Floats
    tpot_s: Floats
    e2e_s: Floats
    normalized_s: Floats
    itl_p99_s: Floats
    itl_max_s: Floats
    gaps: Gaps
    gap_weights: Ints

    def spread(self, name: str) -> Spread:
        """Mean, percentiles and maximum of one of `LATENCIES`; `itl` over all gaps alike."""
        if name == "itl":
            return spread(self.gaps.values_ns / 1e9, self.gap_weights)
        values: Floats = getattr(self, f"{name}_s")
        measured = values[~np.isnan(values)]
        return spread(measured, np.ones(len(measured), dtype=np.int64))


def latencies(log: RunLog) -> Latencies:
    """The latencies of a run."""
    finished = log.outcome == Outcome.FINISHED
    several = finished & (log.output_tokens > 1)
    gaps = token_gaps(log)
    p99_ns, max_ns = gaps.tails_ns(len(log.arrival_ns))
    e2e_s = _since(log.arrival_ns, log.last_token_ns, finished)
    decode_s = _since(log.first_token_ns, log.last_token_ns, several)
    return Latencies(
        queue_s=_since(log.arrival_ns, log.scheduled_ns, log.scheduled_ns != NEVER),
        ttft_s=_since(log.arrival_ns, log.first_token_ns, log.first_token_ns != NEVER),
        tpot_s=decode_s / np.where(several, log.output_tokens - 1, 1),
        e2e_s=e2e_s,
        normalized_s=e2e_s / np.maximum(log.output_tokens, 1),
        itl_p99_s=p99_ns / 1e9,
        itl_max_s=max_ns / 1e9,
        gaps=gaps,
        gap_weights=gaps.weights(),
    )


def spread(values_s: Floats, weights: Ints) -> Spread:
    """Mean, percentiles and maximum of values that stand `weights` times each."""
    present = weights > 0
    if not present.any():
        return dict.fromkeys(STATISTICS)
    percentiles = weighted_percentiles(values_s, weights, list(PERCENTS.values()))
    return {
        "mean": float(np.average(values_s, weights=weights)),
        **dict(zip(PERCENTS, percentiles.tolist(), strict=True)),
        "max": float(values_s[present].max()),
    }


def _since(start_ns: Ints, end_ns: Ints, applies: NDArray[np.bool_]) -> Floats:
    """Seconds from start to end, NaN where it does not apply."""
    return np.where(applies, (end_ns - start_ns) / 1e9, np.nan)
