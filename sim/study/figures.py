"""The figures of a comparison: one colour a variant, the same one everywhere."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pagecast.sim.results.figures import INK, SHARES, STYLE, clock_of
from pagecast.sim.results.units import digits
from pagecast.sim.study.crossover import ASSUMED, LINKS_GB_S, Crossover
from pagecast.sim.study.curves import DISTRIBUTIONS, Curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Item = TypeVar("Item")

NARROWEST, WIDER_BY, AT_MOST = 1.3, 0.5, 1.9
LEGEND_LETTERS = 150
"""What fits into a line of the legend, with six for each line that is shown."""

COLORS = (
    "#2b6cb0", "#dd7a1f", "#2f8f5b", "#c53030", "#6b46c1", "#0f8b8d", "#b83280", "#744210",
)  # fmt: skip
DASHES = ("-", "--", ":", "-.")


def draw_comparison(
    curves: Sequence[Curves], crossovers: Sequence[Crossover], folder: Path
) -> None:
    """Write `latency.png`, `over_time.png` and, if there is a crossover, `crossover.png`."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        latency = Figure(figsize=(13, 4.2), dpi=130, layout="constrained")
        _latencies(latency, curves)
        latency.savefig(folder / "latency.png")
        over_time = Figure(figsize=(13, 6.4), dpi=130, layout="constrained")
        _over_time(over_time, curves)
        over_time.savefig(folder / "over_time.png")
        if crossovers:
            crossover = Figure(
                figsize=(8.4, 4.6 + 0.2 * len(crossovers)), dpi=130, layout="constrained"
            )
            _crossovers(crossover, crossovers)
            crossover.savefig(folder / "crossover.png")


def _latencies(figure: Figure, curves: Sequence[Curves]) -> None:
    panels = figure.subplots(1, len(DISTRIBUTIONS), sharey=True)
    for axes, (latency, title) in zip(panels, DISTRIBUTIONS.items(), strict=True):
        for each, style in _styled(curves):
            quantiles_s = each.quantiles_s.get(latency)
            if quantiles_s is not None:
                axes.plot(quantiles_s * 1e3, SHARES, **style)
        axes.set(xscale="log", xlabel="milliseconds", ylim=(0, 1.02))
        axes.set_title(title)
        axes.xaxis.set_major_formatter(lambda value, _: digits(value))
    panels[0].set_ylabel("share of requests; of gaps for ITL")
    _legend(figure, curves)


def _over_time(figure: Figure, curves: Sequence[Curves]) -> None:
    clock = clock_of(max(each.run_s for each in curves))
    used, waiting = figure.subplots(2, 1, sharex=True)
    for each, style in _styled(curves):
        for axes, bins in ((used, each.used_share), (waiting, each.waiting)):
            if bins is not None:
                axes.plot(bins.middles_s / clock.seconds, bins.mean, **style)
    used.set_title("KV cache in use")
    used.set_ylim(0, 1.04)
    used.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    waiting.set_title("Requests waiting")
    waiting.set_ylim(bottom=0)
    waiting.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    waiting.set_xlabel(f"{clock.name}; means of equal spans of time")
    _legend(figure, curves)


def _crossovers(figure: Figure, crossovers: Sequence[Crossover]) -> None:
    """Above its curve a machine had better swap."""
    from matplotlib.ticker import NullLocator

    axes = figure.subplots()
    for each, style in _styled(crossovers):
        known = [(link, tokens) for link, tokens in each.curve if tokens is not None]
        axes.plot(*zip(*known, strict=True) if known else ([], []), **style, label=_label(each))
        if each.tokens is not None:
            axes.plot(
                each.host_link_gb_s, each.tokens, "o", color=style["color"], markeredgecolor="white",
                markersize=9,
            )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="host link, GB/s per direction and GPU")
    axes.set(ylabel="tokens of context", xlim=(LINKS_GB_S[0] / 1.15, LINKS_GB_S[-1] * 1.15))
    axes.set_xticks([4 * 2**step for step in range(8)])
    axes.xaxis.set_minor_locator(NullLocator())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_title("Context from which on swap is cheaper than recompute")
    figure.legend(loc="outside upper left")
    figure.supxlabel("\n".join(_caption(crossovers)), fontsize=8, color=INK)


def _label(crossover: Crossover) -> str:
    link = f"{crossover.machine}; at {crossover.host_link_gb_s:g} GB/s"
    tokens = crossover.tokens
    return f"{link} {'never' if tokens is None else f'from {tokens:,} tokens on'}"


def _caption(crossovers: Sequence[Crossover]) -> list[str]:
    lines = textwrap.wrap(ASSUMED[0].upper() + ASSUMED[1:], 90)
    if any(tokens is None for each in crossovers for _, tokens in each.curve):
        most = max(each.most_tokens for each in crossovers)
        lines.append(f"Where there is no curve, recompute is cheaper up to {most:,} tokens")
    return lines


def _legend(figure: Figure, curves: Sequence[Curves]) -> None:
    """One legend for all panels, above them; variants of which nothing was drawn are in it too."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **style, label=each.name) for each, style in _styled(curves)]
    longest = max(len(each.name) for each in curves)
    columns = max(1, min(len(handles), LEGEND_LETTERS // (longest + 6)))
    figure.legend(handles=handles, loc="outside upper left", ncols=columns)


def _styled(items: Sequence[Item]) -> Iterator[tuple[Item, dict[str, Any]]]:
    """Each with its line: all different up to 32, and later ones narrower, so that none is hidden.

    Curves of variants that do alike lie on each other, and a wide one shows beneath a narrow one.
    """
    step = min(WIDER_BY, AT_MOST / max(len(items), 1))
    for at, item in enumerate(items):
        turn, color = divmod(at, len(COLORS))
        yield (
            item,
            {
                "color": COLORS[color],
                "linestyle": DASHES[turn % len(DASHES)],
                "linewidth": NARROWEST + (len(items) - 1 - at) * step,
            },
        )
