"""Keys that a variant may set: those of the scenario with dots, or shorter names for them.

All variants serve the same load under the same limits, so that keys of `load` and `slo` are shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pagecast.engine.core.errors import nearest
from pagecast.sim.scenario import Scenario, ScenarioError

Changes = dict[str, Any]
"""Values by dotted key of the scenario."""

SHARED = ("load", "slo")
WITHOUT_SECTION = ("seed",)


class Keys:
    """Finds the dotted key behind what was typed.

    Args:
        short: dotted keys by short name, such as the options of a command.
    """

    def __init__(self, short: Mapping[str, str]) -> None:
        self.short = short
        self.sections = [name for name in Scenario.model_fields if name not in SHARED]

    def find(self, typed: str) -> str:
        """The dotted key.

        >>> Keys({"kv_dtype": "kv.dtype"}).find("kv-dtype")
        'kv.dtype'

        Raises:
            ScenarioError: if it is unknown, or one that variants share.
        """
        key = self.short.get(typed.replace("-", "_"), typed)
        section, dot, _ = key.partition(".")
        if section in SHARED:
            raise ScenarioError(
                f"{typed}: variants serve the same load under the same limits; accepted: keys of "
                f"{', '.join(self.sections)}"
            )
        if key in WITHOUT_SECTION or (dot and section in self.sections):
            return key
        raise ScenarioError(nearest("key", typed, self._accepted()))

    def _accepted(self) -> list[str]:
        own = [name for name, key in self.short.items() if key.partition(".")[0] not in SHARED]
        sections = [f"{name}.KEY" for name in self.sections if name not in WITHOUT_SECTION]
        return sorted({*own, *WITHOUT_SECTION}) + sections


def changes_of(pairs: Iterable[tuple[str, Any]], keys: Keys, name: str) -> Changes:
    """What a variant changes, from keys as typed and their values.

    Raises:
        ScenarioError: for a key that is unknown, shared or given twice.
    """
    changes: Changes = {}
    for typed, value in pairs:
        key = keys.find(typed)
        if key in changes:
            raise ScenarioError(f"variant {name}: {key} is given twice; accepted: one value a key")
        changes[key] = meant(key, value)
    return changes


def meant(key: str, value: Any) -> Any:
    """The value of the axis that has words where YAML and --prefix-cache have yes and no."""
    if key == "policy.prefix" and isinstance(value, bool):
        return "block_hash" if value else "off"
    return value
