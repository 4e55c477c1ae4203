"""What a simulated step costs, by what changes in it and by how many sequences run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from loads import Timing, timed, uniform, vllm_server

from pagecast.engine.core.blocks import make_pool
from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import StepPlan, StepShape
from pagecast.sim.world.executor import TraceExecutor
from pagecast.sim.world.identities import Identities
from pagecast.sim.world.inbox import Inbox

STEPS = 100_000
RUNNING = (16, 64, 256, 1024)
MANY = 4096
BLOCK_SIZE = 16


def one_ms(shape: StepShape) -> int:
    """A step time that costs nothing to predict."""
    return 1_000_000


def decode_only(running: int) -> Timing:
    """So many sequences decode all the time, and each step one of them fills a block.

    A block is as large as the batch and prompts differ by one token each, so that changes per
    step are equal for every size of the batch. All that a step does is timed: planning,
    predicting, SimPy, committing, recording.
    """
    trace = uniform(running, 1, STEPS)
    trace.prompt_tokens[:] = 1 + np.arange(running)
    pool = running * (3 + STEPS // running)
    server = vllm_server(one_ms, blocks=pool, seqs=running, budget=1 << 24, block_size=running)
    return timed(trace, server, repeats=5)


def apart(*, named: bool) -> dict[str, float]:
    """Microseconds of one admission, one block and one finish, each done by the thousand.

    So many requests with prompts of one block are admitted in one step, fill a block each in a
    later one and end in the last; planning, execution and commit of that step are timed.
    """
    trace = uniform(MANY, BLOCK_SIZE, BLOCK_SIZE + 1)
    server = vllm_server(one_ms, blocks=4 * MANY, seqs=MANY, budget=1 << 24,
                         prefix="block_hash" if named else "off")  # fmt: skip
    pool = make_pool(server.policy, server.blocks, BLOCK_SIZE)
    scheduler = Scheduler(server.policy, pool, server.max_model_len)
    identities = Identities(trace, BLOCK_SIZE)
    executor = TraceExecutor(one_ms, trace.output_tokens.tolist(), identities)
    for request in Inbox(trace, identities).drain(0):
        scheduler.submit(request)
    costs_us = [_step_us(scheduler, executor.run) / MANY for _ in range(BLOCK_SIZE + 1)]
    return {"admission": costs_us[0], "block": costs_us[1], "finish": costs_us[-1]}


def _step_us(scheduler: Scheduler, run: Callable[[StepPlan], object]) -> float:
    start = time.perf_counter()
    plan = scheduler.plan(0)
    scheduler.commit(plan, run(plan))  # type: ignore[arg-type]
    return (time.perf_counter() - start) * 1e6
