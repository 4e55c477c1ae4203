"""What can be wrong with a trace file: one line with file, line, value and remedy."""

from __future__ import annotations

from pathlib import Path

from pagecast.engine.core.errors import UserError


class TraceError(UserError):
    """A trace that cannot be read as it is."""


def at(path: Path, line: int | None, problem: str, accepted: str) -> TraceError:
    """The error for a place in a file.

    Args:
        path: the file.
        line: counted from 1, the header included; None for the file as a whole.
        problem: what was found.
        accepted: what would be accepted instead.
    """
    where = f"{path}:{line}" if line is not None else str(path)
    return TraceError(f"{where}: {problem}; accepted: {accepted}")
