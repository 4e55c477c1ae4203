"""The figures of a run: latencies, queue, KV cache, throughput; each by itself and all in one.

A long run has more steps than a figure has pixels. Curves over time are means of equal spans of
time, exact, with a band from the lowest to the highest value in each span: no peak is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pagecast.sim.results.gaps import emissions
from pagecast.sim.results.latency import Latencies
from pagecast.sim.results.log import RunLog
from pagecast.sim.results.metrics import run_s
from pagecast.sim.results.quantiles import weighted_percentiles
from pagecast.sim.results.timeline import Bins, binned, bounds_ns, integral
from pagecast.sim.results.units import digits, duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, RED, INK, FAINT = (
    "#2b6cb0", "#dd7a1f", "#2f8f5b", "#c53030", "#2d3748", "#e2e8f0",
)  # fmt: skip

SPANS = 300
RATE_SPANS = 120
CURVE = "line: mean of a span, band: lowest to highest"
SHARES = np.unique(np.concatenate((np.linspace(0, 0.98, 1000), np.linspace(0.98, 1, 1000))))
"""Distribution functions are drawn through 2,000 quantiles that crowd towards the tail."""

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#a0aec0",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}


class Clock(NamedTuple):
    """The unit in which a run's time is read."""

    seconds: float
    name: str


def draw_figures(log: RunLog, latencies: Latencies, folder: Path) -> None:
    """Write `overview.png`, and its panels as `latency`, `queue`, `kv` and `throughput.png`.

    The panels are cut from the overview: one drawing, five files.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.image import imread, imsave

    panels: dict[str, Callable[[Axes], None]] = {
        "latency": lambda axes: _latency(axes, latencies),
        "queue": lambda axes: _queue(axes, log),
        "kv": lambda axes: _kv(axes, log),
        "throughput": lambda axes: _throughput(axes, log),
    }
    overview = folder / "overview.png"
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(13, 7.4), dpi=130)
        grid = figure.subplots(2, 2)
        figure.subplots_adjust(0.052, 0.07, 0.988, 0.95, wspace=0.15, hspace=0.3)
        for axes, draw in zip(grid.flat, panels.values(), strict=True):
            if len(log.steps):
                draw(axes)
            else:
                axes.set_title("nothing ran")
        figure.savefig(overview)
    pixels = imread(overview)
    height, width = pixels.shape[0] // 2, pixels.shape[1] // 2
    for at, name in enumerate(panels):
        top, left = at // 2 * height, at % 2 * width
        imsave(folder / f"{name}.png", pixels[top : top + height, left : left + width])


def _latency(axes: Axes, latencies: Latencies) -> None:
    """Distribution functions."""
    gaps_s, weights = latencies.gaps.values_ns / 1e9, latencies.gap_weights
    for name, color, values_s, counts in (
        ("TTFT", BLUE, latencies.ttft_s, None),
        ("ITL", ORANGE, gaps_s, weights),
        ("E2E", GREEN, latencies.e2e_s, None),
    ):
        present = values_s[~np.isnan(values_s)]
        ones = np.ones(len(present), dtype=np.int64)
        weight = ones if counts is None else counts
        if not weight.any():
            continue
        (p99_s,) = weighted_percentiles(present, weight, [99.0])
        curve_ms = weighted_percentiles(present, weight, SHARES * 100) * 1e3
        axes.plot(curve_ms, SHARES, color=color, label=f"{name} p99 {duration(p99_s)}")
        axes.plot(p99_s * 1e3, 0.99, "o", color=color, markersize=4)
    axes.set(xscale="log", xlabel="milliseconds; ITL: share of all gaps between tokens")
    axes.set_ylim(0, 1.02)
    axes.xaxis.set_major_formatter(lambda value, _: digits(value))
    _head(axes, "Latency")


def _queue(axes: Axes, log: RunLog) -> None:
    from matplotlib.ticker import MaxNLocator

    clock = clock_of(run_s(log))
    for column, color in (("waiting", ORANGE), ("running", BLUE)):
        _curve(axes, binned(log, column, SPANS), clock, 1.0, color, column)
    axes.set(xlabel=f"{clock.name}; {CURVE}")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _head(axes, "Requests")


def _kv(axes: Axes, log: RunLog) -> None:
    clock, blocks = clock_of(run_s(log)), max(log.pool_blocks, 1)
    bins = binned(log, "used_blocks", SPANS)
    _curve(axes, bins, clock, blocks / 100, BLUE, f"in use of {log.pool_blocks:,} blocks")
    preempted = log.step("preempted")
    start_s = (log.step("start_ns") - bounds_ns(log)[0]) / 1e9
    counts, _ = np.histogram(start_s[preempted > 0], bins.edges_s)
    if counts.any():
        at = bins.middles_s[counts > 0] / clock.seconds
        label = f"preemptions ({int(preempted.sum()):,})"
        axes.plot(at, np.full(len(at), 103.0), "|", color=RED, markersize=7, label=label)
    axes.set(xlabel=f"{clock.name}; {CURVE}", ylim=(0, 107))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0f} %")
    _head(axes, "KV cache")


def _throughput(axes: Axes, log: RunLog) -> None:
    """Prompt tokens are spread evenly over their step; output tokens come at its end."""
    clock, (start_ns, end_ns) = clock_of(run_s(log)), bounds_ns(log)
    edges_ns = np.linspace(start_ns, end_ns, RATE_SPANS + 1)
    span_s = (end_ns - start_ns) / 1e9 / RATE_SPANS
    duration_s = (log.step("end_ns") - log.step("start_ns")) / 1e9
    per_s = log.step("prefill_tokens") / np.maximum(duration_s, 1e-9)
    times_ns, tokens = emissions(log)
    output, _ = np.histogram(times_ns, edges_ns, weights=tokens)
    for rates, color, label in (
        (np.diff(integral(log, per_s, edges_ns)) / span_s, GREEN, "prompt tokens computed"),
        (output / span_s, BLUE, "output tokens"),
    ):
        edges = (edges_ns - start_ns) / 1e9 / clock.seconds
        axes.stairs(rates, edges, color=color, linewidth=1.3, label=label)
    axes.set(xlabel=f"{clock.name}; means of {RATE_SPANS} spans")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _head(axes, "Tokens per second")


def _head(axes: Axes, title: str) -> None:
    """Title at the left, legend (if anything was drawn) at the right of a line above the panel."""
    axes.set_title(title)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.2)


def _curve(axes: Axes, bins: Bins, clock: Clock, unit: float, color: str, label: str) -> None:
    edges = bins.edges_s / clock.seconds
    low, high = (np.append(side, side[-1]) / unit for side in (bins.low, bins.high))
    axes.fill_between(edges, low, high, color=color, alpha=0.22, linewidth=0, step="post")
    middles = bins.middles_s / clock.seconds
    axes.plot(middles, bins.mean / unit, color=color, linewidth=1.3, label=label)


def clock_of(seconds: float) -> Clock:
    """The unit for a run that lasts so long."""
    units = (Clock(3600.0, "hours"), Clock(60.0, "minutes"), Clock(1.0, "seconds"))
    return next((unit for unit in units if seconds >= 3 * unit.seconds), units[-1])
