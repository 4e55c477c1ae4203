"""Host memory for KV blocks of requests that were swapped out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pagecast.engine.core.request import Request


class Transfer(NamedTuple):
    """Blocks of one request that cross the host link: `device[i]` and `host[i]` belong together.

    `device` is empty where the pool only counts its blocks.
    """

    request: Request
    device: Sequence[int]
    host: Sequence[int]


class SwapSpace:
    """Blocks in host memory, as large as those of the KV pool.

    Args:
        blocks: all of them; 0 means that nothing can be swapped.
    """

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self._free = list(range(blocks - 1, -1, -1))

    @property
    def free(self) -> int:
        """Blocks that hold nothing."""
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """Take so many blocks; they must be free."""
        taken = self._free[: -count - 1 : -1]
        del self._free[len(self._free) - count :]
        return taken

    def give_back(self, blocks: Sequence[int]) -> None:
        """Return blocks whose content is no longer needed."""
        self._free.extend(reversed(blocks))
