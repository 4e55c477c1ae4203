"""Identities of KV blocks in a simulated run: which blocks of which requests hold equal content.

A trace says it by prefix ids: equal ids after equal ids mean equal tokens. What a trace does not
say is taken as unlike everything else, answers included.
"""

from __future__ import annotations

from pagecast.engine.core.errors import UserError
from pagecast.engine.core.request import Request
from pagecast.traces.schema import Trace

MAX_BLOCKS_BITS = 26
"""A request has fewer than 2^26 blocks: unlike identities are its number and the block's place."""


class Identities:
    """Makes the identities of prompt and answer blocks, as integers.

    Shared ones are even, unlike ones odd. An identity stands for a block and all before it: the
    prefix id is chained with the identity of its parent.

    Args:
        trace: with or without prefix ids.
        block_size: tokens in a KV block.

    Raises:
        UserError: if KV blocks do not divide the trace's prefix blocks.
    """

    def __init__(self, trace: Trace, block_size: int) -> None:
        self._block_size = block_size
        self._prefix_ids = trace.prefix_ids
        self._chains: dict[tuple[int, int], int] = {}
        self._split = 1
        if trace.prefix_ids is not None and trace.prefix_block_tokens is not None:
            self._split, rest = divmod(trace.prefix_block_tokens, block_size)
            if rest or not self._split:
                raise UserError(
                    f"kv.block_size: {block_size} does not divide the trace's prefix blocks of "
                    f"{trace.prefix_block_tokens} tokens; accepted: a divisor"
                )

    def prompt_blocks(self, request_id: int, prompt_tokens: int) -> list[int]:
        """Identities of the full blocks of a prompt."""
        blocks = prompt_tokens // self._block_size
        shared = self._shared_blocks(request_id, blocks)
        return [*shared, *range(_unlike(request_id, len(shared)), _unlike(request_id, blocks), 2)]

    def answer_block(self, request: Request) -> int:
        """Identity of the block that the request's newest token completes."""
        return _unlike(request.id, len(request.identities))

    def _shared_blocks(self, request_id: int, most: int) -> list[int]:
        """Identities of the leading blocks that prefix ids cover, at most so many."""
        if self._prefix_ids is None:
            return []
        blocks: list[int] = []
        parent = -1
        for prefix_id in self._prefix_ids[request_id]:
            chain = self._chains.setdefault((parent, prefix_id), len(self._chains))
            parent = chain
            count = min(self._split, most - len(blocks))
            first = chain * self._split
            blocks += range(first << 1, (first + count) << 1, 2)
        return blocks


def _unlike(request_id: int, place: int) -> int:
    """Identity of a block that equals no other."""
    return ((request_id << MAX_BLOCKS_BITS) + place) << 1 | 1
