"""What fits into the memory of a GPU: the KV pool, and all that is taken before it.

    pool = utilization · total − weights − activation − non-torch, in whole blocks

per rank; all ranks of a tensor-parallel group are alike. Memory of CUDA graphs is not taken off:
an engine that does so has it counted under non-torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pagecast.engine.core.errors import UserError
from pagecast.engine.specs.geometry import kv_bytes_per_token, tp_degrees, weights_bytes
from pagecast.engine.specs.gpus import GpuSpec
from pagecast.engine.specs.model_spec import ModelSpec
from pagecast.engine.specs.overheads import GIB, activation_bytes, non_torch_bytes


@dataclass(frozen=True)
class Deployment:
    """A model on GPUs, as far as memory is concerned.

    utilization: share of the total that the engine may take.
    max_batched_tokens, max_seqs: the largest batch, on which activations depend.
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


@dataclass(frozen=True)
class PoolPlan:
    """Where the memory of one rank goes.

    usable_bytes: what the engine may take.  pool_bytes: what is left for the KV cache, below 0 if
    the rest does not fit.  token_bytes: KV cache of one token.  blocks: whole blocks of the pool,
    of which the engine keeps null_blocks to itself.
    """

    total_bytes: int
    usable_bytes: int
    weights_bytes: int
    activation_bytes: int
    non_torch_bytes: int
    token_bytes: int
    block_size: int
    null_blocks: int

    @property
    def pool_bytes(self) -> int:
        """Bytes that are left for the KV cache."""
        return self.usable_bytes - self.weights_bytes - self.activation_bytes - self.non_torch_bytes

    @property
    def block_bytes(self) -> int:
        """Bytes of one block."""
        return self.block_size * self.token_bytes

    @property
    def blocks(self) -> int:
        """Whole blocks of the pool."""
        return max(0, self.pool_bytes // self.block_bytes)

    @property
    def tokens(self) -> int:
        """Tokens that requests can have in the pool."""
        return max(0, self.blocks - self.null_blocks) * self.block_size

    def sequences(self, length_tokens: int) -> float:
        """How many sequences of this length fit at a time, in whole blocks each."""
        return self.tokens / self.block_size / -(-length_tokens // self.block_size)

    def swap_blocks(self, swap_gib: float) -> int:
        """Whole blocks in so much memory of the host, per rank."""
        return int(swap_gib * GIB) // self.block_bytes


def kv_pool(deployment: Deployment, min_tokens: int = 1) -> PoolPlan:
    """Where the memory of one rank goes, if the pool then holds min_tokens.

    Raises:
        UserError: if it does not, with the numbers and the least tensor parallelism that fits; or
            for an unknown type, or a tp that the model's heads do not allow.
    """
    plan = _plan(deployment)
    if plan.tokens < min_tokens:
        raise UserError(_too_little(deployment, plan, min_tokens))
    return plan


def least_tp(deployment: Deployment, min_tokens: int = 1) -> int | None:
    """The least tensor parallelism whose pool holds min_tokens, None if there is none."""
    weights_gib = deployment.weights_gib
    for tp in tp_degrees(deployment.model):
        share_gib = None if weights_gib is None else weights_gib * deployment.tp / tp
        if _plan(replace(deployment, tp=tp, weights_gib=share_gib)).tokens >= min_tokens:
            return tp
    return None


def _plan(what: Deployment) -> PoolPlan:
    model, tp = what.model, what.tp
    token_bytes = kv_bytes_per_token(model, what.kv_dtype, tp)
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
    )


def _known_or(known_gib: float | None, estimated_bytes: int) -> int:
    return estimated_bytes if known_gib is None else round(known_gib * GIB)


def _too_little(what: Deployment, plan: PoolPlan, min_tokens: int) -> str:
    tp = least_tp(what, min_tokens)
    advice = f"needs at least TP {tp}" if tp else "no TP degree of this model is enough"
    need_blocks = -(-min_tokens // plan.block_size) + plan.null_blocks
    return (
        f"{what.model.name} in {what.weight_dtype} on {what.gpu.name}, TP {what.tp}: of "
        f"{plan.usable_bytes / GIB:.2f} GiB ({what.utilization:g} of "
        f"{plan.total_bytes / GIB:.2f}), weights take {plan.weights_bytes / GIB:.2f}, activations "
        f"{plan.activation_bytes / GIB:.2f}, non-torch {plan.non_torch_bytes / GIB:.2f}; that "
        f"leaves {plan.pool_bytes / GIB:.2f} GiB or {plan.blocks:,} KV blocks of the "
        f"{need_blocks:,} for {min_tokens:,} token{'s' * (min_tokens > 1)}; {advice}"
    )
