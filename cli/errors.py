"""A user's mistake ends in one line on stderr and status 2, never in a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from pagecast.engine.core.errors import UserError

READER_GONE = 1  # what Typer exits with when it meets the closed pipe first
BAD_INPUT = 2
INTERRUPTED = 130


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn a user's mistake into its line, Ctrl-C into 130, and a closed pipe into silence."""
    try:
        yield
        sys.stdout.flush()  # a closed pipe or full disk shows here, not at the interpreter's end
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        _abandon_stdout()
        sys.exit(READER_GONE)
    except Exception as error:
        line = _line(error)
        if line is None:
            raise
        if isinstance(error, OSError) and error.filename is None:
            _abandon_stdout()
        sys.stderr.write(f"error: {line}\n")
        sys.exit(BAD_INPUT)


def _abandon_stdout() -> None:
    """Keep the interpreter's last flush of a stdout that cannot be written from complaining."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _line(error: Exception) -> str | None:
    """The line of a user's mistake, or of a file that the system refuses; None for our fault.

    A new Typer carries Click within it, an older one needs Click itself: the two have no common
    class for mistakes on the command line, but both can format them. A group called without a
    command has its help shown and an empty message.
    """
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError):
        problem = error.strerror or str(error)
        return f"{error.filename}: {problem}" if error.filename else problem
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        return None
    return " ".join(format_message().split()) or "a command is missing; --help lists them"
