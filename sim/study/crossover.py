"""From which context on swap is cheaper than recompute, and what the host link has to do with it.

    recompute(n) = n · token + n·(n + 1)/2 · pair      swap(n) = 2 · (call + ⌈n / block⌉ · transfer)

The prices are `PreemptCost`'s, those that `auto` preemption decides by. They assume that a context
is computed again in one go from an empty one, and that a copy hides behind nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pagecast.engine.core.costs import PreemptCost
from pagecast.engine.specs.gpus import gpu
from pagecast.engine.specs.models import model
from pagecast.sim.steptime.analytic import AnalyticModel

ASSUMED = (
    "assumes an uninterrupted prefill from an empty context, nothing found in a prefix cache, and "
    "copies out and back in that overlap with nothing"
)
NEVER_SWAP = ("recompute", "never")
LINKS_GB_S = tuple(4 * 2 ** (step / 4) for step in range(29))
"""From 4 to 512 GB/s, four to the octave."""


@dataclass(frozen=True)
class Crossover:
    """The crossover of one machine: a model on a GPU, with blocks of one size.

    variants: who runs on it.  tokens: least context from which on swap is cheaper, None if it is
    not up to the longest one, `most_tokens`.  curve: the same by host link in GB/s per direction.
    """

    machine: str
    variants: tuple[str, ...]
    host_link_gb_s: float
    tokens: int | None
    most_tokens: int
    curve: tuple[tuple[float, int | None], ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "machine": self.machine,
            "variants": list(self.variants),
            "host_link_gb_s": self.host_link_gb_s,
            "tokens": self.tokens,
            "most_tokens": self.most_tokens,
            "curve": [{"host_link_gb_s": link, "tokens": tokens} for link, tokens in self.curve],
            "assumes": ASSUMED,
        }

    @property
    def sentence(self) -> str:
        """The crossover in words."""
        where = f"{self.machine}, host link of {self.host_link_gb_s:g} GB/s"
        if self.tokens is None:
            return f"Recompute is cheaper than swap up to {self.most_tokens:,} tokens: {where}"
        return f"Swap is cheaper than recompute from {self.tokens:,} tokens of context on: {where}"


def crossovers(scenarios: Mapping[str, Mapping[str, Any]]) -> list[Crossover]:
    """One crossover a machine, of scenarios by name with nothing left to defaults.

    Empty where no variant ever swaps.
    """
    if all(each["policy"]["preemption"] in NEVER_SWAP for each in scenarios.values()):
        return []
    groups: dict[str, list[str]] = {}
    for name, scenario in scenarios.items():
        groups.setdefault(_machine(scenario), []).append(name)
    return [
        _crossover(machine, {name: scenarios[name] for name in names})
        for machine, names in groups.items()
    ]


def crossover_tokens(cost: PreemptCost, block_size: int, most: int) -> int | None:
    """What `PreemptCost.crossover_tokens` says, which looks at every context down from `most`.

    Recompute is convex in the context and swap rises evenly, block by block: once swap has won for
    the whole of a block, it wins for good. So shorter contexts are looked at first.
    """
    reach = 2 * block_size
    while reach < most:
        found = cost.crossover_tokens(block_size, reach)
        if found is not None and reach - found >= block_size:
            return found
        reach *= 2
    return cost.crossover_tokens(block_size, most)


def _crossover(machine: str, scenarios: Mapping[str, Mapping[str, Any]]) -> Crossover:
    scenario = next(iter(scenarios.values()))
    most = max(each["model"]["max_len"] for each in scenarios.values())
    block_size = scenario["kv"]["block_size"]

    def at(link_gb_s: float) -> int | None:
        return crossover_tokens(_cost(scenario, link_gb_s), block_size, most)

    link = gpu(scenario["gpu"]["name"]).host_link_gb_s
    curve = tuple((each, at(each)) for each in LINKS_GB_S)
    return Crossover(machine, tuple(scenarios), link, at(link), most, curve)


def _cost(scenario: Mapping[str, Any], link_gb_s: float) -> PreemptCost:
    """The prices of a scenario with another host link."""
    card, kv = gpu(scenario["gpu"]["name"]), scenario["kv"]
    return AnalyticModel(
        model(scenario["model"]["name"]),
        replace(card, host_link_gb_s=link_gb_s),
        tp=scenario["parallel"]["tp"],
        weight_dtype=scenario["model"]["weight_dtype"],
        kv_dtype=kv["dtype"],
        block_size=kv["block_size"],
        swap_copies=kv["swap_copies"],
    ).preempt_cost()


def _machine(scenario: Mapping[str, Any]) -> str:
    """All that the prices depend on, in words."""
    tp, served, kv = scenario["parallel"]["tp"], scenario["model"], scenario["kv"]
    gpus = f"{tp} x {scenario['gpu']['name']}" if tp > 1 else scenario["gpu"]["name"]
    copies = ", a copy for each block" if kv["swap_copies"] == "per_block" else ""
    return (
        f"{gpus} with {served['name']} {served['weight_dtype']}, KV {kv['dtype']} in blocks of "
        f"{kv['block_size']}{copies}"
    )
