"""Reading traces: exact times, every column, and one clear line for whatever is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagecast.traces import load, sample_names
from pagecast.traces.errors import TraceError
from pagecast.traces.schema import Trace

HEADER = "arrival_s,prompt_tokens,output_tokens\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def write(tmp_path: Path, content: str | bytes, name: str = "trace.csv") -> Path:
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def test_own_csv_is_exact_to_the_nanosecond(tmp_path: Path) -> None:
    text = HEADER + "0.1,1,2\n0.100000001,3,4\n1700000000.123456789,5,6\n"
    trace = load(write(tmp_path, text))
    assert trace.arrival_ns.tolist() == [100_000_000, 100_000_001, 1_700_000_000_123_456_789]
    assert trace.prompt_tokens.tolist() == [1, 3, 5]
    assert trace.output_tokens.tolist() == [2, 4, 6]
    assert trace.source.format == "csv"


def test_azure_2023_keeps_seven_digits(tmp_path: Path) -> None:
    rows = "2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:46.6805901,396,109"
    trace = load(write(tmp_path, AZURE.strip() + "\r\n" + rows))
    assert trace.arrival_ns.tolist() == [0, 100]
    assert trace.source.format == "azure"


def test_azure_2024_has_a_zone(tmp_path: Path) -> None:
    rows = "2024-05-10 00:00:00.009930+00:00,10,1\n2024-05-10 00:00:00.017335+00:00,11,2\n"
    assert load(write(tmp_path, AZURE + rows)).arrival_ns.tolist() == [0, 7_405_000]


def test_the_azure_conversation_trace(data_dir: Path) -> None:
    """The statistics that are published with the trace."""
    trace = load(data_dir / "traces/azure2023/AzureLLMInferenceTrace_conv.csv")
    assert len(trace) == 19_366
    assert trace.arrival_ns[-1] / 1e9 == pytest.approx(3501.72, abs=0.005)
    assert trace.prompt_tokens.mean() == pytest.approx(1154.70, abs=0.005)
    assert trace.output_tokens.mean() == pytest.approx(211.13, abs=0.005)


def test_the_azure_2024_excerpt(data_dir: Path) -> None:
    trace = load(data_dir / "traces/azure2024_excerpt/azure_llm_2024_conv_first98.csv")
    assert len(trace) == 98
    assert trace.arrival_ns[-1] / 1e9 == pytest.approx(4.065, abs=0.0005)


ROWS = [
    {"arrival_s": 0.25, "prompt_tokens": 40, "output_tokens": 3, "request_id": "a",
     "session": "s", "max_tokens": 9, "priority": 1, "prefix_ids": [7, 8],
     "prefix_block_tokens": 32},
    {"arrival_s": 1.5, "prompt_tokens": 10, "output_tokens": 4, "request_id": "b",
     "session": "s", "max_tokens": None, "priority": 0, "prefix_ids": [],
     "prefix_block_tokens": 32},
]  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_every_own_format_reads_the_same(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"trace.{kind}"
    if kind == "jsonl":
        file.write_text("\n".join(json.dumps(row) for row in ROWS))
    elif kind == "csv":
        rows = [{**row, "prefix_ids": " ".join(map(str, row["prefix_ids"]))} for row in ROWS]
        pd.DataFrame(rows).astype({"max_tokens": "Int64"}).to_csv(file, index=False)
    else:
        pd.DataFrame(ROWS).to_parquet(file)
    trace = load(file)
    assert trace.source.format == kind
    assert trace.arrival_ns.tolist() == [250_000_000, 1_500_000_000]
    assert trace.ids() == ["a", "b"]
    assert trace.max_tokens is not None
    assert trace.max_tokens.tolist() == [9, -1]
    assert trace.priority is not None
    assert trace.priority.tolist() == [1, 0]
    assert trace.prefix_ids == [(7, 8), ()]
    assert trace.prefix_block_tokens == 32


def test_blank_lines_are_skipped_and_lines_counted_as_in_the_file(tmp_path: Path) -> None:
    assert len(load(write(tmp_path, HEADER + "0,1,1\n\n1,1,1\n\n"))) == 2
    with pytest.raises(TraceError, match=r"trace\.csv:5: prompt_tokens 'x'"):
        load(write(tmp_path, HEADER + "0,1,1\n\n1,1,1\n2,x,1\n"))


def test_unknown_columns_are_noted(tmp_path: Path) -> None:
    trace = load(write(tmp_path, "arrival_s,prompt_tokens,output_tokens,mood\n0,1,1,good\n"))
    assert trace.source.notes == ["columns not used: mood"]


def test_more_than_nine_digits_are_rounded_and_counted(tmp_path: Path) -> None:
    trace = load(write(tmp_path, HEADER + "0.0000000014,1,1\n0.5,1,1\n"))
    assert trace.arrival_ns[0] == 1
    assert trace.source.notes == ["1 arrival times rounded to whole nanoseconds"]


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
    "no time": (HEADER + "soon,1,1\n", r":2: arrival_s 'soon' is no arrival time"),
    "nan time": (HEADER + "nan,1,1\n", r":2: arrival_s 'nan' is no arrival time"),
    "negative time": (HEADER + "-1,1,1\n", r":2: arrival_s '-1' is no arrival time"),
    "backward": (HEADER + "5,1,1\n4,1,1\n", r":3: arrival_s '4' lies before '5'"),
    "missing column": ("arrival_s,prompt_tokens\n0,1\n", r":1: has no column output_tokens"),
    "other columns": ("when,what\n0,1\n", r":1: no format has this first line: 'when,what'"),
    "ragged": (HEADER + "0,1,1\n1,1,1,1\n", r"Expected 3 fields in line 3, saw 4"),
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


def test_samples_are_read_by_name() -> None:
    assert "azure_conv_like" in sample_names()
    assert len(load("azure_conv_like")) == 4_000
