"""One clear line for whatever is wrong with a trace file, and never a crash."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagecast.traces import load
from pagecast.traces.errors import TraceError
from pagecast.traces.schema import Trace

HEADER = "arrival_s,prompt_tokens,output_tokens\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def write(tmp_path: Path, content: str | bytes, name: str = "trace.csv") -> Path:
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


BAD_CSV = {
    "empty": ("", r"trace\.csv: is empty"),
    "blank": ("\n \n", r"trace\.csv: is empty"),
    "header only": (HEADER, r"trace\.csv: has a header and no rows"),
    "zero prompt": (HEADER + "0,0,1\n", r":2: prompt_tokens '0' is too small"),
    "negative": (HEADER + "0,1,1\n1,1,-3\n", r":3: output_tokens '-3' is too small"),
    "text": (HEADER + "0,many,1\n", r":2: prompt_tokens 'many' is no whole number"),
    "fraction": (HEADER + "0,1.5,1\n", r":2: prompt_tokens '1.5' is no whole number"),
    "inf": (HEADER + "0,inf,1\n", r":2: prompt_tokens 'inf' is no whole number"),
    "empty cell": (HEADER + "0,,1\n", r":2: prompt_tokens '' is no whole number"),
    "null": (HEADER + "0,null,1\n", r":2: prompt_tokens 'null' is no whole number"),
    "huge": (HEADER + "0,99999999999999999,1\n", r":2: prompt_tokens .* is too large"),
    "crashing exponent": (HEADER + "1e-999999999,1,1\n", r":2: arrival_s .* is no arrival time"),
    "huge exponent": (HEADER + "1e999999,1,1\n", r":2: arrival_s '1e999999' is no arrival time"),
    "underscore": (HEADER + "1_0,1,1\n", r":2: arrival_s '1_0' is no arrival time"),
    "no time": (HEADER + "soon,1,1\n", r":2: arrival_s 'soon' is no arrival time"),
    "nan time": (HEADER + "nan,1,1\n", r":2: arrival_s 'nan' is no arrival time"),
    "negative time": (HEADER + "-1,1,1\n", r":2: arrival_s '-1' is no arrival time"),
    "backward": (HEADER + "5,1,1\n4,1,1\n", r":3: arrival_s '4' lies before '5'"),
    "missing column": ("arrival_s,prompt_tokens\n0,1\n", r":1: has no column output_tokens"),
    "other columns": ("when,what\n0,1\n", r":1: no format has this first line: 'when,what'"),
    "ragged": (HEADER + "0,1,1\n1,1,1,1\n", r":3: has 4 cells, the header 3"),
    "ragged from the first row": (HEADER + "0,1,1,7\n1,1,1,7\n", r":2: has 4 cells, the header 3"),
    "a column twice": (
        "arrival_s,prompt_tokens,output_tokens,prompt_tokens\n0,1,1,9\n",
        r":1: names column prompt_tokens twice",
    ),
    "lfs": ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
    "azure stamp": (AZURE + "XXX,1,1\n", r":2: TIMESTAMP 'XXX' is no date"),
    "azure impossible date": (AZURE + "2023-13-45 00:00:00.0,1,1\n", r":2: TIMESTAMP .* is no date"),
    "azure zones": (
        AZURE + "2023-01-01 00:00:00.0,1,1\n2023-01-01 00:00:01.0+00:00,1,1\n",
        r":3: TIMESTAMP .* mixes zones",
    ),
    "azure backward": (
        AZURE + "2023-01-01 00:00:01.0,1,1\n2023-01-01 00:00:00.0,1,1\n",
        r":3: TIMESTAMP .* lies before",
    ),
    "azure zero": (AZURE + "2023-01-01 00:00:01.0,1,0\n", r":2: GeneratedTokens '0' is too small"),
    "prefix without block": (
        "arrival_s,prompt_tokens,output_tokens,prefix_ids\n0,9,1,4\n",
        r"has no column prefix_block_tokens",
    ),
    "two block sizes": (
        (
            "arrival_s,prompt_tokens,output_tokens,prefix_ids,prefix_block_tokens\n"
            "0,99,1,1,16\n1,99,1,1,32\n"
        ),
        r":3: prefix_block_tokens '32' differs from 16 above",
    ),
    "ids without their size": (
        "arrival_s,prompt_tokens,output_tokens,prefix_ids,prefix_block_tokens\n0,9,1,1,\n",
        r":2: prefix_block_tokens '' is missing beside prefix_ids",
    ),
    "too many ids": (
        "arrival_s,prompt_tokens,output_tokens,prefix_ids,prefix_block_tokens\n0,655,1,1 2 3,512\n",
        r":2: prefix_ids '1 2 3' has 3 ids, but 655 tokens are 2 blocks of 512",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_CSV)
def test_bad_csv_is_one_clear_line(tmp_path: Path, case: str) -> None:
    content, line = BAD_CSV[case]
    with pytest.raises(TraceError, match=line) as caught:
        load(write(tmp_path, content))
    assert "\n" not in str(caught.value)
    assert "accepted" in str(caught.value)


BAD_JSONL = {
    "not json": ('{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1}\nhello\n', r":2: is no"),
    "list": ('{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1}\n[1]\n', r":2: is list"),
    "true": ('{"arrival_s": 0, "prompt_tokens": true, "output_tokens": 1}\n', r":1: .* True"),
    "null": ('{"arrival_s": 0, "prompt_tokens": null, "output_tokens": 1}\n', r":1: prompt_tokens"),
    "key twice": (
        '{"arrival_s": 0, "prompt_tokens": 1, "prompt_tokens": 9, "output_tokens": 1}\n',
        r":1: is no JSON \(prompt_tokens stands twice\)",
    ),
    "half a character": (
        '{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1, "session": "\\ud800"}\n',
        r":1: is no JSON .*surrogates",
    ),
    "nan": ('{"arrival_s": NaN, "prompt_tokens": 1, "output_tokens": 1}\n', r":1: arrival_s"),
    "ids": (
        (
            '{"arrival_s": 0, "prompt_tokens": 9, "output_tokens": 1, "prefix_ids": "4", '
            '"prefix_block_tokens": 8}\n'
        ),
        r":1: prefix_ids '4' is no list",
    ),
}


@pytest.mark.parametrize("case", BAD_JSONL)
def test_bad_jsonl_is_one_clear_line(tmp_path: Path, case: str) -> None:
    content, line = BAD_JSONL[case]
    with pytest.raises(TraceError, match=line):
        load(write(tmp_path, content, "trace.jsonl"))


BAD_PARQUET = {
    "negative": ({"arrival_s": [-1, 2]}, r":1: arrival_s -1 is no arrival time"),
    "beyond 64 bit": ({"arrival_s": [1, 2**60]}, rf":2: arrival_s {2**60} is no arrival time"),
    "a date": ({"arrival_s": pd.to_datetime(["2020-01-01"] * 2)}, r":1: arrival_s .* is no arrival"),
    "no stamp": ({"arrival_s": pd.array([1, None], dtype="Int64")}, r":2: arrival_s None is no"),
    "no count": ({"prompt_tokens": pd.array([1, None], dtype="Int64")}, r":2: prompt_tokens None"),
    "flags": ({"prompt_tokens": [True, True]}, r":1: prompt_tokens True is no whole number"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_PARQUET)
def test_bad_parquet_is_one_clear_line(tmp_path: Path, case: str) -> None:
    columns, line = BAD_PARQUET[case]
    plain = {"arrival_s": [0, 1], "prompt_tokens": [1, 1], "output_tokens": [1, 1]}
    pd.DataFrame({**plain, **columns}).to_parquet(tmp_path / "trace.parquet")
    with pytest.raises(TraceError, match=line):
        load(tmp_path / "trace.parquet")


def test_what_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is binary"):
        load(write(tmp_path, b"\x00\x01\x02\x03", "trace.bin"))
    with pytest.raises(TraceError, match="is UTF-16"):
        load(write(tmp_path, HEADER.encode("utf-16"), "trace16.csv"))
    with pytest.raises(TraceError, match="not UTF-8"):
        load(write(tmp_path, HEADER.encode() + b"0,1,\xff\n", "latin.csv"))
    with pytest.raises(TraceError, match="is no Parquet"):
        load(write(tmp_path, b"PAR1 and nothing else", "trace.parquet"))


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere\.csv: No such file .*azure_conv_like"):
        load(tmp_path / "nowhere.csv")
    with pytest.raises(TraceError, match="is a folder"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match="is a pipe"):
        load(tmp_path / "pipe")


def test_an_unknown_format_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="did you mean parquet"):
        load(write(tmp_path, HEADER + "0,1,1\n"), format="parket")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes
) -> None:
    file = tmp_path_factory.mktemp("junk") / "trace.csv"
    for content in (junk, HEADER.encode() + junk, AZURE.encode() + junk):
        file.write_bytes(content)
        line, trace = read_or_refuse(file)
        assert "\n" not in line
        if trace is not None:
            assert len(trace) == trace.source.rows_kept > 0
            assert (np.diff(trace.arrival_ns) >= 0).all()


def read_or_refuse(file: Path) -> tuple[str, Trace | None]:
    try:
        return "", load(file)
    except TraceError as error:
        return str(error), None
