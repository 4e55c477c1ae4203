"""What every step-time model can do."""

from __future__ import annotations

from typing import Protocol

from pagecast.engine.core.costs import PreemptCost
from pagecast.engine.core.step import StepShape


class LatencyModel(Protocol):
    """Maps the shape of a step to its duration.

    Implementations keep no state between calls: the same shape takes the same time.
    """

    @property
    def profile(self) -> str:
        """Name of the profile: where the numbers come from."""

    @property
    def provenance(self) -> str:
        """`measured`, `fitted` or `analytic`."""

    @property
    def holdout_error(self) -> dict[str, float] | None:
        """Error on measurements that were kept apart from the fit; None if there are none."""

    def __call__(self, shape: StepShape) -> int:
        """Duration of a step in nanoseconds, at least 1."""

    def explain(self, shape: StepShape) -> dict[str, float]:
        """Seconds of a step by term; their sum is its duration before rounding."""

    def preempt_cost(self) -> PreemptCost:
        """What bringing a request back costs, for rules that compare recompute with swap."""

    def in_range(self, shape: StepShape) -> bool:
        """Whether a shape is within what the model was made from."""
