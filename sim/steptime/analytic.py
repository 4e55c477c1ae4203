"""Step times from datasheets: a roofline with a host, and no measurement of the machine.

    step = host + launches + products + attention + sampling + all-reduce + moved blocks

A product of activations and weights takes the longer of reading its weights and computing, so that
small batches are bound by bandwidth and large ones by arithmetic. Attention computes in prefills
and reads the KV cache in decodes. `efficiency` says how much of each peak is reached.
Left out: the padding of captured graphs, the switches of kernels between shapes, and that unequal
contexts in a batch cost more than equal ones.
"""

from __future__ import annotations

from pagecast.engine.core.costs import PreemptCost
from pagecast.engine.core.step import StepShape
from pagecast.engine.specs.gpus import GpuSpec
from pagecast.engine.specs.model_spec import ModelSpec
from pagecast.sim.steptime import efficiency
from pagecast.sim.steptime.roofline import Coefficients, coefficients

HOST_STEP_NS = efficiency.HOST_STEP_S * 1e9
HOST_SEQUENCE_NS = efficiency.HOST_SEQUENCE_S * 1e9

TERMS = (
    "weights", "compute", "attention", "kv_read", "sampling", "all_reduce", "launch", "swap",
    "copy", "host",
)  # fmt: skip
"""The terms of a step, in the order of `AnalyticModel._terms_ns`. The whole time of a product is
under `weights` or under `compute`, whichever binds."""


class AnalyticModel:
    """The `LatencyModel` of one model on one kind of GPU.

    Rows that static batching pads or keeps alive count as if real; rows that verify guessed tokens
    come on top of one row per decode.

    Args:
        model, gpu: the specs.
        tp: GPUs that share a copy of the model.
        weight_dtype, kv_dtype: names as in `engine.specs.geometry` and `engine.specs.kv_format`.
        block_size: tokens of a KV block, for blocks that are swapped or copied or in 16 bit.
        swap_copies: `batched` gathers the blocks that move and issues one copy for K and V of each
            layer, `per_block` issues one for each block (vLLM V0).
        swap_overlap: share of a swap that can hide behind the rest of its step.

    Raises:
        UserError: for an unknown type, or a tp that the model's heads do not allow.
    """

    profile = "analytic"
    provenance = "analytic"
    holdout_error: dict[str, float] | None = None

    def __init__(
        self,
        model: ModelSpec,
        gpu: GpuSpec,
        *,
        tp: int = 1,
        weight_dtype: str = "bf16",
        kv_dtype: str = "bf16",
        block_size: int = 16,
        swap_copies: str = "batched",
        swap_overlap: float = 0.0,
    ) -> None:
        self.coefficients: Coefficients = coefficients(
            model, gpu, tp, weight_dtype, kv_dtype, block_size, swap_copies
        )
        self.swap_overlap = swap_overlap
        self._decode_ns: dict[int, float] = {}
        """Step times of decodes by their number, but for the reading of their contexts."""

    def __call__(self, shape: StepShape) -> int:
        """Duration of a step in nanoseconds; the host's share alone is more than one."""
        if _only_decodes(shape) and shape.decode_seqs == shape.sampled_rows:
            sequences = shape.decode_seqs
            fixed = self._decode_ns.get(sequences)
            if fixed is None:
                fixed = self._decode_ns[sequences] = self._without_context_ns(sequences)
            return int(fixed + self._context_ns(shape.decode_context_tokens, sequences) + 0.5)
        return int(sum(self._terms_ns(shape)) + 0.5)

    def explain(self, shape: StepShape) -> dict[str, float]:
        """Seconds of a step by term; `TERMS` names them."""
        return {name: ns / 1e9 for name, ns in zip(TERMS, self._terms_ns(shape), strict=True)}

    def preempt_cost(self) -> PreemptCost:
        """What bringing a request back costs, for rules that compare recompute with swap.

        A token computed again shares its step with others, whose reading of the weights is paid
        anyway: it costs its arithmetic.
        """
        c = self.coefficients
        expert_token = 0.0 if c.experts is None else c.experts.token_ns
        return PreemptCost(
            token_ps=round((c.linear_token + expert_token + c.all_reduce_token) * 1000),
            pair_ps=round((c.pair + c.window_pair) * 1000),
            block_ns=round(c.swap_block),
            call_ns=round(c.swap_call),
        )

    def in_range(self, shape: StepShape) -> bool:
        """True: no range was measured, so that no shape is outside of it."""
        return True

    def _without_context_ns(self, sequences: int) -> float:
        shape = StepShape()
        shape.decode_seqs = shape.sampled_rows = sequences
        return sum(self._terms_ns(shape))

    def _context_ns(self, context: int, sequences: int) -> float:
        """Reading so many tokens of context of so many sequences, as if all were equally long."""
        c = self.coefficients
        kv_read = context * c.kv_token
        if c.window:
            kv_read += min(context, c.window * sequences) * c.window_kv_token
        if c.lead_tokens:
            lead = min(context, c.lead_tokens * sequences)
            passed = max(0, context - c.window * sequences)
            kv_read += lead * c.lead_kv_token + max(0, lead - passed) * c.window_lead_kv_token
        return kv_read

    def _terms_ns(self, shape: StepShape) -> tuple[float, ...]:
        """The terms in nanoseconds. The simulator spends its time here: plain arithmetic only."""
        c = self.coefficients
        dead, verified = shape.dead_rows, shape.verify_rows
        sequences = shape.decode_seqs + dead
        tokens = sequences + verified
        rows = shape.sampled_rows + dead + verified
        context = shape.decode_context_tokens + shape.padded_context_tokens
        weights = compute = attention = all_reduce = launch = 0.0

        kv_read = self._context_ns(context, sequences)
        if shape.prefill_seqs:
            prefills, chunks = shape.prefill_seqs, shape.prefill_tokens + shape.padded_tokens
            pairs, earlier = shape.prefill_pairs, shape.prefill_context_tokens
            sequences += prefills
            tokens += chunks
            attention = pairs * c.pair
            kv_read += self._context_ns(earlier, prefills)
            if c.window:
                attention += min(pairs, c.window * chunks) * c.window_pair

        if tokens:
            launch = c.launch_step
            all_reduce = c.all_reduce_step + tokens * c.all_reduce_token
            compute = tokens * c.linear_token * c.waves[tokens]
            if compute < c.linear_read:
                weights, compute = c.linear_read, 0.0
            if c.experts is not None:
                read, computed = c.experts[tokens]
                weights += read
                compute += computed
        if rows:
            head = rows * c.head_row
            if head < c.head_read:
                weights += c.head_read
            else:
                compute += head

        sample, copy = rows * c.sample_row, shape.copied_blocks * c.copy_block
        host = HOST_STEP_NS + sequences * HOST_SEQUENCE_NS
        swap = 0.0
        if shape.swapped_out_blocks or shape.swapped_in_blocks:
            device = weights + compute + attention + kv_read + sample + all_reduce + launch
            swap = self._swap_ns(shape, device)
        return (
            weights, compute, attention, kv_read, sample, all_reduce, launch, swap, copy, host,
        )  # fmt: skip

    def _swap_ns(self, shape: StepShape, device_ns: float) -> float:
        """Moving blocks over the host link, as far as it does not hide behind the device's work."""
        out, back = shape.swapped_out_blocks, shape.swapped_in_blocks
        c = self.coefficients
        swap = (out + back) * c.swap_block + ((out > 0) + (back > 0)) * c.swap_call
        return swap - min(self.swap_overlap * swap, device_ns)


def _only_decodes(shape: StepShape) -> bool:
    """Whether a step does nothing but decode, as most steps do."""
    return not (
        shape.prefill_seqs
        or shape.dead_rows
        or shape.verify_rows
        or shape.copied_blocks
        or shape.swapped_in_blocks
        or shape.swapped_out_blocks
    )
