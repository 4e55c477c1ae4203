"""What a comparison comes to, in one to three sentences."""

from __future__ import annotations

from collections.abc import Sequence

from pagecast.sim.results.units import digits
from pagecast.sim.study.table import Row

HEADLINES = {
    "latency_s.ttft.p99": "p99 TTFT",
    "latency_s.itl.p99": "p99 ITL",
    "latency_s.e2e.p99": "p99 E2E",
    "throughput.output_tokens_per_s": "output tokens a second",
    "goodput.share": "goodput",
    "cost.per_million_output_tokens": "cost of an output token",
}
"""The metrics that sentences are about."""


def sentences(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Who wins what and by how much; who shares a lead; where all tie."""
    headlines = [row for row in rows if row.metric.path in HEADLINES and row.leaders]
    shared = [row for row in headlines if 1 < len(row.leaders) < len(names)]
    tied = [row for row in headlines if len(row.leaders) == len(names)]
    if len(tied) == len(headlines):
        return [f"No winner: {enumerated(names)} tie in {enumerated(_titles(tied))}."]
    said = [_winners(names, headlines), _sharers(names, shared)]
    if tied:
        said.append(f"No winner in {enumerated(_titles(tied))}: all tie.")
    return [sentence for sentence in said if sentence]


def enumerated(words: Sequence[str]) -> str:
    """Words as a list in a sentence.

    >>> enumerated(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def percent(value: float) -> str:
    """A difference in per cent, with its sign.

    >>> percent(-12.34), percent(0.04), percent(250)
    ('−12.3 %', '0 %', '+250 %')
    """
    size = f"{abs(value):.1f}" if abs(value) < 99.95 else digits(abs(value))
    return f"{'+' if value > 0 else '−'}{size} %" if abs(value) >= 0.05 else "0 %"


def _winners(names: Sequence[str], rows: Sequence[Row]) -> str:
    """One clause a winner, the one with the most wins first."""
    won: dict[int, list[Row]] = {}
    for row in rows:
        if row.winner is not None:
            won.setdefault(row.winner, []).append(row)
    ranked = sorted(won.items(), key=lambda item: -len(item[1]))
    clauses = [_wins(names, winner, own) for winner, own in ranked]
    return f"{'; '.join(clauses)}." if clauses else ""


def _wins(names: Sequence[str], winner: int, rows: Sequence[Row]) -> str:
    """What one variant wins, measured against the baseline, or the baseline against the next."""
    against = {row.metric.path: _next_best(row) if winner == 0 else 0 for row in rows}
    beaten = sorted(set(against.values()))
    parts = []
    for row in rows:
        other = against[row.metric.path]
        margin = _margin(row, winner, other)
        beside = f" against {names[other]}" if len(beaten) > 1 else ""
        parts.append(f"{HEADLINES[row.metric.path]}{f' ({margin}{beside})' if margin else ''}")
    baseline = ", the baseline," if winner == 0 else ""
    ending = f" against {names[beaten[0]]}" if len(beaten) == 1 else ""
    return f"{names[winner]}{baseline} wins {enumerated(parts)}{ending}"


def _sharers(names: Sequence[str], rows: Sequence[Row]) -> str:
    """Who is best together, by the group."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for row in rows:
        margin = None if 0 in row.leaders else _margin(row, row.leaders[0], 0)
        title = HEADLINES[row.metric.path]
        groups.setdefault(row.leaders, []).append(f"{title} ({margin})" if margin else title)
    clauses = [
        f"{enumerated([names[at] for at in leaders])} share the lead in {enumerated(titles)}"
        for leaders, titles in groups.items()
    ]
    return f"{'; '.join(clauses)}." if clauses else ""


def _next_best(row: Row) -> int:
    """The best of the others."""
    known = {at: value for at, value in enumerate(row.values) if value is not None}
    others = [at for at in known if at != row.winner]
    return (min if row.metric.better == "lower" else max)(others, key=lambda at: known[at])


def _margin(row: Row, winner: int, other: int) -> str:
    change = row.change_percent(winner, other)
    return percent(change) if change is not None else ""


def _titles(rows: Sequence[Row]) -> list[str]:
    return [HEADLINES[row.metric.path] for row in rows]
