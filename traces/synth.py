"""Synthetic traces, seeded; each quantity is drawn from a generator of its own.

`conversation` makes the bundled sample. It follows these statistics of the Azure conversation
trace of 2023 (19,366 requests of one hour, published by Azure under CC-BY): mean rate, variation of
the gaps between arrivals, and the distribution of prompt and answer lengths through 23 of its
percentiles each. It does not follow the correlation of lengths (−0.11 there, 0 here), the ties
between repeated prompts, or changes of the rate over the hour.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagecast.traces.schema import Ints, Source, Trace

PERCENTS = (0, 1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 75, 80, 85, 90, 95, 97, 98, 99, 99.5,
            100)  # fmt: skip
PROMPT_TOKENS = (2, 29, 91, 181, 207, 372, 387, 396, 403, 703, 1020, 1071, 1130, 1189, 1315, 1876,
                 2734, 4083, 4090, 4098, 4142, 4831, 14050)  # fmt: skip
OUTPUT_TOKENS = (7, 16, 24, 41, 54, 67, 77, 85, 91, 103, 129, 177, 384, 395, 400, 411, 424, 451,
                 509, 540, 601, 643, 1000)  # fmt: skip
"""Percentiles of the Azure conversation trace, in tokens, at `PERCENTS`."""

REQUESTS_PER_S = 5.53
GAP_CV = 1.09
"""Its mean rate, and the standard deviation of its gaps in units of their mean."""


def conversation(requests: int, seed: int) -> Trace:
    """Requests whose arrivals and lengths follow the Azure conversation trace.

    Gaps are gamma distributed with shape 1 / CV²; the whole is stretched to the mean rate.
    Lengths are spread evenly over the distribution and shuffled, so that even a short trace has
    its percentiles.

    Args:
        requests: how many, from 2.
        seed: of all that is random.
    """
    seeds = np.random.SeedSequence(seed).spawn(3)
    gaps, prompts, outputs = (np.random.default_rng(child) for child in seeds)
    return Trace(
        arrival_ns=_arrivals(gaps, requests),
        prompt_tokens=_lengths(prompts, requests, PROMPT_TOKENS),
        output_tokens=_lengths(outputs, requests, OUTPUT_TOKENS),
        source=Source("", "synthetic", requests, requests, notes=[f"seed {seed}"]),
    )


def _arrivals(random: np.random.Generator, requests: int) -> Ints:
    gaps = random.gamma(1 / GAP_CV**2, size=requests - 1)
    gaps_ns = gaps / gaps.mean() / REQUESTS_PER_S * 1e9
    return np.concatenate(([0], np.rint(np.cumsum(gaps_ns)))).astype(np.int64)


def _lengths(random: np.random.Generator, requests: int, knots: Sequence[int]) -> Ints:
    shares = (random.permutation(requests) + 0.5) / requests
    lengths = np.interp(shares * 100, PERCENTS, knots)
    return np.rint(lengths).astype(np.int64)
