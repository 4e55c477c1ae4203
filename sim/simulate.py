"""Serves a trace on one simulated replica."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import simpy

from pagecast.engine.core.blocks import make_pool
from pagecast.engine.core.policy import Policy
from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import StepPlan, StepResult, StepShape
from pagecast.sim.results.log import NEVER, Ints, RunLog
from pagecast.sim.world.closed import inbox_of
from pagecast.sim.world.executor import TraceExecutor
from pagecast.sim.world.identities import Identities
from pagecast.sim.world.recorder import Recorder
from pagecast.sim.world.replica import replica
from pagecast.traces.schema import NOT_GIVEN, Trace

Progress = Callable[[float, float, str], None]
"""Called with what is done, the whole, and what is being done."""

STEPS_PER_REPORT = 4096


@dataclass(frozen=True)
class Server:
    """A replica before it serves: the rules, the memory and the time of its steps.

    `blocks` counts all KV blocks, those included that the policy's engine keeps to itself.
    `max_model_len` is the longest context in tokens. `swap_blocks` are those of host memory,
    `lead_blocks` those of each sequence that come from a pool of 16-bit blocks.
    """

    policy: Policy
    blocks: int
    block_size: int
    max_model_len: int
    latency: Callable[[StepShape], int]
    max_tokens_default: int | None = None
    swap_blocks: int = 0
    lead_blocks: int = 0


class SomebodyPreempted(Exception):
    """Blocks that were only counted must be named after all."""


class UnpreemptedRecorder(Recorder):
    """A recorder of runs in which nobody is ever preempted."""

    def step(self, plan: StepPlan, result: StepResult) -> None:
        """Note a step.

        Raises:
            SomebodyPreempted: if the step preempts.
        """
        if plan.preempted:
            raise SomebodyPreempted
        super().step(plan, result)


def serve(
    trace: Trace,
    server: Server,
    progress: Progress | None = None,
    concurrency: int | None = None,
) -> RunLog:
    """Serve a trace to its end and return what it leaves.

    A prefix cache hits what was computed before. Where prompts share nothing, that can only be the
    blocks of a request that was preempted and comes back. So blocks are counted at first, which is
    cheaper and comes to the same, and the run is made again with named blocks if it preempts.

    Args:
        trace: what was asked; answers end where the trace says, or at the model's context or the
            request's `max_tokens`, whichever comes first. The log counts the answers cut short.
        server: the replica.
        progress: told from time to time how many requests have left.
        concurrency: most requests in the system at a time, in a closed loop (`ClosedInbox`); the
            log then has the stamps at which they were let in. None lets in who arrives.
    """
    if server.policy.prefix != "off" and not server.lead_blocks and trace.prefix_ids is None:
        counting = replace(server, policy=replace(server.policy, prefix="off"))
        try:
            log = _serve(trace, counting, progress, UnpreemptedRecorder, concurrency)
        except SomebodyPreempted:
            return _serve(trace, server, progress, Recorder, concurrency)
        looked_up = int(trace.prompt_tokens[log.scheduled_ns != NEVER].sum())
        return replace(log, prefix_query_tokens=looked_up)
    return _serve(trace, server, progress, Recorder, concurrency)


def _serve(
    trace: Trace,
    server: Server,
    progress: Progress | None,
    record: type[Recorder],
    concurrency: int | None,
) -> RunLog:
    pool = make_pool(
        server.policy, server.blocks, server.block_size, lead_blocks=server.lead_blocks
    )
    scheduler = Scheduler(server.policy, pool, server.max_model_len, swap_blocks=server.swap_blocks)
    identities = Identities(trace, server.block_size)
    answers = _answers(trace, server)
    executor = TraceExecutor(server.latency, answers.tolist(), identities)
    named = identities if pool.caching else None
    inbox = inbox_of(trace, named, server.max_tokens_default, concurrency)
    recorder = record(trace, scheduler)
    env = simpy.Environment(0)
    env.process(replica(env, inbox, scheduler, executor, recorder))
    if progress is None:
        env.run()
    else:
        _run_reporting(env, recorder, len(trace), progress)
    log = recorder.log(clipped=int((answers < trace.output_tokens).sum()))
    return replace(log, arrival_ns=inbox.arrival_ns())


def _answers(trace: Trace, server: Server) -> Ints:
    """Answer lengths that context and limits leave; at least one token for who is served."""
    room = server.max_model_len - trace.prompt_tokens
    limits = np.full(len(trace), NOT_GIVEN) if trace.max_tokens is None else trace.max_tokens
    if server.max_tokens_default is not None:
        limits = np.where(limits == NOT_GIVEN, server.max_tokens_default, limits)
    limits = np.where(limits == NOT_GIVEN, room, limits)
    answers: Ints = np.minimum(trace.output_tokens, np.minimum(limits, room))
    # A prompt beyond the context is refused, not cut: its answer is not counted as clipped.
    return np.where(room < 1, trace.output_tokens, answers)


def _run_reporting(
    env: simpy.Environment, recorder: Recorder, total: int, progress: Progress
) -> None:
    while env.peek() != float("inf"):
        for _ in range(STEPS_PER_REPORT):
            if env.peek() == float("inf"):
                break
            env.step()
        progress(recorder.ended, total, "simulating")
