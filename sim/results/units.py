"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterable


def digits(value: float) -> str:
    """Three digits where there are decimals, thousands apart.

    >>> digits(0.04567), digits(12.345), digits(12345.6)
    ('0.0457', '12.3', '12,346')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """A length of time in its natural unit.

    >>> duration(0.25), duration(90), duration(600), duration(86400)
    ('250 ms', '90 s', '10 min', '24 h')
    """
    if seconds < 1:
        return f"{digits(seconds * 1000)} ms"
    if seconds < 120:
        return f"{digits(seconds)} s"
    return f"{digits(seconds / 60)} min" if seconds < 7200 else f"{digits(seconds / 3600)} h"


def time_unit(values_s: Iterable[float | None]) -> tuple[str, float]:
    """One unit for several times, and what to multiply seconds by: seconds from a median of one on.

    >>> time_unit([0.2, None, 0.3]), time_unit([0.2, 3.0, 5.0])
    (('ms', 1000.0), ('s', 1.0))
    """
    known = sorted(value for value in values_s if value is not None)
    return ("s", 1.0) if known and known[len(known) // 2] >= 1 else ("ms", 1000.0)
