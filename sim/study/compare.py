"""Serves one load on several variants and keeps what a comparison needs of each run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagecast.engine.core.errors import UserError
from pagecast.sim.results.store import COMPARISON, replacing, to_json
from pagecast.sim.run import Run, run_scenario
from pagecast.sim.simulate import Progress
from pagecast.sim.study.crossover import Crossover, crossovers
from pagecast.sim.study.notes import notes
from pagecast.sim.study.table import Row, make_rows
from pagecast.sim.study.variants import Variant
from pagecast.sim.study.words import sentences

Summary = dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """Variants side by side; the first is the baseline that differences refer to."""

    variants: tuple[Variant, ...]
    summaries: dict[str, Summary]
    rows: list[Row]
    crossovers: list[Crossover]

    @property
    def names(self) -> list[str]:
        """The variants' names, in order."""
        return list(self.summaries)

    def as_dict(self) -> dict[str, Any]:
        """The content of `compare.json`."""
        return {
            "baseline": self.names[0],
            "variants": {
                variant.name: {
                    "changes": variant.changes,
                    "folder": variant.folder,
                    "summary": self.summaries[variant.name],
                }
                for variant in self.variants
            },
            "table": [row.as_dict(self.names) for row in self.rows],
            "sentences": sentences(self.names, self.rows),
            "notes": notes(self.summaries),
            "crossover": [each.as_dict() for each in self.crossovers],
        }


def compare(
    variants: Sequence[Variant], out: Path | None = None, progress: Progress | None = None
) -> Comparison:
    """Run all variants, and write what they leave if a folder is named: all of it or nothing.

    A run is written and forgotten before the next one begins, so that memory holds one log.

    Args:
        variants: two or more; the first is the baseline.
        out: a folder for each variant's result, `compare.json` and the figures.
        progress: told how many requests of all variants together have left.

    Raises:
        UserError: for what cannot be served, or a folder that may not be written to.
    """
    with nullcontext() if out is None else replacing(out) as folder:
        summaries, curves = {}, []
        for at, variant in enumerate(variants):
            run = _run(variant, _part(progress, at, variants))
            summaries[variant.name] = dict(run.summary)
            if folder is not None:
                curves.append(_save(run, variant, folder))
        comparison = Comparison(
            tuple(variants),
            summaries,
            make_rows(list(summaries.values())),
            crossovers({name: summary["scenario"] for name, summary in summaries.items()}),
        )
        if folder is not None:
            from pagecast.sim.study.figures import draw_comparison

            draw_comparison(curves, comparison.crossovers, folder)
            document = to_json(comparison.as_dict())
            (folder / COMPARISON).write_text(document + "\n", encoding="utf-8")
    return comparison


def _run(variant: Variant, progress: Progress | None) -> Run:
    try:
        return run_scenario(variant.scenario, progress)
    except UserError as error:
        raise UserError(f"variant {variant.name}: {error}") from None


def _save(run: Run, variant: Variant, folder: Path) -> Any:
    """Write a run's own folder; what figures of all variants need of it is all that stays."""
    from pagecast.sim.study.curves import curves_of

    run.save(folder / variant.folder)
    return curves_of(variant.name, run.log, run.latencies)


def _part(progress: Progress | None, at: int, variants: Sequence[Variant]) -> Progress | None:
    """Progress of one variant as part of all: each counts as many requests as the trace has."""
    if progress is None:
        return None

    def report(done: float, total: float, text: str) -> None:
        name = variants[at].name
        progress(at * total + done, len(variants) * total, f"{name}: {text}")

    return report
