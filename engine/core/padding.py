"""Padded batches: every row is charged at the length of the longest.

What static batching pays beyond the work asked for: prompts padded to the longest prompt, and
rows whose answer has ended but which stay in the batch until the last one ends.
"""

from __future__ import annotations

from pagecast.engine.core.step import StepPlan, StepShape


class PaddedBatch:
    """The batch under way: its rows, its longest prompt, and the clock when it started."""

    def __init__(self) -> None:
        self.rows = 0
        self.longest = 0
        self.started = 0

    def charge(self, plan: StepPlan) -> None:
        """Add to the shape of a planned step what padding costs it."""
        shape = plan.shape
        if plan.admitted:
            self.rows = len(plan.admitted)
            self.longest = max(chunk.tokens for chunk in plan.chunks)
            self.started = plan.clock
            shape.padded_tokens = self.rows * self.longest - shape.prefill_tokens
            shape.prefill_pairs = self.rows * (self.longest * (self.longest + 1) // 2)
        if plan.ticks:
            self.charge_decodes(shape, plan.clock)

    def charge_decodes(self, shape: StepShape, clock: int) -> None:
        """Add what padding costs the decodes of a step that ends with the clock at this value."""
        context = self.longest + clock - self.started
        shape.dead_rows = self.rows - shape.decode_seqs
        shape.padded_context_tokens = self.rows * context - shape.decode_context_tokens
