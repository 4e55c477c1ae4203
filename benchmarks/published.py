"""Prints the analytic model's device times beside public measurements on an A100.

Llama-3.1-8B in bf16; the measured times are sums of kernel times from public tables.
"""

from __future__ import annotations

from loads import a100_llama

from pagecast.engine.core.step import StepShape

DECODES_MS = {(1, 1024): 11.05, (32, 2048): 18.08, (64, 4096): 32.32}
"""Measured decode steps by sequences and context of each."""

PREFILL_MS = {2048: 115.6}
"""Measured prefill steps by prompt tokens."""


def main() -> None:
    """Print a line for each measured step."""
    for (sequences, context), measured_ms in DECODES_MS.items():
        shape = StepShape()
        shape.decode_seqs = shape.sampled_rows = sequences
        shape.decode_context_tokens = sequences * context
        print(_line(f"decode, {sequences} x {context:,} tokens", shape, measured_ms))
    for tokens, measured_ms in PREFILL_MS.items():
        shape = StepShape()
        shape.add_chunk(0, tokens)
        shape.sampled_rows = 1
        print(_line(f"prefill, {tokens:,} tokens", shape, measured_ms))


def _line(name: str, shape: StepShape, measured_ms: float) -> str:
    terms_s = a100_llama().explain(shape)
    ours_ms = (sum(terms_s.values()) - terms_s["host"]) * 1e3
    error = ours_ms / measured_ms - 1
    return f"{name:<26} measured {measured_ms:6.2f} ms, forecast {ours_ms:6.1f} ms, {error:+.0%}"


if __name__ == "__main__":
    main()
