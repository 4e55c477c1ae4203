"""Columns of text to columns of numbers, with the line of whatever is wrong.

The fast way converts a whole column at once. Only when that fails, or a value breaks a rule, is
the first offending row looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pagecast.traces.errors import at
from pagecast.traces.schema import NOT_GIVEN, Floats, Ints

NS_PER_S = 1_000_000_000
MAX_TOKENS = 1 << 40


@dataclass(frozen=True)
class Table:
    """A file as columns; `lines[i]` is the line of the file that row i came from."""

    path: Path
    columns: pd.DataFrame
    lines: NDArray[np.int64]

    def fail(self, row: int, column: str, problem: str, accepted: str) -> Exception:
        """The error for a cell."""
        value = self.columns[column].iloc[row]
        return at(self.path, int(self.lines[row]), f"{column} {value!r} {problem}", accepted)

    def need(self, names: Sequence[str]) -> None:
        """Raise TraceError unless there are rows, and all of these columns."""
        missing = [name for name in names if name not in self.columns]
        if missing:
            found = ", ".join(map(str, self.columns)) or "none"
            raise at(self.path, 1, f"has no column {', '.join(missing)} (found: {found})",
                     ", ".join(names))  # fmt: skip
        if not len(self.columns):
            raise at(self.path, None, "has a header and no rows", "a row for each request")

    def tokens(self, column: str) -> Ints:
        """A column of token counts, each a whole number from 1."""
        return self._whole(column, 1, "a whole number of tokens from 1")

    def optional_whole(self, column: str, least: int, accepted: str) -> Ints | None:
        """A column of whole numbers, NOT_GIVEN where a cell is empty; None without the column."""
        if column not in self.columns:
            return None
        values = self.columns[column]
        empty = _empty(values)
        filled = self.columns.assign(**{column: values.where(~empty, str(least))})
        numbers = Table(self.path, filled, self.lines)._whole(column, least, accepted)
        return np.where(empty, NOT_GIVEN, numbers)

    def optional_texts(self, column: str) -> list[str] | None:
        """A column of texts; None without the column."""
        if column not in self.columns:
            return None
        values = self.columns[column]
        return [
            "" if gone else str(text) for text, gone in zip(values, _empty(values), strict=True)
        ]

    def optional_seconds(self, column: str) -> Floats | None:
        """A column of seconds, NaN where a cell is empty; None without the column."""
        if column not in self.columns:
            return None
        accepted = "seconds, or nothing"
        values = self.columns[column]
        numbers = pd.to_numeric(values.where(~_empty(values)), errors="coerce").to_numpy(float)
        self.refuse(column, ~np.isfinite(numbers) & ~_empty(values), "is no time", accepted)
        return numbers

    def seconds_to_ns(self, column: str) -> tuple[Ints, int]:
        """Decimal seconds as nanoseconds, digit by digit, and how many had to be rounded.

        A number beyond nine fraction digits is rounded half to even.
        """
        values = self.columns[column]
        if pd.api.types.is_integer_dtype(values):
            return values.to_numpy(np.int64) * NS_PER_S, 0
        stamps, rounded = np.empty(len(values), dtype=np.int64), 0
        for row, value in enumerate(values):
            exact = _exact_ns(value)
            if exact is None or not 0 <= exact < 1 << 62:
                raise self.fail(row, column, "is no arrival time", "seconds from 0, such as 12.5")
            whole = int(exact.to_integral_value())
            stamps[row] = whole
            rounded += exact != whole
        return stamps, rounded

    def check_order(self, column: str, stamps: Ints) -> None:
        """Raise TraceError at the first stamp that lies before the one in the row above."""
        back = np.flatnonzero(np.diff(stamps) < 0)
        if len(back):
            row = int(back[0]) + 1
            above = self.columns[column].iloc[row - 1]
            raise self.fail(row, column, f"lies before {above!r} in the row above",
                            "rows in the order of arrival")  # fmt: skip

    def _whole(self, column: str, least: int, accepted: str) -> Ints:
        values = self.columns[column]
        numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
        numbers = np.where(_is_flag(values), np.nan, numbers)
        wrong = ~np.isfinite(numbers) | (numbers != np.floor(numbers))
        self.refuse(column, wrong, "is no whole number", accepted)
        self.refuse(column, numbers < least, "is too small", accepted)
        self.refuse(column, numbers > MAX_TOKENS, "is too large", accepted)
        return numbers.astype(np.int64)

    def refuse(self, column: str, wrong: Any, problem: str, accepted: str) -> None:
        """Raise TraceError at the first row where `wrong` holds."""
        rows = np.flatnonzero(np.asarray(wrong))
        if len(rows):
            raise self.fail(int(rows[0]), column, problem, accepted)


def _empty(values: pd.Series[Any]) -> NDArray[np.bool_]:
    empty: NDArray[np.bool_] = (values.isna() | (values.astype(str).str.strip() == "")).to_numpy()
    return empty


def _is_flag(values: pd.Series[Any]) -> NDArray[np.bool_]:
    """True and false are no numbers here, though Python counts with them."""
    if values.dtype != object:
        return np.full(len(values), pd.api.types.is_bool_dtype(values))
    return np.array([isinstance(value, bool) for value in values], dtype=bool)


def _exact_ns(value: object) -> Decimal | None:
    try:
        exact = Decimal(str(value).strip()) * NS_PER_S
    except InvalidOperation:
        return None
    return exact if exact.is_finite() and not isinstance(value, bool) else None


def prefix_ids(
    table: Table, prompt_tokens: Ints, parse: Callable[[object], tuple[int, ...] | None]
) -> tuple[list[tuple[int, ...]] | None, int | None]:
    """The columns prefix_ids and prefix_block_tokens, checked against the prompts.

    Args:
        table: where they may be.
        prompt_tokens: which bound the number of ids: at most ceil(prompt / block).
        parse: ids from a cell, or None if they cannot be read.
    """
    if "prefix_ids" not in table.columns:
        return None, None
    table.need(("prefix_ids", "prefix_block_tokens"))
    sizes = table.tokens("prefix_block_tokens")
    if len(set(sizes.tolist())) > 1:
        row = int(np.flatnonzero(sizes != sizes[0])[0])
        raise table.fail(row, "prefix_block_tokens", f"differs from {sizes[0]} above",
                         "one block size for the whole file")  # fmt: skip
    size, ids = int(sizes[0]), []
    for row, cell in enumerate(table.columns["prefix_ids"]):
        parsed = parse(cell)
        if parsed is None:
            raise table.fail(row, "prefix_ids", "is no list of ids", "whole numbers")
        most = -(-int(prompt_tokens[row]) // size)
        if len(parsed) > most:
            raise table.fail(row, "prefix_ids", f"has {len(parsed)} ids, but {prompt_tokens[row]} "
                             f"tokens are {most} blocks of {size}", "at most as many")  # fmt: skip
        ids.append(parsed)
    return ids, size
