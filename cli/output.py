"""What the command prints for machines: one JSON document on stdout."""

from __future__ import annotations

import json
import math
import sys
from typing import Any


def emit_json(document: Any) -> None:
    """Write one JSON document on stdout; what is not a number becomes null."""
    json.dump(_finite(document), sys.stdout, indent=2)
    sys.stdout.write("\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
