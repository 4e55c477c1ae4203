"""`pagecast run`: replay a trace on a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pagecast.cli.options import with_scenario_options
from pagecast.cli.output import emit_json
from pagecast.cli.progress import progress_bar
from pagecast.sim import scenario as scenarios


@with_scenario_options
def run(
    document: dict[str, Any],
    out: Annotated[Path | None, typer.Option(help="Folder for tables and figures.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Replay a trace: what would this GPU have done with these requests?"""
    # Imported when needed: `pagecast --help` should not wait for pandas and SimPy.
    from pagecast.sim.results.report import print_report
    from pagecast.sim.results.store import check_target
    from pagecast.sim.run import run_scenario

    if out is not None:
        check_target(out)
    scenario = scenarios.parse(document)
    with progress_bar(quiet=json) as report:
        result = run_scenario(scenario, None if json else report)
    if out is not None:
        result.save(out)
    if json:
        emit_json(result.summary)
        return
    console = Console()
    print_report(result.summary, console)
    if out is not None:
        console.print(f"\nwritten to {out}: summary, tables, scenario, figures (overview.png)")
