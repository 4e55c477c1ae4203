"""Presets: the points on the axes of a policy that bear an engine's name and version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from pagecast.engine.core.errors import UserError, nearest
from pagecast.engine.core.policy import Policy

VLLM_V1_033 = Policy(
    batching="iteration",
    padding="none",
    fill_wait_ns=0,
    mix="mixed",
    service_order="running_in_order",
    queue_order="fcfs",
    budget_counts="all",
    max_batched_tokens=2048,
    max_seqs=256,
    max_total_tokens=None,
    chunk="any",
    long_prefill_cap=0,
    max_partials=0,
    chunk_align=0,
    reserve="known",
    reserve_subtracts_hits=True,
    claim="chunk",
    low_watermark=0.0,
    watermark_on="admit",
    watermark_if_busy=True,
    preempt_below=0.0,
    refuse_above_used=None,
    refuse_above_waiting=None,
    admit_after_preempt=False,
    swap_in_after_preempt=False,
    blocked_by_swapped=True,
    admit_every_n_decodes=0,
    readmit="at_once",
    victim="last",
    preemption="recompute",
    hybrid_swaps=1,
    preempt_cost=None,
    requeue="front",
    keep_kv="cached",
    kv_layout="paged",
    prefix="block_hash",
    publish="at_plan",
    max_cached_prompt=None,
    free_order="unhashed_first",
    infeasible="reject",
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
    claim="reserved",
    preemption="never",
    kv_layout="contiguous",
    prefix="off",
    null_blocks=0,
)

VLLM_V0 = replace(
    VLLM_V1_033,
    mix="prefill_first",
    service_order="waiting_first",
    budget_counts="prefill",
    chunk="none",
    reserve_subtracts_hits=False,
    claim="reserved",
    low_watermark=0.01,
    watermark_on="admit+swap_in",
    watermark_if_busy=False,
    prefix="off",
    publish="at_commit",
    free_order="lru",
    null_blocks=0,
)

VLLM_V0_CHUNKED = replace(
    VLLM_V0,
    mix="mixed",
    service_order="decodes_partials_new",
    budget_counts="all",
    max_batched_tokens=512,
    chunk="any",
    admit_after_preempt=True,
    blocked_by_swapped=False,
)

PRESETS: dict[str, Policy] = {
    "pagecast": replace(
        VLLM_V1_033,
        low_watermark=0.02,
        watermark_on="admit+swap_in",
        preemption="auto",
        readmit="after_finish",
    ),
    "vllm-v1@0.33": VLLM_V1_033,
    "vllm-v1@0.11": replace(VLLM_V1_033, reserve="chunk", free_order="lru"),
    "vllm-v0@0.6.3": VLLM_V0,
    "vllm-v0-chunked@0.6.3": VLLM_V0_CHUNKED,
    "sarathi": replace(VLLM_V0_CHUNKED, max_seqs=128, watermark_on="admit"),
    "sglang@0.5.23": replace(
        VLLM_V1_033,
        mix="prefill_first",
        service_order="waiting_first",
        budget_counts="prefill",
        max_batched_tokens=8192,
        max_seqs=None,
        max_partials=1,
        reserve="ratio",
        victim="least_output",
        requeue="back",
        publish="at_commit",
        free_order="lru",
        infeasible="abort_last",
        null_blocks=0,
    ),
    "lightllm": replace(
        VLLM_V1_033,
        mix="prefill_first",
        service_order="waiting_first",
        budget_counts="prefill",
        max_batched_tokens=8448,
        max_seqs=1000,
        long_prefill_cap=4096,
        reserve="peak",
        admit_every_n_decodes=1,
        publish="at_commit",
        free_order="lru",
        null_blocks=0,
    ),
    "no-evict": replace(
        VLLM_V1_033,
        max_batched_tokens=8192,
        max_seqs=2048,
        chunk="none",
        reserve="known+max_new",
        claim="reserved",
        preemption="never",
        publish="at_commit",
        free_order="lru",
        null_blocks=0,
    ),
    "orca": replace(STATIC, batching="iteration", padding="none", max_seqs=128, kv_layout="paged"),
    "static": STATIC,
}
"""Each preset states every axis; docs/presets.md has their rules and sources."""

SAME_RULES: dict[str, tuple[tuple[int, int], tuple[int, int], str]] = {
    "vllm-v1": ((0, 24), (0, 33), "vllm-v1@0.33"),
}
"""First and last version whose rules were verified to be those of a preset."""

NEWEST = {
    "vllm-v1": "vllm-v1@0.33",
    "vllm-v0": "vllm-v0@0.6.3",
    "vllm-v0-chunked": "vllm-v0-chunked@0.6.3",
    "sglang": "sglang@0.5.23",
}
"""What an engine's name alone stands for."""


class Machine(NamedTuple):
    """What automatic limits depend on.

    gpu_name: a GPU of `engine.specs`.  memory_gib: total memory of one GPU.  max_model_len: longest
    context in tokens.  server: an HTTP server rather than offline use of the library.
    """

    gpu_name: str
    memory_gib: float
    max_model_len: int
    server: bool = True


Limits = tuple[int, int | None]
"""max_batched_tokens and max_seqs."""


def vllm_limits(machine: Machine) -> Limits:
    """What vLLM V1 takes when nobody says (0.24 to 0.33)."""
    if machine.memory_gib >= 160:
        return 16_384, 1_024
    return vllm_011_limits(machine)


def vllm_011_limits(machine: Machine) -> Limits:
    """The same in vLLM 0.11; the A100 is an exception among the large GPUs."""
    if machine.memory_gib >= 70 and not machine.gpu_name.startswith("a100"):
        return (8_192 if machine.server else 16_384), 1_024
    return (2_048 if machine.server else 8_192), 256


def vllm_v0_limits(machine: Machine) -> Limits:
    """A step holds the longest prompt, and 2,048 tokens at least (vLLM 0.6.3)."""
    return max(machine.max_model_len, 2048), 256


def sglang_limits(machine: Machine) -> Limits:
    """The chunk, by the GPU's memory, is the budget of a batch of prompts (SGLang 0.5.23)."""
    sizes = ((20, 2_048), (60, 4_096), (160, 8_192))
    return next((tokens for below, tokens in sizes if machine.memory_gib < below), 16_384), None


AUTO_LIMITS: dict[str, Callable[[Machine], Limits]] = {
    "pagecast": vllm_limits,
    "vllm-v1@0.33": vllm_limits,
    "vllm-v1@0.11": vllm_011_limits,
    "vllm-v0@0.6.3": vllm_v0_limits,
    "sglang@0.5.23": sglang_limits,
}
"""Presets whose max_batched_tokens and max_seqs follow from the machine unless they are named."""


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
    if name in NEWEST:
        return NEWEST[name]
    engine, _, version = name.partition("@")
    first, last, target = SAME_RULES.get(engine, ((1, 0), (0, 0), ""))
    parts = version.split(".")
    numbers = tuple(int(part) for part in parts if part.isdigit())
    if len(numbers) == len(parts) and first <= numbers[:2] <= last:
        return target
    known = [*PRESETS, *(f"{e}@{a[0]}.{a[1]}" for e, (a, _, _) in SAME_RULES.items())]
    raise UserError(nearest("preset", name, sorted(known)))
