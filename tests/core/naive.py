"""vLLM V1's rules once more, the plain way: lists, and a walk over all that run in each step.

Written from the rules in docs/scheduler.md, without the prefix cache, and sharing nothing with the
core but the axes of a policy. What it lacks in speed it makes up in being easy to check by eye.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pagecast.engine.core.policy import Policy


@dataclass
class Job:
    """A request: `known` tokens exist, `computed` of them are in `held` blocks."""

    id: int
    prompt: int
    answer: int
    known: int = 0
    computed: int = 0
    held: int = 0


@dataclass
class Step:
    """What a step decided: (request, tokens, start) in order, victims, failures, free blocks."""

    scheduled: list[tuple[int, int, int]] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    free: int = 0


class NaiveScheduler:
    """Plans and at once carries out one step after the other."""

    def __init__(self, policy: Policy, blocks: int, block_size: int) -> None:
        self.policy = policy
        self.size = block_size
        self.blocks = blocks - policy.null_blocks
        self.free = self.blocks
        self.watermark = int(policy.low_watermark * blocks)
        self.cap = policy.long_prefill_cap or 10**9
        self.waiting: list[Job] = []
        self.running: list[Job] = []

    def needs(self, tokens: int) -> int:
        return (tokens + self.size - 1) // self.size

    def step(self) -> Step:
        step = Step()
        budget = self.serve_running(step)
        if not step.preempted or self.policy.admit_after_preempt:
            self.admit(step, budget)
        step.free = self.free
        self.end_step(step)
        return step

    def serve_running(self, step: Step) -> int:
        budget = self.policy.max_batched_tokens or 10**9
        for job in list(self.running):
            if job not in self.running or budget <= 0:
                continue
            tokens = min(job.known - job.computed, self.cap, budget)
            need = max(0, self.needs(job.computed + tokens) - job.held)
            if need > self.free and not self.make_room(step, job, need):
                continue
            self.take(job, need)
            step.scheduled.append((job.id, tokens, job.computed))
            budget -= tokens
        return budget

    def make_room(self, step: Step, job: Job, need: int) -> bool:
        if job.held + need > self.blocks:
            self.running.remove(job)
            self.give_back(job)
            step.failed.append(job.id)
            return False
        while self.free < need:
            victim = self.running.pop()
            self.give_back(victim)
            victim.computed = 0
            step.preempted.append(victim.id)
            place = 0 if self.policy.requeue == "front" else len(self.waiting)
            self.waiting.insert(place, victim)
            if victim is job:
                return False
        return True

    def admit(self, step: Step, budget: int) -> None:
        while self.waiting and budget > 0 and len(self.running) < self.policy.max_seqs:
            job = self.waiting[0]
            if job.id in step.preempted:
                return
            tokens = min(job.known, self.cap, budget)
            need = self.needs(job.known if self.policy.reserve == "known" else tokens)
            kept = self.watermark if self.running or not self.policy.watermark_if_busy else 0
            if need > self.blocks - (0 if self.policy.watermark_if_busy else self.watermark):
                step.failed.append(self.waiting.pop(0).id)
                continue
            if self.free - need < kept:
                return
            self.running.append(self.waiting.pop(0))
            self.take(job, self.needs(tokens))
            step.scheduled.append((job.id, tokens, 0))
            budget -= tokens

    def end_step(self, step: Step) -> None:
        jobs = {job.id: job for job in self.running}
        for id, tokens, _ in step.scheduled:
            job = jobs[id]
            job.computed += tokens
            if job.computed == job.known:
                job.known += 1
                if job.known == job.prompt + job.answer:
                    self.running.remove(job)
                    self.give_back(job)

    def take(self, job: Job, blocks: int) -> None:
        job.held += blocks
        self.free -= blocks

    def give_back(self, job: Job) -> None:
        self.free += job.held
        job.held = 0
