"""Variants as they are typed: lists of values that make a grid, and names with keys."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from pagecast.sim.scenario import ScenarioError
from pagecast.sim.study.keys import Changes, Keys, changes_of, meant

NAMED = "'name: key=value, key=value'"
GRID = "key=value,value"

_COMMA = re.compile(r""",(?=(?:[^"']|"[^"]*"|'[^']*')*$)""")
"""A comma outside of quotes."""


def grid(texts: Sequence[str], keys: Keys) -> Iterable[tuple[str, Changes]]:
    """Name and changes of every combination of `key=value,value` texts; the last varies fastest.

    A variant is named for its values. Numbers and the like, and words that stand for two keys, have
    their key before them.

    >>> for name, changes in grid(["kv.dtype=bf16,fp8", "kv.block_size=16"], Keys({})):
    ...     print(name)
    bf16 + kv.block_size=16
    fp8 + kv.block_size=16

    Raises:
        ScenarioError: for a text that is no such list, a key given twice, or one unknown.
    """
    axes: dict[str, tuple[str, list[Any]]] = {}
    for text in texts:
        typed, key, values = _axis(text, keys)
        if key in axes:
            raise ScenarioError(f"--vary {text}: {key} is varied twice; accepted: one list a key")
        axes[key] = typed, values
    words = [value for _, values in axes.values() for value in values if isinstance(value, str)]
    points = itertools.product(*(values for _, values in axes.values())) if axes else ()
    for point in points:
        labels = (
            value if value and words.count(value) == 1 else f"{typed}={_text(value)}"
            for (typed, _), value in zip(axes.values(), point, strict=True)
        )
        yield " + ".join(labels), dict(zip(axes, point, strict=True))


def named(text: str, keys: Keys) -> tuple[str, Changes]:
    """Name and changes of `name: key=value, key=value`; without any, the shared scenario itself.

    >>> named("small: kv_blocks=500", Keys({"kv_blocks": "kv.blocks"}))
    ('small', {'kv.blocks': 500})

    Raises:
        ScenarioError: for a text without a name, or an assignment that is none.
    """
    name, colon, rest = (part.strip() for part in text.partition(":"))
    if not colon or not name or "=" in name:
        raise ScenarioError(f"--variant {text}: no name; accepted: {NAMED}")
    pairs = []
    for part in _COMMA.split(rest) if rest else ():
        typed, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or not typed:
            raise ScenarioError(f"--variant {text}: {part.strip()!r}; accepted: {NAMED}")
        pairs.append((typed, _value(value, f"--variant {text}")))
    return name, changes_of(pairs, keys, name)


def _axis(text: str, keys: Keys) -> tuple[str, str, list[Any]]:
    """The key as typed and as found, and the values."""
    typed, sign, rest = (part.strip() for part in text.partition("="))
    parts = _COMMA.split(rest)
    if not sign or not typed or not all(part.strip() for part in parts):
        raise ScenarioError(f"--vary {text}: no list of values; accepted: {GRID}")
    key = keys.find(typed)
    values = [meant(key, _value(part, f"--vary {text}")) for part in parts]
    if any(value in values[:at] for at, value in enumerate(values)):
        raise ScenarioError(f"--vary {text}: a value is given twice; accepted: {GRID}")
    return typed, key, values


def _value(text: str, where: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ScenarioError(f"{where}: {text.strip()!r} is not YAML; accepted: a value") from None


def _text(value: Any) -> str:
    """A value as YAML has it, on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=1000).splitlines()[0]
