"""A comparison on a terminal: the table, what it comes to, and what its reader should know."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagecast.sim.results.report import forecast_by, scenario_parts
from pagecast.sim.results.units import digits, time_unit
from pagecast.sim.study.compare import Comparison
from pagecast.sim.study.crossover import ASSUMED
from pagecast.sim.study.notes import notes
from pagecast.sim.study.table import Row
from pagecast.sim.study.words import percent, sentences

BASELINE = "(baseline)"
WIDE = 10_000
BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print a comparison for a person to read."""
    names, rows = comparison.names, comparison.rows
    console.print(Text(_shared(comparison), style="dim"))
    _print_tables(names, rows, console)
    for sentence in sentences(names, rows):
        console.print(Text(sentence, style="bold"))
    for crossover in comparison.crossovers:
        console.print(Text(f"{crossover.sentence}."))
    if comparison.crossovers:
        console.print(Text(f"note: the crossover {ASSUMED}", style="dim"))
    for note in notes(comparison.summaries):
        console.print(Text(f"note: {note}", style="dim"))


def _shared(comparison: Comparison) -> str:
    """What all variants have in common, and where their step times come from."""
    parts = [scenario_parts(each["scenario"]) for each in comparison.summaries.values()]
    common = [part for part, *others in zip(*parts, strict=True) if set(others) <= {part}]
    origins = {forecast_by(each["step_time"]): None for each in comparison.summaries.values()}
    return f"{' · '.join(common)}\nforecast by {' / '.join(origins)}"


def _print_tables(names: Sequence[str], rows: Sequence[Row], console: Console) -> None:
    """One table, or several of as many variants each as there is room for, at least one."""
    for fit in range(len(names), 0, -1):
        parts = [range(at, min(at + fit, len(names))) for at in range(0, len(names), fit)]
        tables = [_table(names, rows, part) for part in parts]
        widths = [_least_width(table, console) for table in tables]
        if max(widths) <= console.width:
            break
    for table, width in zip(tables, widths, strict=True):
        if width > console.width:
            table.width = width
        console.print(table, "", crop=False)


def _least_width(table: Table, console: Console) -> int:
    """Columns that a table needs on any terminal."""
    return console.measure(table, options=console.options.update(width=WIDE)).minimum


def _table(names: Sequence[str], rows: Sequence[Row], shown: range) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("metric", no_wrap=True)
    table.add_column("", no_wrap=True)
    columns = [_cells(rows, at) for at in shown]
    for at, cells in zip(shown, columns, strict=True):
        head = Text(f"{names[at]}\n{BASELINE}" if at == 0 else names[at])
        wide = max(len(cells[0]), max(map(len, head.plain.split())))
        table.add_column(head, justify="right", min_width=wide)
    for row, *cells in zip(rows, *columns, strict=True):
        table.add_row(row.metric.title, _unit(row)[0], *cells)
    return table


def _cells(rows: Sequence[Row], at: int) -> list[Text]:
    """One variant's values and differences to the baseline; a star at those it wins."""
    values = [_value(row.values[at], row) for row in rows]
    changes = [_change(row, at) for row in rows]
    wide, wider = max(map(len, values)), max(map(len, changes))
    cells = []
    for row, value, change in zip(rows, values, changes, strict=True):
        won = row.winner == at
        text = f"{value:>{wide}}  {change:>{wider}} {'*' if won else ' '}"
        cells.append(Text(text, style="bold green" if won else "", no_wrap=True))
    return cells


def _change(row: Row, at: int) -> str:
    change = row.change_percent(at) if at else None
    return "" if change is None else percent(change)


def _unit(row: Row) -> tuple[str, float]:
    """The unit that a row is printed in, and what values are multiplied by."""
    known = [value for value in row.values if value is not None]
    if row.metric.unit == "s":
        return time_unit(row.values)
    if row.metric.unit == "bytes":
        size, name = next((each for each in BYTES if max(known) >= each[0]), BYTES[-1])
        return name, 1 / size
    units = {"count": ("", 1.0), "share": ("%", 100.0), "usd": ("$", 1.0)}
    return units.get(row.metric.unit, (row.metric.unit, 1.0))


def _value(value: float | None, row: Row) -> str:
    if value is None:
        return "n/a"
    _, scale = _unit(row)
    formats = {"count": f"{value:,.0f}", "share": f"{value:.1%}"[:-1], "usd": f"{value:,.2f}"}
    return formats.get(row.metric.unit) or digits(value * scale)
