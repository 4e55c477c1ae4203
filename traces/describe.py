"""What a trace is like: how much, how bursty, how long."""

from __future__ import annotations

from typing import Any

import numpy as np

from pagecast.traces.schema import Ints, Trace

WINDOWS_S = (1, 10, 60)
PERCENTS = (50, 90, 95, 99)


def describe(trace: Trace) -> dict[str, Any]:
    """Statistics of a trace, ready for JSON; seconds and tokens; None where there is no such thing.

    requests_per_s is requests / span, where the span reaches from the first to the last arrival.
    gap_cv is the standard deviation of the gaps between arrivals by their mean: 1 for a Poisson
    process. index_of_dispersion is variance by mean of the arrivals counted in windows, again 1
    for a Poisson process and more for bursts. prefix_hit_share is what an unlimited cache of
    whole prefix blocks would hit, as a share of all prompt tokens.
    """
    source, span_s = trace.source, _span_s(trace)
    return {
        "source": {
            "path": source.path,
            "format": source.format,
            "rows_read": source.rows_read,
            "rows_kept": source.rows_kept,
            "set_aside": source.set_aside,
            "notes": source.notes,
        },
        "requests": len(trace),
        "span_s": span_s,
        "requests_per_s": len(trace) / span_s if span_s else None,
        "gap_cv": _gap_cv(trace),
        "index_of_dispersion": {f"{window}s": _dispersion(trace, window) for window in WINDOWS_S},
        "tied_arrivals": int((np.diff(trace.arrival_ns) == 0).sum()),
        "prompt_tokens": _lengths(trace.prompt_tokens),
        "output_tokens": _lengths(trace.output_tokens),
        "prompt_tokens_per_s": int(trace.prompt_tokens.sum()) / span_s if span_s else None,
        "output_tokens_per_s": int(trace.output_tokens.sum()) / span_s if span_s else None,
        "prefix_hit_share": _prefix_hit_share(trace),
    }


def _span_s(trace: Trace) -> float:
    return int(trace.arrival_ns[-1] - trace.arrival_ns[0]) / 1e9


def _gap_cv(trace: Trace) -> float | None:
    gaps = np.diff(trace.arrival_ns)
    return float(gaps.std() / gaps.mean()) if len(gaps) and gaps.mean() else None


def _dispersion(trace: Trace, window_s: int) -> float | None:
    """Variance by mean of the counts in whole windows; None with fewer than two windows."""
    since = trace.arrival_ns - trace.arrival_ns[0]
    window = since // (window_s * 1_000_000_000)
    whole = int(window[-1])
    if whole < 2:
        return None
    # Only the windows that hold arrivals are kept: between two stamps may lie a billion others.
    _, counts = np.unique(window[window < whole], return_counts=True)
    mean = counts.sum() / whole
    return float((np.square(counts).sum() / whole - mean**2) / mean)


def _lengths(tokens: Ints) -> dict[str, float]:
    percentiles = np.percentile(tokens, PERCENTS)
    return {
        "mean": float(tokens.mean()),
        **{f"p{percent}": float(p) for percent, p in zip(PERCENTS, percentiles, strict=True)},
        "max": int(tokens.max()),
    }


def _prefix_hit_share(trace: Trace) -> float | None:
    if trace.prefix_ids is None or trace.prefix_block_tokens is None:
        return None
    seen: set[tuple[int, int]] = set()
    chains: dict[tuple[int, int], int] = {}
    hit_tokens = 0
    for ids, prompt in zip(trace.prefix_ids, trace.prompt_tokens.tolist(), strict=True):
        parent, leading, hits = -1, True, 0
        for prefix_id in ids:
            key = (parent, prefix_id)
            leading = leading and key in seen
            hits += leading
            seen.add(key)
            parent = chains.setdefault(key, len(chains))
        hit_tokens += min(hits * trace.prefix_block_tokens, prompt)
    return hit_tokens / int(trace.prompt_tokens.sum())
