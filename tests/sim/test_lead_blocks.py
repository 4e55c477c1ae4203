"""The first tokens of each sequence in a pool of their own: only what lies beyond takes blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pagecast.engine.core.presets import preset
from pagecast.sim.results.log import Outcome, RunLog
from pagecast.sim.simulate import Server, serve
from pagecast.traces.schema import Trace

POLICY = replace(preset("vllm-v1@0.33"), prefix="off", max_batched_tokens=256, max_seqs=64)


def run(prompts: list[int], answers: list[int], blocks: int, lead_blocks: int) -> RunLog:
    stamps = np.zeros(len(prompts), dtype=np.int64)
    trace = Trace(stamps, np.array(prompts), np.array(answers))
    server = Server(POLICY, blocks, 16, 4096, lambda shape: 1000, lead_blocks=lead_blocks)
    return serve(trace, server)


def test_one_sequence_takes_what_lies_beyond_its_head() -> None:
    log = run([100], [80], 64, 2)
    tokens = log.step("kv_tokens")
    assert len(tokens) == 80
    assert np.array_equal(log.step("used_blocks"), -(-tokens // 16) - 2)


def test_sequences_within_their_heads_take_nothing() -> None:
    log = run([20] * 30, [10] * 30, 3, 2)
    assert (log.outcome == Outcome.FINISHED).all()
    assert log.step("used_blocks").max() == 0
    assert log.step("running").max() > 12


def test_it_comes_to_the_same_as_shorter_sequences() -> None:
    """Heads of 2 blocks in their own pool: as if each prompt were 32 tokens shorter."""
    prompts, answers = [100, 70, 130, 90] * 6, [60, 90, 30, 45] * 6
    led = run(prompts, answers, 40, 2)
    short = run([prompt - 32 for prompt in prompts], answers, 40, 0)
    assert led.preemptions.sum() > 5
    assert led.step("used_blocks").max() == short.step("used_blocks").max() == 39
