"""Other simulators on the same load, where they are installed."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

VIDUR_CPU_S = 33.0
"""CPU seconds of Vidur (microsoft/vidur) on its own load, measured on a two-core machine like the
one the other figures were taken on: 86,788 steps, 575 requests a second."""

DYNAMO_LIMITS = {
    "block_size": 16,
    "num_gpu_blocks": 40_000,
    "max_num_seqs": 256,
    "max_num_batched_tokens": 8192,
    "enable_prefix_caching": False,
}


def dynamo_wall_s(requests: int, prompt: int, output: int) -> float | None:
    """Simulation time that `python -m dynamo.replay` reports (ai-dynamo, a simulator in Rust).

    `PAGECAST_DYNAMO` names a Python that has the package `ai-dynamo==1.4.2`; None without.
    """
    python = os.environ.get("PAGECAST_DYNAMO")
    if not python:
        return None
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            python, "-m", "dynamo.replay", "--input-tokens", prompt, "--output-tokens", output,
            "--request-count", requests, "--replay-concurrency", DYNAMO_LIMITS["max_num_seqs"],
            "--extra-engine-args", json.dumps(DYNAMO_LIMITS), "--report-json", report,
        ]  # fmt: skip
        subprocess.run([str(part) for part in command], check=True, capture_output=True)
        return float(json.loads(report.read_text())["wall_time_ms"]) / 1e3
