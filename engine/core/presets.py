"""Presets: the points on the axes of a policy that bear an engine's name and version."""

from __future__ import annotations

from dataclasses import replace

from pagecast.engine.core.errors import UserError, nearest
from pagecast.engine.core.policy import Policy

VLLM_V1_033 = Policy(
    batching="iteration",
    padding="none",
    fill_wait_ns=0,
    mix="mixed",
    service_order="running_in_order",
    queue_order="fcfs",
    max_batched_tokens=2048,
    max_seqs=256,
    chunk="any",
    long_prefill_cap=0,
    reserve="known",
    low_watermark=0.0,
    watermark_if_busy=True,
    preempt_below=0.0,
    refuse_above_used=None,
    refuse_above_waiting=None,
    admit_after_preempt=False,
    victim="last",
    preemption="recompute",
    requeue="front",
    kv_layout="paged",
    prefix="block_hash",
    publish="at_plan",
    free_order="unhashed_first",
    null_blocks=1,
)

STATIC = replace(
    VLLM_V1_033,
    batching="request",
    padding="longest",
    max_batched_tokens=None,
    max_seqs=32,
    chunk="none",
    reserve="max_len",
    preemption="never",
    kv_layout="contiguous",
    prefix="off",
    null_blocks=0,
)

PRESETS: dict[str, Policy] = {
    "vllm-v1@0.33": VLLM_V1_033,
    "vllm-v1@0.11": replace(VLLM_V1_033, reserve="chunk", free_order="lru"),
    "static": STATIC,
}
"""Each preset states every axis."""

AUTO_LIMITS = ("vllm-v1@0.33", "vllm-v1@0.11")
"""Presets whose max_batched_tokens and max_seqs follow from the GPU unless they are named."""

SAME_RULES: dict[str, tuple[tuple[int, int], tuple[int, int], str]] = {
    "vllm-v1": ((0, 24), (0, 33), "vllm-v1@0.33"),
}
"""First and last version whose rules were verified to be those of a preset."""


def auto_limits(gpu_name: str, gpu_memory_gib: float, *, server: bool) -> tuple[int, int]:
    """What vLLM V1 takes as max_batched_tokens and max_seqs when nobody says (0.11 to 0.33).

    Args:
        gpu_name: a GPU of `engine.specs`; the A100 is an exception among the large ones.
        gpu_memory_gib: total memory of one GPU.
        server: an HTTP server rather than offline use of the library.
    """
    if gpu_memory_gib >= 160:
        return 16_384, 1_024
    if gpu_memory_gib >= 70 and not gpu_name.startswith("a100"):
        return (8_192 if server else 16_384), 1_024
    return (2_048 if server else 8_192), 256


def preset(name: str) -> Policy:
    """The policy of a preset, by name: `vllm-v1@0.33`, `vllm-v1@0.30`, `vllm-v1`, `static`.

    Raises:
        UserError: for a name or version that is not known, with the nearest ones.
    """
    return PRESETS[canonical(name)]


def canonical(name: str) -> str:
    """The preset whose rules a name stands for.

    A version between two verified ones that share their rules resolves to them; a bare engine
    name resolves to the newest.

    Raises:
        UserError: for a name or version that is not known, with the nearest ones.
    """
    if name in PRESETS:
        return name
    engine, _, version = name.partition("@")
    first, last, target = SAME_RULES.get(engine, ((1, 0), (0, 0), ""))
    if target and not version:
        return target
    parts = version.split(".")
    numbers = tuple(int(part) for part in parts if part.isdigit())
    if len(numbers) == len(parts) and first <= numbers[:2] <= last:
        return target
    known = [*PRESETS, *(f"{e}@{a[0]}.{a[1]}" for e, (a, _, _) in SAME_RULES.items())]
    raise UserError(nearest("preset", name, sorted(known)))
