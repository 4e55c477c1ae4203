"""Reads real vLLM runs that were recorded step by step, and replays them under our scheduler."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pagecast.engine.core.blocks import make_pool
from pagecast.engine.core.policy import Policy
from pagecast.engine.core.presets import preset
from pagecast.engine.core.scheduler import Scheduler
from pagecast.engine.core.step import StepPlan
from pagecast.sim.world.executor import TraceExecutor
from pagecast.sim.world.identities import Identities
from pagecast.sim.world.inbox import Inbox
from pagecast.sim.world.replay import Recording, replay
from pagecast.traces.schema import Trace

RUNS = ("A_burst", "B_poisson05", "C_poisson085", "D_tight_wm0", "E_tight_wm01", "F_chunked",
        "G_prefix")  # fmt: skip


@dataclass(frozen=True)
class GoldenRun:
    """One recorded run: settings, arrivals, and a row per scheduling decision that ran a step."""

    config: dict[str, Any]
    trace: Trace
    rows: list[dict[str, Any]]

    def policy(self) -> Policy:
        """The preset of the recorded version under the recorded settings, nothing fitted."""
        config = self.config
        return replace(
            preset("vllm-v1@" + config["vllm"]),
            max_batched_tokens=config["max_num_batched_tokens"],
            max_seqs=config["max_num_seqs"],
            low_watermark=config["watermark"],
            prefix="block_hash" if config["prefix_caching"] else "off",
            long_prefill_cap=config["long_prefill_token_threshold"],
            reserve="known" if config["scheduler_reserve_full_isl"] else "chunk",
        )


def to_ns(seconds: str | float) -> int:
    return round(float(seconds) * 1e9)


def read(folder: Path) -> GoldenRun:
    config = json.loads((folder / "config.json").read_text())
    with (folder / "trace.csv").open() as file:
        requests = list(csv.DictReader(file))
    rows = [json.loads(line) for line in (folder / "decisions.jsonl").open()]
    return GoldenRun(config, _trace(requests, config), [row for row in rows if row["scheduled"]])


def _trace(requests: list[dict[str, str]], config: dict[str, Any]) -> Trace:
    def column(name: str) -> Any:
        return np.array([int(row[name]) for row in requests], dtype=np.int64)

    shared = [
        (int(row["prefix_group"]),) if int(row["shared_prefix_tokens"]) else () for row in requests
    ]
    lengths = {int(row["shared_prefix_tokens"]) for row in requests} - {0}
    return Trace(
        arrival_ns=np.array([to_ns(row["added_s"]) for row in requests], dtype=np.int64),
        prompt_tokens=column("prompt_tokens"),
        output_tokens=column("output_tokens"),
        prefix_ids=shared if lengths else None,
        prefix_block_tokens=lengths.pop() if lengths else None,
    )


def decisions(run: GoldenRun, policy: Policy) -> list[dict[str, Any]]:
    """What our scheduler decides at the recorded times, in the recording's terms."""
    config, trace = run.config, run.trace
    pool = make_pool(policy, config["num_blocks"], config["block_size"])
    scheduler = Scheduler(policy, pool, config["max_model_len"])
    identities = Identities(trace, config["block_size"])
    made: list[dict[str, Any]] = []

    def note(plan: StepPlan) -> None:
        made.append(
            {
                "scheduled": [
                    (r.id, tokens, start) for r, start, tokens in scheduler.scheduled(plan)
                ],
                "preempted": [request.id for request in plan.preempted],
                "free_before": plan.free_before,
                "free_after": plan.free_after,
            }
        )

    inbox = Inbox(trace, identities if pool.caching else None)
    executor = TraceExecutor(lambda shape: 1, trace.output_tokens.tolist(), identities)
    times = Recording([to_ns(row["t_schedule"]) for row in run.rows])
    replay(times, inbox, scheduler, executor, on_plan=note)
    return made


def identical_steps(run: GoldenRun, made: list[dict[str, Any]], *, free_blocks: bool = True) -> int:
    """Steps with the same requests in the same order, tokens and victims, and free blocks."""
    keys = ("scheduled", "preempted", *(("free_before", "free_after") if free_blocks else ()))
    return sum(
        all(_recorded(row)[key] == ours[key] for key in keys)
        for row, ours in zip(run.rows, made, strict=True)
    )


def _recorded(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "scheduled": [(s["req"], s["tokens"], s["computed"]) for s in row["scheduled"]],
        "preempted": [victim["req"] for victim in row["preempted"]],
        "free_before": row["free_before"],
        "free_after": row["free_after"],
    }
