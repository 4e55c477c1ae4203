"""Where the memory of a rank goes, and what its KV cache can then hold."""

from __future__ import annotations

from dataclasses import dataclass

from pagecast.engine.specs.overheads import GIB


@dataclass(frozen=True)
class PoolPlan:
    """Where the memory of one rank goes.

    usable_bytes: what the engine may take.  token_bytes: KV cache of one token of the main pool.
    null_blocks: blocks of the main pool that the engine keeps to itself.
    wide_blocks, wide_bytes: a second pool, of blocks in 16 bit, taken off before the main one. It
        holds the first wide_blocks_per_sequence blocks of as many sequences as can run, so that it
        never binds: whoever is admitted finds a place in it.
    """

    total_bytes: int
    usable_bytes: int
    weights_bytes: int
    activation_bytes: int
    non_torch_bytes: int
    token_bytes: int
    block_size: int
    null_blocks: int
    wide_blocks_per_sequence: int = 0
    wide_blocks: int = 0
    wide_bytes: int = 0

    @property
    def pool_bytes(self) -> int:
        """Bytes that are left for the main pool, below 0 if the rest does not fit."""
        taken = self.weights_bytes + self.activation_bytes + self.non_torch_bytes
        return self.usable_bytes - taken - self.wide_bytes

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of the main pool."""
        return self.block_size * self.token_bytes

    @property
    def blocks(self) -> int:
        """Whole blocks of the main pool."""
        return max(0, self.pool_bytes // self.block_bytes)

    @property
    def usable_blocks(self) -> int:
        """Blocks of the main pool that requests can have."""
        return max(0, self.blocks - self.null_blocks)

    @property
    def tokens(self) -> int:
        """Tokens that requests can have in both pools, if enough of them run to fill the wide one.

        0 if the main pool has none: an engine does not start on the wide one alone.
        """
        blocks = self.usable_blocks
        return (blocks + self.wide_blocks) * self.block_size if blocks else 0

    @property
    def longest_tokens(self) -> int:
        """Tokens that one sequence can have, alone: the main pool, and its own wide blocks."""
        blocks = self.usable_blocks
        return (blocks + self.wide_blocks_per_sequence) * self.block_size if blocks else 0

    def main_blocks(self, length_tokens: int) -> int:
        """Blocks that a sequence of this length takes from the main pool: what the wide ones leave.

        0 if its wide blocks hold it whole.
        """
        return max(0, -(-length_tokens // self.block_size) - self.wide_blocks_per_sequence)

    def sequences(self, length_tokens: int) -> float:
        """How many sequences of this length fit at a time, in whole blocks each.

        With a wide pool, no more than have a place in it, however short they are.
        """
        need = self.main_blocks(length_tokens)
        if not self.wide_blocks_per_sequence:
            return self.usable_blocks / need
        places = self.wide_blocks / self.wide_blocks_per_sequence if self.usable_blocks else 0.0
        return min(places, self.usable_blocks / need) if need else places

    def swap_blocks(self, swap_gib: float) -> int:
        """Whole blocks of the main pool's size in so much memory of the host, per rank."""
        return int(swap_gib * GIB) // self.block_bytes
