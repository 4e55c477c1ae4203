"""What fits into the memory of a GPU: the KV pool, and all that is taken before it.

    pool = utilization · total − weights − activation − non-torch − wide pool, in whole blocks

per rank; the wide pool holds the first tokens of each sequence, where `KvFormat` keeps them in 16
bit, for as many sequences as can run; all ranks of a tensor-parallel group are alike. Memory of CUDA graphs is not taken off:
an engine that does so has it counted under non-torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pagecast.engine.core.errors import UserError
from pagecast.engine.specs.geometry import kv_bytes_per_token, tp_degrees, weights_bytes
from pagecast.engine.specs.gpus import GpuSpec
from pagecast.engine.specs.kv_format import WIDE, KvFormat
from pagecast.engine.specs.model_spec import ModelSpec
from pagecast.engine.specs.overheads import GIB, activation_bytes, non_torch_bytes
from pagecast.engine.specs.pool_plan import PoolPlan

__all__ = ["Deployment", "PoolPlan", "kv_pool", "least_tp"]


@dataclass(frozen=True)
class Deployment:
    """A model on GPUs, as far as memory is concerned.

    kv_dtype: a `KvFormat` as text, such as `int8` or `int8:layers=2,tokens=64`.
    utilization: share of the total that the engine may take.
    max_batched_tokens, max_seqs: the largest batch, on which activations depend; and max_seqs
        sequences have a place in the wide pool.
    null_blocks: blocks that the engine keeps to itself.
    memory_gib, weights_gib, activation_gib, non_torch_gib: per rank, if known better than from
        datasheet, geometry and estimate.
    """

    model: ModelSpec
    gpu: GpuSpec
    tp: int = 1
    weight_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    block_size: int = 16
    utilization: float = 0.9
    max_batched_tokens: int = 2048
    max_seqs: int = 256
    null_blocks: int = 0
    memory_gib: float | None = None
    weights_gib: float | None = None
    activation_gib: float | None = None
    non_torch_gib: float | None = None


def kv_pool(deployment: Deployment, min_tokens: int = 1) -> PoolPlan:
    """Where the memory of one rank goes, if a sequence of min_tokens then fits.

    Raises:
        UserError: if it does not, with the numbers and the least tensor parallelism that fits; or
            for an unknown type, or a tp that the model's heads do not allow.
    """
    plan = _plan(deployment)
    if plan.longest_tokens < min_tokens:
        raise UserError(_too_little(deployment, plan, min_tokens))
    return plan


def least_tp(deployment: Deployment, min_tokens: int = 1) -> int | None:
    """The least tensor parallelism that fits a sequence of min_tokens, None if there is none."""
    weights_gib = deployment.weights_gib
    for tp in tp_degrees(deployment.model):
        share_gib = None if weights_gib is None else weights_gib * deployment.tp / tp
        plan = _plan(replace(deployment, tp=tp, weights_gib=share_gib))
        if plan.longest_tokens >= min_tokens:
            return tp
    return None


def _plan(what: Deployment) -> PoolPlan:
    model, tp = what.model, what.tp
    token_bytes = kv_bytes_per_token(model, what.kv_dtype, tp)
    wide_per_sequence = KvFormat.parse(what.kv_dtype).wide_blocks(what.block_size)
    wide_blocks = what.max_seqs * wide_per_sequence
    activation = activation_bytes(model, tp, what.max_batched_tokens, what.max_seqs)
    total = _known_or(what.memory_gib, round(what.gpu.memory_gib * GIB))
    return PoolPlan(
        total_bytes=total,
        usable_bytes=int(what.utilization * total),
        weights_bytes=_known_or(what.weights_gib, weights_bytes(model, what.weight_dtype, tp)),
        activation_bytes=_known_or(what.activation_gib, activation),
        non_torch_bytes=_known_or(what.non_torch_gib, non_torch_bytes(tp)),
        token_bytes=token_bytes,
        block_size=what.block_size,
        null_blocks=what.null_blocks,
        wide_blocks_per_sequence=wide_per_sequence,
        wide_blocks=wide_blocks,
        wide_bytes=wide_blocks * what.block_size * kv_bytes_per_token(model, WIDE, tp),
    )


def _known_or(known_gib: float | None, estimated_bytes: int) -> int:
    return estimated_bytes if known_gib is None else round(known_gib * GIB)


def _too_little(what: Deployment, plan: PoolPlan, min_tokens: int) -> str:
    tp = least_tp(what, min_tokens)
    advice = f"needs at least TP {tp}" if tp else "no TP degree of this model is enough"
    need_blocks = max(1, plan.main_blocks(min_tokens)) + plan.null_blocks
    wide = f", wide KV blocks {plan.wide_bytes / GIB:.2f}" if plan.wide_blocks else ""
    return (
        f"{what.model.name} in {what.weight_dtype} on {what.gpu.name}, TP {what.tp}: of "
        f"{plan.usable_bytes / GIB:.2f} GiB ({what.utilization:g} of "
        f"{plan.total_bytes / GIB:.2f}), weights take {plan.weights_bytes / GIB:.2f}, activations "
        f"{plan.activation_bytes / GIB:.2f}, non-torch {plan.non_torch_bytes / GIB:.2f}{wide}; "
        f"that leaves {plan.pool_bytes / GIB:.2f} GiB or {plan.blocks:,} KV blocks of the "
        f"{need_blocks:,} for {min_tokens:,} token{'s' * (min_tokens > 1)}; {advice}"
    )
