"""The report of a run on a terminal: the judgement first, then the numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pagecast.sim.results.latency import STATISTICS
from pagecast.sim.results.units import digits, duration, time_unit

Summary = Mapping[str, Any]

ROWS = {
    "ttft": "TTFT  first token",
    "itl": "ITL   each next token",
    "tpot": "TPOT  mean next token",
    "e2e": "E2E   whole request",
    "queue": "queue before first step",
}

ORIGINS = {"analytic": "roofline of datasheets", "fitted": "fitted from public data"}
"""Where step times come from, in words where the provenance needs them."""


def print_report(summary: Summary, console: Console) -> None:
    """Print a summary, the content of `summary.json`, for a person to read."""
    load = summary["load"]
    color = "red" if load["saturated"] else "yellow" if load["unstable"] else "green"
    judgement = Text.assemble((load["sentence"], "bold"), "\n", ("Try: ", "bold"), load["advice"])
    console.print(Text(" · ".join(scenario_parts(summary["scenario"])), style="dim"))
    console.print(Panel(judgement, border_style=color, padding=(0, 1)))
    if summary["requests"]["finished"]:
        console.print(_latency_table(summary["latency_s"]))
        console.print(_facts(summary))
    else:
        console.print(Text(f"requests: {_requests(summary['requests'])}"))


def scenario_parts(scenario: Summary) -> list[str]:
    """A scenario with nothing left to defaults, in a few words each: load, model, GPUs, rules."""
    load, model, gpu = scenario["load"], scenario["model"], scenario["gpu"]
    tp = scenario["parallel"]["tp"]
    changed = load["rate_scale"] != 1
    rate = f" at {load['rate_scale']:g} times its rate" if changed else ""
    return [
        f"{load['trace']}{rate}",
        f"{model['name']} {model['weight_dtype']}",
        f"{tp} x {gpu['name']}" if tp > 1 else gpu["name"],
        scenario["policy"]["preset"],
        f"KV {scenario['kv']['dtype']}",
    ]


def _latency_table(latency_s: Summary) -> RenderableType:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("latency")
    table.add_column("")
    for statistic in STATISTICS:
        table.add_column(statistic, justify="right")
    for name, title in ROWS.items():
        values = [latency_s[name][statistic] for statistic in STATISTICS]
        unit, scale = time_unit(values)
        cells = ["n/a" if value is None else digits(value * scale) for value in values]
        table.add_row(title, unit, *cells)
    return Group(table, "")


def _facts(summary: Summary) -> RenderableType:
    """All else, a subject a line."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    lines = {
        "requests": _requests(summary["requests"]),
        "throughput": _throughput(summary["throughput"]),
        "goodput": _goodput(summary.get("goodput"), summary.get("slo")),
        "KV cache": _kv(summary["kv"]),
        "preemptions": _preemptions(summary["preemptions"]),
        "batches": _batches(summary["batching"]),
        "prefix cache": _prefix_cache(summary["prefix_cache"]),
        "waits for": _shares(summary["load"]["waits_share"]),
        "step time": _shares(summary["load"]["step_time_share"]),
        "cost": _cost(summary.get("cost", {})),
        "forecast by": forecast_by(summary["step_time"]),
        "simulated": _simulation(summary["simulation"]),
        "notes": "\n".join(summary.get("notes", [])),
    }
    for subject, line in lines.items():
        if line:
            table.add_row(subject, escape(line))
    return table


def _requests(requests: Summary) -> str:
    ended = [f"{requests['total']:,} in all", f"{requests['finished']:,} finished"]
    ended += [
        f"{requests[state]:,} {state}"
        for state in ("refused", "failed", "cancelled", "unfinished")
        if requests[state]
    ]
    if requests["clipped"]:
        ended.append(f"{requests['clipped']:,} answers cut short by a limit")
    return ", ".join(ended)


def _throughput(throughput: Summary) -> str:
    line = f"{_rates(throughput)}, over {duration(throughput['run_s'])}"
    if throughput["arrival_window_s"]:
        window = _rates(throughput["arrival_window"])
        line += f"\n{window}, while requests arrived"
    return line


def _rates(rates: Summary) -> str:
    units = {
        "requests_per_s": "requests/s",
        "output_tokens_per_s": "output tokens/s",
        "total_tokens_per_s": "tokens/s in all",
    }
    return ", ".join(f"{_maybe(rates[name])} {unit}" for name, unit in units.items())


def _goodput(goodput: Summary | None, slo: Summary | None) -> str:
    if goodput is None or slo is None:
        return ""
    good = f"{_maybe(goodput['requests_per_s'])} requests/s, {_percent(goodput['share'])} of all"
    checks = [
        f"{key} {_maybe(check['value_s'])} s {'meets' if check['met'] else 'misses'} "
        f"{check['limit_s']:g} s"
        for key, check in slo.items()
    ]
    return f"{good}; {', '.join(checks)}"


def _kv(kv: Summary) -> str:
    return (
        f"{kv['pool_blocks']:,} blocks of {kv['block_size']} tokens; in use "
        f"{_percent(kv['mean_used_share'])} on average, {_percent(kv['peak_used_share'])} at most; "
        f"{_percent(kv['wasted_share'])} of claimed slots empty"
    )


def _preemptions(preemptions: Summary) -> str:
    if not preemptions["total"]:
        return "none"
    parts = [
        f"{preemptions['recompute']:,} recomputed ({preemptions['tokens_recomputed']:,} tokens)",
        f"{preemptions['swap']:,} swapped ({preemptions['bytes_swapped'] / 2**30:,.2f} GiB moved)",
    ]
    line = f"{preemptions['total']:,}: {', '.join(parts)}"
    if preemptions["thrash"]:
        line += f"; {preemptions['thrash']:,} were thrash: preempted again before anyone had left"
    return line


def _batches(batching: Summary) -> str:
    """What padding and waiting cost, where batches are run until they are empty."""
    if not (batching["padded_share"] or batching["dead_rows_share"] or batching["fill_wait_s"]):
        return ""
    return (
        f"{_percent(batching['padded_share'])} of prompt slots are padding, "
        f"{_percent(batching['dead_rows_share'])} of decode rows had ended, held to fill for "
        f"{batching['fill_wait_s']:,.3g} s"
    )


def _prefix_cache(cache: Summary) -> str:
    if not cache["query_tokens"]:
        return ""
    hit, asked = cache["hit_tokens"], cache["query_tokens"]
    return f"{_percent(cache['hit_share'])} of prompt tokens found ({hit:,} of {asked:,})"


def _shares(shares: Summary) -> str:
    named = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {share:.0%}" for name, share in named if share >= 0.005)


def _cost(cost: Summary) -> str:
    parts = {
        "gpu_hours": "{:,.3g} GPU hours",
        "per_hour": "${:,.2f} an hour",
        "per_million_output_tokens": "${:,.2f} a million output tokens",
        "joules_per_output_token": "{:,.3g} J an output token",
    }
    return ", ".join(
        text.format(cost[name]) for name, text in parts.items() if cost.get(name) is not None
    )


def forecast_by(step_time: Summary) -> str:
    """Where step times come from, and how well they are known."""
    error = step_time["holdout_error"]
    if error is None:
        quality = "not calibrated: no held-out error is known"
    else:
        named = (f"{name} {share:.1%}" for name, share in error.items())
        quality = f"held-out error {', '.join(named)}"
    origin = ORIGINS.get(step_time["provenance"], step_time["provenance"])
    line = f"{step_time['profile']} ({origin}), {quality}"
    outside = step_time["extrapolated_share"]
    return f"{line}; {outside:.0%} of steps outside its range" if outside else line


def _simulation(simulation: Summary) -> str:
    return (
        f"{duration(simulation['simulated_s'])} in {duration(simulation['wall_s'])}, "
        f"{simulation['steps']:,} steps, seed {simulation['seed']}, "
        f"pagecast {simulation['version']}"
    )


def _maybe(value: float | None) -> str:
    return "n/a" if value is None else digits(value)


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{share:.1%}"
