"""A user's mistake ends in one line on stderr and status 2, never in a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from pagecast.engine.core.errors import UserError

BAD_INPUT = 2
INTERRUPTED = 130


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn a user's mistake into its line, Ctrl-C into 130, and a closed pipe into silence."""
    try:
        yield
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader is gone: keep the interpreter's last flush of stdout from complaining.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        line = _line(error)
        if line is None:
            raise
        sys.stderr.write(f"error: {line}\n")
        sys.exit(BAD_INPUT)


def _line(error: Exception) -> str | None:
    """The line of a user's mistake; None for a fault of ours.

    Typer carries Click within it since 0.16, and needs it before: the two have no common class
    for mistakes on the command line, but both can format them.
    """
    if isinstance(error, UserError):
        return str(error)
    format_message = getattr(error, "format_message", None)
    return " ".join(format_message().split()) if format_message else None
