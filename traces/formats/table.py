"""Columns of text to columns of numbers, with the line of whatever is wrong.

The fast way converts a whole column at once. Only when that fails, or a value breaks a rule, is
the first offending row looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pagecast.traces.errors import at
from pagecast.traces.schema import NOT_GIVEN, Floats, Ints

NS_PER_S = 1_000_000_000
MAX_TOKENS = 1 << 40
LATEST_STAMP_NS = 1 << 62
PLAIN_SECONDS = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Table:
    """A file as columns; `lines[i]` is the line of the file that row i came from.

    notes: what the reader of the file left out.
    """

    path: Path
    columns: pd.DataFrame
    lines: NDArray[np.int64]
    notes: tuple[str, ...] = ()

    def fail(self, row: int, column: str, problem: str, accepted: str) -> Exception:
        """The error for a cell."""
        found = f"{column} {_shown(self.columns[column].iloc[row])} {problem}"
        return at(self.path, int(self.lines[row]), found, accepted)

    def need(self, names: Sequence[str]) -> None:
        """Raise TraceError unless there are rows, and all of these columns."""
        missing = [name for name in names if name not in self.columns]
        if missing:
            found = ", ".join(map(str, self.columns)) or "none"
            raise at(self.path, 1, f"has no column {', '.join(missing)} (found: {found})",
                     ", ".join(names))  # fmt: skip
        if not len(self.columns):
            raise at(self.path, None, "has a header and no rows", "a row for each request")

    def notes_beside(self, known: Sequence[str]) -> list[str]:
        """The notes of this table, and one that names the columns that are not known."""
        unknown = [str(name) or "(no name)" for name in self.columns if name not in known]
        return [*self.notes, *([f"columns not used: {', '.join(unknown)}"] if unknown else [])]

    def tokens(self, column: str) -> Ints:
        """A column of token counts, each a whole number from 1."""
        return self._whole(column, 1, "a whole number of tokens from 1")

    def optional_whole(self, column: str, least: int, accepted: str) -> Ints | None:
        """A column of whole numbers, NOT_GIVEN where a cell is empty; None without the column."""
        return self.whole(column, least, accepted) if column in self.columns else None

    def whole(self, column: str, least: int, accepted: str) -> Ints:
        """A column of whole numbers, NOT_GIVEN where a cell is empty."""
        values = self.columns[column]
        empty = _empty(values)
        filled = self.columns.assign(**{column: values.astype(object).where(~empty, least)})
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
        at_once = _all_ns(values)
        if at_once is not None:
            return at_once, 0
        stamps, rounded = np.empty(len(values), dtype=np.int64), 0
        for row, value in enumerate(values):
            exact = _exact_ns(value)
            if exact is None or not 0 <= exact < LATEST_STAMP_NS:
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
            above = _shown(self.columns[column].iloc[row - 1])
            raise self.fail(row, column, f"lies before {above} in the row above",
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


def _shown(value: object) -> str:
    """A cell as a message names it: text in quotes, a number as it would be written."""
    return repr(value) if isinstance(value, str) else str(value)


def _empty(values: pd.Series[Any]) -> NDArray[np.bool_]:
    empty: NDArray[np.bool_] = (values.isna() | (values.astype(str).str.strip() == "")).to_numpy()
    return empty


def _is_flag(values: pd.Series[Any]) -> NDArray[np.bool_]:
    """True and false are no numbers here, though Python counts with them."""
    if values.dtype != object:
        return np.full(len(values), pd.api.types.is_bool_dtype(values))
    return np.array([isinstance(value, bool) for value in values], dtype=bool)


def _all_ns(seconds: pd.Series[Any]) -> Ints | None:
    """Decimal seconds as nanoseconds; None if one of them needs a closer look.

    Arrow is shown plain digits only: some exponents crash it.
    """
    texts = seconds.astype(str).str.strip()
    if not texts.str.fullmatch(PLAIN_SECONDS).fillna(False).all():
        return None
    exact = pa.array(texts, pa.string()).cast(pa.decimal128(18, 9))
    ns = pc.multiply(exact, pa.scalar(Decimal(NS_PER_S), pa.decimal128(10, 0)))
    stamps: Ints = ns.cast(pa.int64()).to_numpy()
    return stamps


def _exact_ns(seconds: object) -> Decimal | None:
    text = str(seconds).strip()
    return Decimal(text) * NS_PER_S if NUMBER.fullmatch(text) else None


def prefix_ids(
    table: Table, prompt_tokens: Ints, parse: Callable[[object], tuple[int, ...] | None]
) -> tuple[list[tuple[int, ...]] | None, int | None]:
    """The columns prefix_ids and prefix_block_tokens, checked against the prompts.

    A request without ids may leave both cells empty.

    Args:
        table: where they may be.
        prompt_tokens: which bound the number of ids: at most ceil(prompt / block).
        parse: ids from a cell, or None if they cannot be read.
    """
    if "prefix_ids" not in table.columns:
        return None, None
    table.need(("prefix_ids", "prefix_block_tokens"))
    cells = table.columns["prefix_ids"]
    ids = []
    for row, (cell, gone) in enumerate(zip(cells, cells.isna(), strict=True)):
        parsed = () if gone else parse(cell)
        if parsed is None:
            raise table.fail(row, "prefix_ids", "is no list of ids", "whole numbers")
        ids.append(parsed)
    blocks = np.array([len(parsed) for parsed in ids])
    size = _block_tokens(table, blocks > 0)
    if size is None:
        return None, None
    most = -(-prompt_tokens // size)
    for row in np.flatnonzero(blocks > most)[:1].tolist():
        raise table.fail(row, "prefix_ids", f"has {blocks[row]} ids, but {prompt_tokens[row]} "
                         f"tokens are {most[row]} blocks of {size}", "at most as many")  # fmt: skip
    return ids, size


def _block_tokens(table: Table, needed: NDArray[np.bool_]) -> int | None:
    """The one block size of a file, which stands wherever it is needed; None if nowhere."""
    name, accepted = "prefix_block_tokens", "a whole number of tokens from 1"
    sizes = table.whole(name, 1, accepted)
    given = sizes != NOT_GIVEN
    table.refuse(name, needed & ~given, "is missing beside prefix_ids", accepted)
    if not given.any():
        return None
    size = int(sizes[given][0])
    table.refuse(name, given & (sizes != size), f"differs from {size} above",
                 "one block size for the whole file")  # fmt: skip
    return size
