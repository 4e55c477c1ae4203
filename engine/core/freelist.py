"""Free blocks in their order of reuse, and what they still contain."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


class Contents:
    """Which block holds which content: an identity stands for a block of tokens and all before.

    Several blocks may hold the same content, computed by requests that ran side by side; the one
    that was cached first is found.

    Args:
        blocks: all of them, empty at first.
    """

    def __init__(self, blocks: int) -> None:
        self._identity: list[int | None] = [None] * blocks
        self._first: dict[int, int] = {}
        self._twins: dict[int, list[int]] = {}

    def find(self, identity: int) -> int | None:
        """A block with this content, if one is cached."""
        return self._first.get(identity)

    def add(self, blocks: Sequence[int], identities: Sequence[int]) -> None:
        """Cache blocks by content; one that two requests share may be so already."""
        known, first = self._identity, self._first
        for block, identity in zip(blocks, identities, strict=True):
            if known[block] == identity:
                continue
            known[block] = identity
            if first.setdefault(identity, block) != block:
                self._twins.setdefault(identity, []).append(block)

    def forget(self, blocks: Sequence[int]) -> None:
        """Let the contents of blocks go, of those that have any."""
        known, first, twins = self._identity, self._first, self._twins
        for block in blocks:
            identity = known[block]
            if identity is None:
                continue
            known[block] = None
            if identity in twins:
                self._forget_one_of(twins[identity], identity, block)
            else:
                del first[identity]

    def _forget_one_of(self, twins: list[int], identity: int, block: int) -> None:
        if self._first[identity] == block:
            self._first[identity] = twins.pop(0)
        else:
            twins.remove(block)
        if not twins:
            del self._twins[identity]


class FreeQueue:
    """Free blocks, taken from the front.

    Never used blocks come first. A block leaves from the middle when its content is hit: its
    place in the queue is then skipped when it comes to the front, which keeps every operation
    O(1); places that became void are swept out once they outnumber the blocks.

    Args:
        blocks: all of them, free at first.
        contents: what blocks contain; it is forgotten when a block is taken.
        unhashed_first: blocks without content return to the front rather than to the tail.
    """

    def __init__(self, blocks: int, contents: Contents, unhashed_first: bool) -> None:
        self._contents = contents
        self._unhashed_first = unhashed_first
        self._front = list(range(blocks - 1, -1, -1))
        self._line: deque[int] = deque()
        self._void = [0] * blocks
        self._voids = 0

    def put(self, blocks: Sequence[int], *, cached: bool) -> int:
        """Return blocks in this order, with content or without; says how many."""
        if cached or not self._unhashed_first:
            self._line.extend(blocks)
        else:
            self._front.extend(blocks)
        return len(blocks)

    def take(self, count: int) -> list[int]:
        """Take blocks from the front; so many must be free."""
        front = self._front
        taken = front[: -count - 1 : -1]
        del front[len(front) - len(taken) :]
        if len(taken) < count:
            reused = self._reuse(count - len(taken))
            self._contents.forget(reused)
            taken += reused
        return taken

    def remove(self, block: int) -> None:
        """Take a block with content out of the queue, wherever it stands."""
        self._void[block] += 1
        self._voids += 1
        if self._voids > len(self._void):
            self._sweep()

    def _reuse(self, count: int) -> list[int]:
        line, void = self._line, self._void
        if not self._voids:
            return [line.popleft() for _ in range(count)]
        reused: list[int] = []
        while len(reused) < count:
            block = line.popleft()
            if void[block]:
                void[block] -= 1
                self._voids -= 1
            else:
                reused.append(block)
        return reused

    def _sweep(self) -> None:
        """Drop void places; a block's older places are the void ones."""
        void, kept = self._void, deque[int]()
        for block in self._line:
            if void[block]:
                void[block] -= 1
            else:
                kept.append(block)
        self._line = kept
        self._voids = 0
