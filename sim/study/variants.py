"""Variants: scenarios that share all but a few keys, from a file and from what was typed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pagecast.engine.core.errors import UserError
from pagecast.sim.configure import configure
from pagecast.sim.scenario import Scenario, ScenarioError, parse, put
from pagecast.sim.study.keys import Changes, Keys, changes_of
from pagecast.sim.study.typed import GRID, NAMED, grid, named


@dataclass(frozen=True)
class Variant:
    """One scenario of a comparison; `changes` is what sets it apart."""

    name: str
    changes: Changes
    scenario: Scenario

    @property
    def folder(self) -> str:
        """The name as that of a folder, apart from `compare.json` beside it."""
        plain = re.sub(r"[^\w.,=+@-]+", "_", self.name.replace(" + ", "+"))
        return plain.removesuffix(".json").lstrip(".") or "_"


def collect(
    keys: Keys, vary: Sequence[str] = (), variants: Sequence[str] = (), section: object = None
) -> dict[str, Changes]:
    """Changes by name: the variants of a file, then those named, then the grid.

    Raises:
        ScenarioError: for what cannot be read, or a name that stands for two.
    """
    found: dict[str, Changes] = {}
    sources = (listed(section, keys), (named(text, keys) for text in variants), grid(vary, keys))
    for name, changes in itertools.chain.from_iterable(sources):
        if name in found:
            raise ScenarioError(f"two variants are named {name!r}; accepted: a name for each")
        found[name] = changes
    return found


def make_variants(
    document: Mapping[str, Any], changes_by_name: Mapping[str, Changes]
) -> list[Variant]:
    """Each variant's scenario: the shared keys with its own over them. The first is the baseline.

    All are made concrete once, so that a mistake in the last one shows before the first one runs.

    Raises:
        UserError: for fewer than two, names that make one folder, or a value not accepted.
    """
    if len(changes_by_name) < 2:
        count = "one variant" if changes_by_name else "no variants"
        raise ScenarioError(
            f"{count} to compare; accepted: two or more, by --vary {GRID}, --variant {NAMED}, or "
            "`variants` in the file"
        )
    variants = [_variant(document, name, own) for name, own in changes_by_name.items()]
    _check_folders(variants)
    return variants


def listed(section: object, keys: Keys) -> Iterable[tuple[str, Changes]]:
    """Names and changes of a file's `variants`; the keys below a name are dotted or nested.

    Raises:
        ScenarioError: if it is no mapping of names to keys.
    """
    if section is None:
        return
    if not isinstance(section, Mapping):
        raise ScenarioError(f"variants: {section!r}; accepted: names, each with keys below it")
    for name, entries in section.items():
        if entries is not None and not isinstance(entries, Mapping):
            raise ScenarioError(f"variants.{name}: {entries!r}; accepted: keys with values")
        yield str(name), changes_of(_flat(entries or {}), keys, str(name))


def _check_folders(variants: Sequence[Variant]) -> None:
    """Refuse names that one folder cannot tell apart, or that its files have."""
    folders: dict[str, str] = {}
    for variant in variants:
        if variant.folder.endswith(".png"):
            raise ScenarioError(f"variant {variant.name}: a figure's name; accepted: another one")
        other = folders.setdefault(variant.folder.casefold(), variant.name)
        if other != variant.name:
            raise ScenarioError(
                f"variants {other!r} and {variant.name!r} would share a folder; accepted: names "
                "that differ in letters or digits"
            )


def _variant(document: Mapping[str, Any], name: str, changes: Changes) -> Variant:
    own = deepcopy(dict(document))
    for key, value in changes.items():
        put(own, key, value)
    scenario = parse(own, where=f"variant {name}")
    try:
        configure(scenario)
    except UserError as error:
        raise ScenarioError(f"variant {name}: {error}") from None
    return Variant(name, changes, scenario)


def _flat(entries: Mapping[Any, Any], above: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in entries.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
