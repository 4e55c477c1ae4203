"""The options that describe a scenario: `run` and `compare` take the same ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from pagecast.sim import scenario as scenarios

KEYS = {
    "trace": "load.trace",
    "limit": "load.limit",
    "rate_scale": "load.rate_scale",
    "max_tokens_default": "load.max_tokens_default",
    "model": "model.name",
    "weight_dtype": "model.weight_dtype",
    "max_model_len": "model.max_len",
    "gpu": "gpu.name",
    "gpu_memory_utilization": "gpu.utilization",
    "tp": "parallel.tp",
    "preset": "policy.preset",
    "preemption": "policy.preemption",
    "low_watermark": "policy.low_watermark",
    "max_seqs": "policy.max_seqs",
    "max_batched_tokens": "policy.max_batched_tokens",
    "kv_blocks": "kv.blocks",
    "kv_dtype": "kv.dtype",
    "swap_gib": "kv.swap_gib",
    "block_size": "kv.block_size",
    "seed": "seed",
}
"""The key of the scenario that each option sets."""

DEFAULTS = {"model": {"name": "llama-3.1-8b"}, "gpu": {"name": "a100-80gb"}}


def document_of(
    scenario: Annotated[Path | None, typer.Argument(help="Scenario file (YAML).")] = None,
    trace: Annotated[str | None, typer.Option(help="Trace file, or a bundled sample.")] = None,
    limit: Annotated[int | None, typer.Option(help="Use the first N requests.")] = None,
    rate_scale: Annotated[float | None, typer.Option(help="Arrivals N times as fast.")] = None,
    model: Annotated[str | None, typer.Option(help="Model, or a config.json.")] = None,
    gpu: Annotated[str | None, typer.Option(help="GPU.")] = None,
    tp: Annotated[int | None, typer.Option(help="GPUs that share one copy of the model.")] = None,
    preset: Annotated[str | None, typer.Option(help="Scheduler: engine@version.")] = None,
    preemption: Annotated[
        str | None, typer.Option(help="recompute | swap | hybrid | auto | never.")
    ] = None,
    kv_blocks: Annotated[int | None, typer.Option(help="KV blocks, the null block too.")] = None,
    kv_dtype: Annotated[
        str | None, typer.Option(help="bf16 | fp16 | fp32 | fp8 | int8; int8:layers=2,tokens=64.")
    ] = None,
    swap_gib: Annotated[
        float | None, typer.Option(help="Host memory per GPU for swapped requests, in GiB.")
    ] = None,
    weight_dtype: Annotated[
        str | None, typer.Option(help="bf16 | fp16 | fp32 | fp8 | int8 | int4.")
    ] = None,
    block_size: Annotated[int | None, typer.Option(help="Tokens in a KV block.")] = None,
    max_model_len: Annotated[int | None, typer.Option(help="Longest context, in tokens.")] = None,
    max_tokens_default: Annotated[
        int | None, typer.Option(help="Longest answer where the trace names none.")
    ] = None,
    gpu_memory_utilization: Annotated[
        float | None, typer.Option(help="Share of the GPU's memory to use.")
    ] = None,
    low_watermark: Annotated[
        float | None, typer.Option(help="Share of blocks that admission leaves free.")
    ] = None,
    refuse_above: Annotated[
        str | None, typer.Option(help="Refuse arrivals: used=0.95,waiting=1000.")
    ] = None,
    max_seqs: Annotated[int | None, typer.Option(help="Requests that run at a time.")] = None,
    max_batched_tokens: Annotated[int | None, typer.Option(help="Tokens of a step.")] = None,
    prefix_cache: Annotated[
        bool | None, typer.Option("--prefix-cache/--no-prefix-cache", help="Reuse equal blocks.")
    ] = None,
    slo: Annotated[str | None, typer.Option(help="ttft_p99=1s,itl_p99=50ms")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all that is random.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="key.path=value, for everything else.")
    ] = None,
) -> dict[str, Any]:
    """The keys of a scenario: the file's, if there is one, with those of the options over them.

    Raises:
        ScenarioError: for a file that cannot be read, or an option that means nothing.
    """
    given = {name: value for name, value in locals().items() if name in KEYS}
    document = _document(scenario, given)
    _set_policy(document, prefix_cache, refuse_above)
    if slo is not None:
        document["slo"] = _limits(slo)
    for assignment in settings or []:
        scenarios.assign(document, assignment)
    return document


def with_scenario_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first parameter is what `document_of` makes of the options of a scenario.

    Typer reads options from signatures: the result has those of `document_of`, then the command's.
    """
    shared = inspect.signature(document_of, eval_str=True).parameters
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

    def with_document(**given: Any) -> None:
        document = document_of(**{name: given.pop(name) for name in shared})
        command(document, **given)

    parameters = [*shared.values(), *own]
    with_document.__name__, with_document.__doc__ = command.__name__, command.__doc__
    with_document.__annotations__ = {each.name: each.annotation for each in parameters}
    with_document.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return with_document


def _document(path: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    document = {name: dict(keys) for name, keys in DEFAULTS.items()} if path is None else {}
    if path is not None:
        document = scenarios.read(path)
    for name, value in options.items():
        if value is not None:
            scenarios.put(document, KEYS[name], value)
    return document


def _set_policy(
    document: dict[str, Any], prefix_cache: bool | None, refuse_above: str | None
) -> None:
    if prefix_cache is not None:
        scenarios.put(document, "policy.prefix", "block_hash" if prefix_cache else "off")
    for part in refuse_above.split(",") if refuse_above else ():
        name, sign, value = part.partition("=")
        if name not in ("used", "waiting") or not sign:
            raise scenarios.ScenarioError(
                f"--refuse-above: {part!r}; accepted: used=SHARE, waiting=REQUESTS, or both"
            )
        scenarios.assign(document, f"policy.refuse_above_{name}={value}")


def _limits(slo: str) -> dict[str, float]:
    from pagecast.sim.results.slo import parse_slo

    return {f"{limit.latency}_{limit.statistic}": limit.limit_s for limit in parse_slo(slo).limits}
