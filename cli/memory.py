"""`pagecast memory`: what fits on a GPU, line by line."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pagecast.cli.output import emit_json
from pagecast.engine.core.errors import UserError
from pagecast.engine.core.presets import AUTO_LIMITS, Machine
from pagecast.engine.specs.geometry import parameters
from pagecast.engine.specs.gpus import gpu as find_gpu
from pagecast.engine.specs.kv_format import KvFormat
from pagecast.engine.specs.models import model as find_model
from pagecast.engine.specs.overheads import GIB
from pagecast.engine.specs.pool import Deployment, PoolPlan, kv_pool


def memory(
    model: Annotated[str, typer.Option(help="Model, or a config.json.")] = "llama-3.1-8b",
    gpu: Annotated[str, typer.Option(help="GPU.")] = "a100-80gb",
    tp: Annotated[int, typer.Option(min=1, help="GPUs that share one copy of the model.")] = 1,
    weight_dtype: Annotated[str, typer.Option(help="bf16 | fp16 | fp32 | fp8 | int8 | int4.")] = (
        "bf16"
    ),
    kv_dtype: Annotated[
        str, typer.Option(help="bf16 | fp16 | fp32 | fp8 | int8; or int8:layers=2,tokens=64.")
    ] = "bf16",
    block_size: Annotated[int, typer.Option(min=1, help="Tokens in a KV block.")] = 16,
    gpu_memory_utilization: Annotated[
        float, typer.Option(min=0.01, max=1, help="Share of the GPU's memory to use.")
    ] = 0.9,
    memory_gib: Annotated[
        float | None, typer.Option(min=0, help="Memory of the GPU, if known better, in GiB.")
    ] = None,
    weights_gib: Annotated[
        float | None, typer.Option(min=0, help="Weights per GPU, if measured.")
    ] = None,
    activation_gib: Annotated[
        float | None, typer.Option(min=0, help="Peak of activations per GPU, if measured.")
    ] = None,
    non_torch_gib: Annotated[
        float | None, typer.Option(min=0, help="Other memory per GPU, if measured.")
    ] = None,
    max_model_len: Annotated[
        int | None, typer.Option(min=1, help="Longest context, in tokens; must fit.")
    ] = None,
    max_seqs: Annotated[
        int | None, typer.Option(min=1, help="Requests that run at a time.")
    ] = None,
    max_batched_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of a step.")] = None,
    swap_gib: Annotated[float, typer.Option(min=0, help="Host memory for swap, per GPU.")] = 0.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What fits: weights, activations, KV blocks, tokens, concurrency."""
    spec, card = find_model(model), find_gpu(gpu)
    length = max_model_len or spec.max_position
    if length > spec.max_position:
        raise UserError(
            f"--max-model-len: {length} exceeds the context of {spec.name}; accepted: up to "
            f"{spec.max_position}"
        )
    tokens, seqs = AUTO_LIMITS["vllm-v1@0.33"](Machine(card.name, card.memory_gib, 0))
    deployment = Deployment(
        model=spec,
        gpu=card,
        tp=tp,
        weight_dtype=weight_dtype,
        kv_dtype=str(KvFormat.parse(kv_dtype)),
        block_size=block_size,
        utilization=gpu_memory_utilization,
        max_batched_tokens=max_batched_tokens or tokens,
        max_seqs=max_seqs or seqs or 1,
        memory_gib=memory_gib,
        weights_gib=weights_gib,
        activation_gib=activation_gib,
        non_torch_gib=non_torch_gib,
    )
    plan = kv_pool(deployment, min_tokens=max_model_len or 1)
    if json:
        emit_json(_document(deployment, plan, length, swap_gib))
    else:
        Console().print(_table(deployment, plan, length, swap_gib))


def _table(what: Deployment, plan: PoolPlan, length: int, swap_gib: float) -> Table:
    gpus = f"{what.tp} x {what.gpu.name}" if what.tp > 1 else what.gpu.name
    table = Table("per GPU", "", "how", title=f"{what.model.name} in {what.weight_dtype} on {gpus}")
    table.columns[1].justify = "right"
    for name, value, how in _lines(what, plan, length):
        table.add_row(name, value, how)
    if swap_gib:
        blocks = plan.swap_blocks(swap_gib)
        table.add_row("swap", f"{blocks:,} blocks", f"{swap_gib:g} GiB of host memory")
    return table


def _lines(what: Deployment, plan: PoolPlan, length: int) -> list[tuple[str, str, str]]:
    """Name, value and explanation of each line."""
    model = what.model
    batch = f"estimate for {what.max_batched_tokens:,} tokens, {what.max_seqs:,} sequences"
    weights = f"{parameters(model) / 1e9:.2f} billion parameters"
    weights += f" over {what.tp} GPUs" if what.tp > 1 else ""
    heads = f"{model.layers} layers, {model.kv_heads} KV heads of {model.head_dim}, {what.kv_dtype}"
    return [
        ("memory", _gib(plan.total_bytes), _how(what.memory_gib, what.gpu.memory_source)),
        ("usable", _gib(plan.usable_bytes), f"{what.utilization:g} of it"),
        ("weights", _gib(-plan.weights_bytes), _how(what.weights_gib, weights)),
        ("activations", _gib(-plan.activation_bytes), _how(what.activation_gib, batch)),
        ("non-torch", _gib(-plan.non_torch_bytes), _how(what.non_torch_gib, "estimate")),
        *_wide_pool(what, plan),
        ("KV cache", _gib(plan.pool_bytes), "what is left"),
        ("KV per token", f"{plan.token_bytes:,} B", f"K and V: {heads}"),
        ("KV blocks", f"{plan.blocks:,}", f"of {what.block_size} tokens, {plan.block_bytes:,} B"),
        ("KV tokens", f"{plan.tokens:,}", _where(plan)),
        ("concurrency", f"{plan.sequences(length):.2f}", f"sequences of {length:,} tokens"),
    ]


def _wide_pool(what: Deployment, plan: PoolPlan) -> list[tuple[str, str, str]]:
    """The line of the blocks that are in 16 bit, if there are any."""
    if not plan.wide_blocks:
        return []
    tokens = plan.wide_blocks_per_sequence * plan.block_size
    how = f"first {tokens:,} tokens of {what.max_seqs:,} sequences, in 16 bit"
    return [("wide KV blocks", _gib(-plan.wide_bytes), how)]


def _where(plan: PoolPlan) -> str:
    if not plan.wide_blocks:
        return "in whole blocks"
    return f"in whole blocks, {plan.wide_blocks * plan.block_size:,} of them wide"


def _how(known_gib: float | None, otherwise: str) -> str:
    return otherwise if known_gib is None else "given"


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.2f} GiB"


def _document(what: Deployment, plan: PoolPlan, length: int, swap_gib: float) -> dict[str, Any]:
    return {
        "model": what.model.name,
        "gpu": what.gpu.name,
        "tp": what.tp,
        "weight_dtype": what.weight_dtype,
        "kv_dtype": what.kv_dtype,
        "utilization": what.utilization,
        "max_batched_tokens": what.max_batched_tokens,
        "max_seqs": what.max_seqs,
        **asdict(plan),
        "pool_bytes": plan.pool_bytes,
        "block_bytes": plan.block_bytes,
        "blocks": plan.blocks,
        "tokens": plan.tokens,
        "longest_tokens": plan.longest_tokens,
        "max_model_len": length,
        "sequences": plan.sequences(length),
        "swap_blocks": plan.swap_blocks(swap_gib),
    }
