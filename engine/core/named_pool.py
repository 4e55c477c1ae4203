"""A block pool that knows each block: references, content, and the order of reuse."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pagecast.engine.core.freelist import Contents, FreeQueue
from pagecast.engine.core.request import Request
from pagecast.engine.core.step import BlockCopy

NO_HITS: Sequence[int] = ()
NO_COPIES: Sequence[BlockCopy] = ()
NO_LIMIT = 1 << 62


class NamedPool:
    """Knows each block: references, content, and the order of reuse.

    Free blocks are reused from the front of a queue. Those never used lie at the front; a freed
    request puts its blocks at the tail, last block first. With `unhashed_first`, blocks without
    cached content go to the front instead (vLLM 0.24 to 0.33; without: vLLM 0.11). Among blocks
    of equal content the one cached first is used.

    Args:
        blocks: usable blocks, the null block of engines that have one not among them.
        block_size: tokens in a block.
        caching: whether blocks are found again by content.
        sharing: whether requests may fork; not so where each claims its own room at once.
        unhashed_first: the order of reuse, see above.
        max_cached_prompt: most leading tokens of a request that are looked up; None is no limit.
    """

    lead_blocks = 0

    def __init__(
        self,
        blocks: int,
        block_size: int,
        *,
        caching: bool,
        sharing: bool = True,
        unhashed_first: bool = True,
        max_cached_prompt: int | None = None,
    ) -> None:
        self.blocks = blocks
        self.block_size = block_size
        self.caching = caching
        self.sharing = sharing
        self.free = blocks
        self.claimed = 0
        self._most_hits = NO_LIMIT if max_cached_prompt is None else max_cached_prompt // block_size
        self._refs = [0] * blocks
        self._contents = Contents(blocks)
        self._queue = FreeQueue(blocks, self._contents, unhashed_first or not caching)

    def match(self, request: Request) -> Sequence[int]:
        """Leading blocks found by content: whole ones, short of the last known token."""
        if not self.caching:
            return NO_HITS
        hits: list[int] = []
        find = self._contents.find
        most = min((request.known - 1) // self.block_size, self._most_hits)
        for identity in request.identities[:most]:
            block = find(identity)
            if block is None:
                break
            hits.append(block)
        return hits

    def idle(self, hits: Sequence[int]) -> int:
        """How many of these blocks nobody references."""
        refs = self._refs
        return sum(not refs[block] for block in hits)

    def admit(self, request: Request, hits: Sequence[int], fresh: int) -> None:
        """Reference the hits, then claim fresh blocks: a hit must not be reused as fresh."""
        self._share(hits)
        request.blocks = [*hits, *self._take(fresh)]
        request.held = len(request.blocks)
        request.published = len(hits)
        self.claimed += request.held

    def need(self, request: Request, tokens: int) -> int:
        """Blocks missing for `tokens` tokens; one more if the next write meets a shared block."""
        missing = max(0, -(-tokens // self.block_size) - request.held)
        return missing + (self._shared_tail(request) is not None)

    def extend(self, request: Request, need: int) -> Sequence[BlockCopy]:
        """Claim the missing blocks and replace a shared last one by a copy."""
        copies: Sequence[BlockCopy] = NO_COPIES
        tail = self._shared_tail(request)
        if tail is not None:
            source, (target,) = request.blocks[tail], self._take(1)
            request.blocks[tail] = target
            self._refs[source] -= 1
            copies = (BlockCopy(source, target),)
            need -= 1
        request.blocks += self._take(need)
        request.held += need
        self.claimed += need
        return copies

    def grow(self, requests: Collection[Request]) -> None:
        """Claim one block for each."""
        count = len(requests)
        for request, block in zip(requests, self._take(count), strict=True):
            request.blocks.append(block)
            request.held += 1
        self.claimed += count

    def release(self, request: Request, *, forget: bool = False) -> None:
        """Dereference all blocks, last first; what nobody references joins the free queue."""
        cut = request.published
        self.free += self._queue.put(self._freed(request.blocks[cut:]), cached=False)
        cached = self._freed(request.blocks[:cut])
        if forget:
            self._contents.forget(cached)
        self.free += self._queue.put(cached, cached=not forget)
        self.claimed -= request.held
        request.blocks = []
        request.held = 0
        request.published = 0

    def publish(self, request: Request, tokens: int) -> None:
        """Cache the full blocks among the first `tokens` tokens by their identity."""
        first, identities = request.published, request.identities
        full = min(tokens // self.block_size, len(identities))
        if full > first:
            self._contents.add(request.blocks[first:full], identities[first:full])
            request.published = full

    def fork(self, parent: Request, child: Request) -> None:
        """Share all blocks; whoever writes into a shared last block first gets a copy."""
        self._share(parent.blocks)
        child.blocks = list(parent.blocks)
        child.held = parent.held
        child.published = parent.published
        self.claimed += child.held

    def _shared_tail(self, request: Request) -> int | None:
        """Place of the block that the next token is written to, if someone else references it."""
        place = request.computed // self.block_size
        if place < request.held and self._refs[request.blocks[place]] > 1:
            return place
        return None

    def _share(self, blocks: Sequence[int]) -> None:
        refs = self._refs
        for block in blocks:
            if not refs[block]:
                self._queue.remove(block)
                self.free -= 1
            refs[block] += 1

    def _freed(self, blocks: list[int]) -> list[int]:
        """Dereference blocks, last first; returns those that nobody references any more."""
        refs, freed = self._refs, []
        for block in reversed(blocks):
            refs[block] -= 1
            if not refs[block]:
                freed.append(block)
        return freed

    def _take(self, count: int) -> list[int]:
        if not count:
            return []
        taken = self._queue.take(count)
        refs = self._refs
        for block in taken:
            refs[block] = 1
        self.free -= count
        return taken
