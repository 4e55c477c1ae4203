"""The named pool against a naive one that searches lists, under random use."""

from __future__ import annotations

from random import Random

import pytest

from pagecast.engine.core.blocks import NamedPool
from pagecast.engine.core.request import Request

SIZE = 4


class NaivePool:
    """Free blocks in one list, contents in another: every operation searches."""

    def __init__(self, blocks: int, unhashed_first: bool) -> None:
        self.free = list(range(blocks))
        self.unhashed_first = unhashed_first
        self.cached: list[tuple[int, int]] = []
        self.users: dict[int, int] = {}

    def match(self, identities: list[int], limit: int) -> list[int]:
        hits = []
        for identity in identities[:limit]:
            found = [block for known, block in self.cached if known == identity]
            if not found:
                break
            hits.append(found[0])
        return hits

    def admit(self, hits: list[int], fresh: int) -> list[int]:
        for block in hits:
            if block in self.free:
                self.free.remove(block)
            self.users[block] = self.users.get(block, 0) + 1
        return hits + [self.take() for _ in range(fresh)]

    def take(self) -> int:
        block = self.free.pop(0)
        self.cached = [pair for pair in self.cached if pair[1] != block]
        self.users[block] = 1
        return block

    def publish(self, blocks: list[int], identities: list[int], upto: int) -> None:
        have = {block for _, block in self.cached}
        for block, identity in list(zip(blocks, identities, strict=False))[:upto]:
            if block not in have:
                self.cached.append((identity, block))

    def release(self, blocks: list[int]) -> None:
        have = {block for _, block in self.cached}
        for block in reversed(blocks):
            self.users[block] -= 1
            if not self.users[block]:
                if self.unhashed_first and block not in have:
                    self.free.insert(0, block)
                else:
                    self.free.append(block)


@pytest.mark.parametrize("unhashed_first", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_blocks_are_handed_out_hit_and_reused_alike(seed: int, unhashed_first: bool) -> None:
    random = Random(seed)
    pool = NamedPool(24, SIZE, caching=True, unhashed_first=unhashed_first)
    naive = NaivePool(24, unhashed_first)
    live: list[tuple[Request, list[int]]] = []
    for id in range(300):
        length = random.randint(1, 30)
        family = random.randrange(4)
        shared = random.randint(0, length // SIZE)
        identities = [family * 100 + place for place in range(shared)]
        identities += [10_000 * (id + 1) + place for place in range(length // SIZE - shared)]
        request = Request(id, length, identities=identities)
        hits = list(pool.match(request))
        assert hits == naive.match(identities, (length - 1) // SIZE)
        fresh = -(-length // SIZE) - len(hits)
        if fresh + pool.idle(hits) <= pool.free:
            pool.admit(request, hits, fresh)
            assert request.blocks == naive.admit(hits, fresh)
            upto = random.randint(0, length)
            pool.publish(request, upto)
            naive.publish(request.blocks, identities, max(upto // SIZE, len(hits)))
            live.append((request, list(request.blocks)))
        while live and (random.random() < 0.4 or pool.free < 4):
            request, blocks = live.pop(random.randrange(len(live)))
            pool.release(request)
            naive.release(blocks)
        assert pool.free == len(naive.free)
        assert pool.claimed == sum(len(blocks) for _, blocks in live)


def test_a_long_lived_cache_does_not_grow_its_queue() -> None:
    """Hitting and freeing the same blocks for ever leaves no trail of void places."""
    pool = NamedPool(8, SIZE, caching=True)
    for id in range(1_000):
        request = Request(id, 17, identities=[1, 2, 3, 4])
        hits = pool.match(request)
        pool.admit(request, hits, 5 - len(hits))
        pool.publish(request, 17)
        pool.release(request)
    assert len(pool.match(Request(0, 17, identities=[1, 2, 3, 4]))) == 4
    assert len(pool._queue._line) <= 2 * 8
