"""How well a product of matrices fills a GPU.

A product is cut into tiles, and each multiprocessor works on one tile at a time: the last wave of
tiles may leave most of them idle, and the last row of tiles may be partly empty (tile and wave
quantization: NVIDIA, Matrix Multiplication Background User's Guide). With many rows this does not
show; a chunk of 512 tokens may pay a fifth.
"""

from __future__ import annotations

from collections.abc import Sequence

TILE = 128
"""Rows and columns of a tile: the size that kernels for large products use."""

FEW_ROWS = 2 * TILE
"""With so few rows or fewer, kernels take other tiles or split the inner dimension, so as to fill
the GPU; and what they read binds, not what they compute."""


class Waves(dict[int, float]):
    """Time of the products of a layer by their number of rows, over that of a filled GPU.

    Args:
        multiprocessors: tiles that are worked on at a time.
        products: (inner width, output width) of each product.
    """

    def __init__(self, multiprocessors: int, products: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self._multiprocessors = multiprocessors
        self._products = products

    def __missing__(self, rows: int) -> float:
        times = self[rows] = 1.0 if rows <= FEW_ROWS else self._times(rows)
        return times

    def _times(self, rows: int) -> float:
        slots = self._multiprocessors * TILE * TILE
        taken = needed = 0
        for inner, width in self._products:
            tiles = -(-rows // TILE) * -(-width // TILE)
            taken += inner * -(-tiles // self._multiprocessors) * slots
            needed += inner * rows * width
        return taken / needed
