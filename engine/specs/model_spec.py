"""The geometry of a model."""

from __future__ import annotations

from dataclasses import dataclass

from pagecast.engine.core.errors import UserError


@dataclass(frozen=True)
class ModelSpec:
    """Geometry of a decoder-only transformer with gated MLPs, dense or a mixture of experts.

    source: repository or file that the facts come from.
    heads, kv_heads: query heads, and heads of K and V.
    intermediate: width of the dense MLP of each layer; 0 if all layers hold experts instead.
    experts, active_experts, expert_intermediate: how many experts a layer has, how many of them a
        token visits, and their width.
    shared_intermediate: width of an expert that every token visits; 0 if there is none.
    max_position: longest context in tokens.
    sliding_window, sliding_layers: how many layers attend only to the last sliding_window tokens.
    tied: whether the output layer is the input embedding.
    qkv_bias, output_bias, mlp_bias, qk_norm: whether these small tensors exist.
    """

    name: str
    source: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_position: int
    intermediate: int = 0
    experts: int = 0
    active_experts: int = 0
    expert_intermediate: int = 0
    shared_intermediate: int = 0
    sliding_window: int = 0
    sliding_layers: int = 0
    tied: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False

    def __post_init__(self) -> None:
        """Refuse a geometry that no model has.

        Raises:
            UserError: naming source, field, value and what would be accepted.
        """
        for field in ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "max_position"):
            if getattr(self, field) < 1:
                raise UserError(f"{self.source}: {field}: {getattr(self, field)}; accepted: from 1")
        if self.heads % self.kv_heads:
            raise UserError(
                f"{self.source}: kv_heads: {self.kv_heads}; accepted: a divisor of heads, "
                f"{self.heads}"
            )
        if self.experts and not 1 <= self.active_experts <= self.experts:
            raise UserError(
                f"{self.source}: active_experts: {self.active_experts}; accepted: 1 to "
                f"{self.experts}, the experts"
            )
