"""Trace formats, one module each. To add one, write its module and give it a row in `FORMATS`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pagecast.engine.core.errors import nearest
from pagecast.traces.errors import TraceError, at
from pagecast.traces.formats import azure, own_csv, own_jsonl, own_parquet
from pagecast.traces.schema import Trace

HEAD_BYTES = 4096
SAMPLES = Path(__file__).parents[1] / "samples"


class Reader(Protocol):
    """What a format module offers."""

    def matches(self, path: Path, head: bytes) -> bool:
        """Whether the first bytes of a file look like this format."""

    def read(self, path: Path) -> Trace:
        """Read a file of this format; raises TraceError for what it does not accept."""


@dataclass(frozen=True)
class Format:
    """A format: what people call it, and the module that reads it."""

    name: str
    title: str
    reader: Reader


FORMATS = (
    Format("azure", "Azure LLM inference trace (CSV)", azure),
    Format("csv", "Pagecast CSV", own_csv),
    Format("jsonl", "Pagecast JSONL", own_jsonl),
    Format("parquet", "Pagecast Parquet", own_parquet),
)
"""All formats, in the order in which a file is tried."""

ACCEPTED = "CSV, JSONL or Parquet with arrival_s, prompt_tokens, output_tokens; Azure CSV"


def load(path: str | Path, format: str | None = None) -> Trace:
    """Read a trace file, or a bundled sample by its name.

    Args:
        path: the file, or the name of a sample.
        format: the name of a format, instead of the one that the file looks like.

    Raises:
        TraceError: one line with file, line, value and what would be accepted.
    """
    file = sample_path(str(path)) if str(path) in sample_names() else Path(path)
    head = _head(file)
    if format is None:
        return _recognise(file, head).reader.read(file)
    by_name = {known.name: known for known in FORMATS}
    if format not in by_name:
        raise TraceError(nearest("trace format", format, by_name))
    return by_name[format].reader.read(file)


def sample_names() -> list[str]:
    """Names of the bundled samples."""
    return sorted(file.stem for file in SAMPLES.glob("*.csv"))


def sample_path(name: str) -> Path:
    """The file of a bundled sample.

    Raises:
        TraceError: for an unknown name, with those that are known.
    """
    if name not in sample_names():
        raise TraceError(nearest("sample", name, sample_names()))
    return SAMPLES / f"{name}.csv"


def _head(path: Path) -> bytes:
    """The first bytes of a file that can be a trace at all."""
    if path.is_dir():
        raise at(path, None, "is a folder", "a trace file")
    if path.exists() and not path.is_file():
        # Read once to recognise it, it would give the rest of its rows only.
        raise at(path, None, "is a pipe or a device", "a trace file")
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        samples = ", ".join(sample_names())
        raise at(path, None, str(error.strerror), f"a trace file, or a sample: {samples}") from None
    if not head.strip():
        raise at(path, None, "is empty", ACCEPTED)
    return head


def _recognise(path: Path, head: bytes) -> Format:
    for known in FORMATS:
        if known.reader.matches(path, head):
            return known
    raise at(path, 1, _what(head), ACCEPTED)


def _what(head: bytes) -> str:
    """What a file seems to be that is no trace."""
    if head.startswith(b"version https://git-lfs"):
        return "is a Git LFS pointer, not the data (git lfs pull fetches it)"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "is UTF-16"
    if b"\0" in head:
        return "is binary"
    first = head.splitlines()[0][:80].decode("utf-8", "replace")
    return f"no format has this first line: {first!r}"
