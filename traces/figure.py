"""One picture of a trace: its rate over time, and how long prompts and answers are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pagecast.traces.schema import Trace

BINS = 120
BLUE, ORANGE = "#2b6cb0", "#dd6b20"


def draw_trace(trace: Trace, file: Path) -> None:
    """Draw a trace into a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.6), dpi=110, layout="constrained")
    rate, lengths = figure.subplots(1, 2, width_ratios=(3, 2))
    minutes = (trace.arrival_ns - trace.arrival_ns[0]) / 6e10
    counts, edges = np.histogram(minutes, BINS)
    rate.stairs(counts / np.diff(edges) / 60, edges, fill=True, color=BLUE, alpha=0.8)
    rate.set(title="arrivals", xlabel="minutes", ylabel=f"requests/s in {BINS} equal spans")
    for name, tokens, color in (
        ("prompt", trace.prompt_tokens, BLUE),
        ("output", trace.output_tokens, ORANGE),
    ):
        bins = np.geomspace(1, max(2, int(tokens.max())), 60)
        lengths.hist(tokens, bins, histtype="step", linewidth=1.5, color=color, label=name)
    lengths.set(title="lengths", xlabel="tokens", ylabel="requests", xscale="log")
    lengths.legend()
    for axes in (rate, lengths):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file)
