"""A progress bar on stderr, for work that lasts; libraries below only call a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

Report = Callable[[float, float, str], None]


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Report]:
    """Yield a function to call with what is done, the whole, and what is being done.

    Args:
        quiet: draw nothing; nor is anything drawn where stderr is no terminal.
    """
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=1, visible=False)

        def report(done: float, total: float, text: str) -> None:
            bar.update(task, completed=done, total=total, description=text, visible=True)

        yield report
