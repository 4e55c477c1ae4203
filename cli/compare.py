"""`pagecast compare`: one load on several variants, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pagecast.cli.options import KEYS, with_scenario_options
from pagecast.cli.output import emit_json
from pagecast.cli.progress import progress_bar

SHORT = {**KEYS, "prefix_cache": "policy.prefix"}


@with_scenario_options
def compare(
    document: dict[str, Any],
    vary: Annotated[
        list[str] | None,
        typer.Option(help="key=value,value: a variant a value; given again, every combination."),
    ] = None,
    variant: Annotated[
        list[str] | None, typer.Option(help="'name: key=value, key=value': one more variant.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for all runs and figures.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Serve one load on several variants: what does a change gain, and what does it cost?

    Keys are those of the scenario, such as policy.low_watermark, or names of options. A scenario
    file may list `variants`, names with keys below them. The first variant is the baseline.
    """
    # Imported when needed: `pagecast --help` should not wait for pandas and SimPy.
    from pagecast.sim.results.store import check_target
    from pagecast.sim.study.compare import compare as compare_variants
    from pagecast.sim.study.keys import Keys
    from pagecast.sim.study.report import print_comparison
    from pagecast.sim.study.variants import collect, make_variants

    if out is not None:
        check_target(out)
    changes = collect(Keys(SHORT), vary or (), variant or (), document.pop("variants", None))
    variants = make_variants(document, changes)
    with progress_bar(quiet=json) as report:
        comparison = compare_variants(variants, out, None if json else report)
    if json:
        emit_json(comparison.as_dict())
        return
    console = Console()
    print_comparison(comparison, console)
    if out is not None:
        console.print(f"\nwritten to {out}: compare.json, figures, a folder for each variant")
