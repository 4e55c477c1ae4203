"""Nothing is lost and nothing waits for ever: in thousands of random worlds, after every step.

Blocks, blocks in host memory, requests and tokens are counted anew from what requests hold, and
compared with what scheduler and pools say.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import random_policy

from pagecast.engine.core.blocks import make_pool
from pagecast.engine.core.named_pool import NamedPool
from pagecast.engine.core.request import Request, State
from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import Ending, StepPlan, StepResult

MOST_STEPS = 4_000


class World:
    """A scheduler under a random policy, and random requests that end when they please."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        size, longest = random.choice([1, 2, 4, 16]), random.randint(8, 60)
        blocks = random.randint(2, 3 * -(-longest // size) + 2)
        self.policy = random_policy(random, blocks * size)
        named = random.random() < 0.5
        pool = make_pool(self.policy, blocks, size, named=named)
        swap = random.choice([0, blocks // 2, 4 * blocks])
        self.s = Scheduler(self.policy, pool, longest, swap_blocks=swap)
        self.coming = [self._request(id, longest) for id in range(random.randint(2, 14))]
        self.live: list[Request] = []
        self.answers = {request.id: random.randint(1, longest) for request in self.coming}
        self.computed: Counter[int] = Counter()
        self.next_identity = 10_000

    def _request(self, id: int, longest: int) -> Request:
        random, prompt = self.random, self.random.randint(1, longest)
        voice = random.randrange(3) * 100
        return Request(
            id, prompt, max_tokens=random.choice([None, random.randint(1, longest)]),
            predicted_tokens=random.choice([None, random.randint(1, longest)]),
            priority=random.randrange(3), identities=list(range(voice, voice + prompt)),
        )  # fmt: skip

    def arrivals(self) -> None:
        while self.coming and self.random.random() < 0.3:
            request = self.coming.pop()
            size = self.s.pool.block_size
            del request.identities[request.prompt_tokens // size :]
            if self.s.submit(request) is None:
                self.live.append(request)

    def step(self) -> bool:
        """One step; False if there was nothing to compute."""
        self.arrivals()
        for request in list(self.live):
            if self.random.random() < 0.003:
                self.s.cancel(request)
        now_ns = self.s.steps
        plan = self.s.plan(now_ns)
        self._check_places(plan)
        self._check_blocks()
        if plan.empty:
            return plan.wake_ns is not None or bool(self.coming)
        self._check_plan(plan)
        result = self._result(plan)
        self.s.commit(plan, result)
        self._check_blocks()
        return True

    def _result(self, plan: StepPlan) -> StepResult:
        ended = []
        for request, start, tokens in self.s.scheduled(plan):
            self.computed[request.id] += tokens
            known = self.s.cohort.known(request)
            done = request.state is State.DECODING and start + tokens == known - 1
            made = known - request.prompt_tokens
            cap = min(self.answers[request.id], self.s.longest_answer(request))
            if done and made >= cap:
                ended.append(Ending(request, "stop"))
                if not self.s.pool.caching:
                    # p prompt and o output tokens are p + o - 1 to compute, and what was lost.
                    once = request.prompt_tokens + made - 1
                    assert self.computed[request.id] == once + request.recomputed_tokens
        self.next_identity += len(plan.filling)
        names = range(self.next_identity - len(plan.filling), self.next_identity)
        return StepResult(1, ended, list(names))

    def _check_plan(self, plan: StepPlan) -> None:
        scheduled = {chunk.request for chunk in self.s.scheduled(plan)}
        assert not scheduled.intersection(plan.preempted)
        assert {transfer.request for transfer in plan.swapped_in} <= scheduled
        assert set(plan.admitted) <= scheduled
        prompts = sum(chunk.tokens for chunk in plan.chunks)
        decodes = plan.shape.decode_seqs if self.policy.budget_counts == "all" else 0
        assert prompts + decodes <= self.s.budget
        for request, start, tokens in self.s.scheduled(plan):
            assert request.held * self.s.pool.block_size >= start + tokens

    def _check_places(self, plan: StepPlan) -> None:
        s, waiting = self.s, list(self.s.waiting)  # type: ignore[call-overload]
        self.live = [request for request in self.live if request.state is not State.DONE]
        places = Counter([*waiting, *s.swapped, *s.running])
        assert places == Counter(self.live)
        assert all(request.state is State.WAITING for request in waiting)
        assert all(request.state is State.SWAPPED for request in s.swapped)
        assert set(s.partials) == {r for r in s.running if r.state is State.PARTIAL}
        assert len(s.running) - len(s.partials) == s.cohort.size
        assert len(s.running) <= s.max_seqs

    def _check_blocks(self) -> None:
        s, pool = self.s, self.s.pool
        running = list(s.running)
        held = [request.held for request in running]
        assert sum(held) == pool.claimed
        if isinstance(pool, NamedPool):
            refs = Counter(block for request in running for block in request.blocks)
            assert pool.free + len(refs) == pool.blocks
            assert [len(request.blocks) for request in running] == held
            private = refs if not pool.caching else {}
            assert all(count == 1 for count in private.values())
        else:
            assert pool.free + sum(held) == pool.blocks
        hosts = [block for request in s.swapped for block in request.host_blocks]
        assert len(set(hosts)) == len(hosts) == s.swap_space.blocks - s.swap_space.free
        assert s.kv_tokens() == sum(s.cohort.computed(request) for request in running)


@settings(max_examples=2_500, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 1 << 40))
def test_nothing_is_lost_and_nothing_waits_for_ever(seed: int) -> None:
    world = World(seed)
    for _ in range(MOST_STEPS):
        if not world.step():
            break
    assert not world.live, f"{len(world.live)} requests are left"
    assert not world.coming
    assert world.s.pool.free == world.s.pool.blocks
    assert world.s.pool.claimed == 0
    assert world.s.swap_space.free == world.s.swap_space.blocks
