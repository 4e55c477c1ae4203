"""The numbers of a run: who got through, how fast, and what the KV pool saw."""

from __future__ import annotations

from typing import Any

import numpy as np

from pagecast.sim.results.gaps import emissions
from pagecast.sim.results.latency import LATENCIES, Latencies, Spread
from pagecast.sim.results.log import NEVER, Outcome, RunLog
from pagecast.sim.results.slo import Slo
from pagecast.sim.results.timeline import bounds_ns

Group = dict[str, Any]


def summarize(
    log: RunLog, latencies: Latencies, slo: Slo | None, kv_bytes_per_token: int
) -> dict[str, Group]:
    """The groups of `summary.json` that follow from the log alone.

    Keys are `requests, latency_s, throughput, kv, preemptions, batching, prefix_cache`, and with an `slo`
    also `goodput` and `slo`. Seconds, tokens, requests per second, shares from 0 to 1; None where
    nothing was measured.
    """
    latency_s = {name: latencies.spread(name) for name in LATENCIES}
    groups = {
        "requests": _requests(log),
        "latency_s": latency_s,
        "throughput": _throughput(log),
        "kv": {"bytes_per_token": kv_bytes_per_token, **_kv(log)},
        "preemptions": _preemptions(log, kv_bytes_per_token),
        "batching": _batching(log),
        "prefix_cache": _prefix_cache(log),
    }
    if slo is not None:
        groups["goodput"] = _goodput(log, latencies, slo)
        groups["slo"] = _slo(log, latency_s, slo)
    return groups


def run_s(log: RunLog) -> float:
    """From the first arrival to the end of the last step."""
    start_ns, end_ns = bounds_ns(log)
    return (end_ns - start_ns) / 1e9


def _requests(log: RunLog) -> Group:
    ended = {outcome.name.lower(): int((log.outcome == outcome).sum()) for outcome in Outcome}
    unfinished = ended.pop("unfinished")
    total = len(log.arrival_ns)
    return {"total": total, **ended, "unfinished": unfinished, "clipped": log.clipped}


def _throughput(log: RunLog) -> Group:
    """Rates over the whole run, and over the window in which requests arrived.

    Output tokens count when they come, a prompt's tokens with its first output token, a request
    when it finished.
    """
    start_ns, end_ns = bounds_ns(log)
    last_ns = int(log.arrival_ns.max()) if len(log.arrival_ns) else start_ns
    whole, window = _rates(log, start_ns, end_ns), _rates(log, start_ns, last_ns)
    return {**whole, "run_s": run_s(log), "arrival_window": window,
            "arrival_window_s": (last_ns - start_ns) / 1e9}  # fmt: skip


def _rates(log: RunLog, start_ns: int, end_ns: int) -> Group:
    names = ("requests_per_s", "output_tokens_per_s", "total_tokens_per_s")
    if end_ns <= start_ns:
        return dict.fromkeys(names)
    times_ns, tokens = emissions(log)
    finished = (log.outcome == Outcome.FINISHED) & (log.last_token_ns <= end_ns)
    prefilled = (log.first_token_ns != NEVER) & (log.first_token_ns <= end_ns)
    output_tokens = int(tokens[times_ns <= end_ns].sum())
    prompt_tokens = int(log.prompt_tokens[prefilled].sum())
    done = (int(finished.sum()), output_tokens, prompt_tokens + output_tokens)
    seconds = (end_ns - start_ns) / 1e9
    return {name: count / seconds for name, count in zip(names, done, strict=True)}


def _goodput(log: RunLog, latencies: Latencies, slo: Slo) -> Group:
    """Requests that finished and kept every limit by themselves; all others are misses."""
    good = int(((log.outcome == Outcome.FINISHED) & slo.kept_by(latencies)).sum())
    seconds, total = run_s(log), len(log.arrival_ns)
    return {
        "requests_per_s": good / seconds if seconds else None,
        "share": good / total if total else None,
    }


def _slo(log: RunLog, latency_s: dict[str, Spread], slo: Slo) -> Group:
    unserved = np.isin(log.outcome, (Outcome.REFUSED, Outcome.FAILED))
    return slo.check(latency_s, float(unserved.mean()) if len(unserved) else 0.0)


def _kv(log: RunLog) -> Group:
    """Blocks in use over the run, idle time included; waste among what was claimed.

    The wasted share is 1 − tokens held / slots claimed, both summed over time: slots behind a
    request's last token, and blocks reserved for tokens to come. None where the first tokens of
    each sequence lie in a pool of their own, whose blocks are not among those claimed.
    """
    used, pool, seconds = log.step("used_blocks"), log.pool_blocks, run_s(log)
    step_s = (log.step("end_ns") - log.step("start_ns")) / 1e9
    claimed_s = float(log.step("claimed_blocks") @ step_s) * log.block_size
    held_s = float(log.step("kv_tokens") @ step_s)
    measured = pool > 0 and seconds > 0
    return {
        "pool_blocks": pool,
        "block_size": log.block_size,
        "peak_used_share": int(used.max(initial=0)) / pool if pool else None,
        "mean_used_share": float(used @ step_s) / seconds / pool if measured else None,
        "wasted_share": 1 - held_s / claimed_s if claimed_s >= held_s > 0 else None,
    }


def _preemptions(log: RunLog, kv_bytes_per_token: int) -> Group:
    """Preemptions by what became of them; bytes per GPU, out and in.

    `thrash` counts those of a request since whose last preemption nobody had left: work that was
    pushed out, brought back and pushed out again without making room.
    """
    total, swaps = int(log.preemptions.sum()), int(log.swaps.sum())
    moved = int(log.step("swapped_out_blocks").sum() + log.step("swapped_in_blocks").sum())
    return {
        "total": total,
        "recompute": total - swaps,
        "swap": swaps,
        "thrash": log.preempted_again,
        "tokens_recomputed": int(log.recomputed_tokens.sum()),
        "bytes_swapped": moved * log.block_size * kv_bytes_per_token,
    }


def _batching(log: RunLog) -> Group:
    """What static batching pays: padding of prompts, rows that ended, and waiting to fill a batch."""
    padded, prompts = int(log.step("padded_tokens").sum()), int(log.step("prefill_tokens").sum())
    dead, decodes = int(log.step("dead_rows").sum()), int(log.step("decode_seqs").sum())
    return {
        "padded_share": padded / (padded + prompts) if padded + prompts else None,
        "dead_rows_share": dead / (dead + decodes) if dead + decodes else None,
        "fill_wait_s": log.fill_wait_ns / 1e9,
    }


def _prefix_cache(log: RunLog) -> Group:
    """Hits of first prefills; those of a prefill after a preemption are not among them."""
    hit, query = log.prefix_hit_tokens, log.prefix_query_tokens
    return {"hit_tokens": hit, "query_tokens": query, "hit_share": hit / query if query else None}
