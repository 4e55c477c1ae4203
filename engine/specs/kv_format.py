"""How the KV cache stores K and V: in one type, or in parts in 16 bit.

A format may keep some layers at either end and the head of each sequence in 16 bit, as those do
who find that rounding hurts most there. Here it is a matter of bytes: nothing depends on accuracy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pagecast.engine.core.errors import UserError, nearest

KV_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1, "int8": 1}
"""Bytes of one element of K or V."""

KV_SCALE_BYTES = {"int8": 4}
"""Bytes that come on top per token and KV head, for K and V each: int8 has a float32 scale. The
scales of fp8 are one or a few per layer and left out."""

WIDE = "bf16"
"""The type of what a format keeps in 16 bit."""

NARROW = tuple(dtype for dtype, size_bytes in KV_BYTES.items() if size_bytes < KV_BYTES[WIDE])

_NUMBER = re.compile("[0-9]{1,9}")


@dataclass(frozen=True)
class KvFormat:
    """A type of KV cache, and what stays in 16 bit beside it.

    wide_layers: the first and the last so many layers.
    wide_tokens: the first so many tokens of each sequence, rounded up to whole blocks.
    """

    dtype: str = "bf16"
    wide_layers: int = 0
    wide_tokens: int = 0

    def __post_init__(self) -> None:
        """Refuse what no cache can be.

        Raises:
            UserError: for an unknown type, a count below 0, or 16-bit parts of a type that is not
                narrower.
        """
        if self.dtype not in KV_BYTES:
            raise UserError(nearest("kv dtype", self.dtype, KV_BYTES))
        for name, count in (("layers", self.wide_layers), ("tokens", self.wide_tokens)):
            if count < 0:
                raise UserError(f"kv dtype {self.dtype}: {name}={count}; accepted: from 0")
            if count and self.dtype not in NARROW:
                raise UserError(
                    f"kv dtype {self.dtype}: {name}={count} keeps {name} in 16 bit, for which the "
                    f"rest must be narrower; accepted: {', '.join(NARROW)}"
                )

    @classmethod
    def parse(cls, text: str) -> KvFormat:
        """The format that a command line or a scenario names; `str` writes it so.

            >>> KvFormat.parse("int8:tokens=64,layers=2")
            KvFormat(dtype='int8', wide_layers=2, wide_tokens=64)
            >>> str(KvFormat("int8", 2, 64))
            'int8:layers=2,tokens=64'

        Raises:
            UserError: for an unknown type or part, a part given twice, or what no cache can be.
        """
        dtype, colon, rest = text.partition(":")
        parts: dict[str, int] = {}
        for part in rest.split(",") if colon else ():
            name, _, number = part.partition("=")
            if name not in ("layers", "tokens") or name in parts or not _NUMBER.fullmatch(number):
                raise UserError(
                    f"kv dtype {text!r}: {part!r}; accepted: layers=N and tokens=N, each once, as "
                    "in int8:layers=2,tokens=64"
                )
            parts[name] = int(number)
        return cls(dtype, parts.get("layers", 0), parts.get("tokens", 0))

    def __str__(self) -> str:
        counts = {"layers": self.wide_layers, "tokens": self.wide_tokens}
        parts = ",".join(f"{name}={count}" for name, count in counts.items() if count)
        return f"{self.dtype}:{parts}" if parts else self.dtype

    def wide_blocks(self, block_size: int) -> int:
        """Blocks of each sequence that are in 16 bit whole, if they hold so many tokens."""
        return -(-self.wide_tokens // block_size)


def head_bytes(dtype: str, head_dim: int) -> int:
    """Bytes of K, or of V, of one token and one KV head."""
    return head_dim * KV_BYTES[dtype] + KV_SCALE_BYTES.get(dtype, 0)
