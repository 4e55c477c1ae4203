"""What the reader of a comparison should know: the notes of its runs, and what may mislead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pagecast.sim.study.words import enumerated


def notes(summaries: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The notes of all runs, each once, with the variants it is about where not all have it."""
    about: dict[str, list[str]] = {}
    for name, summary in summaries.items():
        for note in [*_own_notes(summary), *summary.get("notes", [])]:
            about.setdefault(note, []).append(name)
    everyone = len(summaries)
    return [
        note if len(names) == everyone else f"{', '.join(names)}: {note}"
        for note, names in about.items()
    ] + _same_scenarios(summaries)


def _own_notes(summary: Mapping[str, Any]) -> list[str]:
    requests, load = summary["requests"], summary["load"]
    lost = requests["total"] - requests["finished"]
    told = []
    if lost:
        told.append(f"latencies leave out {lost:,} of {requests['total']:,} requests: not finished")
    if load["saturated"] or load["unstable"]:
        told.append("near or beyond saturation: latencies are unstable, and grow with the trace")
    return told


def _same_scenarios(summaries: Mapping[str, Mapping[str, Any]]) -> list[str]:
    groups: list[tuple[Any, list[str]]] = []
    for name, summary in summaries.items():
        same = next((group for group in groups if group[0] == summary["scenario"]), None)
        if same:
            same[1].append(name)
        else:
            groups.append((summary["scenario"], [name]))
    return [f"{enumerated(names)} are one scenario" for _, names in groups if len(names) > 1]
