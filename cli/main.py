"""The command: `pagecast`."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from pagecast.cli import compare, memory, run, trace
from pagecast.cli.errors import one_line_errors

app = typer.Typer(
    name="pagecast",
    help="Forecast LLM serving: what a GPU would have done with a request trace.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(run.run)
app.command()(compare.compare)
app.command()(memory.memory)
app.add_typer(trace.app, name="trace")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pagecast {version('pagecast')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Forecast LLM serving: what a GPU would have done with a request trace."""


def main() -> None:
    """Run the command; exit 0 on success and 2, with one line, on bad input."""
    with one_line_errors():
        if len(sys.argv) == 1:
            sys.argv.append("--help")
        status = app(standalone_mode=False)
    sys.exit(status if isinstance(status, int) else 0)
