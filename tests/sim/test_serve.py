"""What a served trace leaves: closed forms of latencies, prefix hits, limits, both pools."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from pagecast.engine.core.errors import UserError
from pagecast.engine.core.presets import preset
from pagecast.engine.core.step import StepShape
from pagecast.sim.results.latency import latencies
from pagecast.sim.results.log import Outcome, RunLog
from pagecast.sim.simulate import Server, serve
from pagecast.traces.schema import NOT_GIVEN, Trace

VLLM = preset("vllm-v1@0.33")
STEP_NS = 1_000_000


def constant(shape: StepShape) -> int:
    return STEP_NS


def run(trace: Trace, policy: Any = VLLM, blocks: int = 1000, **server: Any) -> RunLog:
    settings = {"block_size": 16, "max_model_len": 8192, "latency": constant, **server}
    return serve(trace, Server(policy, blocks, **settings))


def trace_of(prompts: list[int], outputs: list[int], **columns: Any) -> Trace:
    return Trace(
        arrival_ns=np.arange(len(prompts), dtype=np.int64),
        prompt_tokens=np.array(prompts, dtype=np.int64),
        output_tokens=np.array(outputs, dtype=np.int64),
        **columns,
    )


def test_one_request_alone() -> None:
    """A prompt of 100 at a budget of 40 takes 3 steps; the third makes the first token."""
    policy = replace(VLLM, max_batched_tokens=40, max_seqs=8)
    log = run(trace_of([100], [5]), policy)
    assert log.first_token_ns.tolist() == [3 * STEP_NS]
    assert log.last_token_ns.tolist() == [7 * STEP_NS]
    measured = latencies(log)
    assert measured.ttft_s.tolist() == [0.003]
    assert measured.tpot_s.tolist() == [0.001]


def test_tokens_of_a_preempted_request_are_computed_again() -> None:
    log = run(trace_of([400, 400], [400, 400]), replace(VLLM, prefix="off"), 60)
    assert log.outcome.tolist() == [Outcome.FINISHED] * 2
    assert log.preemptions.tolist() == [0, 1]
    computed = log.step("prefill_tokens").sum() + log.step("decode_seqs").sum()
    assert computed == 2 * (400 + 400 - 1) + log.recomputed_tokens.sum()
    assert log.output_tokens.tolist() == [400, 400]


def test_prefix_hits_are_whole_blocks_short_of_the_last_token() -> None:
    """Equal prompts of 64 tokens: 3 of 4 blocks of 16 can be hit, the last token is computed."""
    trace = trace_of([64] * 3, [2] * 3, prefix_ids=[(1, 2)] * 3, prefix_block_tokens=32)
    log = run(trace)
    assert log.cached_tokens.tolist() == [0, 48, 48]
    assert (log.prefix_hit_tokens, log.prefix_query_tokens) == (96, 192)
    assert run(trace, replace(VLLM, prefix="off")).cached_tokens.tolist() == [0, 0, 0]


def test_equal_ids_after_unequal_ones_are_no_hit() -> None:
    trace = trace_of([64, 64], [2, 2], prefix_ids=[(1, 2), (3, 2)], prefix_block_tokens=32)
    assert run(trace).cached_tokens.tolist() == [0, 0]


def test_block_size_must_divide_the_prefix_blocks() -> None:
    trace = trace_of([64], [2], prefix_ids=[(1, 2)], prefix_block_tokens=32)
    with pytest.raises(UserError, match=r"kv\.block_size: 24 does not divide"):
        run(trace, block_size=24)


def test_max_tokens_of_the_trace_and_the_default_cut_answers() -> None:
    trace = trace_of([10, 10, 10], [50, 50, 50], max_tokens=np.array([20, NOT_GIVEN, 90]))
    log = run(trace, max_tokens_default=30)
    assert log.output_tokens.tolist() == [20, 30, 50]
    assert log.clipped == 2


def crowd(requests: int) -> Trace:
    draws = np.random.default_rng(3)
    return Trace(
        arrival_ns=np.cumsum(draws.integers(0, 3 * STEP_NS, requests)),
        prompt_tokens=draws.integers(1, 300, requests),
        output_tokens=draws.integers(1, 80, requests),
    )


@pytest.mark.parametrize("blocks", [1000, 60])
def test_blocks_are_named_only_where_it_matters(blocks: int) -> None:
    """Prompts that share nothing, blocks plenty or short: the run is as if all were named.

    Prefix ids that nobody shares make `serve` name the blocks from the start.
    """
    trace = crowd(300)
    unlike = [(request,) for request in range(300)]
    named = replace(trace, prefix_ids=unlike, prefix_block_tokens=512)
    ours, theirs = run(trace, blocks=blocks), run(named, blocks=blocks)
    assert (ours.preemptions.sum() > 0) == (blocks == 60)
    for field in fields(RunLog):
        assert np.array_equal(getattr(ours, field.name), getattr(theirs, field.name)), field.name


def test_a_request_that_comes_back_finds_its_own_blocks() -> None:
    log = run(crowd(300), blocks=60)
    again = log.preemptions > 0
    without = run(crowd(300), replace(VLLM, prefix="off"), blocks=60)
    assert log.recomputed_tokens[again].sum() < without.recomputed_tokens.sum()
