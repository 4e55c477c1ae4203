"""Reading traces: exact times, and every column in every format."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagecast.traces import load, sample_names
from pagecast.traces.errors import TraceError

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


@given(st.lists(st.integers(0, 10**18), min_size=1), st.sampled_from(["", "1e9,1,1\n"]))
@settings(max_examples=60, deadline=None)
def test_every_nanosecond_survives(
    tmp_path_factory: pytest.TempPathFactory, stamps: list[int], last: str
) -> None:
    """Plain digits are read as a column; an exponent in it has each cell read by itself."""
    stamps.sort()
    rows = [f"{stamp // 10**9}.{stamp % 10**9:09d},1,1\n" for stamp in stamps]
    file = write(tmp_path_factory.mktemp("exact"), HEADER + "".join(rows) + last)
    assert load(file).arrival_ns[: len(stamps)].tolist() == stamps


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


def test_a_line_end_within_quotes_counts_as_a_line(tmp_path: Path) -> None:
    text = 'arrival_s,prompt_tokens,output_tokens,session\n0,1,1,"two\nlines"\n1,x,1,one\n'
    with pytest.raises(TraceError, match=r"trace\.csv:4: prompt_tokens 'x'"):
        load(write(tmp_path, text))


def test_what_is_left_out_is_noted(tmp_path: Path) -> None:
    trace = load(write(tmp_path, "arrival_s,prompt_tokens,output_tokens,mood\n0,1,1,good\n,,,\n"))
    assert trace.source.notes == ["1 blank lines skipped", "columns not used: mood"]
    text = AZURE.strip() + ",Region\n2023-11-16 18:15:46.6805900,374,44,west\n"
    assert load(write(tmp_path, text)).source.notes == ["columns not used: Region"]


@pytest.mark.parametrize("ending", ["gz", "zip", "bz2", "zst", "tar"])
def test_the_content_counts_and_not_the_name(tmp_path: Path, ending: str) -> None:
    assert len(load(write(tmp_path, HEADER + "0,1,1\n", f"trace.{ending}"))) == 1


def test_more_than_nine_digits_are_rounded_and_counted(tmp_path: Path) -> None:
    trace = load(write(tmp_path, HEADER + "0.0000000014,1,1\n0.5,1,1\n"))
    assert trace.arrival_ns[0] == 1
    assert trace.source.notes == ["1 arrival times rounded to whole nanoseconds"]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_request_may_have_no_prefix_ids(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"trace.{kind}"
    plain = {"prompt_tokens": 20, "output_tokens": 1}
    rows = [
        {"arrival_s": 0, **plain, "prefix_ids": [7], "prefix_block_tokens": 16},
        {"arrival_s": 1, **plain},
    ]
    if kind == "jsonl":
        file.write_text("\n".join(json.dumps(row) for row in rows))
    elif kind == "csv":
        file.write_text(",".join(rows[0]) + "\n0,20,1,7,16\n1,20,1,,\n")
    else:
        pd.DataFrame(rows).astype({"prefix_block_tokens": "Int64"}).to_parquet(file)
    trace = load(file)
    assert trace.prefix_ids == [(7,), ()]
    assert trace.prefix_block_tokens == 16


def test_whole_numbers_beside_nulls_stay_whole(tmp_path: Path) -> None:
    columns = {name: [1, 1] for name in ("arrival_s", "prompt_tokens", "output_tokens")}
    gaps = pd.array([2**40, None], dtype="Int64")
    pd.DataFrame({**columns, "session": gaps, "max_tokens": gaps}).to_parquet(
        tmp_path / "t.parquet"
    )
    trace = load(tmp_path / "t.parquet")
    assert trace.session == [str(2**40), ""]
    assert trace.max_tokens is not None
    assert trace.max_tokens.tolist() == [2**40, -1]


def test_samples_are_read_by_name() -> None:
    assert "azure_conv_like" in sample_names()
    assert len(load("azure_conv_like")) == 4_000
