"""A judgement on a run: saturated or not, what binds, what to try. Earned from its numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pagecast.engine.core.policy import Policy
from pagecast.sim.results import wording
from pagecast.sim.results.advice import (
    FOR_REASON,
    UNSTABLE_SHARE,
    headroom,
    more_replicas,
    relieve,
    shorten_gaps,
)
from pagecast.sim.results.binding import by_kind, largest, step_terms, waits
from pagecast.sim.results.latency import Latencies
from pagecast.sim.results.load import (
    all_at_once,
    arrivals_per_s,
    queue_growth,
    steady_requests_per_s,
    waiting_makes_tail,
)
from pagecast.sim.results.log import Outcome, RunLog
from pagecast.sim.results.units import duration

if TYPE_CHECKING:
    from pagecast.sim.steptime.latency import LatencyModel

NOTABLE_WAIT = 0.05
"""Requests wait if some do in this share of the busy time; less is chance."""


@dataclass(frozen=True)
class Verdict:
    """The judgement; `offered_share` is NaN where nothing tells it.

    `binding` names what requests waited for, a key of `binding.waits`, or if they hardly waited
    what the time of steps goes to: compute, bandwidth, interconnect, host; `none` if none finished.
    `waits_share` and `step_time_share` split the busy time, the first as far as requests waited.
    """

    saturated: bool
    unstable: bool
    offered_share: float
    binding: str
    advice: str
    sentence: str
    waits_share: dict[str, float]
    step_time_share: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """All fields by name: the group `load` of `summary.json`."""
        return asdict(self)


def judge(
    log: RunLog,
    latencies: Latencies,
    latency: LatencyModel,
    policy: Policy,
    kv_dtype: str,
    capacity_requests_per_s: float | None = None,
    missed_limits: Sequence[str] = (),
) -> Verdict:
    """Judge a run.

    Args:
        log: what it left.
        latencies: those of its requests.
        latency: the step-time model that it ran with.
        policy: its rules.
        kv_dtype: how it stores KV entries, for advice.
        capacity_requests_per_s: completion rate of the same requests, all present at time 0. If
            not given it is estimated by `steady_requests_per_s`, or the growth of the queue tells.
        missed_limits: keys of the service level objectives that the run missed.
    """
    if not (log.outcome == Outcome.FINISHED).any():
        return _nothing_done(log)
    growth = queue_growth(log)
    offered_share = _offered_share(log, latency, policy, growth, capacity_requests_per_s)
    waits_share, terms = waits(log, policy), step_terms(log, latency)
    crowded = sum(waits_share.values()) >= NOTABLE_WAIT
    saturated = growth > 0 or (crowded and (offered_share >= 1 or all_at_once(log)))
    unstable = saturated or offered_share >= UNSTABLE_SHARE or waiting_makes_tail(latencies)
    kinds = by_kind(terms)
    binding = largest(waits_share if crowded else kinds)
    gaps_missed = any(limit.startswith(("itl", "tpot")) for limit in missed_limits)
    if gaps_missed and not saturated:
        advice = shorten_gaps(policy, offered_share)
    elif crowded:
        advice = relieve(log, policy, kv_dtype, binding, offered_share, kinds.get("compute", 0.0))
    else:
        advice = more_replicas(offered_share) if unstable or missed_limits else headroom()
    clauses = (
        wording.demand(log, saturated, unstable, offered_share),
        wording.waiting(log, waits_share) if crowded else "requests hardly wait",
        wording.step_time(terms),
        f"p99 TTFT {duration(float(np.nanpercentile(latencies.ttft_s, 99)))}",
    )
    sentence = "; ".join(clauses) + "." + wording.losses(log)
    return Verdict(
        saturated, unstable, offered_share, binding, advice, sentence, waits_share, terms
    )


def _offered_share(
    log: RunLog,
    latency: LatencyModel,
    policy: Policy,
    growth: float,
    capacity_requests_per_s: float | None,
) -> float:
    capacity = capacity_requests_per_s or steady_requests_per_s(log, latency, policy)
    if math.isnan(capacity) and 0 < growth < 1:
        return 1 / (1 - growth)
    return arrivals_per_s(log) / capacity


def _nothing_done(log: RunLog) -> Verdict:
    """The verdict on a run that answers nothing."""
    words = Counter(reason.partition(":")[0] for reason in log.reasons)
    common = words.most_common(1)[0][0] if words else ""
    advice = FOR_REASON.get(common, "look at the reasons of the requests")
    sentence = f"No answer: none of {len(log.arrival_ns):,} requests finished.{wording.losses(log)}"
    return Verdict(False, False, math.nan, "none", advice, sentence, {}, {})
