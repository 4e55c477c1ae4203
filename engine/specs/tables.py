"""Reads the TOML tables that ship with this package."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def read(file: str) -> dict[str, dict[str, Any]]:
    """All tables of a file of this package, by name."""
    return tomllib.loads(files(__package__).joinpath(file).read_text(encoding="utf-8"))
