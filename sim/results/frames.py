"""A run as flat tables: one row a request, one row a step."""

from __future__ import annotations

import pandas as pd

from pagecast.sim.results.latency import Latencies
from pagecast.sim.results.log import STEP_COLUMNS, Outcome, RunLog


def requests_frame(log: RunLog, latencies: Latencies) -> pd.DataFrame:
    """One row a request, in the order of the trace: the columns of `requests.parquet`.

    Times are in seconds, NaN where they do not apply; `state` is how it ended, `reason` why.
    """
    states = [outcome.name.lower() for outcome in Outcome]
    return pd.DataFrame(
        {
            "id": log.request_ids,
            "arrival_s": log.arrival_ns / 1e9,
            "prompt_tokens": log.prompt_tokens,
            "output_tokens": log.output_tokens,
            "state": pd.Categorical.from_codes(log.outcome, categories=pd.Index(states)),
            "reason": pd.Categorical(log.reasons),
            "queue_s": latencies.queue_s,
            "ttft_s": latencies.ttft_s,
            "tpot_s": latencies.tpot_s,
            "itl_p99_s": latencies.itl_p99_s,
            "itl_max_s": latencies.itl_max_s,
            "e2e_s": latencies.e2e_s,
            "preemptions": log.preemptions,
            "swaps": log.swaps,
            "recomputed_tokens": log.recomputed_tokens,
            "cached_tokens": log.cached_tokens,
            "replica": log.replica,
        }
    )


def steps_frame(log: RunLog) -> pd.DataFrame:
    """One row a step: the columns of the log, times in nanoseconds."""
    return pd.DataFrame(log.steps, columns=list(STEP_COLUMNS))
