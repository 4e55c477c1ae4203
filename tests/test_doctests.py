"""Examples in docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

TOPS = ("pagecast.cli", "pagecast.engine", "pagecast.sim", "pagecast.traces")


def modules() -> list[str]:
    found = []
    for top in TOPS:
        package = importlib.import_module(top)
        found += [m.name for m in pkgutil.walk_packages(package.__path__, f"{top}.")]
    return [name for name in found if not name.endswith("__main__")]


@pytest.mark.parametrize("name", modules())
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
