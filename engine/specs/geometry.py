"""Counts and bytes that follow from the geometry of a model, for one rank of a TP group.

Tensor parallel divides query heads, MLPs, experts and the vocabulary. KV heads are divided until
each rank has one; norms, biases of outputs and routers are on every rank.
"""

from __future__ import annotations

from typing import NamedTuple

from pagecast.engine.core.errors import UserError, nearest
from pagecast.engine.specs.kv_format import WIDE, KvFormat, head_bytes
from pagecast.engine.specs.model_spec import ModelSpec

WEIGHT_BITS = {"bf16": 16.0, "fp16": 16.0, "fp32": 32.0, "fp8": 8.0, "int8": 8.0, "int4": 4.15625}
"""Bits of a weight of a linear layer. int4 carries a 16-bit scale and a 4-bit zero point per group
of 128 (GPTQ and AWQ checkpoints); the scales of fp8 and int8, one per output channel, are below
0.1 % and left out. Embeddings, output layer, norms, biases and routers stay in 16 bit, or in 32 for
fp32, as quantised checkpoints leave them."""


class Elements(NamedTuple):
    """Numbers of weights on one rank, over all layers.

    linear: matrices of attention and dense or shared MLPs, which every token passes.
    experts: matrices of all experts.  routers: the matrices that choose among them.
    embedding, head: input embedding and output layer; head is 0 if it is the same matrix.
    small: norms and biases.
    """

    linear: int
    experts: int
    routers: int
    embedding: int
    head: int
    small: int


def heads_per_rank(model: ModelSpec, tp: int) -> tuple[int, int]:
    """Query heads and KV heads of one rank; a KV head is repeated where there are too few.

    Raises:
        UserError: if the heads cannot be divided so, with the degrees that can.
    """
    if not _divides(model, tp):
        degrees = ", ".join(str(degree) for degree in tp_degrees(model))
        raise UserError(
            f"tp: {tp} does not divide the {model.heads} query and {model.kv_heads} KV heads of "
            f"{model.name}; accepted: {degrees}"
        )
    return model.heads // tp, max(1, model.kv_heads // tp)


def tp_degrees(model: ModelSpec) -> list[int]:
    """All degrees of tensor parallel that a model's heads allow, smallest first."""
    return [tp for tp in range(1, model.heads + 1) if _divides(model, tp)]


def _divides(model: ModelSpec, tp: int) -> bool:
    kv_heads = model.kv_heads
    return tp >= 1 and model.heads % tp == 0 and (kv_heads % tp == 0 or tp % kv_heads == 0)


def elements(model: ModelSpec, tp: int = 1) -> Elements:
    """How many weights one rank holds."""
    heads, kv_heads = heads_per_rank(model, tp)
    hidden, layers = model.hidden, model.layers
    qkv_width, output_width = (heads + 2 * kv_heads) * model.head_dim, heads * model.head_dim
    dense_width = -(-(model.intermediate + model.shared_intermediate) // tp)
    expert_width = -(-model.expert_intermediate // tp)
    vocab = -(-model.vocab // tp)
    per_layer = 2 * hidden
    per_layer += 2 * model.head_dim if model.qk_norm else 0
    per_layer += qkv_width if model.qkv_bias else 0
    per_layer += hidden if model.output_bias else 0
    if model.mlp_bias:
        per_layer += (2 * dense_width + hidden) if dense_width else 0
        per_layer += model.experts * (2 * expert_width + hidden + 1)
    return Elements(
        linear=layers * hidden * (qkv_width + output_width + 3 * dense_width),
        experts=layers * model.experts * 3 * hidden * expert_width,
        routers=layers * hidden * model.experts,
        embedding=vocab * hidden,
        head=0 if model.tied else vocab * hidden,
        small=layers * per_layer + hidden,
    )


def parameters(model: ModelSpec) -> int:
    """All weights of a model."""
    return sum(elements(model))


def active_parameters(model: ModelSpec) -> int:
    """Weights that one token passes, input embedding included."""
    counts = elements(model)
    idle = 1 - model.active_experts / model.experts if model.experts else 0
    return round(sum(counts) - idle * counts.experts)


def weights_bytes(model: ModelSpec, weight_dtype: str = "bf16", tp: int = 1) -> int:
    """Bytes of the weights on one rank; WEIGHT_BITS says what stays in 16 bit."""
    counts, bits = elements(model, tp), weight_bits(weight_dtype)
    quantised = counts.linear + counts.experts
    return round((quantised * bits + (sum(counts) - quantised) * max(16.0, bits)) / 8)


def weight_bits(weight_dtype: str) -> float:
    """Bits of a weight of a linear layer.

    Raises:
        UserError: for an unknown type, with the known ones.
    """
    if weight_dtype not in WEIGHT_BITS:
        raise UserError(nearest("weight dtype", weight_dtype, WEIGHT_BITS))
    return WEIGHT_BITS[weight_dtype]


def kv_bytes_per_token(model: ModelSpec, kv_dtype: str = "bf16", tp: int = 1) -> int:
    """Bytes that a token takes in the KV cache of one rank, over all layers.

    The sum over layers of 2 · max(1, kv_heads / tp) · (head_dim · bytes + scale), where a format
    such as `int8:layers=2` has layers of two types. Its `tokens` do not count here: they are in
    another pool, where a token takes as much as in 16 bit. Layers with a sliding window count in
    full: engines without a separate pool for them allocate them so.

    Raises:
        UserError: for an unknown type, more 16-bit layers than there are, or a tp that the heads
            do not allow.
    """
    kv_format = KvFormat.parse(kv_dtype)
    wide_layers = 2 * kv_format.wide_layers
    if wide_layers > model.layers:
        raise UserError(
            f"kv dtype {kv_dtype!r}: the first and last {kv_format.wide_layers} of the "
            f"{model.layers} layers of {model.name}; accepted: layers=0 to {model.layers // 2}"
        )
    _, kv_heads = heads_per_rank(model, tp)
    wide_bytes = wide_layers * head_bytes(WIDE, model.head_dim)
    narrow_bytes = (model.layers - wide_layers) * head_bytes(kv_format.dtype, model.head_dim)
    return 2 * kv_heads * (wide_bytes + narrow_bytes)
