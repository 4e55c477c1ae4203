"""Service level objectives: limits on latencies, for the fleet and for each request."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pagecast.engine.core.errors import UserError
from pagecast.sim.results.latency import LATENCIES, PERCENTS, STATISTICS, Latencies, Spread

UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}

_DURATION = re.compile(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*([a-z]+)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Limit:
    """A bound in seconds on one statistic of one latency, such as the p99 of ttft."""

    latency: str
    statistic: str
    limit_s: float

    @property
    def key(self) -> str:
        """The name under which it is given, such as `ttft_p99`."""
        return f"{self.latency}_{self.statistic}"

    @property
    def forgives_share(self) -> float:
        """The share of requests that may exceed it: 0.01 for a p99, none for mean and max."""
        return 1 - PERCENTS.get(self.statistic, 100.0) / 100


@dataclass(frozen=True)
class Slo:
    """All limits of a scenario."""

    limits: tuple[Limit, ...]

    def as_dict(self) -> dict[str, float]:
        """Seconds by key."""
        return {limit.key: limit.limit_s for limit in self.limits}

    def check(
        self, latency_s: Mapping[str, Spread], unserved_share: float
    ) -> dict[str, dict[str, Any]]:
        """By key: the limit, what the fleet reached, and whether that meets it.

        Requests that were refused or failed have no latency and are beyond every limit, so that
        turning requests away does not help: their share must fit in what the statistic forgives.
        """
        checks = {}
        for limit in self.limits:
            value_s = latency_s[limit.latency][limit.statistic]
            within = value_s is not None and value_s <= limit.limit_s
            met = within and unserved_share <= limit.forgives_share
            checks[limit.key] = {"limit_s": limit.limit_s, "value_s": value_s, "met": met}
        return checks

    def kept_by(self, latencies: Latencies) -> NDArray[np.bool_]:
        """Which requests keep every limit by themselves: [requests].

        Where a latency has several limits the loosest holds: the tighter ones let some requests
        exceed them. `itl` is judged by the request's own p99 gap, and what does not apply is kept.
        """
        kept = np.ones(len(latencies.ttft_s), dtype=bool)
        for name in {limit.latency for limit in self.limits}:
            loosest_s = max(limit.limit_s for limit in self.limits if limit.latency == name)
            values = getattr(latencies, "itl_p99_s" if name == "itl" else f"{name}_s")
            kept &= ~(values > loosest_s)
        return kept


def parse_slo(text: str) -> Slo:
    """Read limits as they are typed: `ttft_p99=1s,itl_p99=50ms`.

    Raises:
        UserError: naming the part that is wrong and what would be accepted.
    """
    limits: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise UserError(f"slo: {part.strip()!r}; accepted: key=time, such as ttft_p99=1s")
        if key in limits:
            raise UserError(f"slo: {key} is given twice; accepted: one limit for each key")
        limits[key] = value
    return make_slo(limits)


def make_slo(limits: Mapping[str, str | float]) -> Slo:
    """Limits by key; a number is in seconds, a text carries its unit.

    Raises:
        UserError: naming the key or value that is wrong and what would be accepted.
    """
    return Slo(tuple(_limit(key, value) for key, value in limits.items()))


def _limit(key: str, value: str | float) -> Limit:
    latency, _, statistic = key.rpartition("_")
    if latency not in LATENCIES or statistic not in STATISTICS:
        raise UserError(
            f"slo: unknown key {key!r}; accepted: one of {', '.join(LATENCIES)}, "
            f"then _ and one of {', '.join(STATISTICS)}"
        )
    limit_s = _seconds(key, value) if isinstance(value, str) else float(value)
    if not (math.isfinite(limit_s) and limit_s > 0):
        raise UserError(f"slo: {key} is {value}; accepted: a time above zero")
    return Limit(latency, statistic, limit_s)


def _seconds(key: str, text: str) -> float:
    found = _DURATION.fullmatch(text)
    unit_s = UNITS_S.get(found[2].lower()) if found else None
    if found is None or unit_s is None or found[1].count(".") > 1 or found[1] == ".":
        raise UserError(
            f"slo: {key} is {text!r}; accepted: a number and a unit of {', '.join(UNITS_S)}, "
            "such as 50ms"
        )
    return float(found[1]) * unit_s
