"""GPUs by name: complete tables, and figures that follow from each chip's own clock and units."""

from __future__ import annotations

import pytest

from pagecast.engine.core.errors import UserError
from pagecast.engine.specs.gpus import gpu, names

NAME_GB = {
    "a100-40gb": 40, "a100-80gb": 80, "h100": 80, "h200": 141, "b200": 180, "gb200": 186,
    "l40s": 48, "a10": 24, "l4": 24, "rtx-3090": 24, "rtx-4090": 24, "rtx-pro-6000": 96,
    "mi300x": 192,
}  # fmt: skip
"""Memory by which each card is sold."""

SM_FLOPS_CLOCK_GHZ = {
    "a100-80gb": (108, 2048, 1.41),
    "h100": (132, 4096, 1.83),
    "rtx-3090": (82, 512, 1.695),
    "rtx-4090": (128, 512, 2.52),
}
"""Multiprocessors, dense 16-bit tensor FLOPs per clock of one with 32-bit accumulation, and boost
clock (NVIDIA's architecture whitepapers)."""


def test_the_cards_are_those_with_a_known_size() -> None:
    assert set(names()) == set(NAME_GB)


@pytest.mark.parametrize("name", NAME_GB)
def test_the_driver_reports_somewhat_less_memory_than_the_card_is_sold_with(name: str) -> None:
    # Sold in GB by some, in GiB by others: a datasheet's 80 is 74.5 to 80 GiB.
    card = gpu(name)
    assert 0.91 * NAME_GB[name] < card.memory_gib < NAME_GB[name] * (1 + 1e-9)
    assert card.source
    assert card.memory_source


@pytest.mark.parametrize("name", SM_FLOPS_CLOCK_GHZ)
def test_peaks_are_dense(name: str) -> None:
    multiprocessors, flops_per_clock, clock_ghz = SM_FLOPS_CLOCK_GHZ[name]
    dense_tflops = multiprocessors * flops_per_clock * clock_ghz / 1000
    assert gpu(name).bf16_tflops == pytest.approx(dense_tflops, rel=0.01)


@pytest.mark.parametrize("name", NAME_GB)
def test_half_the_bits_are_twice_the_peak_where_the_chip_has_them(name: str) -> None:
    card = gpu(name)
    for peak in (card.fp8_tflops, card.int8_tops):
        assert peak is None or 1.99 < peak / card.bf16_tflops < 4.03
    assert 0 < card.idle_w < card.tdp_w
    assert card.price_per_hour > 0
    assert 5 <= card.host_copy_us <= 7
    assert card.host_link_gb_s <= card.link_gb_s < card.memory_bandwidth_gb_s


def test_weights_without_native_arithmetic_compute_in_16_bit() -> None:
    assert gpu("a100-80gb").peak_tflops("fp8") == gpu("a100-80gb").bf16_tflops
    assert gpu("h100").peak_tflops("int4") == gpu("h100").bf16_tflops
    assert gpu("h100").peak_tflops("fp8") == 1979
    # TF32: 156 TFLOP/s by the A100's datasheet.
    assert gpu("a100-80gb").peak_tflops("fp32") == 156


def test_an_unknown_name_is_answered_with_the_nearest_ones() -> None:
    with pytest.raises(UserError, match=r"unknown gpu 'a100'.*a100-40gb"):
        gpu("a100")
