"""One million requests on one replica, in a process of its own: prints seconds and peak memory."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from loads import a100_llama, vllm_server

from pagecast.sim.results.latency import latencies
from pagecast.sim.results.metrics import summarize
from pagecast.sim.simulate import serve
from pagecast.traces.synth import conversation

REQUESTS = 1_000_000
RATE_SCALE = 1.3
"""Arrivals at 7.2 requests/s, some 87 % of what the replica can complete."""


def main() -> None:
    """Serve and sum up; the trace is made before the clock starts."""
    trace = conversation(REQUESTS, seed=1).scaled_rate(RATE_SCALE)
    server = vllm_server(a100_llama(), blocks=28_000, seqs=256, budget=2048, max_model_len=131_072)
    start = time.process_time()
    log = serve(trace, server)
    served = time.process_time()
    summary = summarize(log, latencies(log), None, 131_072)
    done = time.process_time()
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{served - start:.1f} {done - served:.1f} {peak_gib:.2f} {len(log.steps)} "
          f"{summary['requests']['finished']}")  # fmt: skip


if __name__ == "__main__":
    main()
