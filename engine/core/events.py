"""The decision log: what was decided, step by step, in integers alone.

Two runs took the same decisions if and only if their logs are equal byte for byte. A row is one
line of JSON with keys in a fixed order. It carries step numbers, request ids, token and block
counts, and content identities as ordinals of first sight; no times and no hashes, which differ
between machines. Arrivals, refusals and cancels stand in the row of the step that follows them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagecast.engine.core.request import Request
    from pagecast.engine.core.scheduler import Scheduler
    from pagecast.engine.core.step import StepPlan, StepResult


class DecisionLog:
    """Collects one row per step; `text()` is the log."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._arrived: list[int] = []
        self._refused: list[tuple[int, str]] = []
        self._cancelled: list[int] = []
        self._failed: list[tuple[int, str]] = []
        self._ordinals: dict[int, int] = {}

    def arrived(self, request: Request, refused: str | None) -> None:
        """Note an arrival and, if it was turned away, the word why."""
        self._arrived.append(request.id)
        if refused is not None:
            self._refused.append((request.id, refused))

    def cancelled(self, request: Request) -> None:
        """Note that a request was let go."""
        self._cancelled.append(request.id)

    def failed(self, plan: StepPlan) -> None:
        """Note who failed in a plan, which may itself be empty."""
        self._failed += [(ending.request.id, ending.reason) for ending in plan.failed]

    def step(self, scheduler: Scheduler, plan: StepPlan, result: StepResult) -> None:
        """Note a step before it is committed."""
        row = {
            "step": plan.step,
            **self._between_steps(),
            "preempted": [request.id for request in plan.preempted],
            "swapped_out": [[t.request.id, len(t.host)] for t in plan.swapped_out],
            "swapped_in": [[t.request.id, len(t.host)] for t in plan.swapped_in],
            "admitted": [[r.id, self._seen(r)] for r in plan.admitted],
            "scheduled": [[r.id, start, tokens] for r, start, tokens in scheduler.scheduled(plan)],
            "copies": [list(copy) for copy in plan.copies],
            "filled": [self._ordinal(identity) for identity in result.identities],
            "forked": [[fork.parent.id, fork.child.id] for fork in result.forks],
            "finished": sorted([request.id, reason] for request, reason in result.finished),
            "free": [plan.free_before, plan.free_after],
            "rule": scheduler.rule_state(),
        }
        self.rows.append(row)

    def committed(self, free: int) -> None:
        """Note the blocks free after the step's endings."""
        self.rows[-1]["free"].append(free)

    def text(self) -> str:
        """The whole log; what came after the last step is its last line."""
        rows = [*self.rows, {"end": len(self.rows), **self._between_steps(keep=True)}]
        return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)

    def _between_steps(self, keep: bool = False) -> dict[str, Any]:
        parts: dict[str, Any] = {
            "arrived": list(self._arrived),
            "refused": [list(pair) for pair in self._refused],
            "cancelled": list(self._cancelled),
            "failed": [list(pair) for pair in self._failed],
        }
        if not keep:
            for pending in (self._arrived, self._refused, self._cancelled, self._failed):
                pending.clear()
        return parts

    def _seen(self, request: Request) -> list[int]:
        """The identities of the blocks that a request found cached when it was admitted."""
        return [self._ordinal(identity) for identity in request.identities[: request.hits]]

    def _ordinal(self, identity: int) -> int:
        return self._ordinals.setdefault(identity, len(self._ordinals))
