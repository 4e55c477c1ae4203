"""`pagecast trace`: look at a trace before replaying it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pagecast.cli.output import emit_json

app = typer.Typer(help="Look at traces.", no_args_is_help=True)


@app.callback()
def traces() -> None:
    """Look at traces."""


@app.command()
def describe(
    path: Annotated[str, typer.Argument(help="Trace file, or a bundled sample.")],
    format: Annotated[str | None, typer.Option(help="Read it as this format.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for a figure, trace.png.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Say what a trace is like: rate, bursts, lengths, and what was set aside."""
    from pagecast.traces import load
    from pagecast.traces.describe import describe as statistics
    from pagecast.traces.figure import draw_trace

    trace = load(path, format)
    facts = statistics(trace)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        draw_trace(trace, out / "trace.png")
    if json:
        emit_json(facts)
        return
    _print(facts, Console())
    if out is not None:
        typer.echo(f"\nfigure: {out / 'trace.png'}")


def _print(facts: dict[str, Any], console: Console) -> None:
    source = facts["source"]
    aside = ", ".join(f"{count:,} {why}" for why, count in source["set_aside"].items()) or "none"
    console.print(
        f"[bold]{escape(source['path'])}[/bold]: read as {source['format']}, "
        f"{source['rows_read']:,} rows read, {source['rows_kept']:,} kept, set aside: {aside}"
    )
    for note in source["notes"]:
        console.print(f"note: {note}", style="dim", markup=False)
    console.print()
    console.print(_arrivals(facts))
    console.print()
    console.print(_lengths(facts))


def _arrivals(facts: dict[str, Any]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    dispersion = ", ".join(
        f"{_number(value)} in {window}" for window, value in facts["index_of_dispersion"].items()
    )
    table.add_row("requests", f"{facts['requests']:,} in {facts['span_s']:,.2f} s, "
                  f"{_number(facts['requests_per_s'], 3)} requests/s")  # fmt: skip
    table.add_row("gap CV", f"{_number(facts['gap_cv'])} (1 for a Poisson process), "
                  f"{facts['tied_arrivals']:,} tied arrivals")  # fmt: skip
    table.add_row("dispersion", f"{dispersion} windows (1 for a Poisson process)")
    table.add_row("tokens", f"{_number(facts['prompt_tokens_per_s'], 0)} prompt and "
                  f"{_number(facts['output_tokens_per_s'], 0)} output tokens/s")  # fmt: skip
    if facts["prefix_hit_share"] is not None:
        share = facts["prefix_hit_share"]
        table.add_row("prefix hits", f"{share:.2%} of prompt tokens, with an unlimited cache")
    return table


def _lengths(facts: dict[str, Any]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("tokens")
    for statistic in facts["prompt_tokens"]:
        table.add_column(statistic, justify="right")
    for name in ("prompt_tokens", "output_tokens"):
        values = (f"{value:,.2f}".removesuffix(".00") for value in facts[name].values())
        table.add_row(name.removesuffix("_tokens"), *values)
    return table


def _number(value: float | None, digits: int = 2) -> str:
    return "n/a" if value is None else f"{value:,.{digits}f}"
