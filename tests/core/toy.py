"""A toy token engine: real tokens in toy memory, a stop rule of its own, forks, random durations.

It stands in for the engine before there is one, and is stricter: its KV cache holds the token
written to each slot, and each step checks that a request reads back its own tokens from its
blocks. So a block handed to two owners, a wrong prefix hit or a missed copy shows at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from pagecast.engine.core.blocks import make_pool
from pagecast.engine.core.events import DecisionLog
from pagecast.engine.core.policy import Policy
from pagecast.engine.core.request import Request, State
from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import Ending, Fork, StepPlan, StepResult
from pagecast.sim.world.replay import Recording

VOCABULARY = 4

Memory = dict[tuple[int, int], int]
"""Tokens by block and offset."""


@dataclass(frozen=True)
class World:
    """What a toy run is made of; `seed` decides all that is random in it."""

    seed: int
    policy: Policy
    blocks: int
    block_size: int
    max_model_len: int
    requests: int
    fork_share: float
    cancel_share: float
    swap_blocks: int = 0
    predictions: bool = False
    gap_ns: int = 600


@dataclass
class Run:
    """What a toy run leaves: its log, and all that a replay needs to know."""

    log: DecisionLog = field(default_factory=DecisionLog)
    recording: Recording = field(default_factory=Recording)
    arrivals: list[tuple[int, int, int | None, int, int | None]] = field(default_factory=list)
    answers: dict[int, int] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    identities: dict[int, list[int]] = field(default_factory=dict)
    preemptions: int = 0
    swaps: int = 0
    again: int = 0
    copies: int = 0
    hits: int = 0
    forks: int = 0


def digest(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=16).digest(), "big")


class ToyEngine:
    """Drives the shared scheduler and computes on tokens instead of tensors."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = Random(world.seed)
        self.run = Run()
        pool = make_pool(world.policy, world.blocks, world.block_size, named=True)
        self.pool = pool
        self.scheduler = Scheduler(
            world.policy, pool, world.max_model_len, self.run.log, swap_blocks=world.swap_blocks
        )
        self.tokens: dict[int, list[int]] = {}
        self.memory: Memory = {}
        self.host: Memory = {}
        self.requests: dict[int, Request] = {}
        self.next_id = world.requests

    def serve(self) -> Run:
        """Run all requests to their end at random times."""
        now_ns, coming = 0, self._arrivals()
        while True:
            while coming and coming[0].arrival_ns <= now_ns:
                self.scheduler.submit(coming.pop(0))
            self._cancel_some()
            plan = self.scheduler.plan(now_ns)
            if not plan.empty:
                now_ns += self._step(plan)
                continue
            times = [t for t in (plan.wake_ns, coming[0].arrival_ns if coming else None) if t]
            if not times:
                break
            now_ns = max(now_ns, min(times)) + self.random.randrange(50)
        self._check_idle()
        return self._recorded()

    def _arrivals(self) -> list[Request]:
        """Requests with few distinct prompts, so that prefixes are shared."""
        world, now_ns, made = self.world, 0, []
        for id in range(world.requests):
            now_ns += int(self.random.expovariate(1 / world.gap_ns))
            length = self.random.randint(1, max(1, world.max_model_len * 2 // 3))
            voice = Random(self.random.randrange(3))
            tokens = [voice.randrange(VOCABULARY) for _ in range(length)]
            if self.random.random() < 0.5:
                tokens[-1] = VOCABULARY + id
            limit = self.random.choice([None, self.random.randint(1, world.max_model_len)])
            self.tokens[id] = tokens
            priority = self.random.randrange(3)
            predicted = self.random.randint(1, 40) if world.predictions else None
            request = Request(id, length, arrival_ns=now_ns, max_tokens=limit, priority=priority,
                              predicted_tokens=predicted,
                              identities=self._identities(tokens))  # fmt: skip
            self.requests[id] = request
            self.run.arrivals.append((now_ns, length, limit, priority, predicted))
            made.append(request)
        return made

    def _identities(self, tokens: list[int]) -> list[int]:
        size, parent, made = self.world.block_size, 0, []
        for start in range(0, len(tokens) - size + 1, size):
            parent = digest(parent, tokens[start : start + size])
            made.append(parent)
        return made

    def _cancel_some(self) -> None:
        for request in self.requests.values():
            live = request.state is not State.DONE and request.order >= 0
            if live and self.random.random() < self.world.cancel_share:
                step = len(self.run.recording.plan_times_ns)
                self.run.recording.cancels.setdefault(step, []).append(request.id)
                self.scheduler.cancel(request)

    def _step(self, plan: StepPlan) -> int:
        run = self.run
        run.recording.plan_times_ns.append(plan.now_ns)
        run.preemptions += len(plan.preempted)
        run.swaps += len(plan.swapped_out)
        run.copies += len(plan.copies)
        run.hits += sum(request.hits for request in plan.admitted)
        result = StepResult(self.random.randint(1, 400), finished=[], forks=[])
        self._compute(plan)
        for request in self._sampled(plan):
            self._sample(plan, request, result)
        result.identities = [
            self._identities(self.tokens[request.id])[-1] for request in plan.filling
        ]
        self.scheduler.commit(plan, result)
        return result.duration_ns + self.random.randrange(30)

    def _compute(self, plan: StepPlan) -> None:
        """Copy blocks, write the step's tokens, and read back all that each request attends to."""
        size = self.world.block_size
        for _, device, host in plan.swapped_out:
            self._move(self.memory, device, self.host, host)
        for source, target in plan.copies:
            for offset in range(size):
                if (source, offset) in self.memory:
                    self.memory[target, offset] = self.memory[source, offset]
        for _, device, host in plan.swapped_in:
            self._move(self.host, host, self.memory, device)
        for request, start, count in self.scheduler.scheduled(plan):
            tokens = self.tokens[request.id]
            for place in range(start, start + count):
                self.memory[request.blocks[place // size], place % size] = tokens[place]
        for request, start, count in self.scheduler.scheduled(plan):
            seen = [self.memory.get((request.blocks[place // size], place % size))
                    for place in range(start + count)]  # fmt: skip
            assert seen == self.tokens[request.id][: start + count], f"{request} reads others"

    def _move(
        self, source: Memory, blocks: Sequence[int], target: Memory, to: Sequence[int]
    ) -> None:
        """Move blocks across the host link; what lay in their place is gone."""
        for old, new in zip(blocks, to, strict=True):
            for offset in range(self.world.block_size):
                if (old, offset) in source:
                    target[new, offset] = source[old, offset]
                else:
                    target.pop((new, offset), None)

    def _sampled(self, plan: StepPlan) -> list[Request]:
        joined = dict.fromkeys(plan.completing)
        return [
            chunk.request
            for chunk in self.scheduler.scheduled(plan)
            if chunk.request in joined or chunk.request not in {c.request for c in plan.chunks}
        ]

    def _sample(self, plan: StepPlan, request: Request, result: StepResult) -> None:
        tokens = self.tokens[request.id]
        token = digest(tokens) % VOCABULARY
        tokens.append(token)
        made = len(tokens) - request.prompt_tokens
        if len(tokens) >= self.world.max_model_len or made == request.max_tokens:
            result.finished.append(Ending(request, "length"))
        elif digest("stop", tokens) % 19 == 0:
            result.finished.append(Ending(request, "stop"))
        elif self.random.random() < self.world.fork_share:
            self._fork(plan, request, result)

    def _fork(self, plan: StepPlan, parent: Request, result: StepResult) -> None:
        child = Request(self.next_id, parent.prompt_tokens, max_tokens=parent.max_tokens)
        self.next_id += 1
        tokens = list(self.tokens[parent.id])
        tokens[-1] = VOCABULARY + child.id
        child.known = len(tokens)
        child.identities = self._identities(tokens)
        self.tokens[child.id] = tokens
        self.requests[child.id] = child
        result.forks.append(Fork(parent, child))
        self.run.forks += 1
        self.run.recording.forks.setdefault(plan.step, []).append((parent.id, child.id))

    def _check_idle(self) -> None:
        assert all(request.state is State.DONE for request in self.requests.values())
        assert self.pool.free == self.pool.blocks
        assert self.pool.claimed == 0
        assert self.scheduler.kv_tokens() == 0
        assert self.scheduler.swap_space.free == self.scheduler.swap_space.blocks
        assert not self.scheduler.waiting
        assert not self.scheduler.swapped
        self.run.again = self.scheduler.preempted_again

    def _recorded(self) -> Run:
        run = self.run
        ended = {id: reason for row in run.log.rows for id, reason in row["finished"]}
        run.reasons = ended
        for id, tokens in self.tokens.items():
            if id in ended:
                run.answers[id] = len(tokens) - self.requests[id].prompt_tokens
            run.identities[id] = self._identities(tokens)
        return run
