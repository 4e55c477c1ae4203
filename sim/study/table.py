"""The table of a comparison: a row a metric, a value a variant, and who wins it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

TIE_SHARE = 0.001
"""Values this close to the best one share its place."""

Better = Literal["lower", "higher"] | None


class Metric(NamedTuple):
    """A number of `summary.json`.

    path: its keys, with dots.  unit: `s`, `share`, `count`, `bytes`, `usd` or a unit as it is
    printed.  better: which way is better; None where neither is by itself.
    """

    path: str
    title: str
    unit: str
    better: Better


METRICS = (
    Metric("requests.finished", "requests finished", "count", "higher"),
    Metric("requests.refused", "requests refused", "count", "lower"),
    Metric("requests.failed", "requests failed", "count", "lower"),
    Metric("latency_s.ttft.p50", "TTFT p50", "s", "lower"),
    Metric("latency_s.ttft.p99", "TTFT p99", "s", "lower"),
    Metric("latency_s.itl.p50", "ITL p50", "s", "lower"),
    Metric("latency_s.itl.p99", "ITL p99", "s", "lower"),
    Metric("latency_s.tpot.mean", "TPOT mean", "s", "lower"),
    Metric("latency_s.e2e.p50", "E2E p50", "s", "lower"),
    Metric("latency_s.e2e.p99", "E2E p99", "s", "lower"),
    Metric("latency_s.queue.p50", "queue p50", "s", "lower"),
    Metric("throughput.output_tokens_per_s", "output tokens", "tokens/s", "higher"),
    Metric("goodput.share", "goodput", "share", "higher"),
    Metric("kv.mean_used_share", "KV used, mean", "share", None),
    Metric("kv.peak_used_share", "KV used, peak", "share", None),
    Metric("kv.wasted_share", "KV wasted", "share", "lower"),
    Metric("preemptions.total", "preemptions", "count", "lower"),
    Metric("preemptions.recompute", "  by recompute", "count", None),
    Metric("preemptions.swap", "  by swap", "count", None),
    Metric("preemptions.thrash", "  thrash", "count", "lower"),
    Metric("preemptions.tokens_recomputed", "tokens recomputed", "count", None),
    Metric("preemptions.bytes_swapped", "bytes swapped", "bytes", None),
    Metric("cost.per_million_output_tokens", "cost, 1M output tokens", "usd", "lower"),
)
"""Recompute and swap are two ways to pay one bill: less of the one is more of the other."""


@dataclass(frozen=True)
class Row:
    """A metric of all variants, in their order; None where nothing was measured.

    `leaders` are the variants within a tie of the best, empty where neither way is better.
    """

    metric: Metric
    values: tuple[float | None, ...]
    leaders: tuple[int, ...]

    @property
    def winner(self) -> int | None:
        """The one variant that nobody ties with."""
        return self.leaders[0] if len(self.leaders) == 1 else None

    def change_percent(self, at: int, against: int = 0) -> float | None:
        """Difference of one variant to another, in per cent of the other; None if that is 0."""
        value, base = self.values[at], self.values[against]
        if value is None or base is None:
            return None
        if value == base:
            return 0.0
        return (value / base - 1) * 100 if base else None

    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """For JSON: values in the unit named, which is seconds, tokens, bytes or shares of one."""
        at = range(len(names))
        return {
            "metric": self.metric.path,
            "unit": self.metric.unit,
            "better": self.metric.better,
            "values": dict(zip(names, self.values, strict=True)),
            "change_percent": {names[i]: self.change_percent(i) for i in at},
            "winner": None if self.winner is None else names[self.winner],
        }


def make_rows(summaries: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The rows of which at least one variant has a value; the first variant is the baseline."""
    rows = []
    for metric in METRICS:
        values = tuple(_value(summary, metric.path) for summary in summaries)
        if any(value is not None for value in values):
            rows.append(Row(metric, values, _leaders(values, metric.better)))
    return rows


def _leaders(values: Sequence[float | None], better: Better) -> tuple[int, ...]:
    """Who is best, and who ties; nobody where fewer than two were measured."""
    known = [value for value in values if value is not None]
    if better is None or len(known) < 2:
        return ()
    best = min(known) if better == "lower" else max(known)
    return tuple(at for at, value in enumerate(values) if value is not None and _tie(value, best))


def _tie(one: float, other: float) -> bool:
    return abs(one - other) <= TIE_SHARE * max(abs(one), abs(other))


def _value(summary: Mapping[str, Any], path: str) -> float | None:
    value: Any = summary
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, int | float) else None
