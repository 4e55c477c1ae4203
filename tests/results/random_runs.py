"""Random runs, token by token: a `RunLog`, and beside it every emission that it stands for.

The emissions are kept request by request as plain lists of times, so that a test can recompute
any figure the slow way.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from pagecast.sim.results.log import NEVER, STAY_COLUMNS, STEP_COLUMNS, Outcome, RunLog

BLOCK = 4
POOL = 1000


@dataclass
class Guest:
    """One request on its way: when it came, what it emitted, where it stands."""

    arrival_ns: int
    prompt: int
    output: int
    outcome: Outcome = Outcome.UNFINISHED
    scheduled_ns: int = NEVER
    emitted_ns: list[int] = field(default_factory=list)
    stay: list[int] | None = None
    preemptions: int = 0

    @property
    def held(self) -> int:
        return self.prompt + len(self.emitted_ns)


@dataclass
class RandomRun:
    """A run made of random decisions; `guests` know each of their emissions."""

    log: RunLog
    guests: list[Guest]

    def gaps_ns(self) -> list[list[int]]:
        return [[b - a for a, b in pairwise(g.emitted_ns)] for g in self.guests]


class _World:
    def __init__(self, seed: int, requests: int, outputs: int) -> None:
        self.dice = random.Random(seed)
        roll = self.dice.randint
        self.now_ns = self.clock = 0
        arrivals = sorted(roll(0, 40 * requests) for _ in range(requests))
        self.guests = [Guest(at, roll(1, 30), roll(1, outputs)) for at in arrivals]
        self.steps: list[tuple[int, ...]] = []
        self.stays: list[tuple[int, ...]] = []

    def close(self, guest: Guest) -> None:
        if guest.stay:
            joined_clock, joined_ns, previous_ns = guest.stay
            row = (self.guests.index(guest), joined_clock, self.clock, joined_ns, previous_ns)
            self.stays.append(row)
            guest.stay = None

    def step(self) -> None:
        roll = self.dice.random
        live = [g for g in self.guests if g.outcome is Outcome.UNFINISHED]
        seen = [g for g in live if g.arrival_ns <= self.now_ns]
        victims = [g for g in seen if g.stay and roll() < 0.04]
        for guest in victims:
            guest.preemptions += 1
            self.close(guest)
        joiners = [g for g in seen if not g.stay and g not in victims and roll() < 0.4]
        ticks = any(g.stay for g in seen) and roll() < 0.8
        end_ns = self.now_ns + self.dice.randint(1, 60)
        running = [g for g in seen if g.stay or g in joiners]
        shape = [ticks, len(running), len(seen) - len(running)]
        shape += [sum(-(-g.held // BLOCK) for g in running)] * 2
        shape += [sum(g.held for g in running), len(victims), len(joiners)]
        decodes = sum(1 for g in seen if g.stay) if ticks else 0
        prefill = sum(g.held for g in joiners)
        if ticks:
            self.clock += 1
            for guest in seen:
                if guest.stay:
                    guest.emitted_ns.append(end_ns)
        for guest in joiners:
            if guest.scheduled_ns == NEVER:
                guest.scheduled_ns = self.now_ns
            previous_ns = guest.emitted_ns[-1] if guest.emitted_ns else NEVER
            guest.stay = [self.clock, end_ns, previous_ns]
            guest.emitted_ns.append(end_ns)
        ended = [g for g in running if len(g.emitted_ns) >= g.output]
        for guest in ended:
            self.close(guest)
            guest.outcome = Outcome.FINISHED
        row = [self.now_ns, end_ns, *shape, len(ended), decodes, 9 * decodes, 81 * decodes, 9]
        row += [len(joiners), prefill, prefill * 5, 0, decodes + len(joiners)]
        self.steps.append((*map(int, row), *[0] * (len(STEP_COLUMNS) - len(row))))
        self.now_ns = end_ns + (self.dice.randint(0, 99) if roll() < 0.2 and not running else 0)

    def turn_some_away(self) -> None:
        for guest in self.guests:
            if not guest.stay and self.dice.random() < 0.1:
                guest.outcome = Outcome.REFUSED


def random_run(seed: int, requests: int = 12, outputs: int = 40) -> RandomRun:
    """A run of random arrivals, lengths, joins, preemptions and durations, to its end."""
    world = _World(seed, requests, outputs)
    world.turn_some_away()
    while any(g.outcome is Outcome.UNFINISHED for g in world.guests):
        world.step()
    return RandomRun(_log(world), world.guests)


def _log(world: _World) -> RunLog:
    guests = world.guests

    def column(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    return RunLog(
        arrival_ns=column([g.arrival_ns for g in guests]),
        prompt_tokens=column([g.prompt for g in guests]),
        output_tokens=column([len(g.emitted_ns) for g in guests]),
        outcome=column([g.outcome for g in guests]),
        scheduled_ns=column([g.scheduled_ns for g in guests]),
        first_token_ns=column([next(iter(g.emitted_ns), NEVER) for g in guests]),
        last_token_ns=column([[NEVER, *g.emitted_ns][-1] for g in guests]),
        preemptions=column([g.preemptions for g in guests]),
        swaps=column([0 for _ in guests]),
        recomputed_tokens=column([0 for _ in guests]),
        cached_tokens=column([0 for _ in guests]),
        replica=column([0 for _ in guests]),
        reasons=["overload" if g.outcome is Outcome.REFUSED else "length" for g in guests],
        request_ids=[str(i) for i in range(len(guests))],
        steps=np.array(world.steps, dtype=np.int64).reshape(-1, len(STEP_COLUMNS)),
        stays=np.array(world.stays, dtype=np.int64).reshape(-1, len(STAY_COLUMNS)),
        pool_blocks=POOL,
        block_size=BLOCK,
        clipped=0,
        preempted_again=0,
        fill_wait_ns=0,
        prefix_query_tokens=0,
        prefix_hit_tokens=0,
    )
