"""Swap to host memory and the choice of victims, step by step, against figures worked out by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from pagecast.engine.core.blocks import make_pool
from pagecast.engine.core.costs import PreemptCost
from pagecast.engine.core.forecasts import FORECAST
from pagecast.engine.core.policy import Policy
from pagecast.engine.core.presets import PRESETS
from pagecast.engine.core.request import Request, State
from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import StepPlan, StepShape
from pagecast.sim.simulate import Server, serve
from pagecast.sim.world.executor import TraceExecutor
from pagecast.traces.schema import Trace

SWAP = replace(PRESETS["vllm-v1@0.33"], prefix="off", null_blocks=0, preemption="swap", max_seqs=64)
PREEMPTING = [name for name, policy in PRESETS.items() if policy.preemption != "never"]
every_preempting_preset = pytest.mark.parametrize("name", PREEMPTING)
LEVEL_AT_80 = PreemptCost(token_ps=1_000_000, pair_ps=0, block_ns=0, call_ns=40_000)
"""A swap costs two calls at 40 us, a token 1 us: swap is cheaper from 81 tokens on."""


class Unlike:
    """Answer blocks that equal nothing."""

    def answer_block(self, request: Request) -> int:
        return -(request.id << 20) - len(request.identities)


class Desk:
    """A scheduler driven by hand, and what each request has computed by an own count."""

    def __init__(self, policy: Policy, blocks: int, size: int = 4, *, swap_blocks: int = 0) -> None:
        pool = make_pool(policy, blocks, size)
        self.s = Scheduler(policy, pool, 1 << 20, swap_blocks=swap_blocks)
        self.size = size
        self.answers: dict[int, int] = {}
        self.executor = TraceExecutor(lambda shape: 1, self.answers, Unlike())
        self.computed: Counter[Request] = Counter()
        self.in_all: Counter[Request] = Counter()

    def ask(self, prompt: int, answer: int, **fields: Any) -> Request:
        request = Request(len(self.answers), prompt, **fields)
        self.answers[request.id] = answer
        assert self.s.submit(request) is None
        return request

    def step(self, watch: Callable[[StepPlan, set[Request]], None] | None = None) -> StepPlan:
        plan = self.s.plan(self.s.steps)
        if plan.empty:
            return plan
        served = list(self.s.scheduled(plan))
        if watch:
            watch(plan, {chunk.request for chunk in served})
        out = {transfer.request for transfer in plan.swapped_out}
        for request in plan.preempted:
            if request not in out:
                self.computed[request] = 0
        for request, _, tokens in served:
            self.computed[request] += tokens
            self.in_all[request] += tokens
        self.s.commit(plan, self.executor.run(plan))
        return plan

    def steps(self, watch: Callable[[StepPlan, set[Request]], None] | None = None) -> Iterator[int]:
        """Run until nothing is left, yielding after each step."""
        while not self.step(watch).empty:
            yield self.s.steps
        assert not self.s.running
        assert not self.s.waiting
        assert not self.s.swapped
        assert self.s.swap_space.free == self.s.swap_space.blocks


def two_that_do_not_both_fit(swap_blocks: int, **axes: Any) -> tuple[Desk, Request, Request]:
    """Prompts of 8 and answers of 8 in 6 blocks of 4: both have 12 computed when step 5 is short."""
    desk = Desk(replace(SWAP, **axes), 6, swap_blocks=swap_blocks)
    return desk, desk.ask(8, 8), desk.ask(8, 8)


def crowd(policy: Policy, seed: int, swap_blocks: int) -> Desk:
    random = Random(seed)
    desk = Desk(policy, random.randint(40, 60), random.choice([1, 4, 16]), swap_blocks=swap_blocks)
    room = desk.s.usable_blocks * desk.size
    for _ in range(20):
        prompt = random.randint(1, room // 3)
        desk.ask(prompt, random.randint(1, room // 2), priority=random.randrange(3))
    return desk


def swapping(name: str, mode: str = "swap", **axes: Any) -> Policy:
    """A preset that swaps, without its forecast if it has one, which leaves nearly no victims."""
    policy = PRESETS[name]
    if policy.reserve in FORECAST:
        policy = replace(policy, reserve="chunk")
    budget = 1024 if policy.chunk == "none" else 64
    return replace(
        policy, preemption=mode, prefix="off", max_seqs=12, max_batched_tokens=budget, **axes
    )


def fate(plan: StepPlan) -> list[tuple[Request, bool]]:
    """Who gave way in a step, and whether it was swapped out."""
    out = {transfer.request for transfer in plan.swapped_out}
    return [(request, request in out) for request in plan.preempted]


# Host memory.


def test_blocks_of_computed_tokens_leave_and_as_many_return_with_the_request_running() -> None:
    desk, first, second = two_that_do_not_both_fit(swap_blocks=10)
    plans = [desk.step() for _ in range(9)]
    moved = [(plan.shape.swapped_out_blocks, plan.shape.swapped_in_blocks) for plan in plans]
    assert moved == [(0, 0)] * 5 + [(3, 0)] + [(0, 0)] * 2 + [(0, 3)]
    assert plans[5].preempted == [second]
    assert first.state is State.DONE
    assert plans[8].rejoined == [second]
    assert desk.computed[second] == 13
    assert plans[5].swapped_out[0].host == plans[8].swapped_in[0].host


@pytest.mark.parametrize("swap_blocks", [0, 1, 2, 3, 4])
def test_host_memory_that_lacks_one_block_means_recompute(swap_blocks: int) -> None:
    desk, _, second = two_that_do_not_both_fit(swap_blocks)
    list(desk.steps())
    swapped = swap_blocks >= 3
    assert (second.preemptions, second.swaps) == (1, int(swapped))
    assert second.recomputed_tokens == (0 if swapped else 12)
    assert desk.in_all[second] == 15 + second.recomputed_tokens


@every_preempting_preset
@pytest.mark.parametrize("swap_blocks", [0, 30, 10_000])
def test_who_fits_into_what_is_left_of_host_memory_is_swapped(name: str, swap_blocks: int) -> None:
    """By an own count of what is computed and of what host memory holds."""
    victims = swaps = 0
    for seed in range(3):
        desk = crowd(swapping(name), seed, swap_blocks)
        held: dict[Request, int] = {}

        def watch(
            plan: StepPlan, served: set[Request], desk: Desk = desk, held: Any = held
        ) -> None:
            nonlocal victims, swaps
            assert not served.intersection(plan.preempted)
            for request, swapped in fate(plan):
                blocks = -(-desk.computed[request] // desk.size)
                fits = 0 < blocks <= swap_blocks - sum(held.values())
                cut = request.known - desk.computed[request] > 1
                assert swapped == (fits and not (cut and desk.s.policy.mix == "prefill_first"))
                if swapped:
                    held[request] = blocks
                victims, swaps = victims + 1, swaps + swapped
            assert plan.shape.swapped_out_blocks == sum(len(t.host) for t in plan.swapped_out)
            assert all(len(host) == held[request] for request, _, host in plan.swapped_out)
            assert all(len(host) == held.pop(request) for request, _, host in plan.swapped_in)
            assert {transfer.request for transfer in plan.swapped_in} <= served

        list(desk.steps(watch))
        assert not held
    assert victims > 15
    assert swaps == 0 if swap_blocks == 0 else 0 < swaps <= victims


@every_preempting_preset
@pytest.mark.parametrize("after_preempt", [False, True])
def test_first_out_is_first_in_and_no_victim_runs_in_its_step(
    name: str, after_preempt: bool
) -> None:
    returned = at_once = 0
    for seed in range(3):
        policy = swapping(name, swap_in_after_preempt=after_preempt)
        desk, line = crowd(policy, seed, 10_000), list[Request]()

        def watch(plan: StepPlan, served: set[Request], line: list[Request] = line) -> None:
            nonlocal returned, at_once
            assert not served.intersection(plan.preempted)
            line += [transfer.request for transfer in plan.swapped_out]
            for request, _, _ in plan.swapped_in:
                assert request is line.pop(0)
                returned += 1
            at_once += bool(plan.preempted and plan.swapped_in)

        list(desk.steps(watch))
        assert not line
    assert returned > 5
    assert after_preempt or not at_once


@every_preempting_preset
def test_what_is_swapped_is_never_computed_again(name: str) -> None:
    """p prompt and o output tokens compute p + o - 1."""
    swaps = 0
    for seed in range(3):
        desk = crowd(swapping(name), seed, 10_000)
        list(desk.steps())
        for request, tokens in desk.in_all.items():
            if request.swaps == request.preemptions:
                assert request.recomputed_tokens == 0
                assert tokens == request.prompt_tokens + desk.answers[request.id] - 1
            else:
                assert desk.s.policy.mix == "prefill_first"
            swaps += request.swaps
    assert swaps > 5


def test_a_swapped_request_can_be_cancelled_and_gives_host_memory_back() -> None:
    desk, _, second = two_that_do_not_both_fit(swap_blocks=3)
    while not desk.s.swapped:
        desk.step()
    assert desk.s.swap_space.free == 0
    desk.s.cancel(second)
    assert desk.s.swap_space.free == 3
    assert second.state is State.DONE
    list(desk.steps())
    assert desk.computed[second] == 12
    assert desk.s.pool.free == desk.s.pool.blocks


@pytest.mark.parametrize("mode", ["swap", "recompute"])
@pytest.mark.parametrize(("readmit", "step"), [("at_once", 6), ("after_finish", 8)])
def test_a_preempted_request_waits_for_somebody_to_leave_where_so_ruled(
    mode: str, readmit: str, step: int
) -> None:
    """8 of 15 blocks are kept free, so that the second gives way in step 5; the first ends in 7."""
    policy = replace(SWAP, preemption=mode, readmit=readmit, preempt_below=0.5, low_watermark=0.5)
    desk = Desk(policy, 15, swap_blocks=10)
    _, second = desk.ask(8, 8), desk.ask(8, 8)
    plans = [desk.step() for _ in range(9)]
    assert plans[5].preempted == [second]
    came = [[t.request for t in plan.swapped_in] + plan.admitted for plan in plans[1:]]
    assert [second in returning for returning in came].index(True) + 1 == step


def test_the_time_of_a_swap_is_in_its_step() -> None:
    trace = Trace(np.zeros(2, dtype=np.int64), np.array([8, 8]), np.array([8, 8]))

    def latency(shape: StepShape) -> int:
        return 1000 + 7 * shape.swapped_out_blocks + 5 * shape.swapped_in_blocks

    log = serve(trace, Server(SWAP, 6, 4, 1 << 20, latency, swap_blocks=10))
    took = log.step("end_ns") - log.step("start_ns")
    assert took.tolist() == [1000] * 5 + [1021] + [1000] * 2 + [1015] + [1000] * 2
    assert log.swaps.tolist() == [0, 1]


@pytest.mark.parametrize(("share", "blocks"), [(0.01, 250), (0.1, 60)])
@pytest.mark.parametrize("on", ["admit+swap_in", "admit", "swap_in"])
def test_the_watermark_binds_prompts_and_returns_as_it_says_and_never_growth(
    on: str, share: float, blocks: int
) -> None:
    """Under vllm-v0, which has it on both."""
    policy = swapping("vllm-v0@0.6.3", low_watermark=share, watermark_on=on)
    free: dict[str, list[int]] = {"admit": [], "swap_in": [], "growth": []}
    kept = int(share * blocks)
    for seed in range(6):
        random, desk = Random(seed), Desk(policy, blocks, swap_blocks=10_000)
        for _ in range(30):
            desk.ask(random.randint(1, blocks), random.randint(1, 2 * blocks))

        def watch(plan: StepPlan, served: set[Request]) -> None:
            kind = "admit" if plan.admitted else "swap_in" if plan.swapped_in else "growth"
            free[kind].append(plan.free_after)

        list(desk.steps(watch))
    assert kept >= 2
    assert min(free["growth"]) == 0
    for kind in ("admit", "swap_in"):
        assert (min(free[kind]) >= kept) is (kind in on.split("+"))


@pytest.mark.parametrize(
    ("name", "keeps_out"), [("vllm-v0@0.6.3", True), ("vllm-v0-chunked@0.6.3", False)]
)
def test_who_is_swapped_out_keeps_others_out_where_so_ruled(name: str, keeps_out: bool) -> None:
    beside = 0
    for seed in range(8):
        desk = crowd(swapping(name), seed, 10_000)
        while not (plan := desk.step()).empty:
            back = {transfer.request for transfer in plan.swapped_in}
            beside += bool(plan.admitted and (desk.s.swapped or back))
    assert bool(beside) is not keeps_out


# Modes.


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_hybrid_swaps_the_first_times_and_recomputes_after_that(most: int) -> None:
    seen: dict[tuple[int, Request], list[bool]] = {}
    for seed in range(4):
        desk = crowd(swapping("vllm-v1@0.11", "hybrid", hybrid_swaps=most), seed, 10_000)

        def watch(plan: StepPlan, served: set[Request], seed: int = seed) -> None:
            for request, swapped in fate(plan):
                seen.setdefault((seed, request), []).append(swapped)

        list(desk.steps(watch))
    assert max(map(len, seen.values())) > most
    for fates in seen.values():
        assert fates == [True] * min(most, len(fates)) + [False] * max(0, len(fates) - most)


@every_preempting_preset
@pytest.mark.parametrize(
    "price", [LEVEL_AT_80, PreemptCost(50_000, 20_000, block_ns=3_000, call_ns=10_000)]
)
def test_auto_swaps_whoever_is_cheaper_to_swap(name: str, price: PreemptCost) -> None:
    fates = Counter[bool]()
    for seed in range(4):
        desk = crowd(swapping(name, "auto", preempt_cost=price), seed, 10_000)

        def watch(plan: StepPlan, served: set[Request], desk: Desk = desk) -> None:
            for request, swapped in fate(plan):
                n = desk.computed[request]
                swap = 2 * (price.call_ns + -(-n // desk.size) * price.block_ns)
                again = (n * price.token_ps + n * (n + 1) // 2 * price.pair_ps) // 1000
                cut = desk.s.policy.mix == "prefill_first" and request.known - n > 1
                assert swapped == (swap < again and not cut)
                fates[swapped] += 1

        list(desk.steps(watch))
    assert fates[True] > 2
    assert fates[False] > 2


@pytest.mark.parametrize(("prompt", "swaps"), [(72, 0), (76, 0), (80, 1), (84, 1)])
def test_auto_swaps_only_contexts_above_the_level(prompt: int, swaps: int) -> None:
    """Both have `prompt` + 4 computed when they need a block; swap is cheaper above 80."""
    policy = replace(SWAP, preemption="auto", preempt_cost=LEVEL_AT_80)
    desk = Desk(policy, 2 * (prompt // 4 + 1), swap_blocks=1000)
    _, second = desk.ask(prompt, 8), desk.ask(prompt, 8)
    list(desk.steps())
    assert (second.preemptions, second.swaps) == (1, swaps)


# Thrash.


def thrash(policy: Policy, seed: int) -> tuple[int, int]:
    """Preemptions, and those of requests since whose last one nobody had left; some are cancelled."""
    random, desk = Random(seed), crowd(policy, seed, 30)
    waiting_for: dict[Request, int] = {}
    everyone = list(desk.s.waiting)  # type: ignore[call-overload]
    preempted = again = 0

    def watch(plan: StepPlan, served: set[Request]) -> None:
        nonlocal preempted, again
        left = sum(request.state is State.DONE for request in everyone)
        for request in plan.preempted:
            preempted += 1
            again += waiting_for.get(request) == left
            waiting_for[request] = left

    for _ in desk.steps(watch):
        if desk.s.running and random.random() < 0.002:
            desk.s.cancel(random.choice(list(desk.s.running)))
    assert again == desk.s.preempted_again
    return preempted, again


def test_under_pagecast_nobody_is_preempted_twice_before_somebody_leaves() -> None:
    policy = swapping("pagecast", "auto", preempt_cost=LEVEL_AT_80, low_watermark=0.0)
    worlds = [thrash(policy, seed) for seed in range(40)]
    assert sum(preempted for preempted, _ in worlds) > 200
    assert {again for _, again in worlds} == {0}


def test_where_they_return_at_once_thrash_is_counted() -> None:
    policy = swapping("vllm-v1@0.33", "recompute", reserve="chunk")
    assert sum(thrash(policy, seed)[1] for seed in range(20)) > 100


# Victims.


def five(policy: Policy, swap_blocks: int = 0, urgencies: tuple[int, ...] = (1, 9, 3, 5, 4)) -> int:
    """Who gives way in step 4, for the first needs a second block and none of 23 is free.

    | request | prompt | since step | output | computed | blocks |
    | 0       | 1      | 0          | 4      | 4        | 1      |
    | 1       | 10     | 0          | 4      | 13       | 4      |
    | 2       | 30     | 0          | 4      | 33       | 9      |
    | 3       | 20     | 2          | 2      | 21       | 6      |
    | 4       | 9      | 2          | 2      | 10       | 3      |
    """
    desk = Desk(policy, 23, swap_blocks=swap_blocks)
    requests = [desk.ask(n, 50, priority=p) for n, p in zip((1, 10, 30), urgencies, strict=False)]
    desk.step()
    desk.step()
    requests += [desk.ask(n, 50, priority=p) for n, p in zip((20, 9), urgencies[3:], strict=True)]
    desk.step()
    desk.step()
    assert [desk.computed[request] for request in requests] == [4, 13, 33, 21, 10]
    assert [request.held for request in requests] == [1, 4, 9, 6, 3]
    (victim,) = desk.step().preempted
    return victim.id


@pytest.mark.parametrize(
    ("rule", "victim"),
    [("last", 4), ("priority", 1), ("least_output", 3), ("least_computed", 0), ("most_blocks", 2)],
)
def test_the_victim_is_whom_the_rule_names(rule: str, victim: int) -> None:
    assert five(replace(SWAP, victim=rule)) == victim


def test_of_equally_urgent_ones_the_last_to_arrive_gives_way() -> None:
    assert five(replace(SWAP, victim="priority"), urgencies=(9, 9, 9, 1, 1)) == 2


@pytest.mark.parametrize(
    ("price", "swap_blocks", "victim"),
    [
        # Tokens per block: 4, 3.25, 3.67, 3.5, 3.33.
        (PreemptCost(1_000_000, 0, 0, 0), 0, 1),
        # Pairs per block: 10, 22.75, 62.3, 38.5, 18.3.
        (PreemptCost(0, 1_000_000, 0, 0), 0, 0),
        # One price for any swap: whoever frees most.
        (PreemptCost(1_000_000, 0, 0, 1_000), 100, 2),
        # The same, where host memory has no room for its 9 blocks.
        (PreemptCost(1_000_000, 0, 0, 1_000), 8, 3),
    ],
)
def test_the_cheapest_for_each_block_it_frees(
    price: PreemptCost, swap_blocks: int, victim: int
) -> None:
    assert five(replace(SWAP, victim="cost", preempt_cost=price), swap_blocks) == victim
