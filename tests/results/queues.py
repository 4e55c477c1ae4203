"""Runs of a server that takes one request at a time, and a step-time model to explain them.

One step serves one request. Whoever comes while another is served waits: Lindley's recursion.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pagecast.engine.core.policy import Policy
from pagecast.engine.core.presets import PRESETS
from pagecast.engine.core.step import StepShape
from pagecast.sim.results.log import STEP_COLUMNS, Outcome, RunLog

SERVICE_NS = 10_000_000

ONE_BY_ONE: Policy = replace(PRESETS["vllm-v1@0.33"], max_seqs=1)


class OneStep:
    """Each step takes 10 ms, 3 of which read weights, 2 read KV, 4 compute and 1 is the host's."""

    provenance = "analytic"
    profile = "ten milliseconds"
    holdout_error = None

    def __call__(self, shape: StepShape) -> int:
        return SERVICE_NS

    def in_range(self, shape: StepShape) -> bool:
        return True

    def explain(self, shape: StepShape) -> dict[str, float]:
        return {"weights": 0.003, "kv_read": 0.002, "compute": 0.004, "host": 0.001}


def one_by_one(arrivals_ns: np.ndarray, pool_blocks: int = 1000, **columns: int) -> RunLog:
    """Serve arrivals in order, 10 ms each; `columns` set columns of all steps."""
    starts, now = [], 0
    for arrival in arrivals_ns.tolist():
        now = max(now, arrival)
        starts.append(now)
        now += SERVICE_NS
    start_ns = np.array(starts, dtype=np.int64)
    end_ns = start_ns + SERVICE_NS
    here = np.searchsorted(arrivals_ns, start_ns, side="right") - np.arange(len(starts))
    steps = np.zeros((len(starts), len(STEP_COLUMNS)), dtype=np.int64)
    values = {"start_ns": start_ns, "end_ns": end_ns, "running": 1, "waiting": here - 1}
    values |= {"used_blocks": 10, "claimed_blocks": 10, "kv_tokens": 100, "prefill_seqs": 1}
    values |= {"prefill_tokens": 100, "sampled_rows": 1, "admitted": 1, "finished": 1, **columns}
    for name, value in values.items():
        steps[:, STEP_COLUMNS.index(name)] = value
    count = len(starts)
    zeros, ones = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64)
    stays = np.column_stack((np.arange(count), zeros, zeros, end_ns, -ones))
    return RunLog(
        arrival_ns=arrivals_ns,
        prompt_tokens=100 * ones,
        output_tokens=ones,
        outcome=Outcome.FINISHED * ones,
        scheduled_ns=start_ns,
        first_token_ns=end_ns,
        last_token_ns=end_ns,
        preemptions=zeros,
        swaps=zeros,
        recomputed_tokens=zeros,
        cached_tokens=zeros,
        replica=zeros,
        reasons=["stop"] * count,
        request_ids=[str(row) for row in range(count)],
        steps=steps,
        stays=stays,
        pool_blocks=pool_blocks,
        block_size=16,
        clipped=0,
        preempted_again=0,
        fill_wait_ns=0,
        prefix_query_tokens=0,
        prefix_hit_tokens=0,
    )


def even_ns(load: float, count: int) -> np.ndarray:
    """Arrivals at equal distances, which ask the server for `load` of what it can do."""
    return (np.arange(count) * SERVICE_NS / load).astype(np.int64)


def poisson_ns(load: float, count: int, seed: int = 1) -> np.ndarray:
    """Arrivals at random, so many that the server is asked for `load` of what it can do."""
    gaps = np.random.default_rng(seed).exponential(SERVICE_NS / load, count)
    return np.cumsum(gaps).astype(np.int64)


def turned_away(log: RunLog, rows: np.ndarray, reason: str) -> RunLog:
    """The same run with some requests refused on arrival, for a reason."""
    outcome, reasons = log.outcome.copy(), list(log.reasons)
    outcome[rows] = Outcome.REFUSED
    for row in rows:
        reasons[row] = reason
    never = {}
    for name in ("scheduled_ns", "first_token_ns", "last_token_ns"):
        never[name] = getattr(log, name).copy()
        never[name][rows] = -1
    stays = log.stays[~np.isin(log.stays[:, 0], rows)]
    return replace(log, outcome=outcome, reasons=reasons, stays=stays, **never)
