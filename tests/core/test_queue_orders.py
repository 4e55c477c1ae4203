"""Who is admitted first, how much of it at a time, and what forecasts allow: small worlds by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagecast.engine.core.blocks import make_pool
from pagecast.engine.core.forecasts import PeakForecast, RatioForecast
from pagecast.engine.core.policy import Policy
from pagecast.engine.core.presets import PRESETS
from pagecast.engine.core.request import Request
from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import StepPlan
from pagecast.sim.world.executor import TraceExecutor

PLAIN = replace(PRESETS["vllm-v1@0.33"], prefix="off", null_blocks=0)
ALONE = replace(PLAIN, max_seqs=1)
SGLANG = replace(PRESETS["sglang@0.5.23"], prefix="off")
LIGHTLLM = replace(PRESETS["lightllm"], prefix="off")


class Unlike:
    """Answer blocks that equal nothing."""

    def answer_block(self, request: Request) -> int:
        return -(request.id << 20) - len(request.identities) - 1


class Desk:
    """A scheduler driven by hand, and the order in which it admitted."""

    def __init__(
        self, policy: Policy, blocks: int = 1000, size: int = 4, *, max_model_len: int = 1 << 20
    ) -> None:
        self.s = Scheduler(policy, make_pool(policy, blocks, size), max_model_len)
        self.answers: dict[int, int] = {}
        self.executor = TraceExecutor(lambda shape: 1, self.answers, Unlike())
        self.admitted: list[int] = []

    def ask(self, prompt: int, answer: int = 1, **fields: Any) -> Request:
        request = Request(len(self.answers), prompt, **fields)
        self.answers[request.id] = answer
        assert self.s.submit(request) is None
        return request

    def step(self) -> StepPlan:
        plan = self.s.plan(self.s.steps)
        self.admitted += [request.id for request in plan.admitted]
        if not plan.empty:
            self.s.commit(plan, self.executor.run(plan))
        return plan

    def all_plans(self) -> list[StepPlan]:
        plans = [self.step()]
        while not plans[-1].empty:
            plans.append(self.step())
        assert not self.s.running
        assert not self.s.waiting
        return plans[:-1]


def order(policy: Policy, *requests: dict[str, Any]) -> list[int]:
    """In which order requests of these fields, which come at the same time, are admitted."""
    desk = Desk(policy)
    for fields in requests:
        desk.ask(**{"prompt": 8, **fields})
    desk.all_plans()
    return desk.admitted


def pieces(policy: Policy, *lengths: tuple[int, int]) -> list[list[int]]:
    """The pieces of prompts that each step computes, as long as there are any."""
    desk = Desk(policy)
    for prompt, answer in lengths:
        desk.ask(prompt, answer)
    made = [[chunk.tokens for chunk in plan.chunks] for plan in desk.all_plans()]
    while not made[-1]:
        made.pop()
    return made


# Who is not even queued.


def roomy(name: str, blocks: int) -> tuple[Scheduler, int]:
    """A preset with a pool of so many usable blocks of 4; a context is as long as they are."""
    policy = PRESETS[name]
    budget = None if policy.padding == "longest" else 4096
    policy = replace(policy, low_watermark=0.0, max_seqs=64, max_batched_tokens=budget)
    pool = make_pool(policy, blocks + policy.null_blocks, 4)
    context = 4 * blocks if policy.reserves_all else 1 << 20
    return Scheduler(policy, pool, context), context


@pytest.mark.parametrize("name", PRESETS)
def test_what_exceeds_the_pool_is_refused_with_both_numbers(name: str) -> None:
    """With its first token, 200 of prompt are one more than 50 blocks hold."""
    s, context = roomy(name, 50)
    assert s.submit(Request(0, 199)) is None
    refused = str(s.submit(Request(1, 200)))
    if s.policy.reserves_all:
        assert refused.endswith(f"prompt of 200 tokens leaves no room for an answer in a context "
                                f"of {context}")  # fmt: skip
        s.max_model_len = 201
        refused = str(s.submit(Request(2, 200)))
    assert refused == "capacity: needs 51 blocks, the pool has 50"


@pytest.mark.parametrize("name", PRESETS)
def test_a_prompt_beyond_the_context_is_refused_as_context(name: str) -> None:
    s, _ = roomy(name, 1000)
    s.max_model_len = 256
    assert s.submit(Request(0, 255)) is None
    assert str(s.submit(Request(1, 256))) == (
        "context: prompt of 256 tokens leaves no room for an answer in a context of 256"
    )


# The order of waiting.


def test_fcfs_is_the_order_of_arrival() -> None:
    assert order(ALONE, {"prompt": 90}, {"prompt": 10}, {"prompt": 50, "priority": -1}) == [0, 1, 2]


@pytest.mark.parametrize("name", ["sjf", "srpt"])
def test_shortest_first_by_prediction_among_equals_by_arrival(name: str) -> None:
    predicted = [50, 10, 70, 10, 30]
    requests = [{"predicted_tokens": tokens, "answer": 3} for tokens in predicted]
    assert order(replace(ALONE, queue_order=name), *requests) == [1, 3, 4, 0, 2]


@pytest.mark.parametrize("name", ["sjf", "srpt"])
def test_shortest_first_takes_the_prompt_where_nothing_is_predicted(name: str) -> None:
    requests = [{"prompt": tokens} for tokens in (50, 10, 70, 10)]
    policy = replace(ALONE, queue_order=name)
    assert order(policy, *requests, {"prompt": 90, "predicted_tokens": 20}) == [1, 3, 4, 0, 2]


def test_the_smallest_priority_is_first_among_equals_by_arrival() -> None:
    requests = [{"priority": urgency} for urgency in (3, 0, -5, 3, 0)]
    assert order(replace(ALONE, queue_order="priority"), *requests) == [2, 1, 4, 0, 3]


LPM = replace(ALONE, queue_order="lpm", prefix="block_hash")


def with_cache(blocks: Sequence[int]) -> Desk:
    """A desk whose cache holds these blocks of 4 tokens, from one request that has left."""
    desk = Desk(LPM)
    desk.ask(4 * len(blocks) + 1, identities=list(blocks))
    desk.all_plans()
    desk.admitted.clear()
    return desk


def test_the_longest_cached_prefix_is_first_among_equals_by_arrival() -> None:
    desk = with_cache([1, 2, 3, 4])
    for blocks in ([9, 8, 7], [1, 2, 6], [1, 5, 3, 4], [1, 2, 3], [1, 2, 3, 4], [7, 7, 7]):
        desk.ask(4 * len(blocks) + 1, identities=list(blocks))
    desk.all_plans()
    # Hits 0, 2, 1, 3, 4, 0.
    assert desk.admitted == [5, 4, 2, 3, 1, 6]


def test_the_last_token_is_never_a_hit_in_that_order_either() -> None:
    desk = with_cache([1, 2, 3])
    desk.ask(9, identities=[1, 2])
    desk.ask(12, identities=[1, 2, 3])
    desk.ask(13, identities=[1, 2, 3])
    desk.all_plans()
    # Hits 2, 2, 3: of 12 tokens the last must be computed.
    assert desk.admitted == [3, 1, 2]


@pytest.mark.parametrize("waiting", [2, 127, 128, 129, 131])
def test_a_queue_longer_than_128_is_not_ordered_by_cached_prefix(waiting: int) -> None:
    """Only the last has a prefix cached; each step admits one."""
    desk = with_cache([1, 2])
    for place in range(waiting - 1):
        desk.ask(9, identities=[100 + place, 500 + place])
    last = desk.ask(9, identities=[1, 2])
    desk.all_plans()
    assert desk.admitted.index(last.id) == max(0, waiting - 128)


def two_and_one_more(**axes: Any) -> Desk:
    """Two of 8 + 8 in 6 blocks of 4; the second gives way in step 5 while a third one waits.

    The first decodes on in 4 blocks; 2 are left, which would do for the third but not the second.
    """
    desk = Desk(replace(PLAIN, **axes), 6)
    desk.ask(8, 8, predicted_tokens=8)
    second = desk.ask(8, 8, predicted_tokens=8)
    desk.step()
    desk.step()
    desk.ask(8, 4, predicted_tokens=4)
    preempted = [plan.preempted for plan in desk.all_plans()]
    assert preempted[:4] == [[], [], [], [second]]
    return desk


@pytest.mark.parametrize(
    ("queue_order", "requeue", "next_admitted"),
    [
        ("fcfs", "front", 1),
        ("fcfs", "back", 2),
        ("sjf", "front", 1),
        # 8 against 4.
        ("sjf", "back", 2),
        # It has made 5 of 8: 3 are left, against 4.
        ("srpt", "back", 1),
        # Equal urgency: it arrived first.
        ("priority", "back", 1),
    ],
)
def test_who_is_recomputed_returns_to_the_head_or_where_the_order_says(
    queue_order: str, requeue: str, next_admitted: int
) -> None:
    desk = two_and_one_more(queue_order=queue_order, requeue=requeue)
    assert desk.admitted[:3] == [0, 1, next_admitted]


@pytest.mark.parametrize("queue_order", ["fcfs", "sjf", "srpt", "priority", "lpm"])
def test_of_several_preempted_ones_the_earliest_stands_first(queue_order: str) -> None:
    """Four of 8 + 16 in 18 blocks of which half are kept free: first one gives way, then another."""
    desk = Desk(replace(PLAIN, queue_order=queue_order, low_watermark=0.5, preempt_below=0.5), 18)
    requests = [desk.ask(8, 16) for _ in range(4)]
    gone: list[Request] = []
    while len(gone) < 2:
        gone += desk.step().preempted
    assert gone == [requests[3], requests[2]]
    assert list(desk.s.waiting) == requests[2:]  # type: ignore[call-overload]


# When it is tried.


@pytest.mark.parametrize("every", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("policy", [PLAIN, LIGHTLLM], ids=["mixed", "prefill_first"])
def test_so_many_decode_steps_lie_between_two_attempts(policy: Policy, every: int) -> None:
    """Somebody always waits. Where prompts share steps with decodes, each admission is one."""
    desk = Desk(replace(policy, admit_every_n_decodes=every, reserve="known"))
    desk.ask(8, 100)
    clocks = []
    for _ in range(60):
        if not desk.s.waiting:
            desk.ask(8, 100)
        clock = desk.s.cohort.clock
        if desk.step().admitted:
            clocks.append(clock)
    between = {after - before for before, after in pairwise(clocks[1:])}
    assert between == {max(every, 1) if policy is PLAIN else every}


def test_an_idle_engine_does_not_wait_for_decodes() -> None:
    desk = Desk(replace(PLAIN, admit_every_n_decodes=100))
    for _ in range(3):
        desk.ask(8)
        assert desk.step().admitted


# How much of it.


@pytest.mark.parametrize("most", [1, 2, 3])
def test_so_many_prompts_at_most_are_unfinished(most: int) -> None:
    desk = Desk(replace(PLAIN, max_batched_tokens=256, long_prefill_cap=8, max_partials=most))
    for _ in range(6):
        desk.ask(30, 5)
    partials = []
    while not desk.step().empty:
        partials.append(len(desk.s.partials))
    assert max(partials) == most
    free = Desk(replace(PLAIN, max_batched_tokens=256, long_prefill_cap=8))
    for _ in range(6):
        free.ask(30, 5)
    free.step()
    assert len(free.s.partials) == 6


def test_whole_prompts_join_those_that_are_unfinished() -> None:
    """One of 30 in pieces of 8, then 5 and 5 whole, then 30 again, which must wait."""
    policy = replace(PLAIN, max_batched_tokens=256, long_prefill_cap=8, max_partials=1)
    assert pieces(policy, (30, 1), (5, 1), (5, 1), (30, 1)) == [
        [8, 5, 5], [8], [8], [6, 8], [8], [8], [6]
    ]  # fmt: skip


def test_pieces_are_multiples_but_for_the_last() -> None:
    policy = replace(PLAIN, max_batched_tokens=50, max_seqs=4, chunk_align=16)
    # 48 + 2 left, too little for a piece; 4 + 46 left; 1 decode + 49 left; 1 decode + 20.
    assert pieces(policy, (100, 9), (100, 9)) == [[48], [48], [4, 32], [48], [20]]
    assert pieces(replace(policy, chunk_align=0), (100, 9), (100, 9)) == [
        [50],
        [50],
        [49],
        [49],
        [2],
    ]


def test_only_the_first_prompt_of_a_step_is_cut() -> None:
    policy = replace(PLAIN, max_batched_tokens=50, max_seqs=4)
    lengths = ((30, 9), (30, 9), (80, 9))
    assert pieces(replace(policy, chunk="first_only"), *lengths) == [[30], [30], [48], [32]]
    assert pieces(policy, *lengths) == [[30, 20], [10, 39], [41]]
    whole = Desk(replace(policy, chunk="none"))
    assert str(whole.s.submit(Request(0, 80))).startswith("budget: prompt of 80 tokens exceeds ")


def test_all_that_run_come_to_no_more_than_the_total() -> None:
    """Each may come to 30 tokens: two fit into 70 and three into 90."""
    for total, together in ((60, 2), (70, 2), (89, 2), (90, 3), (None, 5)):
        desk = Desk(replace(PLAIN, max_total_tokens=total))
        for _ in range(5):
            desk.ask(20, 10, max_tokens=10)
        running = []
        while not desk.step().empty:
            running.append(len(desk.s.running))
        assert max(running) == together
        assert desk.s.reach_tokens == 0


def test_what_may_exceed_the_total_alone_is_refused_with_the_numbers() -> None:
    desk = Desk(replace(PLAIN, max_total_tokens=70), max_model_len=100)
    assert desk.s.submit(Request(0, 60, max_tokens=10)) is None
    assert str(desk.s.submit(Request(1, 60, max_tokens=11))) == (
        "capacity: may come to 71 tokens, above max_total_tokens 70"
    )
    # Nothing said, it may come to the context.
    assert "may come to 100 tokens" in str(desk.s.submit(Request(2, 5)))


# Forecasts.


def share(desk: Desk) -> int:
    (millionths,) = desk.s.rule_state()
    return millionths


def decode_steps(desk: Desk, count: int) -> None:
    """Step until the decode clock has gone on by so much."""
    until = desk.s.cohort.clock + count
    while desk.s.cohort.clock < until:
        assert not desk.step().empty


@pytest.mark.parametrize(
    ("steps", "millionths"),
    [(0, 700_000), (1, 698_997), (300, 399_000), (599, 99_004), (600, 98_000), (900, 98_000)],
)
def test_the_ratio_falls_from_70_to_9_8_per_cent_in_600_decode_steps(
    steps: int, millionths: int
) -> None:
    desk = Desk(SGLANG)
    desk.ask(8, 1000)
    decode_steps(desk, steps)
    assert share(desk) == millionths


def test_the_ratio_starts_over_once_the_engine_is_idle() -> None:
    desk = Desk(SGLANG)
    desk.ask(8, 301)
    desk.all_plans()
    desk.ask(8, 1000)
    desk.step()
    assert share(desk) == 700_000
    decode_steps(desk, 1)
    assert share(desk) == 698_997


@pytest.mark.parametrize(
    ("together", "millionths"),
    [
        # In the step that retracts the other one has decoded 17: (17 + 20) / (100 + 1).
        (2, 366_336),
        # The other two have decoded 9 each: (18 + 40) / (200 + 1).
        (3, 288_557),
        # The other three, 5 each: (15 + 60) / (300 + 1).
        (4, 249_169),
    ],
)
def test_a_retraction_sets_the_ratio_by_what_was_decoded(together: int, millionths: int) -> None:
    """12 of 120 blocks may be used: the next growth beyond 6, 4, 3 blocks each retracts the last."""
    desk = Desk(replace(SGLANG, low_watermark=0.9, preempt_below=0.9), 120)
    requests = [desk.ask(8, 90, max_tokens=100) for _ in range(together)]
    plan = desk.step()
    assert plan.admitted == requests
    while not plan.preempted:
        plan = desk.step()
    assert plan.preempted == requests[-1:]
    assert desk.s.cohort.known(requests[0]) - 8 == {2: 18, 3: 10, 4: 6}[together]
    # The retracting step decodes itself: one step further down.
    assert share(desk) == millionths - 602_000 // 600


def test_in_crowds_the_ratio_follows_the_rule_at_every_retraction() -> None:
    seen = 0
    for seed in range(12):
        random, desk = Random(seed), Desk(SGLANG, 48)
        for _ in range(150):
            limit = random.randint(8, 60)
            desk.ask(random.randint(1, 30), random.randint(limit - 7, limit), max_tokens=limit)
        forecast = desk.s.forecast
        assert isinstance(forecast, RatioForecast)
        while not (plan := desk.s.plan(desk.s.steps)).empty:
            if plan.preempted:
                # Known counts the step's own token by now, which the rule did not see yet.
                assert plan.ticks
                stayed = list(desk.s.running)
                decoded = sum(desk.s.cohort.known(r) - r.prompt_tokens - 1 for r in stayed)
                most = sum(r.max_tokens or 0 for r in stayed)
                expected = (decoded + 20 * len(stayed)) * 1_000_000 // (most + 1)
                expected = max(98_000, min(1_000_000, expected) - 602_000 // 600)
                assert forecast.ratio_millionths() == expected
                seen += 1
            desk.s.commit(plan, desk.executor.run(plan))
    assert seen > 10


@pytest.mark.parametrize(("free", "admitted"), [(97, False), (98, True)])
def test_the_ratio_admits_who_fits_with_its_answer_beside_the_share_of_others(
    free: int, admitted: bool
) -> None:
    """After 300 decode steps 308 tokens are in 77 blocks, 301 of 1,000 are made and 699 to come.

    The share of 0.399 is 279 tokens, with the 100 of the newcomer 379, in 95 blocks of 4. Its
    prompt of 12 needs 3 more.
    """
    desk = Desk(SGLANG, 77 + free)
    desk.ask(8, 1000, max_tokens=1000)
    decode_steps(desk, 300)
    assert (desk.s.cohort.clock, desk.s.pool.free) == (300, free)
    desk.ask(12, 100, max_tokens=100)
    assert bool(desk.step().admitted) is admitted


@pytest.mark.parametrize(("blocks", "admitted"), [(53, [0]), (54, [0, 1])])
def test_who_is_admitted_in_the_same_step_counts_with_the_whole_answer(
    blocks: int, admitted: list[int]
) -> None:
    """2 blocks are held, 2 are for the second prompt and 50 for two answers of 100 tokens."""
    desk = Desk(SGLANG, blocks)
    desk.ask(8, 100, max_tokens=100)
    desk.ask(8, 100, max_tokens=100)
    desk.step()
    assert desk.admitted == admitted


def test_who_did_not_fit_is_tried_again_only_once_somebody_has_left() -> None:
    """The falling ratio alone would make room before the second of those who run ends."""
    desk = Desk(SGLANG, 608)
    desk.ask(8, 3000, max_tokens=3000)
    desk.step()
    second = desk.ask(8, 300, max_tokens=300)
    assert desk.step().admitted == [second]
    newcomer, fitted = desk.ask(12, 100, max_tokens=100), []
    desk.step()
    while second in desk.s.running:
        assert newcomer in desk.s.waiting  # type: ignore[operator]
        plan = StepPlan(0, 0, desk.s.pool.free, 1)
        assert desk.s.forecast
        fitted.append(desk.s.forecast.fits(plan, newcomer, 3))
        desk.step()
    assert fitted.count(True) > 200
    assert desk.step().admitted == [newcomer]


# Who runs: prompt, made, most of the answer; who asks: prompt, most of the answer.
runners = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 30), st.integers(1, 60)), min_size=1, max_size=7
)
newcomers = st.tuples(st.integers(1, 40), st.integers(1, 60))


def staged(policy: Policy, blocks: int, size: int, running: Any, asking: Any) -> tuple[Desk, bool]:
    """Whether the forecast of a staged scheduler lets the newcomer in."""
    desk = Desk(policy, blocks, size)
    for id, (prompt, made, most) in enumerate(running):
        request = Request(id, prompt, max_tokens=max(most, made))
        request.known = prompt + made
        desk.s.pool.admit(request, (), desk.s.blocks_for(request.known))
        desk.s.place(request)
    prompt, most = asking
    newcomer = Request(len(running), prompt, max_tokens=most)
    plan = StepPlan(0, 0, desk.s.pool.free, 1)
    assert isinstance(desk.s.forecast, PeakForecast)
    return desk, desk.s.forecast.fits(plan, newcomer, desk.s.blocks_for(prompt))


def grown(running: Any, asking: Any, size: int) -> int:
    """The most blocks ever held, by letting each grow a token a step until it has ended."""
    lives = [(prompt + made, max(most, made) - made) for prompt, made, most in running]
    lives.append(asking)
    return max(
        sum(-(-(known + step) // size) for known, left in lives if step <= left)
        for step in range(1 + max(left for _, left in lives))
    )


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(runners, newcomers, st.integers(-3, 3))
def test_with_blocks_of_one_token_the_peak_is_that_of_growth(
    running: Any, asking: tuple[int, int], spare: int
) -> None:
    peak = grown(running, asking, 1)
    held = sum(prompt + made for prompt, made, _ in running) + asking[0]
    blocks = max(held, peak + spare)
    _, fits = staged(LIGHTLLM, blocks, 1, running, asking)
    assert fits is (peak <= blocks)


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(runners, newcomers, st.sampled_from([2, 4, 16]), st.integers(0, 60))
def test_in_larger_blocks_who_is_let_in_never_outgrows_the_pool(
    running: Any, asking: tuple[int, int], size: int, spare: int
) -> None:
    held = sum(-(-(prompt + made) // size) for prompt, made, _ in running)
    blocks = held + -(-asking[0] // size) + spare
    _, fits = staged(LIGHTLLM, blocks, size, running, asking)
    peak = grown(running, asking, size)
    assert not fits or peak <= blocks
    # Each of those at the peak may waste all but one slot of its last block.
    assert fits or blocks * size < peak * size + (len(running) + 1) * (size - 1)


@pytest.mark.parametrize("seed", range(20))
def test_whose_answers_are_as_long_as_announced_is_never_preempted(seed: int) -> None:
    assert preemptions(LIGHTLLM, seed) == 0


def test_the_same_crowds_preempt_without_the_forecast() -> None:
    assert sum(preemptions(replace(LIGHTLLM, reserve="known"), seed) for seed in range(20)) > 100


def preemptions(policy: Policy, seed: int) -> int:
    random = Random(seed)
    size = random.choice([1, 4, 16])
    desk = Desk(replace(policy, max_batched_tokens=64, long_prefill_cap=16), 400 // size, size)
    for _ in range(40):
        answer = random.randint(1, 90)
        desk.ask(random.randint(1, 90), answer, max_tokens=answer)
    return sum(len(plan.preempted) for plan in desk.all_plans())
