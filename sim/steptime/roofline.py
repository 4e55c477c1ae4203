"""The coefficients of the roofline: what one token, row, pair or block of a step costs.

Times are nanoseconds: bytes divided by GB/s, or FLOPs divided by TFLOP/s and 1000.
"""

from __future__ import annotations

from dataclasses import dataclass

from pagecast.engine.specs.geometry import (
    elements,
    heads_per_rank,
    kv_bytes_per_token,
    weight_bits,
)
from pagecast.engine.specs.gpus import GpuSpec
from pagecast.engine.specs.kv_format import WIDE, KvFormat
from pagecast.engine.specs.model_spec import ModelSpec
from pagecast.sim.steptime import efficiency
from pagecast.sim.steptime.waves import Waves


class ExpertTimes(dict[int, tuple[float, float]]):
    """Time of all experts of a step by its number of tokens, as (read_ns, 0) or (0, compute_ns).

    T tokens that visit k of E experts at random read E·(1 − (1 − k/E)^T) of them. `token_ns` is
    the arithmetic of one token.
    """

    def __init__(self, missed_share: float, read_all_ns: float, token_ns: float) -> None:
        super().__init__()
        self._missed_share = missed_share
        self._read_all_ns = read_all_ns
        self.token_ns = token_ns

    def __missing__(self, tokens: int) -> tuple[float, float]:
        read_ns = self._read_all_ns * (1 - self._missed_share**tokens)
        compute_ns = self.token_ns * tokens
        times = (read_ns, 0.0) if read_ns > compute_ns else (0.0, compute_ns)
        self[tokens] = times
        return times


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Nanoseconds on one rank, by what they are charged for.

    linear_read: the weights that every token passes, once a step; linear_token: their arithmetic;
    waves: by how much it is dearer for a number of tokens that fills the GPU badly.
    head_read, head_row: the same for the output layer and the rows that are sampled.
    pair, kv_token: attention of full layers, per query-key pair in a prefill and per token of
        context; window_pair, window_kv_token: of layers that attend to the last `window` tokens.
    lead_kv_token, window_lead_kv_token: what comes on top for each of the first `lead_tokens`
        tokens of a sequence, which the KV cache keeps in 16 bit; 0 if there are none.
    all_reduce_step, all_reduce_token: all reductions over ranks, by step and by token.
    launch_step: starting and draining the kernels of all layers.
    swap_block, swap_call: moving one KV block over the host link, and setting out to, by direction.
    """

    linear_read: float
    linear_token: float
    waves: Waves
    experts: ExpertTimes | None
    head_read: float
    head_row: float
    sample_row: float
    pair: float
    kv_token: float
    window: int
    window_pair: float
    window_kv_token: float
    lead_tokens: int
    lead_kv_token: float
    window_lead_kv_token: float
    all_reduce_step: float
    all_reduce_token: float
    launch_step: float
    swap_block: float
    swap_call: float
    copy_block: float


def coefficients(
    model: ModelSpec,
    gpu: GpuSpec,
    tp: int,
    weight_dtype: str,
    kv_dtype: str,
    block_size: int,
    swap_copies: str,
) -> Coefficients:
    """The roofline of a model on a GPU.

    A rank computes its share of every layer. A query-key pair is 4·head_dim FLOPs per query head,
    a token 2 per weight; two all-reduces a layer move 2·(tp − 1)/tp of a token's hidden state each
    (ring). K and V of each layer are swapped by a copy of their own, one for all blocks if they
    are `batched`, else one for each.

    Raises:
        UserError: for an unknown type, or a tp that the model's heads do not allow.
    """
    counts = elements(model, tp)
    linear_bytes = weight_bits(weight_dtype) / 8
    wide_dtype = "fp32" if weight_dtype == "fp32" else "bf16"
    wide_bytes = weight_bits(wide_dtype) / 8
    byte = 1 / (gpu.memory_bandwidth_gb_s * efficiency.BANDWIDTH)
    flop = 1 / (gpu.peak_tflops(weight_dtype) * 1000 * efficiency.MATMUL)
    wide_flop = 1 / (gpu.peak_tflops(wide_dtype) * 1000 * efficiency.MATMUL)
    attention_flop = 1 / (gpu.peak_tflops(wide_dtype) * 1000 * efficiency.ATTENTION)
    link_byte = 1 / (gpu.link_gb_s * efficiency.LINK)

    query_heads, _ = heads_per_rank(model, tp)
    pair = 4 * model.layers * query_heads * model.head_dim * attention_flop
    token_bytes = kv_bytes_per_token(model, kv_dtype, tp)
    lead_blocks = KvFormat.parse(kv_dtype).wide_blocks(block_size)
    lead_bytes = kv_bytes_per_token(model, WIDE, tp) - token_bytes if lead_blocks else 0
    windowed = model.sliding_layers / model.layers
    head_elements = counts.head or counts.embedding
    small_bytes = (counts.routers + counts.small) * wide_bytes
    reductions = 2 * model.layers if tp > 1 else 0
    copies_ns = 2 * model.layers * gpu.host_copy_us * 1000
    return Coefficients(
        linear_read=(counts.linear * linear_bytes + small_bytes) * byte,
        linear_token=2 * (counts.linear + counts.routers) * flop,
        waves=Waves(gpu.multiprocessors, _products(model, tp)),
        experts=_experts(model, counts.experts, linear_bytes * byte, flop),
        head_read=head_elements * wide_bytes * byte,
        head_row=2 * head_elements * wide_flop,
        sample_row=model.vocab * efficiency.SAMPLER_BYTES_PER_LOGIT * byte,
        pair=pair * (1 - windowed),
        kv_token=token_bytes * byte * (1 - windowed),
        window=model.sliding_window,
        window_pair=pair * windowed,
        window_kv_token=token_bytes * byte * windowed,
        lead_tokens=lead_blocks * block_size,
        lead_kv_token=lead_bytes * byte * (1 - windowed),
        window_lead_kv_token=lead_bytes * byte * windowed,
        all_reduce_step=reductions * efficiency.ALL_REDUCE_CALL_S * 1e9,
        all_reduce_token=reductions * 2 * (tp - 1) / tp * model.hidden * wide_bytes * link_byte,
        launch_step=model.layers * efficiency.KERNELS_PER_LAYER * efficiency.KERNEL_S * 1e9,
        swap_block=block_size * token_bytes / (gpu.host_link_gb_s * efficiency.HOST_LINK)
        + (copies_ns if swap_copies == "per_block" else 0.0),
        swap_call=copies_ns if swap_copies == "batched" else 0.0,
        copy_block=2 * block_size * token_bytes * byte,
    )


def _products(model: ModelSpec, tp: int) -> list[tuple[int, int]]:
    """Width of input and output of a layer's products on one rank, experts aside."""
    heads, kv_heads = heads_per_rank(model, tp)
    attention = heads * model.head_dim
    products = [
        (model.hidden, attention + 2 * kv_heads * model.head_dim),
        (attention, model.hidden),
    ]
    dense = -(-(model.intermediate + model.shared_intermediate) // tp)
    if dense:
        products += [(model.hidden, 2 * dense), (dense, model.hidden)]
    return products


def _experts(
    model: ModelSpec, elements_: int, element_read: float, flop: float
) -> ExpertTimes | None:
    if not model.experts:
        return None
    visited = model.active_experts / model.experts
    return ExpertTimes(1 - visited, elements_ * element_read, 2 * elements_ * visited * flop)
