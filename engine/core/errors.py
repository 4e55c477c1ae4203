"""What a user can do wrong, told in one line.

Lives at the bottom of the house so that every part can raise it: traces, specs, policies,
scenarios. The command prints the line and exits with status 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake in what the user gave. Its text is one line: what, where, and what is accepted."""


def nearest(what: str, name: str, choices: Iterable[str]) -> str:
    """The line for a name that is not known: the closest ones, then all that are accepted.

    Args:
        what: what the name should have been: `model`, `policy.victim`, ...
        name: what was given.
        choices: what would be accepted.
    """
    known = list(choices)
    longer = [choice for choice in known if name and choice.startswith(name)]
    close = longer or difflib.get_close_matches(name, known, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return f"unknown {what} {name!r}; {hint}accepted: {', '.join(known)}"
