"""The loads that benchmarks serve, and how a run is timed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pagecast.engine.core.presets import preset
from pagecast.engine.core.step import StepShape
from pagecast.engine.specs.gpus import gpu
from pagecast.engine.specs.models import model
from pagecast.sim.results.log import RunLog
from pagecast.sim.simulate import Server, serve
from pagecast.sim.steptime.analytic import AnalyticModel
from pagecast.sim.steptime.latency import LatencyModel
from pagecast.traces import load
from pagecast.traces.schema import Trace


@dataclass(frozen=True)
class Timing:
    """One timed run: processor seconds of this process, and what was simulated."""

    cpu_s: float
    log: RunLog

    @property
    def us_per_step(self) -> float:
        return self.cpu_s / len(self.log.steps) * 1e6

    @property
    def requests_per_s(self) -> float:
        return len(self.log.arrival_ns) / self.cpu_s

    @property
    def steps_per_s(self) -> float:
        return len(self.log.steps) / self.cpu_s


def timed(trace: Trace, server: Server, repeats: int = 3) -> Timing:
    """The fastest of some runs: what the code costs when the machine is least disturbed."""
    runs = []
    for _ in range(repeats):
        start = time.process_time()
        log = serve(trace, server)
        runs.append(Timing(time.process_time() - start, log))
    return min(runs, key=lambda run: run.cpu_s)


def data_dir() -> Path | None:
    """The folder of public traces and recordings, if this machine has it."""
    folder = Path(os.environ.get("PAGECAST_DATA") or "/nowhere")
    return folder if (folder / "golden").is_dir() else None


def azure() -> Trace | None:
    """The Azure 2023 conversation trace, if this machine has it."""
    folder = data_dir()
    if folder is None:
        return None
    return load(folder / "traces" / "azure2023" / "AzureLLMInferenceTrace_conv.csv")


def vidur_load(trace: Trace) -> Trace:
    """Vidur's own load: the Azure lengths with prompts cut to 4,096 in all, Poisson 6.45/s."""
    output = np.minimum(trace.output_tokens, 4095)
    gaps_s = np.random.default_rng(0).exponential(1 / 6.45, len(trace))
    return Trace(
        arrival_ns=(np.cumsum(gaps_s) * 1e9).astype(np.int64),
        prompt_tokens=np.minimum(trace.prompt_tokens, 4096 - output),
        output_tokens=output,
    )


def a100_llama() -> LatencyModel:
    """Step times of Llama-3.1-8B in bf16 on an A100, by datasheet."""
    return AnalyticModel(model("llama-3.1-8b"), gpu("a100-80gb"))


def uniform(requests: int, prompt: int, output: int, gap_ns: int = 0) -> Trace:
    """Equal requests at equal distances."""
    return Trace(
        arrival_ns=np.arange(requests, dtype=np.int64) * gap_ns,
        prompt_tokens=np.full(requests, prompt, dtype=np.int64),
        output_tokens=np.full(requests, output, dtype=np.int64),
    )


def vllm_server(
    latency: Callable[[StepShape], int],
    *,
    blocks: int,
    seqs: int,
    budget: int,
    prefix: str = "off",
    block_size: int = 16,
    max_model_len: int = 1 << 20,
) -> Server:
    """A replica under vLLM's rules with limits of its own."""
    policy = replace(
        preset("vllm-v1@0.33"), max_seqs=seqs, max_batched_tokens=budget, prefix=prefix
    )
    return Server(policy, blocks, block_size, max_model_len, latency)
