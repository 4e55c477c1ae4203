"""The crossover of swap and recompute against a closed form, and against the slow search."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pagecast.engine.core.costs import PreemptCost
from pagecast.engine.specs.gpus import gpu
from pagecast.engine.specs.models import model
from pagecast.sim.configure import configure
from pagecast.sim.scenario import parse
from pagecast.sim.steptime.analytic import AnalyticModel
from pagecast.sim.study.crossover import crossover_tokens, crossovers

NS = 1_000_000


def scenario(preemption: str, **kv: Any) -> dict[str, Any]:
    document = {
        "load": {"trace": "azure_conv_like"}, "model": {"name": "llama-3.1-8b"},
        "gpu": {"name": "a100-80gb"}, "policy": {"preemption": preemption}, "kv": kv,
    }  # fmt: skip
    return configure(parse(document)).resolved


def root(cost: PreemptCost) -> float:
    """Where n·token + n·(n + 1)/2·pair = 2·(call + n·transfer), for blocks of one token."""
    half_pair = cost.pair_ps / 2000
    linear = cost.token_ps / 1000 + half_pair - 2 * cost.block_ns
    return (math.sqrt(linear**2 + 8 * half_pair * cost.call_ns) - linear) / (2 * half_pair)


@given(
    st.integers(1, 100_000), st.integers(1, 100), st.integers(0, 200_000), st.integers(0, NS)
)  # fmt: skip
def test_blocks_of_one_token_cross_where_the_quadratic_does(
    token_ns: int, pair_ns: int, block_ns: int, call_ns: int
) -> None:
    cost = PreemptCost(token_ns * 1000, pair_ns * 1000, block_ns, call_ns)
    at, most = root(cost), 20_000
    found = crossover_tokens(cost, 1, most)
    accepted = {math.floor(at - 1e-6) + 1, math.floor(at + 1e-6) + 1}
    assert found in accepted if found is not None else max(accepted) > most


@given(
    st.integers(1, 100 * NS), st.integers(0, 5000), st.integers(0, 1_000_000),
    st.integers(0, NS), st.integers(1, 64), st.integers(1, 20_000),
)  # fmt: skip
def test_the_fast_search_finds_what_the_slow_one_does(
    token_ps: int, pair_ps: int, block_ns: int, call_ns: int, block_size: int, most: int
) -> None:
    cost = PreemptCost(token_ps, pair_ps, block_ns, call_ns)
    assert crossover_tokens(cost, block_size, most) == cost.crossover_tokens(block_size, most)


def test_a_hand_computed_crossover() -> None:
    """Tokens at 1 ms, blocks of 10 at 4 ms, 11 ms to set out: swap wins where n > 22 + 8·⌈n/10⌉.

    In block 12, which takes 118 ms, at 119 and 120 tokens; in block 14 (134 ms) from 135 on; in
    block 15 (142 ms) from 143 on; and in block 16 (150 ms) from its first token, the 151st, on.
    """
    cost = PreemptCost(token_ps=1000 * NS, pair_ps=0, block_ns=4 * NS, call_ns=11 * NS)
    assert crossover_tokens(cost, 10, 400) == 143
    assert crossover_tokens(cost, 10, 120) == 119
    assert crossover_tokens(cost, 10, 118) is None


def test_the_curve_falls_with_the_link_and_meets_the_gpus_own() -> None:
    (found,) = crossovers({"a": scenario("recompute"), "b": scenario("swap")})
    at_links = [math.inf if tokens is None else tokens for _, tokens in found.curve]
    assert at_links == sorted(at_links, reverse=True)
    assert found.variants == ("a", "b")
    assert (found.curve[0][0], found.curve[-1][0]) == (4, 512)
    assert found.host_link_gb_s == 32
    assert found.tokens == dict(found.curve)[32]
    card = replace(gpu("a100-80gb"), host_link_gb_s=8.0)
    cost = AnalyticModel(model("llama-3.1-8b"), card).preempt_cost()
    tokens = dict(found.curve)[8.0]
    assert tokens is not None
    assert cost.swap_ns(-(-tokens // 16)) < cost.recompute_ns(tokens)
    assert cost.swap_ns(-(-(tokens - 1) // 16)) >= cost.recompute_ns(tokens - 1)


def test_one_crossover_a_machine_and_none_where_nobody_swaps() -> None:
    three = {"a": scenario("swap"), "b": scenario("recompute"), "c": scenario("swap", dtype="fp8")}
    found = crossovers(three)
    assert [each.variants for each in found] == [("a", "b"), ("c",)]
    assert found[0].tokens != found[1].tokens
    assert crossovers({"a": scenario("recompute")}) == []
