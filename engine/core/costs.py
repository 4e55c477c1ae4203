"""What a preemption costs, as far as a scheduler may know it: integers, made before the run.

The scheduler measures nothing. `auto` preemption and the victim rule `cost` read a `PreemptCost`
that the policy carries; it comes from a step-time model or from a calibration.
"""

from __future__ import annotations

from typing import NamedTuple


class PreemptCost(NamedTuple):
    """The price of bringing a request back, by recomputing it or by swapping it out and in.

    token_ps: picoseconds to compute one token again, attention aside.
    pair_ps: picoseconds per query-key pair; n tokens from scratch make n·(n + 1)/2.
    block_ns: nanoseconds to move one KV block over the host link, in one direction.
    call_ns: nanoseconds before the first block moves, per direction.
    """

    token_ps: int
    pair_ps: int
    block_ns: int
    call_ns: int

    def recompute_ns(self, tokens: int) -> int:
        """Computing so many tokens again, from the first one on."""
        return (tokens * self.token_ps + tokens * (tokens + 1) // 2 * self.pair_ps) // 1000

    def swap_ns(self, blocks: int) -> int:
        """Moving so many blocks out and back in."""
        return 2 * (self.call_ns + blocks * self.block_ns)

    def crossover_tokens(self, block_size: int, most: int) -> int | None:
        """The least context from which on swap is the cheaper one, up to `most` tokens.

        Swap has a fixed cost, and recompute grows faster than its context: so swap, once it wins
        for good, wins for every longer context. None if recompute still wins at `most`.

        Blocks of 16 tokens at 12 us against tokens at 1 us: level at 500 if all blocks were
        full.

        >>> cost = PreemptCost(token_ps=1_000_000, pair_ps=2_000, block_ns=12_000, call_ns=0)
        >>> cost.crossover_tokens(block_size=16, most=8192)
        533
        """
        if not self._swap_wins(most, block_size):
            return None
        for tokens in range(most - 1, 0, -1):
            if not self._swap_wins(tokens, block_size):
                return tokens + 1
        return 1

    def _swap_wins(self, tokens: int, block_size: int) -> bool:
        return self.swap_ns(-(-tokens // block_size)) < self.recompute_ns(tokens)
