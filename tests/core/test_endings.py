"""Every run ends: what can never fit is refused or fails with the numbers, and nothing waits on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pagecast.engine.core.policy import Policy
from pagecast.engine.core.presets import preset
from pagecast.sim.results.log import Outcome, RunLog
from pagecast.sim.simulate import Server, serve
from pagecast.traces.schema import Trace

VLLM = preset("vllm-v1@0.33")


def trace_of(*lengths: tuple[int, int], gap_ns: int = 0) -> Trace:
    prompts, answers = zip(*lengths, strict=True)
    return Trace(
        arrival_ns=np.arange(len(lengths), dtype=np.int64) * gap_ns,
        prompt_tokens=np.array(prompts, dtype=np.int64),
        output_tokens=np.array(answers, dtype=np.int64),
    )


def run(trace: Trace, policy: Policy, blocks: int, **server: Any) -> RunLog:
    settings = {"block_size": 16, "max_model_len": 8192, "latency": lambda shape: 1000, **server}
    return serve(trace, Server(policy, blocks, **settings))


@pytest.mark.parametrize("name", ["vllm-v1@0.11", "vllm-v1@0.33"])
def test_too_long_is_refused_with_both_numbers_and_the_rest_finishes(name: str) -> None:
    log = run(trace_of(*[(20, 10)] * 10, *[(1002, 10)] * 5), preset(name), 50)
    assert log.outcome.tolist() == [Outcome.FINISHED] * 10 + [Outcome.REFUSED] * 5
    assert set(log.reasons[10:]) == {"capacity: needs 63 blocks, the pool has 49"}


def test_static_refuses_all_for_its_reservation() -> None:
    log = run(trace_of(*[(20, 10)] * 10, *[(1002, 10)] * 5), preset("static"), 50)
    assert set(log.outcome.tolist()) == {Outcome.REFUSED}
    assert set(log.reasons) == {"capacity: needs 512 blocks, the pool has 50"}


def test_a_request_that_exhausts_the_pool_alone_fails() -> None:
    """63 usable blocks hold 1,008 tokens; prompt 1,000 and 24 more need 1,023."""
    policy = replace(VLLM, max_seqs=64, max_batched_tokens=256)
    log = run(trace_of((1000, 24)), policy, 64)
    assert log.outcome.tolist() == [Outcome.FAILED]
    assert log.reasons == ["capacity: needs 64 blocks, the pool has 63"]
    assert log.output_tokens.tolist() == [9]


def test_of_two_that_cannot_both_stay_each_gets_its_turn() -> None:
    log = run(trace_of((400, 400), (400, 400)), VLLM, 60)
    assert log.outcome.tolist() == [Outcome.FINISHED] * 2
    assert log.preemptions.tolist() == [0, 1]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_watermark_never_blocks_an_empty_engine(share: float) -> None:
    log = run(trace_of(*[(700, 50)] * 3), replace(VLLM, low_watermark=share), 50)
    assert set(log.outcome.tolist()) == {Outcome.FINISHED}


def test_a_watermark_that_also_binds_when_idle_refuses_what_it_would_block_for_ever() -> None:
    policy = replace(VLLM, low_watermark=0.5, watermark_if_busy=False)
    log = run(trace_of((300, 5), (700, 5)), policy, 50)
    assert log.outcome.tolist() == [Outcome.FINISHED, Outcome.REFUSED]
    assert log.reasons[1] == (
        "capacity: needs 44 blocks, the pool has 49, 25 of them below the watermark"
    )


def test_budget_is_spent_on_tokens_not_on_padding() -> None:
    """Prompts of 100, 100 and 2,000 tokens are 2,200 of budget: one step, not three."""
    lengths = ((100, 1), (100, 1), (2000, 1))
    log = run(trace_of(*lengths), replace(VLLM, max_batched_tokens=2200), 512)
    assert log.step("prefill_tokens").tolist() == [2200]
    short = run(trace_of(*lengths), replace(VLLM, max_batched_tokens=2199), 512)
    assert short.step("prefill_tokens").tolist() == [2199, 1]


def test_a_prompt_beyond_the_context_is_refused_as_context() -> None:
    log = run(trace_of((200, 10), (300, 10)), VLLM, 512, max_model_len=256)
    assert log.outcome.tolist() == [Outcome.FINISHED, Outcome.REFUSED]
    assert log.reasons[1].startswith("context: prompt of 300 tokens")
    assert log.clipped == 0


def test_an_answer_cut_at_the_context_is_counted() -> None:
    log = run(trace_of((200, 100)), VLLM, 512, max_model_len=256)
    assert log.output_tokens.tolist() == [56]
    assert log.clipped == 1


def test_high_watermark_refuses_new_arrivals() -> None:
    policy = replace(VLLM, refuse_above_waiting=3, max_seqs=1, max_batched_tokens=512)
    log = run(trace_of(*[(100, 20)] * 10), policy, 512)
    assert log.outcome.tolist() == [Outcome.FINISHED] * 4 + [Outcome.REFUSED] * 6
    assert log.reasons[-1] == "overload: 4 requests wait, above 3"


def test_blocks_in_use_refuse_new_arrivals() -> None:
    policy = replace(VLLM, refuse_above_used=0.5)
    log = run(trace_of((700, 50), (100, 5), gap_ns=5000), policy, 64)
    assert log.outcome.tolist() == [Outcome.FINISHED, Outcome.REFUSED]
    assert log.reasons[1].startswith("overload: ")


def test_a_held_batch_starts_when_full_or_when_its_wait_is_over() -> None:
    policy = replace(preset("static"), max_seqs=2, fill_wait_ns=50_000)
    server = {"max_model_len": 64}
    full = run(trace_of((10, 2), (10, 2), gap_ns=20_000), policy, 64, **server)
    assert full.scheduled_ns.tolist() == [20_000, 20_000]
    late = run(trace_of((10, 2), (10, 2), gap_ns=90_000), policy, 64, **server)
    assert late.scheduled_ns.tolist() == [50_000, 140_000]


def test_a_static_batch_is_charged_at_its_longest() -> None:
    """Three rows of 10, 20 and 30 tokens: 30 slots of padding; rows that ended stay charged."""
    log = run(trace_of((10, 1), (20, 2), (30, 4)), preset("static"), 64, max_model_len=64)
    assert log.step("padded_tokens").tolist() == [30, 0, 0, 0]
    assert log.step("prefill_pairs")[0] == 3 * 30 * 31 // 2
    assert log.step("decode_seqs").tolist() == [0, 2, 1, 1]
    assert log.step("dead_rows").tolist() == [0, 1, 2, 2]
    charged = log.step("decode_context_tokens") + log.step("padded_context_tokens")
    assert charged.tolist() == [0, 3 * 31, 3 * 32, 3 * 33]
