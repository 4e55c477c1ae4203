"""Makes the bundled samples again: `python -m pagecast.traces.samples` in a checkout."""

from __future__ import annotations

from pathlib import Path

from pagecast.traces.synth import conversation
from pagecast.traces.write import to_csv

SAMPLES = {"azure_conv_like": (4_000, 2023)}
"""Requests and seed of each sample."""


def texts() -> dict[str, str]:
    """The content of each sample, by name."""
    return {name: to_csv(conversation(*recipe)) for name, recipe in SAMPLES.items()}


if __name__ == "__main__":
    for name, text in texts().items():
        (Path(__file__).parent / f"{name}.csv").write_text(text, encoding="utf-8")
