"""A judgement on a run: saturated or not, what binds, what to try. Earned from its numbers."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pagecast.engine.core.policy import Policy
from pagecast.sim.results.advice import (
    FOR_REASON,
    UNSTABLE_SHARE,
    Setting,
    advise,
    headroom,
    more_replicas,
)
from pagecast.sim.results.binding import TERMS, by_kind, step_terms, waits
from pagecast.sim.results.latency import Latencies
from pagecast.sim.results.load import arrivals_per_s, queue_growth, steady_requests_per_s
from pagecast.sim.results.log import Outcome, RunLog
from pagecast.sim.results.metrics import run_s

if TYPE_CHECKING:
    from pagecast.sim.steptime.latency import LatencyModel

NOTABLE_WAIT = 0.05
"""Requests wait if some do in this share of the busy time; less is chance."""

WAITS_FOR = {
    "kv_blocks": "KV blocks",
    "sequences": "a sequence slot",
    "token_budget": "the token budget",
    "batching": "the running batch to end",
}


@dataclass(frozen=True)
class Verdict:
    """The judgement; `offered_share` is NaN where nothing tells it.

    `binding` names what requests waited for, a key of `WAITS_FOR`, or if they hardly waited what
    the time of steps goes to: compute, bandwidth, interconnect, host; `none` if nothing was served.
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
) -> Verdict:
    """Judge a run.

    Args:
        log: what it left.
        latencies: those of its requests.
        latency: the step-time model that it ran with.
        policy: its rules.
        kv_dtype: how it stores KV entries, for advice.
        capacity_requests_per_s: completion rate of the same requests, all present at time 0. If
            not given, a queue that grows tells the load, and else an estimate from mean lengths.
    """
    if not (log.outcome == Outcome.FINISHED).any():
        return _nothing_done(log)
    waits_share, terms = waits(log, policy), step_terms(log, latency)
    growth = queue_growth(log)
    if capacity_requests_per_s is None and 0 < growth < 1:
        offered_share = 1 / (1 - growth)
    else:
        capacity = capacity_requests_per_s or steady_requests_per_s(log, latency, policy)
        offered_share = arrivals_per_s(log) / capacity
    crowded = sum(waits_share.values()) >= NOTABLE_WAIT
    beyond = offered_share >= 1 or _all_at_once(log)
    saturated = growth > 0 or (crowded and beyond)
    unstable = saturated or offered_share >= UNSTABLE_SHARE
    kinds = by_kind(terms)
    binding = _largest(waits_share if crowded else kinds)
    if crowded:
        setting = Setting(policy, log, kv_dtype)
        advice = advise(setting, binding, offered_share, kinds.get("compute", 0.0))
    else:
        advice = more_replicas(offered_share) if unstable else headroom(offered_share)
    clauses = (
        _demand(log, saturated, unstable, offered_share),
        _waiting(waits_share) if crowded else "requests hardly wait",
        _step_time(terms),
        f"p99 TTFT {latencies.spread('ttft')['p99']:,.2f} s",
    )
    sentence = "; ".join(clauses) + "." + _losses(log)
    return Verdict(
        saturated, unstable, offered_share, binding, advice, sentence, waits_share, terms
    )


def _nothing_done(log: RunLog) -> Verdict:
    """The verdict on a run that answers nothing."""
    words = Counter(reason.partition(":")[0] for reason in log.reasons)
    common = words.most_common(1)[0][0] if words else ""
    advice = FOR_REASON.get(common, "look at the reasons of the requests")
    sentence = f"No answer: none of {len(log.arrival_ns):,} requests finished.{_losses(log)}"
    return Verdict(False, False, math.nan, "none", advice, sentence, {}, {})


def _all_at_once(log: RunLog) -> bool:
    return len(log.arrival_ns) > 1 and math.isnan(arrivals_per_s(log))


def _demand(log: RunLog, saturated: bool, unstable: bool, offered_share: float) -> str:
    """How what is asked compares with what can be done."""
    asks = f"the trace asks for {offered_share:.0%} of what this replica can complete"
    if _all_at_once(log):
        rate = float((log.outcome == Outcome.FINISHED).sum()) / run_s(log)
        return (
            f"All {len(log.arrival_ns):,} requests arrive at once, so that this run measures "
            f"capacity, {rate:.3g} requests/s, and latencies are places in the line"
        )
    if saturated and offered_share < 1:
        return f"Saturated at the end: {asks} on average, but the queue still grew; {_UNSTABLE}"
    if saturated:
        return f"Saturated: {asks}, so that requests pile up; {_UNSTABLE}"
    if unstable:
        return f"Near saturation: {asks}; {_UNSTABLE}"
    if math.isnan(offered_share):
        return "Not saturated: the queue does not grow"
    return f"Not saturated: {asks}"


_UNSTABLE = "its latencies are unstable"


def _waiting(waits_share: dict[str, float]) -> str:
    cause = WAITS_FOR[_largest(waits_share)]
    return f"requests wait {sum(waits_share.values()):.0%} of the time, mostly for {cause}"


def _step_time(terms: dict[str, float]) -> str:
    kinds = by_kind(terms)
    kind = _largest(kinds)
    term = next(name for name in terms if TERMS[name].kind == kind)
    return f"{kinds[kind]:.0%} of step time is {kind}, mostly {TERMS[term].words}"


def _losses(log: RunLog) -> str:
    """A sentence for each way in which requests were lost, with the numbers of the first one."""
    text = ""
    for outcome in (Outcome.REFUSED, Outcome.FAILED):
        lost = (log.outcome == outcome).nonzero()[0]
        if len(lost):
            word, why = outcome.name.lower(), log.reasons[lost[0]]
            text += f" {len(lost):,} of {len(log.arrival_ns):,} requests {word} (first: {why})."
    return text


def _largest(shares: dict[str, float]) -> str:
    return max(shares, key=shares.__getitem__)
