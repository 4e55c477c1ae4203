"""`pagecast run`: replay a trace on a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pagecast.cli.output import emit_json
from pagecast.cli.progress import progress_bar
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
    "block_size": "kv.block_size",
    "seed": "seed",
}
"""The key of the scenario that each option sets."""

DEFAULTS = {"model": {"name": "llama-3.1-8b"}, "gpu": {"name": "a100-80gb"}}


def run(
    scenario: Annotated[Path | None, typer.Argument(help="Scenario file (YAML).")] = None,
    trace: Annotated[str | None, typer.Option(help="Trace file, or a bundled sample.")] = None,
    limit: Annotated[int | None, typer.Option(help="Use the first N requests.")] = None,
    rate_scale: Annotated[float | None, typer.Option(help="Arrivals N times as fast.")] = None,
    model: Annotated[str | None, typer.Option(help="Model, or a config.json.")] = None,
    gpu: Annotated[str | None, typer.Option(help="GPU.")] = None,
    tp: Annotated[int | None, typer.Option(help="GPUs that share one copy of the model.")] = None,
    preset: Annotated[str | None, typer.Option(help="Scheduler: engine@version.")] = None,
    preemption: Annotated[str | None, typer.Option(help="recompute | never.")] = None,
    kv_blocks: Annotated[int | None, typer.Option(help="KV blocks, the null block too.")] = None,
    kv_dtype: Annotated[str | None, typer.Option(help="bf16 | fp16 | fp32 | fp8 | int8.")] = None,
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
    out: Annotated[Path | None, typer.Option(help="Folder for tables and figures.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Replay a trace: what would this GPU have done with these requests?"""
    given = {name: value for name, value in locals().items() if name in KEYS}
    document = _document(scenario, given)
    _set_policy(document, prefix_cache, refuse_above)
    if slo is not None:
        document["slo"] = _limits(slo)
    for assignment in settings or []:
        scenarios.assign(document, assignment)
    _run(document, out, json=json)


def _document(path: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    """The keys of the scenario file, if there is one, with those of the options over them."""
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


def _run(document: dict[str, Any], out: Path | None, *, json: bool) -> None:
    # Imported when needed: `pagecast --help` should not wait for pandas and SimPy.
    from pagecast.sim.results.report import print_report
    from pagecast.sim.results.store import check_target
    from pagecast.sim.run import run_scenario

    if out is not None:
        check_target(out)
    scenario = scenarios.parse(document)
    with progress_bar(quiet=json) as report:
        result = run_scenario(scenario, None if json else report)
    if out is not None:
        result.save(out)
    if json:
        emit_json(result.summary)
        return
    console = Console()
    print_report(result.summary, console)
    if out is not None:
        console.print(f"\nwritten to {out}: summary, tables, scenario, figures (overview.png)")
