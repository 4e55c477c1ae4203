"""Estimates of what an engine takes beside weights and KV cache, as it measures it at its start.

Held against start-up logs of vLLM V1 activations are within 10 % and the rest within a few tenths
of a GiB, which is 1 % of a KV pool of tens of GiB. Measured values do better.
"""

from __future__ import annotations

from pagecast.engine.specs.model_spec import ModelSpec

GIB = 1 << 30

SAMPLER_BYTES_PER_LOGIT = 39
"""Live bytes per logit at the peak of a top-p sampler written with torch operations, as vLLM's is:
the logits in 16 bit (2) and in float32 (4), sorted values and int64 indices (12), their softmax,
cumulative sum and mask (9), the scattered copy (4), probabilities and log-probabilities (8)."""

SAMPLED_ROWS = 256
"""Rows beyond which the sampler's peak is not counted: logs of engines that were started for 1,024
sequences show no more than those for 256."""

NON_TORCH_GIB = 0.25
"""CUDA context and libraries on one GPU; start-up logs of vLLM say 0.07 to 0.35 GiB."""

COLLECTIVES_GIB = 0.7
"""Buffers of NCCL and of the custom all-reduce on each rank, once there is more than one."""


def activation_bytes(model: ModelSpec, tp: int, max_batched_tokens: int, max_seqs: int) -> int:
    """Peak of activations on one rank for the largest batch.

    The sum of three: the hidden states of all tokens; an MLP in 16 bit (its input, the residual,
    gate and up projections and their product, where the experts of a token count together, as a
    fused kernel computes them); and sampling a row per sequence over the whole vocabulary, which
    tensor parallel does not divide.
    """
    width = max(model.intermediate, model.expert_intermediate * model.active_experts)
    hidden_bytes = max_batched_tokens * model.hidden * 2
    mlp_bytes = max_batched_tokens * (2 * model.hidden + 3 * -(-width // tp)) * 2
    rows = min(max_seqs, max_batched_tokens, SAMPLED_ROWS)
    return hidden_bytes + mlp_bytes + rows * model.vocab * SAMPLER_BYTES_PER_LOGIT


def non_torch_bytes(tp: int) -> int:
    """Memory on one rank that no tensor holds."""
    return round((NON_TORCH_GIB + (COLLECTIVES_GIB if tp > 1 else 0.0)) * GIB)
