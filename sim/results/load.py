"""How much is asked of a replica against what it can complete."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pagecast.engine.core.policy import Policy
from pagecast.engine.core.step import StepShape
from pagecast.sim.results.log import Outcome, RunLog
from pagecast.sim.results.timeline import mean

if TYPE_CHECKING:
    from pagecast.sim.steptime.latency import LatencyModel

NOTABLE_GROWTH = 0.02
"""A queue that keeps less than this share of the arrivals does not count as growing."""


def arrivals_per_s(log: RunLog) -> float:
    """Rate of the arrivals that can be served at all; NaN if all come at once.

    Requests refused under overload are load; those that can never fit are not.
    """
    refused = log.outcome == Outcome.REFUSED
    served = log.arrival_ns[~(refused & ~_overloaded(log))]
    window_s = (int(served.max()) - int(served.min())) / 1e9 if len(served) else 0.0
    return (len(served) - 1) / window_s if window_s else math.nan


def queue_growth(log: RunLog) -> float:
    """The share of arriving requests that stayed behind in the queue, 0 if it did not grow.

    Compares the mean queue in the last quarter of the arrival window with that in the second;
    the time between their middles is half the window. Requests refused under overload count as
    left behind. With a load of r times the capacity, 1 − 1/r of the arrivals stay. Growth within
    three standard deviations of a Poisson count of arrivals is chance.
    """
    if not len(log.arrival_ns) or not len(log.steps):
        return 0.0
    start_ns, end_ns = int(log.arrival_ns.min()), int(log.arrival_ns.max())
    if end_ns == start_ns:
        return 0.0
    at = [start_ns + (end_ns - start_ns) * eighth / 8 for eighth in (2, 3, 4, 6, 7, 8)]
    between = (log.arrival_ns > at[1]) & (log.arrival_ns <= at[4])
    waiting = log.step("waiting")
    grown = mean(log, waiting, at[3], at[5]) - mean(log, waiting, at[0], at[2])
    left_behind = grown + float((between & _overloaded(log)).sum())
    arrived = float(between.sum())
    chance = max(NOTABLE_GROWTH * arrived, 3 * math.sqrt(arrived))
    return min(left_behind / arrived, 1.0) if arrived and left_behind > chance else 0.0


def steady_requests_per_s(log: RunLog, latency: LatencyModel, policy: Policy) -> float:
    """Estimate of the completion rate with a full queue, from mean lengths; NaN if unknown.

    In a steady state that completes r requests a step, each step computes r prompts and as many
    decodes as r answers have tokens. Sequences, token budget and KV blocks each bound r; the
    step time of that mixture turns it into a rate. Variation between steps is left out, so
    a simulation with all requests present at time 0 knows better. Batches that are run until
    they are empty have no such steady state.
    """
    done = log.outcome == Outcome.FINISHED
    if policy.batching != "iteration" or not done.any():
        return math.nan
    prompts = (log.prompt_tokens - log.cached_tokens)[done].astype(np.float64)
    ticks = log.output_tokens[done].astype(np.float64) - 1
    prompt, tick = float(prompts.mean()), float(ticks.mean())
    stays = ticks + 1
    held = float((log.prompt_tokens[done] + ticks / 2) @ stays / stays.sum()) + log.block_size / 2
    chunks = max(1.0, prompt / (policy.max_batched_tokens or math.inf))
    bounds = [policy.max_seqs / (tick + chunks)]
    bounds.append(log.pool_blocks * log.block_size / (held * (tick + chunks)))
    if policy.max_batched_tokens:
        bounds.append(policy.max_batched_tokens / (tick + prompt))
    completed = min(bounds)
    pairs = float((prompts * (prompts + 1) / 2).mean())
    return completed / (latency(_mixture(completed, tick, prompt, pairs, held)) / 1e9)


def _mixture(
    completed: float, ticks: float, prompt: float, pairs: float, held: float
) -> StepShape:
    """The average step that completes so many requests of these mean lengths."""
    shape = StepShape()
    decodes = completed * ticks
    shape.decode_seqs = round(decodes)
    shape.decode_context_tokens = round(decodes * held)
    shape.decode_context_sq = round(decodes * held * held)
    shape.decode_context_max = round(held)
    shape.prefill_seqs = math.ceil(completed)
    shape.prefill_tokens = round(completed * prompt)
    shape.prefill_pairs = round(completed * pairs)
    shape.sampled_rows = round(decodes + completed)
    return shape


def _overloaded(log: RunLog) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which requests were refused for want of capacity at that moment."""
    reasons = (reason.startswith("overload") for reason in log.reasons)
    return np.fromiter(reasons, dtype=bool, count=len(log.reasons))
