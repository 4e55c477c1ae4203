"""The decode cohort: sequences that advance by one token a step, in lockstep.

A step costs what changes, not what runs. All members share one clock. A member's length is its
base plus the clock, worked out when asked for and never updated; whoever fills a block at the same
clock value sits in the same bucket; sums over members are kept by increments. So a tick costs
O(1), whatever the number of members, and joining or leaving costs O(log members) at most.
"""

from __future__ import annotations

from heapq import heappop, heappush

from pagecast.engine.core.request import Request, State
from pagecast.engine.core.step import StepShape


class Cohort:
    """Members and their clock. With the clock at c, a member has computed base + c tokens.

    Args:
        block_size: tokens in a KV block; members are kept in one bucket per phase.
    """

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.clock = 0
        self.size = 0
        self._base_sum = 0
        self._base_sq = 0
        self._buckets: list[dict[Request, None]] = [{} for _ in range(block_size)]
        self._longest: list[tuple[int, int, Request]] = []
        self._stamp = 0

    def join(self, request: Request) -> None:
        """Let a request whose known tokens are computed but for the last decode from now on."""
        base = request.computed - self.clock
        request.state = State.DECODING
        request.base = base
        request.phase = -base % self.block_size
        self._buckets[request.phase][request] = None
        self.size += 1
        self._base_sum += base
        self._base_sq += base * base
        self._stamp += 1
        request.stamp = self._stamp
        heappush(self._longest, (-base, self._stamp, request))

    def leave(self, request: Request) -> None:
        """Take a member out; its `computed` and `known` are set to what they are now."""
        base = request.base
        del self._buckets[request.phase][request]
        self.size -= 1
        self._base_sum -= base
        self._base_sq -= base * base
        request.stamp = -1
        request.left_clock = self.clock
        request.computed = base + self.clock
        request.known = request.computed + 1

    def computed(self, request: Request) -> int:
        """Tokens of a request in the KV cache, member or not."""
        return request.base + self.clock if request.stamp >= 0 else request.computed

    def known(self, request: Request) -> int:
        """Tokens of a request that exist, member or not."""
        return request.base + self.clock + 1 if request.stamp >= 0 else request.known

    def due(self, ahead: int = 0) -> dict[Request, None]:
        """Members that will have computed a whole number of blocks `ahead` ticks from now.

        `due(0)` need a new block for their next token, `due(1)` fill one with it.
        """
        return self._buckets[(self.clock + ahead) % self.block_size]

    def tokens(self) -> int:
        """Tokens that members have computed, all together."""
        return self._base_sum + self.size * self.clock

    def tick(self, shape: StepShape) -> None:
        """Let every member compute one more token, and say so in the shape of the step.

        A sum of squares Σ (base + c)² is Σ base² + 2·c·Σ base + members·c².
        """
        self.clock = clock = self.clock + 1
        shape.decode_seqs = shape.sampled_rows = size = self.size
        shape.decode_context_tokens = self._base_sum + size * clock
        shape.decode_context_sq = self._base_sq + clock * (2 * self._base_sum + size * clock)
        heap = self._longest
        while heap[0][1] != heap[0][2].stamp:
            heappop(heap)
        shape.decode_context_max = clock - heap[0][0]
