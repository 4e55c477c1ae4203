"""The sentence of judgement, clause by clause."""

from __future__ import annotations

import math

from pagecast.sim.results.advice import UNSTABLE_SHARE
from pagecast.sim.results.binding import by_kind, largest, meaning
from pagecast.sim.results.load import all_at_once
from pagecast.sim.results.log import Outcome, RunLog
from pagecast.sim.results.metrics import run_s

WAITS_FOR = {
    "kv_blocks": "KV blocks",
    "sequences": "a sequence slot",
    "token_budget": "the token budget",
    "batching": "the running batch to end",
}
"""What requests may wait for, in words."""

UNSTABLE = "its latencies are unstable"


def demand(log: RunLog, saturated: bool, unstable: bool, offered_share: float) -> str:
    """How what is asked compares with what can be done."""
    asks = f"the trace asks for {offered_share:.0%} of what this replica can complete"
    if all_at_once(log):
        rate = float((log.outcome == Outcome.FINISHED).sum()) / run_s(log)
        return (
            f"All {len(log.arrival_ns):,} requests arrive at once, so that this run measures "
            f"capacity, {rate:.3g} requests/s, and latencies are places in the line"
        )
    if saturated and offered_share < 1:
        return f"Saturated at the end: {asks} on average, but the queue still grew; {UNSTABLE}"
    if saturated:
        return f"Saturated: {asks}, so that requests pile up; {UNSTABLE}"
    if unstable and offered_share >= UNSTABLE_SHARE:
        where = "Near" if offered_share < 1 else "Beyond"
        return f"{where} saturation: {asks}; {UNSTABLE}"
    if unstable:
        return f"Overloaded at times: {asks} on average, but at times for more; {UNSTABLE}"
    if math.isnan(offered_share):
        return "Not saturated: the queue does not grow"
    return f"Not saturated: {asks}"


def waiting(log: RunLog, waits_share: dict[str, float]) -> str:
    """How much of the time requests waited, how many at most, and mostly for what."""
    cause, most = WAITS_FOR[largest(waits_share)], int(log.step("waiting").max())
    share = sum(waits_share.values())
    return f"requests wait {share:.0%} of the time, up to {most:,} of them, mostly for {cause}"


def step_time(terms: dict[str, float]) -> str:
    """What the time of steps goes to."""
    kinds = by_kind(terms)
    kind = largest(kinds)
    main = next(term for term in terms if meaning(term).kind == kind)
    return f"{kinds[kind]:.0%} of step time is {kind}, mostly {meaning(main).words}"


def losses(log: RunLog) -> str:
    """A sentence for each way in which requests were lost, with the numbers of the first one."""
    text = ""
    for outcome in (Outcome.REFUSED, Outcome.FAILED):
        lost = (log.outcome == outcome).nonzero()[0]
        if len(lost):
            word, why = outcome.name.lower(), log.reasons[lost[0]]
            text += f" {len(lost):,} of {len(log.arrival_ns):,} requests {word} (first: {why})."
    return text
