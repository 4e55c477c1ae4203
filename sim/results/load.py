"""How much is asked of a replica against what it can complete."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pagecast.engine.core.policy import Policy
from pagecast.engine.core.step import StepShape
from pagecast.sim.results.latency import Latencies
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


def all_at_once(log: RunLog) -> bool:
    """Whether several requests come, and no time passes between them."""
    return len(log.arrival_ns) > 1 and math.isnan(arrivals_per_s(log))


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


def waiting_makes_tail(latencies: Latencies) -> bool:
    """Whether one request in a hundred waits longer than the median one takes to be served.

    Such waits come from times of more load than capacity, and an error of the step time grows in
    them: the queue is what is left when two nearly equal rates are subtracted.
    """
    served_s = latencies.e2e_s - latencies.queue_s
    waited_s = latencies.queue_s[~np.isnan(latencies.queue_s)]
    served_s = served_s[~np.isnan(served_s)]
    if not len(served_s):
        return False
    return bool(np.percentile(waited_s, 99) > np.median(served_s))


def steady_requests_per_s(log: RunLog, latency: LatencyModel, policy: Policy) -> float:
    """Estimate of the completion rate with a full queue, from mean lengths; NaN if unknown.

    In a steady state that completes r requests a step, a step computes on average r prompts and
    as many decodes as r answers have tokens. Sequences, token budget and KV blocks each bound r.
    Prompts come whole or in the largest pieces that fit, so that steps with and without a piece
    are priced apart. Variation between requests and preemptions are left out: a simulation with
    all requests present at time 0 knows better (on the Azure conversation trace of 2023 by 1 %
    where sequences or budget bind, by 5 % where KV blocks do). Batches that are run until they
    are empty have no such steady state.
    """
    done = log.outcome == Outcome.FINISHED
    if policy.batching != "iteration" or not done.any():
        return math.nan
    one = _mean_request(log, done)
    budget = policy.max_batched_tokens or math.inf
    steps = one.ticks + max(1.0, one.prompt / budget)
    slots = log.pool_blocks * log.block_size / (one.context + log.block_size / 2)
    completed = min(policy.seqs_limit / steps, slots / steps, budget / (one.ticks + one.prompt))
    decodes, prefills = completed * one.ticks, completed * one.prompt
    piece = max(min(one.prompt, budget - decodes), prefills)
    share = prefills / piece if piece else 0.0
    with_piece = share * latency(_step(one, decodes, piece)) if share else 0.0
    step_ns = with_piece + (1 - share) * latency(_step(one, decodes, 0.0))
    return completed / (step_ns / 1e9)


class _Mean(NamedTuple):
    """The mean request: prompt tokens computed, decode steps, tokens held while it decodes."""

    prompt: float
    ticks: float
    context: float
    pairs_per_token: float


def _mean_request(log: RunLog, done: NDArray[np.bool_]) -> _Mean:
    prompts = (log.prompt_tokens - log.cached_tokens)[done].astype(np.float64)
    ticks = log.output_tokens[done] - 1.0
    stays = ticks + 1
    context = float((log.prompt_tokens[done] + ticks / 2) @ stays / stays.sum())
    pairs = float((prompts * (prompts + 1) / 2).sum() / max(prompts.sum(), 1.0))
    return _Mean(float(prompts.mean()), float(ticks.mean()), context, pairs)


def _step(one: _Mean, decodes: float, prefill_tokens: float) -> StepShape:
    """A step of so many mean decodes and prompt tokens."""
    shape = StepShape()
    shape.decode_seqs = round(decodes)
    shape.decode_context_tokens = round(decodes * one.context)
    shape.decode_context_sq = round(decodes * one.context**2)
    shape.decode_context_max = round(one.context)
    shape.prefill_seqs = math.ceil(prefill_tokens / max(one.prompt, 1.0))
    shape.prefill_tokens = round(prefill_tokens)
    shape.prefill_pairs = round(prefill_tokens * one.pairs_per_token)
    shape.sampled_rows = shape.decode_seqs + shape.prefill_seqs
    return shape


def _overloaded(log: RunLog) -> NDArray[np.bool_]:
    """Which requests were refused for want of capacity at that moment."""
    reasons = (reason.startswith("overload") for reason in log.reasons)
    return np.fromiter(reasons, dtype=bool, count=len(log.reasons))
