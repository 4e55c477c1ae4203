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

from pagecast.engine.core.errors import UserError
from pagecast.engine.core.named_pool import NO_COPIES, NO_HITS, NamedPool
from pagecast.engine.core.policy import Policy
from pagecast.engine.core.request import Request
from pagecast.engine.core.step import BlockCopy


class BlockPool(Protocol):
    """What the scheduler asks of a pool; all counts in blocks of `block_size` tokens."""

    blocks: int
    block_size: int
    free: int
    caching: bool
    lead_blocks: int
    """Blocks at the head of each sequence that come from a pool of their own, which never binds."""
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

    def release(self, request: Request, *, forget: bool = False) -> None:
        """Give back all blocks of the request; what they contain can still be hit, or is forgotten."""

    def publish(self, request: Request, tokens: int) -> None:
        """Offer the full blocks among the first `tokens` tokens to later lookups."""

    def fork(self, parent: Request, child: Request) -> None:
        """Let the child, which holds nothing, share all blocks of the parent."""


class CountedPool:
    """Counts blocks without naming them: nothing is cached and nothing shared.

    Args:
        blocks: usable blocks.
        block_size: tokens in a block.
        lead_blocks: blocks at the head of each sequence that are not counted here: they come from
            a pool of another type of KV cache that has room for all that may run.
    """

    caching = False
    sharing = False

    def __init__(self, blocks: int, block_size: int, lead_blocks: int = 0) -> None:
        self.lead_blocks = lead_blocks
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
        missing = -(-tokens // self.block_size) - self.lead_blocks - request.held
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

    def release(self, request: Request, *, forget: bool = False) -> None:
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


def make_pool(
    policy: Policy, blocks: int, block_size: int, *, named: bool = False, lead_blocks: int = 0
) -> BlockPool:
    """The pool that a policy needs: named if it caches by content or if `named` is asked for.

    Args:
        policy: decides caching, sharing and the order of reuse.
        blocks: all blocks, those included that the engine keeps to itself.
        block_size: tokens in a block.
        named: real tensors lie behind the blocks, or requests will fork.
        lead_blocks: see `CountedPool`.

    Raises:
        UserError: for lead blocks where blocks have names.
    """
    caching = policy.prefix != "off"
    usable = blocks - policy.null_blocks
    if not (caching or named):
        return CountedPool(usable, block_size, lead_blocks)
    if lead_blocks:
        raise UserError(
            "kv.dtype: first tokens in 16 bit need blocks that are only counted; accepted: with "
            "policy.prefix off (--no-prefix-cache)"
        )
    return NamedPool(
        usable,
        block_size,
        caching=caching,
        sharing=not policy.reserves_all,
        unhashed_first=policy.free_order == "unhashed_first",
        max_cached_prompt=policy.max_cached_prompt,
    )
