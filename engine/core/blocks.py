"""Block pools: who holds how much of the KV cache.

Two pools with one interface. `CountedPool` only counts; it serves when blocks need no names: no
prefix cache, no shared blocks, no real tensors behind them. `NamedPool` knows each block: its
references, its content identity, and the order in which free blocks are reused.

A pool decides nothing. The scheduler asks what a request would need, makes room, and then claims.
`free` counts unreferenced blocks, those with cached content included.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from pagecast.engine.core.freelist import Contents, FreeQueue
from pagecast.engine.core.policy import Policy
from pagecast.engine.core.request import Request
from pagecast.engine.core.step import BlockCopy

NO_HITS: Sequence[int] = ()
NO_COPIES: Sequence[BlockCopy] = ()


class BlockPool(Protocol):
    """What the scheduler asks of a pool; all counts in blocks of `block_size` tokens."""

    blocks: int
    block_size: int
    free: int
    caching: bool
    sharing: bool
    """Whether `fork` works: blocks have names, and two requests may reference one."""

    @property
    def claimed(self) -> int:
        """Blocks referenced, a shared one once per request that references it."""

    def match(self, request: Request) -> Sequence[int]:
        """Blocks that already hold the request's leading tokens, short of its last token."""

    def idle(self, hits: Sequence[int]) -> int:
        """How many of these blocks nobody references: using them takes them from `free`."""

    def admit(self, request: Request, hits: Sequence[int], fresh: int) -> None:
        """Reference the hits and claim `fresh` more blocks for a request that holds none."""

    def need(self, request: Request, tokens: int) -> int:
        """Blocks to claim before the request can have `tokens` computed, copies included."""

    def extend(self, request: Request, need: int) -> Sequence[BlockCopy]:
        """Claim so many blocks as `need` said; returns the copies that must precede the writes."""

    def grow(self, requests: Collection[Request]) -> None:
        """Claim one block more for each; none of them shares its last block."""

    def release(self, request: Request) -> None:
        """Give back all blocks of the request."""

    def publish(self, request: Request, tokens: int) -> None:
        """Offer the full blocks among the first `tokens` tokens to later lookups."""

    def fork(self, parent: Request, child: Request) -> None:
        """Let the child, which holds nothing, share all blocks of the parent."""


class CountedPool:
    """Counts blocks without naming them: nothing is cached and nothing shared."""

    caching = False
    sharing = False

    def __init__(self, blocks: int, block_size: int) -> None:
        self.blocks = blocks
        self.block_size = block_size
        self.free = blocks

    @property
    def claimed(self) -> int:
        """Blocks referenced."""
        return self.blocks - self.free

    def match(self, request: Request) -> Sequence[int]:
        """Nothing is ever cached here."""
        return NO_HITS

    def idle(self, hits: Sequence[int]) -> int:
        """No hits, so none idle."""
        return 0

    def admit(self, request: Request, hits: Sequence[int], fresh: int) -> None:
        """Claim the first blocks of a request."""
        request.held = fresh
        self.free -= fresh

    def need(self, request: Request, tokens: int) -> int:
        """Blocks missing for `tokens` computed tokens."""
        missing = -(-tokens // self.block_size) - request.held
        return max(0, missing)

    def extend(self, request: Request, need: int) -> Sequence[BlockCopy]:
        """Claim the missing blocks."""
        request.held += need
        self.free -= need
        return NO_COPIES

    def grow(self, requests: Collection[Request]) -> None:
        """Claim one block for each."""
        for request in requests:
            request.held += 1
        self.free -= len(requests)

    def release(self, request: Request) -> None:
        """Give back all blocks of the request."""
        self.free += request.held
        request.held = 0

    def publish(self, request: Request, tokens: int) -> None:
        """Nothing is ever cached here."""

    def fork(self, parent: Request, child: Request) -> None:
        """Sharing needs names.

        Raises:
            TypeError: always; fork on a `NamedPool`.
        """
        raise TypeError("blocks that are only counted cannot be shared: use a NamedPool")


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
    """

    def __init__(
        self,
        blocks: int,
        block_size: int,
        *,
        caching: bool,
        sharing: bool = True,
        unhashed_first: bool = True,
    ) -> None:
        self.blocks = blocks
        self.block_size = block_size
        self.caching = caching
        self.sharing = sharing
        self.free = blocks
        self.claimed = 0
        self._refs = [0] * blocks
        self._contents = Contents(blocks)
        self._queue = FreeQueue(blocks, self._contents, unhashed_first or not caching)

    def match(self, request: Request) -> Sequence[int]:
        """Leading blocks found by content: whole ones, short of the last known token."""
        if not self.caching:
            return NO_HITS
        hits: list[int] = []
        find = self._contents.find
        for identity in request.identities[: (request.known - 1) // self.block_size]:
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

    def release(self, request: Request) -> None:
        """Dereference all blocks, last first; what nobody references joins the free queue."""
        cut = request.published
        self.free += self._queue.put(self._freed(request.blocks[cut:]), cached=False)
        self.free += self._queue.put(self._freed(request.blocks[:cut]), cached=True)
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


def make_pool(policy: Policy, blocks: int, block_size: int, *, named: bool = False) -> BlockPool:
    """The pool that a policy needs: named if it caches by content or if `named` is asked for.

    Args:
        policy: decides caching, sharing and the order of reuse.
        blocks: all blocks, those included that the engine keeps to itself.
        block_size: tokens in a block.
        named: real tensors lie behind the blocks, or requests will fork.
    """
    caching = policy.prefix != "off"
    usable = blocks - policy.null_blocks
    if not (caching or named):
        return CountedPool(usable, block_size)
    return NamedPool(
        usable,
        block_size,
        caching=caching,
        sharing=not policy.reserves_all,
        unhashed_first=policy.free_order == "unhashed_first",
    )
