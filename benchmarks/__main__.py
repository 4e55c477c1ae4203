"""Prints the simulator's speed: `make bench`. Seconds are processor time unless they say wall."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import peers
import step_cost
from loads import Timing, a100_llama, azure, data_dir, timed, uniform, vidur_load, vllm_server

from pagecast.engine.core.presets import PRESETS
from pagecast.sim.simulate import Server

NO_DATA = "skipped: needs the Azure trace (PAGECAST_DATA, docs/data.md)"


def main() -> None:
    """Run all benchmarks and print a line for each figure."""
    for title, benchmark in BENCHMARKS.items():
        print(f"\n{title}", flush=True)
        for line in benchmark():
            print(f"  {line}", flush=True)


def azure_trace() -> list[str]:
    """The Azure conversation trace with the prefix cache on."""
    trace = azure()
    if trace is None:
        return [NO_DATA]
    server = vllm_server(a100_llama(), blocks=28_000, seqs=256, budget=2048, prefix="block_hash")
    named = replace(trace, prefix_ids=[(row,) for row in range(len(trace))],
                    prefix_block_tokens=1 << 20)  # fmt: skip
    return [
        f"as it is, nothing shared and nobody preempted: {_pace(timed(trace, server))}",
        f"every block named, as with shared prefixes: {_pace(timed(named, server))}",
    ]


def cost_of_a_step() -> list[str]:
    """Pure decode at several batch sizes with equal changes per step."""
    costs = {running: step_cost.decode_only(running).us_per_step for running in step_cost.RUNNING}
    lines = [f"{running:>5} running: {us:.2f} us a step" for running, us in costs.items()]
    ratio = max(costs.values()) / min(costs.values())
    return [*lines, f"dearest by cheapest: {ratio:.2f} (goal: at most 1.3)"]


def cost_of_changes() -> list[str]:
    """One admission, block and finish."""
    lines = []
    for kind, named in (("counted", False), ("named", True)):
        costs = ", ".join(
            f"{what} {us:.2f} us" for what, us in step_cost.apart(named=named).items()
        )
        lines.append(f"blocks {kind}: {costs}")
    return lines


def each_preset() -> list[str]:
    """The Azure conversation trace under the rules of each preset, with limits in common."""
    trace = azure()
    if trace is None:
        return [NO_DATA]
    lines = []
    for name, policy in PRESETS.items():
        rules = replace(policy, max_batched_tokens=policy.max_batched_tokens and 16_384)
        server = Server(rules, 28_000, 16, 16_384, a100_llama(), swap_blocks=2_000)
        lines.append(f"{name:>20}: {_pace(timed(trace, server, repeats=2))}")
    return lines


def vidurs_load() -> list[str]:
    """Vidur's own load, beside what Vidur took."""
    trace = azure()
    if trace is None:
        return [NO_DATA]
    server = vllm_server(a100_llama(), blocks=30_208, seqs=128, budget=512, max_model_len=4096)
    run = timed(vidur_load(trace), server, repeats=5)
    times = peers.VIDUR_CPU_S / run.cpu_s
    vidur = f"Vidur took {peers.VIDUR_CPU_S:.0f} s: {times:.0f} times as long (goal: at least 30)"
    return [_pace(run), vidur]


def dynamos_load() -> list[str]:
    """20,000 equal requests, beside NVIDIA's simulator in the same run."""
    server = vllm_server(a100_llama(), blocks=40_000, seqs=256, budget=8192)
    run = timed(uniform(20_000, 2000, 256), server, repeats=5)
    theirs = [wall for _ in range(3) if (wall := peers.dynamo_wall_s(20_000, 2000, 256))]
    if not theirs:
        return [_pace(run), "dynamo skipped: PAGECAST_DYNAMO names no Python with ai-dynamo==1.4.2"]
    best = min(theirs)
    dynamo = f"dynamo.replay took {best:.2f} s of simulation, best of 3"
    return [_pace(run), f"{dynamo}: {best / run.cpu_s:.1f} times as long (goal: at least 3)"]


def one_million() -> list[str]:
    """One million requests, in a process of its own."""
    printed = subprocess.run([sys.executable, str(HERE / "million.py")], check=True,
                             capture_output=True, text=True).stdout  # fmt: skip
    served, summed, peak, steps, finished = printed.split()
    size = f"{int(steps):,} steps, {int(finished):,} finished, {peak} GiB at the peak"
    return [f"{served} s simulated and {summed} s summed up: {size} (goal: under 90 s and 2 GB)"]


def whole_command() -> list[str]:
    """`pagecast run` on the Azure trace, from start to figures."""
    folder = data_dir()
    if folder is None:
        return [NO_DATA]
    trace = folder / "traces" / "azure2023" / "AzureLLMInferenceTrace_conv.csv"
    command = Path(sys.executable).with_name("pagecast")
    with tempfile.TemporaryDirectory() as target:
        start = time.perf_counter()
        subprocess.run([str(command), "run", "--trace", str(trace), "--model", "llama-3.1-8b",
                        "--gpu", "a100-80gb", "--preset", "vllm-v1@0.33", "--out", f"{target}/run"],
                       check=True, capture_output=True)  # fmt: skip
        wall_s = time.perf_counter() - start
    return [f"{wall_s:.1f} s wall (goal: under 10)"]


def _pace(run: Timing) -> str:
    return (f"{run.cpu_s:.2f} s for {len(run.log.arrival_ns):,} requests and "
            f"{len(run.log.steps):,} steps: {run.requests_per_s:,.0f} requests/s, "
            f"{run.steps_per_s:,.0f} steps/s, {run.us_per_step:.1f} us a step")  # fmt: skip


BENCHMARKS = {
    "Azure conversation trace, Llama-3.1-8B on A100": azure_trace,
    "The same under each preset": each_preset,
    "A step of decodes, one block filled in each": cost_of_a_step,
    "What changes cost": cost_of_changes,
    "Vidur's load: 19,366 requests, 128 sequences, budget 512": vidurs_load,
    "20,000 requests of 2,000 in and 256 out, 256 sequences, budget 8,192": dynamos_load,
    "One million requests on one replica, blocks counted": one_million,
    "pagecast run on the Azure trace, start to figures": whole_command,
}

if __name__ == "__main__":
    main()
