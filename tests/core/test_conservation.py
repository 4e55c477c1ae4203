"""Nothing is lost and nothing waits for ever: in thousands of random worlds, after every step.

Blocks, blocks in host memory, requests and tokens are counted anew from what requests hold, and
compared with what scheduler and pools say.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import random_policy

from pagecast.engine.core.blocks import CountedPool, make_pool
from pagecast.engine.core.named_pool import NamedPool
from pagecast.engine.core.policy import Policy
from pagecast.engine.core.presets import PRESETS
from pagecast.engine.core.request import Request, State
from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import Chunk, Ending, Fork, StepPlan, StepResult

WORLDS = 2_000
MOST_PLANS = 2_000
"""Empty ones included; every world must have ended by then. Most need a hundred, none 700."""
MOST_FORKS = 3
NEVER = (State.DONE, 0)


class Ledger:
    """Where each request stands, from plans alone: tokens computed now, ever, and again."""

    def __init__(self) -> None:
        self.at: defaultdict[int, int] = defaultdict(int)
        self.top: defaultdict[int, int] = defaultdict(int)
        self.again: defaultdict[int, int] = defaultdict(int)
        self.total: defaultdict[int, int] = defaultdict(int)
        """Tokens scheduled, and those that a forked request took over."""

    def lose(self, request: Request) -> None:
        self.at[request.id] = 0

    def find(self, request: Request, tokens: int) -> None:
        self.at[request.id] = tokens

    def compute(self, chunk: Chunk) -> None:
        id, end = chunk.request.id, chunk.start + chunk.tokens
        assert chunk.tokens > 0
        assert chunk.start == self.at[id]
        self.again[id] += max(0, min(end, self.top[id]) - chunk.start)
        self.top[id] = max(self.top[id], end)
        self.total[id] += chunk.tokens
        self.at[id] = end

    def take_over(self, child: Request, tokens: int) -> None:
        self.at[child.id] = self.top[child.id] = self.total[child.id] = tokens


class World:
    """A scheduler under a random policy, and random requests that end when they please.

    Who is cancelled, in which state and from when on, is drawn beforehand: cancels that went on for
    ever would in the end let go whoever waits for ever.
    """

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        size, longest = random.choice([1, 2, 4, 16]), random.randint(8, 60)
        blocks = random.randint(2, 3 * -(-longest // size) + 2)
        self.policy = random_policy(random, blocks * size)
        if self.policy.max_total_tokens:
            tight = random.randint(longest, 3 * longest)
            self.policy = replace(self.policy, max_total_tokens=tight)
        named = random.random() < 0.5
        pool = make_pool(self.policy, blocks, size, named=named)
        swap = random.choice([0, blocks // 2, 4 * blocks])
        self.s = Scheduler(self.policy, pool, longest, swap_blocks=swap)
        self.rush = random.choice([0.1, 0.3, 1.0])
        self.fork_share = random.choice([0.0, 0.02]) if isinstance(pool, NamedPool) else 0.0
        self.longest_prompt = random.choice([longest // 4, longest // 2, longest])
        self.coming = [self._request(id, longest) for id in range(random.randint(2, 14))]
        self.answers = {
            request.id: random.randint(longest // 4, longest) for request in self.coming
        }
        self.cancels = {
            request: (random.choice(list(State)), random.randrange(40))
            for request in self.coming
            if random.random() < 0.1
        }
        self.live: list[Request] = []
        self.ledger = Ledger()
        self.seen: Counter[str] = Counter()
        self.now_ns = self.plans = 0
        self.names = count(10_000)

    def _request(self, id: int, longest: int) -> Request:
        random, prompt = self.random, self.random.randint(1, self.longest_prompt)
        voice = random.randrange(3) * 100
        full = prompt // self.s.pool.block_size
        return Request(
            id, prompt, max_tokens=random.choice([None, random.randint(1, longest)]),
            predicted_tokens=random.choice([None, random.randint(1, longest)]),
            priority=random.randrange(3), identities=list(range(voice, voice + full)),
        )  # fmt: skip

    def serve(self) -> Counter[str]:
        """Serve all requests to their end; counts of what happened."""
        while self._step():
            assert self.plans < MOST_PLANS, f"{len(self.live)} requests are left"
        assert not self.live
        assert not self.coming
        assert self.s.pool.free == self.s.pool.blocks
        assert self.s.pool.claimed == 0
        assert self.s.swap_space.free == self.s.swap_space.blocks
        assert self.s.kv_tokens() == self.s.reach_tokens == 0
        return self.seen

    def _step(self) -> bool:
        """One step; False if nothing is left to do."""
        self._arrive()
        self._cancel()
        plan = self.s.plan(self.now_ns)
        self.plans += 1
        self._tally(plan)
        self._check_places()
        self._check_blocks()
        if plan.empty:
            return self._idle(plan)
        self._check_plan(plan)
        self._check_tokens(plan)
        self._check_watermark(plan)
        result = self._result(plan)
        self.s.commit(plan, result)
        for parent, child in result.forks:
            if child in self.s.running:
                self.ledger.take_over(child, self.ledger.at[parent.id])
        self._check_places()
        self._check_blocks()
        self.now_ns += self.random.randint(1, 50)
        return True

    def _idle(self, plan: StepPlan) -> bool:
        """Nothing can be computed: somebody says until when, or nobody is there."""
        if plan.wake_ns is None:
            assert not self.live
            return bool(self.coming)
        assert plan.wake_ns > self.now_ns
        self.now_ns = plan.wake_ns
        return True

    def _arrive(self) -> None:
        while self.coming and self.random.random() < self.rush:
            request = self.coming.pop()
            request.arrival_ns = self.now_ns
            if self.s.submit(request) is None:
                self.live.append(request)
            else:
                self.seen["refused"] += 1

    def _cancel(self) -> None:
        for request in list(self.live):
            state, since = self.cancels.get(request, NEVER)
            if request.state is state and since <= self.plans:
                self.seen[f"cancelled {request.state.name.lower()}"] += 1
                self.s.cancel(request)
                self.live.remove(request)
                assert_gone(request)

    def _result(self, plan: StepPlan) -> StepResult:
        """Who has answered ends, or forks now and then."""
        ended, forks = [], []
        for request, start, tokens in self.s.scheduled(plan):
            known = self.s.cohort.known(request)
            if request.state is not State.DECODING or start + tokens != known - 1:
                continue
            made = known - request.prompt_tokens
            if made >= min(self.answers[request.id], self.s.longest_answer(request)):
                ended.append(Ending(request, "stop"))
                self._check_total(request, made)
            elif self.seen["forks"] < MOST_FORKS and self.random.random() < self.fork_share:
                forks.append(self._fork(request))
        self.seen["finished"] += len(ended)
        names = [next(self.names) for _ in plan.filling]
        return StepResult(1, ended, names, forks)

    def _fork(self, parent: Request) -> Fork:
        known, size = self.s.cohort.known(parent), self.s.pool.block_size
        child = Request(len(self.answers), parent.prompt_tokens, max_tokens=parent.max_tokens)
        child.known = known
        child.identities = parent.identities[: (known - 1) // size]
        if known % size == 0:
            child.identities.append(next(self.names))
        self.answers[child.id] = self.answers[parent.id]
        self.live.append(child)
        self.seen["forks"] += 1
        return Fork(parent, child)

    def _tally(self, plan: StepPlan) -> None:
        self.seen["plans"] += 1
        self.seen["steps"] += not plan.empty
        self.seen["held to fill"] += plan.wake_ns is not None
        for what in ("preempted", "swapped_out", "swapped_in", "failed", "copies"):
            self.seen[what] += len(getattr(plan, what))
        self.seen["hits"] += sum(request.hits for request in plan.admitted)

    def _check_total(self, request: Request, made: int) -> None:
        """p prompt and o output tokens are p + o - 1 to compute, and what was lost."""
        if not self.s.pool.caching:
            once = request.prompt_tokens + made - 1
            assert self.ledger.total[request.id] == once + request.recomputed_tokens

    def _check_plan(self, plan: StepPlan) -> None:
        scheduled = {chunk.request for chunk in self.s.scheduled(plan)}
        assert not scheduled.intersection(plan.preempted)
        assert {transfer.request for transfer in plan.swapped_in} <= scheduled
        assert set(plan.admitted) <= scheduled
        prompts = sum(chunk.tokens for chunk in plan.chunks)
        decodes = plan.shape.decode_seqs
        assert prompts == plan.shape.prefill_tokens
        assert prompts + decodes == sum(chunk.tokens for chunk in self.s.scheduled(plan))
        counted = prompts + (decodes if self.policy.budget_counts == "all" else 0)
        assert counted <= (self.policy.max_batched_tokens or counted)
        cap = self.policy.max_total_tokens
        if cap and not self.seen["forks"]:  # a fork asks nobody
            assert sum(map(self.s.reach, self.s.running)) <= cap

    def _check_tokens(self, plan: StepPlan) -> None:
        """Each position follows from the one before and the plan, and blocks cover it."""
        s, ledger, size = self.s, self.ledger, self.s.pool.block_size
        for request in plan.preempted:
            if request.state is not State.SWAPPED:
                ledger.lose(request)
        for request in plan.admitted:
            ledger.find(request, request.hits * size)
        for chunk in s.scheduled(plan):
            ledger.compute(chunk)
        for request in self.live:
            assert s.cohort.computed(request) == ledger.at[request.id]
            assert s.cohort.known(request) > ledger.at[request.id]
            assert request.recomputed_tokens == ledger.again[request.id]
        for request in s.running:
            covered = -(-ledger.at[request.id] // size)
            assert request.held == covered or (self.policy.claim == "reserved"
                                               and request.held > covered)  # fmt: skip

    def _check_watermark(self, plan: StepPlan) -> None:
        """What the last one let in left free, room that it reserved but did not take aside."""
        s, policy = self.s, self.policy
        share = int(policy.low_watermark * (s.pool.blocks + policy.null_blocks))
        if len(s.running) == 1 and policy.watermark_if_busy:
            share = 0
        if plan.admitted:
            last = plan.admitted[-1]
            owed = -(-self._reserved(plan, last) // s.pool.block_size) - last.held
            kept = share if "admit" in policy.watermark_on else 0
            assert s.pool.free - max(0, owed) >= kept
        elif plan.swapped_in:
            assert s.pool.free >= (share if "swap_in" in policy.watermark_on else 0)

    def _reserved(self, plan: StepPlan, request: Request) -> int:
        """Tokens that must have had room when the request was admitted in this plan."""
        if self.policy.reserve == "max_len":
            return self.s.max_model_len
        if self.policy.reserve == "known+max_new":
            room = self.s.max_model_len - request.prompt_tokens
            return request.prompt_tokens + min(request.max_tokens or room, room)
        if self.policy.reserve == "chunk":
            return self.ledger.at[request.id]
        return self.s.cohort.known(request) - (request in plan.completing)

    def _check_places(self) -> None:
        """Everyone who came and is not gone stands in one place, and holds what belongs there."""
        s, waiting = self.s, list(self.s.waiting)  # type: ignore[call-overload]
        for request in self.live:
            if request.state is State.DONE:
                assert_gone(request)
        self.live = [request for request in self.live if request.state is not State.DONE]
        places = Counter([*waiting, *s.swapped, *s.running])
        assert places == Counter(self.live)
        assert all(r.state is State.WAITING and holds(r) == (0, 0, 0) for r in waiting)
        assert all(r.state is State.SWAPPED and holds(r)[:2] == (0, 0) for r in s.swapped)
        assert all(r.state in (State.PARTIAL, State.DECODING) for r in s.running)
        assert all(not r.host_blocks for r in s.running)
        assert set(s.partials) == {r for r in s.running if r.state is State.PARTIAL}
        assert len(s.running) - len(s.partials) == s.cohort.size
        assert len(s.running) <= s.max_seqs

    def _check_blocks(self) -> None:
        s, pool = self.s, self.s.pool
        running = list(s.running)
        held = [request.held for request in running]
        assert sum(held) == pool.claimed
        if isinstance(pool, NamedPool):
            assert [len(request.blocks) for request in running] == held
            assert pool.free + self._distinct(running) == pool.blocks
        else:
            assert pool.free + sum(held) == pool.blocks
        hosts = [block for request in s.swapped for block in request.host_blocks]
        assert len(set(hosts)) == len(hosts) == s.swap_space.blocks - s.swap_space.free
        for request in s.swapped:
            assert len(request.host_blocks) == -(-request.computed // pool.block_size)
        assert s.kv_tokens() == sum(s.cohort.computed(request) for request in running)
        if s.total_cap:
            assert s.reach_tokens == sum(map(s.reach, running))

    def _distinct(self, running: list[Request]) -> int:
        """Blocks referenced; who shares one has the same tokens in it, at the same place."""
        size, owners = self.s.pool.block_size, defaultdict(list)
        for request in running:
            full = self.s.cohort.computed(request) // size
            for place, block in enumerate(request.blocks):
                content = request.identities[place] if place < full and self._named(request) else 0
                owners[block].append((place, content))
        shared = {block: found for block, found in owners.items() if len(found) > 1}
        if not (self.s.pool.caching or self.seen["forks"]):
            assert not shared
        for found in shared.values():
            assert len({place for place, _ in found}) == 1
            assert len({content for _, content in found if content}) <= 1
        return len(owners)

    def _named(self, request: Request) -> bool:
        """Whether the blocks of a request have identities: only a cache asks for them."""
        return self.s.pool.caching and bool(request.identities)


def holds(request: Request) -> tuple[int, int, int]:
    """Blocks counted, named and in host memory."""
    return request.held, len(request.blocks), len(request.host_blocks)


def assert_gone(request: Request) -> None:
    assert request.state is State.DONE
    assert holds(request) == (0, 0, 0)


AT_LEAST = {
    "steps": 70_000, "preempted": 900, "swapped_out": 170, "swapped_in": 170, "hits": 4_000,
    "copies": 150, "failed": 400, "refused": 1_400, "held to fill": 90, "cancelled waiting": 80,
    "cancelled partial": 15, "cancelled decoding": 100, "cancelled swapped": 1,
}  # fmt: skip
"""Nothing is shown where nothing happens: half of what happened when this was written."""


def test_nothing_is_lost_and_nothing_waits_for_ever() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=WORLDS, deadline=None, derandomize=True, database=None)
    @given(st.integers(0, 1 << 40))
    def serve(seed: int) -> None:
        seen.update(World(seed).serve())

    serve()
    assert {what: seen[what] for what, least in AT_LEAST.items() if seen[what] < least} == {}


def served(policy: Policy, blocks: int, size: int, asked: list[tuple[int, int]]) -> Iterator[int]:
    """Serve prompts and answers of these lengths; what the running may come to, in each step."""
    s = Scheduler(policy, CountedPool(blocks, size), 32, swap_blocks=100)
    for id, (prompt, answer) in enumerate(asked):
        assert s.submit(Request(id, prompt, max_tokens=answer)) is None
    while not (plan := s.plan(s.steps)).empty:
        yield sum(map(s.reach, s.running))
        made = {r: s.cohort.known(r) - r.prompt_tokens for r, _, _ in s.scheduled(plan)}
        ended = [Ending(r, "length") for r in made if made[r] == asked[r.id][1]]
        s.commit(plan, StepResult(1, ended))


PIECEMEAL = replace(PRESETS["vllm-v1@0.11"], prefix="off", null_blocks=0, long_prefill_cap=1)


def test_prompts_in_part_give_way_to_the_first() -> None:
    assert len(list(served(PIECEMEAL, 3, 4, [(9, 2), (9, 2)]))) < 40


def test_prompts_in_part_do_not_push_each_other_out_for_ever() -> None:
    steps = served(replace(PIECEMEAL, victim="most_blocks"), 3, 4, [(9, 2), (9, 2)])
    assert len(list(islice(steps, 500))) < 500


def test_who_returns_keeps_to_max_total_tokens() -> None:
    """The third comes while the second is swapped out, which returns when the first has left."""
    policy = replace(
        PRESETS["vllm-v0-chunked@0.6.3"],
        preemption="swap", low_watermark=0.0, max_total_tokens=34, infeasible="abort_last",
    )  # fmt: skip
    reaches = list(served(policy, 18, 1, [(8, 4), (8, 12), (2, 18)]))
    assert max(reaches) <= 34
