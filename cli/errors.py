"""A user's mistake ends in one line on stderr and status 2, never in a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pagecast.engine.core.errors import UserError

BAD_INPUT = 2
INTERRUPTED = 130


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn a `UserError` into its line, Ctrl-C into status 130, and a closed pipe into silence."""
    try:
        yield
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader is gone: keep the interpreter's last flush of stdout from complaining.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
