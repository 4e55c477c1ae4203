"""A scenario, run: what the command `run` does, without the terminal.

run = run_scenario(parse({"load": {"trace": "azure_conv_like"}, "model": {"name": …}, …}))
run.summary["latency_s"]["ttft"]["p99"]
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pagecast.engine.core.policy import Policy
from pagecast.sim.configure import Setup, configure
from pagecast.sim.results.frames import requests_frame, steps_frame
from pagecast.sim.results.latency import Latencies, latencies
from pagecast.sim.results.log import NEVER, Outcome, RunLog
from pagecast.sim.results.metrics import run_s, summarize
from pagecast.sim.results.slo import make_slo
from pagecast.sim.results.store import save_results
from pagecast.sim.results.verdict import judge
from pagecast.sim.scenario import Scenario
from pagecast.sim.simulate import Progress, Server, serve
from pagecast.traces import load, sample_names
from pagecast.traces.schema import Trace

CAPACITY_REQUESTS = 4_000
"""Capacity is measured on so many requests at most, taken evenly from the trace."""

FEW_REQUESTS = 100
"""Fewer completions than this are mostly filling and draining of the batch."""


@dataclass(frozen=True)
class Run:
    """What a run gives: the summary, and the log behind it."""

    summary: Mapping[str, Any]
    scenario: Mapping[str, Any]
    """What was asked for, and nothing that followed from it: changed, it runs as if typed anew."""
    log: RunLog
    latencies: Latencies

    def save(self, folder: Path) -> None:
        """Write the result folder: tables, summary, scenario, figures; all of it or nothing.

        Raises:
            UserError: if the folder holds something that is no earlier result.
        """
        from pagecast.sim.results.figures import draw_figures

        frames = {
            "requests": requests_frame(self.log, self.latencies),
            "steps": steps_frame(self.log),
        }
        save_results(
            folder,
            self.summary,
            self.scenario,
            frames,
            lambda target: draw_figures(self.log, self.latencies, target),
        )


def run_scenario(scenario: Scenario, progress: Progress | None = None) -> Run:
    """Load the trace, serve it, and sum up what came of it.

    Raises:
        UserError: for anything in the scenario or the trace that cannot be served as it is.
    """
    started = time.perf_counter()
    slo = make_slo(scenario.slo) if scenario.slo else None
    setup = configure(scenario)
    trace = prepared(scenario)
    log = serve(trace, setup.server, progress)
    measured = latencies(log)
    capacity = completion_rate(trace, setup.server)
    groups = summarize(log, measured, slo, setup.kv_bytes_per_token)
    missed = [limit for limit, check in groups.get("slo", {}).items() if not check["met"]]
    verdict = judge(
        log, measured, setup.latency, setup.server.policy, scenario.kv.dtype, capacity, missed
    )
    summary = {
        **groups,
        "load": {**verdict.as_dict(), "capacity_requests_per_s": capacity},
        "cost": _cost(log, setup),
        "simulation": {
            "steps": len(log.steps),
            "simulated_s": run_s(log),
            "wall_s": time.perf_counter() - started,
            "version": version("pagecast"),
            "seed": scenario.seed,
        },
        "step_time": {
            "profile": setup.latency.profile,
            "provenance": setup.latency.provenance,
            "extrapolated_share": None,
            "holdout_error": setup.latency.holdout_error,
        },
        "trace": _trace_facts(trace),
        "notes": [*setup.notes, *_trace_notes(trace, setup.server)],
        "scenario": setup.resolved,
    }
    return Run(summary, _as_given(scenario), log, measured)


def _as_given(scenario: Scenario) -> dict[str, Any]:
    """The keys of a scenario without what follows from others; the trace by its whole path."""
    document = scenario.model_dump(exclude_none=True)
    file = Path(scenario.load.trace)
    if scenario.load.trace not in sample_names() and file.exists():
        document["load"]["trace"] = str(file.resolve())
    return document


def prepared(scenario: Scenario) -> Trace:
    """The trace of a scenario, limited and sped up as it says."""
    trace = load(scenario.load.trace)
    if scenario.load.limit is not None:
        trace = trace.head(scenario.load.limit)
    return trace.scaled_rate(scenario.load.rate_scale)


def completion_rate(trace: Trace, server: Server) -> float | None:
    """Requests a second that a replica completes with all of them present at time 0.

    Counted between the first and the last tenth of the completions, so that neither filling nor
    draining the batch counts; None where too few finish to tell.
    """
    rows = np.unique(np.linspace(0, len(trace) - 1, CAPACITY_REQUESTS).astype(np.int64))
    crowd = trace.take(rows)
    crowd = replace(crowd, arrival_ns=np.zeros(len(crowd), dtype=np.int64))
    log = serve(crowd, replace(server, policy=_open_to_all(server.policy)))
    ends_ns = np.sort(log.last_token_ns[log.outcome == Outcome.FINISHED])
    if len(ends_ns) < FEW_REQUESTS:
        return None
    first, last = len(ends_ns) // 10, len(ends_ns) - 1 - len(ends_ns) // 10
    span_ns = int(ends_ns[last] - ends_ns[first])
    return (last - first) / (span_ns / 1e9) if span_ns else None


def _open_to_all(policy: Policy) -> Policy:
    """The policy without its refusal of a crowd."""
    return replace(policy, refuse_above_used=None, refuse_above_waiting=None)


def _cost(log: RunLog, setup: Setup) -> dict[str, float | None]:
    gpu_hours = run_s(log) / 3600 * setup.gpus
    price = setup.gpu.price_per_hour
    served = log.first_token_ns != NEVER
    tokens = int(log.output_tokens[served].sum())
    cost = gpu_hours * price if price is not None else None
    return {
        "gpu_hours": gpu_hours,
        "per_hour": price * setup.gpus if price is not None else None,
        "per_million_output_tokens": cost / tokens * 1e6 if cost is not None and tokens else None,
        "joules_per_output_token": _joules(log, setup) / tokens if tokens else None,
    }


def _joules(log: RunLog, setup: Setup) -> float:
    """Energy of the GPUs: their rated power while a step runs, idle power in between."""
    busy_s = float((log.step("end_ns") - log.step("start_ns")).sum()) / 1e9
    idle_s = run_s(log) - busy_s
    return setup.gpus * (busy_s * setup.gpu.tdp_w + idle_s * setup.gpu.idle_w)


def _trace_notes(trace: Trace, server: Server) -> list[str]:
    notes = list(trace.source.notes)
    if server.policy.prefix != "off" and trace.prefix_ids is None:
        notes.append("the trace has no prefix_ids, so that the prefix cache finds nothing shared")
    limits_known = trace.max_tokens is not None or server.max_tokens_default is not None
    if server.policy.reserve in ("known+max_new", "ratio", "peak") and not limits_known:
        notes.append(
            f"reserve {server.policy.reserve} counts on max_tokens and the trace names none: each "
            "request counts with its whole context; --max-tokens-default gives a limit"
        )
    return notes


def _trace_facts(trace: Trace) -> dict[str, Any]:
    source = trace.source
    return {
        "format": source.format,
        "rows_read": source.rows_read,
        "rows_kept": source.rows_kept,
        "set_aside": source.set_aside,
        "notes": source.notes,
    }
