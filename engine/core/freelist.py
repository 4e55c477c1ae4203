"""Free blocks in their order of reuse, and what they still contain."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class Contents:
    """Which block holds which content: an identity stands for a block of tokens and all before.

    Several blocks may hold the same content, computed by requests that ran side by side; the one
    that was cached first is found.
    """

    def __init__(self) -> None:
        self._identity: dict[int, int] = {}
        self._first: dict[int, int] = {}
        self._twins: dict[int, list[int]] = {}

    def __contains__(self, block: int) -> bool:
        return block in self._identity

    def find(self, identity: int) -> int | None:
        """A block with this content, if one is cached."""
        return self._first.get(identity)

    def add(self, blocks: Iterable[int], identities: Iterable[int]) -> None:
        """Cache blocks by content; none of them may be cached yet."""
        first = self._first
        for block, identity in zip(blocks, identities, strict=True):
            self._identity[block] = identity
            if first.setdefault(identity, block) != block:
                self._twins.setdefault(identity, []).append(block)

    def forget(self, block: int) -> None:
        """Let the content of a block go, if it is cached."""
        identity = self._identity.pop(block, None)
        if identity is None:
            return
        twins = self._twins.get(identity)
        if self._first[identity] != block:
            self._twins[identity].remove(block)
        elif twins:
            self._first[identity] = twins.pop(0)
        else:
            del self._first[identity]


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

    def put(self, blocks: Iterable[int]) -> None:
        """Return blocks in this order."""
        if not self._unhashed_first:
            self._line.extend(blocks)
            return
        contents = self._contents
        for block in blocks:
            (self._line if block in contents else self._front).append(block)

    def take(self, count: int) -> list[int]:
        """Take blocks from the front; so many must be free."""
        front = self._front
        taken = front[: -count - 1 : -1]
        del front[len(front) - len(taken) :]
        line, void, forget = self._line, self._void, self._contents.forget
        while len(taken) < count:
            block = line.popleft()
            if void[block]:
                void[block] -= 1
                self._voids -= 1
            else:
                forget(block)
                taken.append(block)
        return taken

    def remove(self, block: int) -> None:
        """Take a block with content out of the queue, wherever it stands."""
        self._void[block] += 1
        self._voids += 1
        if self._voids > len(self._void):
            self._sweep()

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
