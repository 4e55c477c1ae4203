"""Endings, reserves and swap under every preset."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from worlds import COST

from pagecast.engine.core.blocks import make_pool
from pagecast.engine.core.costs import PreemptCost
from pagecast.engine.core.policy import Policy
from pagecast.engine.core.presets import PRESETS, preset
from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import StepPlan
from pagecast.sim.results.log import Outcome, RunLog
from pagecast.sim.simulate import Server, serve
from pagecast.sim.world.executor import TraceExecutor
from pagecast.sim.world.identities import Identities
from pagecast.sim.world.inbox import Inbox
from pagecast.traces.schema import Trace

every_preset = pytest.mark.parametrize("name", PRESETS)
BLOCKS, SIZE = 50, 16


def policy_of(name: str, **axes: Any) -> Policy:
    """A preset with limits that any prompt of these tests fits."""
    policy = PRESETS[name]
    budget = None if policy.padding == "longest" else 2048
    return replace(policy, max_batched_tokens=budget, max_seqs=64, preempt_cost=COST, **axes)


def trace_of(*lengths: tuple[int, int]) -> Trace:
    prompts, answers = zip(*lengths, strict=True)
    return Trace(np.zeros(len(lengths), dtype=np.int64), np.array(prompts), np.array(answers))


def run(trace: Trace, policy: Policy, blocks: int = BLOCKS, **server: Any) -> RunLog:
    """Those that reserve the whole context get the pool's tokens for one."""
    pool_tokens = (blocks - policy.null_blocks) * SIZE
    reserves = policy.reserve in ("max_len", "known+max_new", "peak")
    longest = pool_tokens if reserves else 1 << 20
    settings = {"max_model_len": longest, "latency": lambda shape: 1000, **server}
    return serve(trace, Server(policy, blocks, SIZE, **settings))


@every_preset
def test_what_can_never_fit_is_refused_and_the_rest_finishes(name: str) -> None:
    log = run(trace_of(*[(20, 10)] * 10, *[(1002, 10)] * 5), policy_of(name))
    assert log.outcome.tolist() == [Outcome.FINISHED] * 10 + [Outcome.REFUSED] * 5
    numbers = {reason.split(":")[0] for reason in log.reasons[10:]}
    assert numbers <= {"capacity", "context"}
    assert all(any(sign.isdigit() for sign in reason) for reason in log.reasons[10:])


@every_preset
def test_who_exhausts_the_pool_alone_fails_or_is_cut_at_the_context(name: str) -> None:
    policy = policy_of(name, low_watermark=0.0)
    log = run(trace_of((700, 200)), policy)
    if policy.reserve in ("max_len", "known+max_new", "peak"):
        assert log.outcome.tolist() == [Outcome.FINISHED]
        assert log.clipped == 1
    else:
        pool = BLOCKS - policy.null_blocks
        assert log.outcome.tolist() == [Outcome.FAILED]
        assert log.reasons == [f"capacity: needs {pool + 1} blocks, the pool has {pool}"]
        assert log.output_tokens.tolist() == [pool * SIZE - 700 + 1]


@every_preset
def test_of_two_that_cannot_both_stay_each_gets_its_turn(name: str) -> None:
    log = run(trace_of((300, 400), (300, 400)), policy_of(name))
    assert log.outcome.tolist() == [Outcome.FINISHED] * 2


@every_preset
@pytest.mark.parametrize("mode", ["recompute", "swap", "hybrid", "auto"])
def test_a_crowd_in_a_tight_pool_ends(name: str, mode: str) -> None:
    random = Random(name + mode)
    policy = policy_of(name)
    if not policy.reserves_all:
        policy = replace(policy, preemption=mode)
    lengths = [(random.randint(1, 300), random.randint(1, 300)) for _ in range(60)]
    log = run(trace_of(*lengths), policy, swap_blocks=random.choice([0, 20, 500]))
    assert (log.outcome == Outcome.FINISHED).all()
    assert log.output_tokens.tolist() == [answer for _, answer in lengths]


@pytest.mark.parametrize(("reserve", "restarts"), [("known", False), ("chunk", True)])
def test_long_prompts_restart_where_only_the_first_piece_is_reserved(
    reserve: str, restarts: bool
) -> None:
    """Five prompts of 100k tokens where four fill 90 % of the pool, in pieces of 8k."""
    blocks = round(4 * 100_000 / 0.9) // SIZE
    policy = replace(policy_of("vllm-v1@0.33"), reserve=reserve, max_batched_tokens=8192,
                     prefix="off")  # fmt: skip
    log = run(trace_of(*[(100_000, 50)] * 5), policy, blocks)
    assert (log.outcome == Outcome.FINISHED).all()
    assert bool(log.preemptions.sum() > 0) is restarts
    assert bool(log.recomputed_tokens.sum() > 0) is restarts


@pytest.mark.parametrize("running", [1, 3, 7])
@pytest.mark.parametrize("name", ["vllm-v1@0.33", "sarathi", "vllm-v0@0.6.3"])
def test_one_block_too_few_for_each_preempts_and_enough_does_not(name: str, running: int) -> None:
    """Prompts of 2 blocks whose answers need a third."""
    policy = policy_of(name, low_watermark=0.0, prefix="off")
    trace = trace_of(*[(2 * SIZE, 5)] * running)
    for extra, preempts in ((0, running > 1), (running, False)):
        blocks = 2 * running + extra + policy.null_blocks
        if running == 1 and not extra:
            continue
        log = run(trace, policy, blocks)
        assert bool(log.preemptions.sum() > 0) is preempts, (extra, log.preemptions)


def plans(seed: int, policy: Policy, swap_blocks: int) -> tuple[list[StepPlan], Scheduler]:
    """All plans of a crowd in a tight pool, each at its own instant."""
    random = Random(seed)
    lengths = [(random.randint(1, 200), random.randint(1, 200)) for _ in range(40)]
    trace = replace(trace_of(*lengths), arrival_ns=np.arange(40, dtype=np.int64) * 9)
    pool = make_pool(policy, random.randint(30, 60), SIZE)
    scheduler = Scheduler(policy, pool, 1 << 20, swap_blocks=swap_blocks)
    identities = Identities(trace, SIZE)
    executor = TraceExecutor(lambda shape: 1, [answer for _, answer in lengths], identities)
    inbox, made = Inbox(trace, identities if pool.caching else None), []
    for now in range(20_000):
        for request in inbox.drain(now):
            scheduler.submit(request)
        plan = scheduler.plan(now)
        made.append(plan)
        if not plan.empty:
            scheduler.commit(plan, executor.run(plan))
    assert not (scheduler.running)
    assert not (scheduler.waiting)
    assert not (scheduler.swapped)
    return made, scheduler


@pytest.mark.parametrize("seed", range(10))
def test_under_pagecast_nobody_is_preempted_twice_before_somebody_leaves(seed: int) -> None:
    policy = policy_of("pagecast", low_watermark=0.0)
    made, scheduler = plans(seed, policy, swap_blocks=30)
    assert sum(len(plan.preempted) for plan in made) > 3
    assert scheduler.preempted_again == 0


def test_where_a_preempted_request_returns_at_once_thrash_is_counted() -> None:
    policy = replace(policy_of("vllm-v1@0.11", prefix="off"), max_batched_tokens=64)
    assert sum(plans(seed, policy, 0)[1].preempted_again for seed in range(10)) > 10


@pytest.mark.parametrize("seed", range(10))
def test_under_vllm_v0_nobody_is_admitted_while_anybody_is_swapped_out(seed: int) -> None:
    made, _ = plans(seed, policy_of("vllm-v0@0.6.3", preemption="swap"), swap_blocks=400)
    out: set[int] = set()
    swapped = 0
    for plan in made:
        assert not (plan.admitted and out)
        out |= {transfer.request.id for transfer in plan.swapped_out}
        out -= {transfer.request.id for transfer in plan.swapped_in}
        swapped += len(plan.swapped_out)
    assert swapped > 3


def test_no_host_memory_or_a_full_one_means_recompute() -> None:
    policy = policy_of("vllm-v1@0.33", preemption="swap", prefix="off")
    lengths = trace_of(*[(100, 150)] * 12)
    for swap_blocks, share in ((0, 0.0), (8, 0.6), (10_000, 1.0)):
        log = run(lengths, policy, swap_blocks=swap_blocks)
        swaps, total = log.swaps.sum(), log.preemptions.sum()
        assert total > 5
        assert swaps == 0 if not share else 0 < swaps <= total
        assert bool(log.recomputed_tokens.sum() == 0) is bool(swaps == total)
        assert log.step("swapped_out_blocks").sum() == log.step("swapped_in_blocks").sum()


def test_hybrid_swaps_each_request_so_often_and_then_recomputes() -> None:
    policy = policy_of("vllm-v1@0.11", preemption="hybrid", hybrid_swaps=2, prefix="off")
    log = run(trace_of(*[(60, 300)] * 12), policy, swap_blocks=10_000)
    assert log.preemptions.max() > 2
    assert (log.swaps == np.minimum(log.preemptions, 2)).all()


def test_auto_swaps_where_that_is_cheaper() -> None:
    """A swap costs two calls at 40 us, a token 1 us: level at 80 tokens."""
    price = PreemptCost(token_ps=1_000_000, pair_ps=0, block_ns=0, call_ns=40_000)
    policy = replace(policy_of("vllm-v1@0.11", preemption="auto", prefix="off"), preempt_cost=price)
    seen = set()
    for plan in plans(3, policy, 10_000)[0]:
        for transfer in plan.swapped_out:
            assert len(transfer.host) * SIZE > 80
        out = {transfer.request for transfer in plan.swapped_out}
        seen |= {request in out for request in plan.preempted}
    assert seen == {True, False}


def test_a_swap_takes_time_in_its_step() -> None:
    policy = policy_of("vllm-v1@0.33", preemption="swap", prefix="off")

    def latency(shape: Any) -> int:
        return 1000 + 7 * shape.swapped_out_blocks + 5 * shape.swapped_in_blocks

    log = run(trace_of(*[(100, 150)] * 12), policy, swap_blocks=500, latency=latency)
    took = log.step("end_ns") - log.step("start_ns") - 1000
    moved = 7 * log.step("swapped_out_blocks") + 5 * log.step("swapped_in_blocks")
    assert moved.sum() > 0
    assert np.array_equal(took, moved)


def test_the_name_alone_is_the_newest() -> None:
    assert preset("vllm-v0") is PRESETS["vllm-v0@0.6.3"]
