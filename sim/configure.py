"""From a scenario to a server: specs looked up, limits resolved, memory shared out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from pagecast.engine.core.policy import Policy, with_axes
from pagecast.engine.core.presets import AUTO_LIMITS, Machine, canonical, preset
from pagecast.engine.specs.gpus import GpuSpec, gpu
from pagecast.engine.specs.models import ModelSpec, model
from pagecast.engine.specs.pool import Deployment, PoolPlan, kv_pool
from pagecast.sim.scenario import Scenario, ScenarioError
from pagecast.sim.simulate import Server
from pagecast.sim.steptime.analytic import AnalyticModel
from pagecast.sim.steptime.latency import LatencyModel

AUTO = "auto"
MANY_SEQS = 2048
"""Requests for whose activations memory is set aside where a policy names no limit: SGLang's least
default, and TensorRT-LLM's."""
AUTO_AXES = ("max_batched_tokens", "max_seqs")


@dataclass(frozen=True)
class Setup:
    """A scenario made concrete.

    `resolved` holds the scenario's keys with nothing left to defaults; `notes` what a reader of
    the result should know.
    """

    server: Server
    latency: LatencyModel
    gpu: GpuSpec
    gpus: int
    kv_bytes_per_token: int
    resolved: dict[str, Any]
    notes: tuple[str, ...]


def configure(scenario: Scenario) -> Setup:
    """Make a scenario concrete.

    Raises:
        UserError: for unknown names, axes that contradict each other, or a model that does not fit.
    """
    spec, card = model(scenario.model.name), _gpu(scenario)
    max_model_len = _max_model_len(scenario, spec)
    policy = resolve_policy(scenario, Machine(card.name, card.memory_gib, max_model_len))
    deployment = _deployment(scenario, spec, card, policy, max_model_len)
    plan = kv_pool(deployment)
    blocks = scenario.kv.blocks or plan.blocks
    if blocks <= policy.null_blocks:
        raise ScenarioError(f"kv.blocks: {blocks}; the engine keeps {policy.null_blocks} to itself")
    latency = AnalyticModel(
        spec,
        card,
        tp=scenario.parallel.tp,
        weight_dtype=scenario.model.weight_dtype,
        kv_dtype=scenario.kv.dtype,
        block_size=scenario.kv.block_size,
        swap_copies=scenario.kv.swap_copies,
        swap_overlap=scenario.kv.swap_overlap,
    )
    if policy.asks_cost and policy.preempt_cost is None:
        policy = replace(policy, preempt_cost=latency.preempt_cost())
    server = Server(
        policy,
        blocks,
        scenario.kv.block_size,
        max_model_len,
        latency,
        scenario.load.max_tokens_default,
        lead_blocks=plan.wide_blocks_per_sequence,
        swap_blocks=plan.swap_blocks(scenario.kv.swap_gib) if policy.may_swap else 0,
    )
    return Setup(
        server=server,
        latency=latency,
        gpu=card,
        gpus=scenario.parallel.tp,
        kv_bytes_per_token=plan.token_bytes,
        resolved=_resolved(scenario, server, card),
        notes=tuple(_notes(scenario, server, plan)),
    )


def resolve_policy(scenario: Scenario, machine: Machine) -> Policy:
    """The policy of a scenario, `auto` limits taken from the machine.

    Raises:
        UserError: for an unknown preset or axis, or a value that an axis does not take.
    """
    name = canonical(scenario.policy.preset)
    axes = scenario.policy.axes()
    given = {axis: value for axis, value in axes.items() if value != AUTO or axis not in AUTO_AXES}
    if name in AUTO_LIMITS:
        given = {**dict(zip(AUTO_AXES, AUTO_LIMITS[name](machine), strict=True)), **given}
    return with_axes(preset(name), given)


def _gpu(scenario: Scenario) -> GpuSpec:
    """The GPU's datasheet, with what the scenario knows better."""
    card, known = gpu(scenario.gpu.name), scenario.gpu
    memory_gib = card.memory_gib if known.memory_gib is None else known.memory_gib
    price = card.price_per_hour if known.price_per_hour is None else known.price_per_hour
    return replace(card, memory_gib=memory_gib, price_per_hour=price)


def _max_model_len(scenario: Scenario, spec: ModelSpec) -> int:
    longest = scenario.model.max_len or spec.max_position
    if longest > spec.max_position:
        raise ScenarioError(
            f"model.max_len: {longest} exceeds the context of {spec.name}; accepted: up to "
            f"{spec.max_position}"
        )
    return longest


def _deployment(
    scenario: Scenario, spec: ModelSpec, card: GpuSpec, policy: Policy, max_model_len: int
) -> Deployment:
    return Deployment(
        spec,
        card,
        tp=scenario.parallel.tp,
        weight_dtype=scenario.model.weight_dtype,
        kv_dtype=scenario.kv.dtype,
        block_size=scenario.kv.block_size,
        utilization=scenario.gpu.utilization,
        max_batched_tokens=policy.max_batched_tokens or max_model_len,
        max_seqs=policy.max_seqs or MANY_SEQS,
        null_blocks=policy.null_blocks,
        weights_gib=scenario.gpu.weights_gib,
        activation_gib=scenario.gpu.activation_gib,
        non_torch_gib=scenario.gpu.non_torch_gib,
    )


def _resolved(scenario: Scenario, server: Server, card: GpuSpec) -> dict[str, Any]:
    document = scenario.model_dump()
    document["model"]["max_len"] = server.max_model_len
    document["gpu"]["memory_gib"] = card.memory_gib
    document["gpu"]["price_per_hour"] = card.price_per_hour
    document["kv"]["blocks"] = server.blocks
    axes = asdict(server.policy)
    if server.policy.preempt_cost is not None:
        axes["preempt_cost"] = server.policy.preempt_cost._asdict()
    document["policy"] = {"preset": canonical(scenario.policy.preset), **axes}
    return document


def _notes(scenario: Scenario, server: Server, plan: PoolPlan) -> list[str]:
    notes = []
    if scenario.kv.blocks is not None and scenario.kv.blocks > plan.blocks:
        notes.append(
            f"kv.blocks is {scenario.kv.blocks:,}, but by our estimate memory holds {plan.blocks:,}"
        )
    blocks = server.blocks - server.policy.null_blocks + plan.wide_blocks_per_sequence
    tokens = blocks * server.block_size
    if server.max_model_len > tokens:
        notes.append(
            f"one request of the full context ({server.max_model_len:,} tokens) would not fit the "
            f"pool of {tokens:,} tokens: vLLM would not start without --max-model-len {tokens}"
        )
    return notes
