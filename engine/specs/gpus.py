"""GPUs by name: what a datasheet says of one, from gpus.toml."""

from __future__ import annotations

from dataclasses import dataclass

from pagecast.engine.core.errors import UserError, nearest
from pagecast.engine.specs import tables

FILE = "gpus.toml"


@dataclass(frozen=True)
class GpuSpec:
    """One GPU. Peaks are dense, links count one direction; gpus.toml says what each field means.

    fp8_tflops and int8_tops are None for a chip without such arithmetic. price_per_hour is in
    USD and an assumption.
    """

    name: str
    source: str
    memory_source: str
    memory_gib: float
    memory_bandwidth_gb_s: float
    bf16_tflops: float
    multiprocessors: int
    link_gb_s: float
    host_link_gb_s: float
    host_copy_us: float
    cache_mib: float
    tdp_w: float
    idle_w: float
    price_per_hour: float
    fp8_tflops: float | None = None
    int8_tops: float | None = None

    def peak_tflops(self, weight_dtype: str) -> float:
        """Dense peak of matrix products with weights of this type, in TFLOP/s.

        int4 weights, and fp8 or int8 weights on a chip without that arithmetic, are widened and
        multiplied in 16 bit. fp32 runs on tensor cores as TF32, at half the rate of bf16.
        """
        if weight_dtype == "fp32":
            return self.bf16_tflops / 2
        native = {"fp8": self.fp8_tflops, "int8": self.int8_tops}.get(weight_dtype)
        return native or self.bf16_tflops


def gpu(name: str) -> GpuSpec:
    """The GPU of that name.

    Raises:
        UserError: if there is none, with the nearest names.
    """
    if name not in tables.read(FILE):
        raise UserError(nearest("gpu", name, names()))
    return GpuSpec(name=name, **tables.read(FILE)[name])


def names() -> list[str]:
    """Names of all GPUs that are known."""
    return list(tables.read(FILE))
