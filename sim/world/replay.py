"""Replays a recorded run in the simulator: same scheduler, same arrivals, recorded plan times.

Given the times at which an engine planned its steps, the simulator must take the same decisions,
byte for byte in the decision log. What an engine knows and a simulator cannot (when an answer
stopped, what a block contains, who forked or was cancelled) is read from the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pagecast.engine.core.request import Request
from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import Executor, Fork, StepPlan
from pagecast.sim.world.inbox import FOREVER_NS, Inbox

LATER = 1 << 40
"""Answer length of a request that did not end by itself: longer than anything."""


class RecordedIdentities:
    """Identities of blocks as an engine saw them.

    Args:
        blocks: by request id, one identity for each full block of prompt and answer, in order.
        block_size: tokens in a block.
    """

    def __init__(self, blocks: Mapping[int, Sequence[int]], block_size: int) -> None:
        self._blocks = blocks
        self._block_size = block_size

    def prompt_blocks(self, request_id: int, prompt_tokens: int) -> list[int]:
        """Identities of the full blocks of a prompt."""
        return list(self._blocks[request_id][: prompt_tokens // self._block_size])

    def answer_block(self, request: Request) -> int:
        """Identity of the block that the request's newest token completes."""
        return self._blocks[request.id][len(request.identities)]


@dataclass
class Recording:
    """When steps were planned, and by step number who was cancelled before and who forked in it.

    `forks` hold the ids of parent and child.
    """

    plan_times_ns: list[int] = field(default_factory=list)
    cancels: dict[int, list[int]] = field(default_factory=dict)
    forks: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


def replay(
    recording: Recording,
    inbox: Inbox,
    scheduler: Scheduler,
    executor: Executor,
    identities: RecordedIdentities | None = None,
    on_plan: Callable[[StepPlan], None] = lambda plan: None,
) -> None:
    """Plan, run and commit a step at each of the recorded times.

    Args:
        recording: plan times (idle gaps and host time are in them), cancels and forks.
        inbox: the arrivals, each with the stamp at which the engine received it.
        scheduler: under the recorded policy, with the recorded pool.
        executor: tells the endings; its durations are not used.
        identities: of the blocks of forked requests, where blocks are cached by content.
        on_plan: called with each plan before it is committed.
    """
    requests: dict[int, Request] = {}
    # What arrived or was cancelled after the last step is part of the log too.
    for step, now_ns in enumerate([*recording.plan_times_ns, FOREVER_NS - 1]):
        for request in inbox.drain(now_ns):
            requests[request.id] = request
            scheduler.submit(request)
        for id in recording.cancels.get(step, ()):
            scheduler.cancel(requests[id])
        plan = scheduler.plan(now_ns)
        if step == len(recording.plan_times_ns):
            break
        result = executor.run(plan)
        for parent, child in recording.forks.get(step, ()):
            requests[child] = _child(scheduler, requests[parent], child, identities)
            result.forks = [*result.forks, Fork(requests[parent], requests[child])]
        on_plan(plan)
        scheduler.commit(plan, result)


def _child(
    scheduler: Scheduler, parent: Request, id: int, identities: RecordedIdentities | None
) -> Request:
    child = Request(id, parent.prompt_tokens, max_tokens=parent.max_tokens)
    child.known = scheduler.cohort.computed(parent) + 1
    if identities:
        child.identities = identities.prompt_blocks(id, child.known)
    return child
