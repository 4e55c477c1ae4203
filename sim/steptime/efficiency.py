"""How much of a datasheet's peaks serving kernels reach, and what an engine's host adds.

Constants of public measurements, for all GPUs and models alike; none was fitted to the tables that
the tests hold the analytic model against.
"""

BANDWIDTH = 0.8
"""Share of the peak memory bandwidth that kernels reach which stream weights or KV cache. Calculon
(Isaev et al., SC 2023) has 0.75 to 0.9 for 10 to 100 MB on an A100."""

MATMUL = 0.74
"""Share of the peak that the matrix products of whole layers reach, with the memory-bound work
between them, where tiles fill the GPU (`waves` has what is lost where they do not: some 5 % at
2,048 rows, so that 0.7 is left there). Matrices of the best shape reach 0.8 to 0.87 on H100 and A100 (maximum achievable
matmul FLOPS in Bekman's Machine Learning Engineering); whole layers reach 0.76 in the prefill of
Pope et al., Efficiently Scaling Transformer Inference, 2022."""

ATTENTION = 0.5
"""Share of the 16-bit peak in the attention of prefills: FlashAttention-2 (Dao, 2023) reaches 0.5
to 0.73 in the forward pass on an A100, the lower end at short and causal sequences."""

LINK = 0.65
"""Share of the peak of the links between GPUs (Calculon, NVLink of the A100)."""

HOST_LINK = 0.8
"""Share of the peak of the link to the host: 25 of the 32 GB/s of PCIe 4.0 from pinned memory."""

ALL_REDUCE_CALL_S = 10e-6
"""Seconds before the first byte of an all-reduce (Calculon, NVLink of the A100)."""

KERNEL_S = 2.9e-6
KERNELS_PER_LAYER = 10
"""Seconds from the start of a kernel to that of the next, however little it does, as for the short
kernel of Gray, Getting Started with CUDA Graphs (NVIDIA, 2019); and how many kernels a layer has:
two norms, QKV projection, rotary embedding, KV write, attention, output projection, gate and up
projections, activation, down projection."""

HOST_STEP_S = 0.5e-3
HOST_SEQUENCE_S = 12e-6
"""Seconds of host work per step and per sequence in it: scheduling, input preparation, sampling
and output. vLLM V1 around a model that computes nothing took 0.62 ms a step for 32 sequences, and
1.15 ms before that was optimised (tenstorrent/vllm#305); these give 0.88 ms."""

SAMPLER_BYTES_PER_LOGIT = 16
"""Memory traffic of sampling: logits in 16 bit written and read, their float32 copy written, and
read twice for maximum and sum."""
