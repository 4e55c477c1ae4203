"""`pagecast memory`: the table, the document, and one line for what does not fit."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from pagecast.cli.errors import one_line_errors
from pagecast.cli.memory import memory
from pagecast.engine.core.errors import UserError

app = typer.Typer()
app.command()(memory)

MEASURED = (
    "--gpu h100 --gpu-memory-utilization 0.95 --weights-gib 14.99 --activation-gib 1.89 "
    "--non-torch-gib 0.25"
)


def printed(arguments: str) -> str:
    result = CliRunner().invoke(app, arguments.split(), env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    return result.output


def test_the_document_holds_the_pool() -> None:
    document = json.loads(printed(f"{MEASURED} --json"))
    assert document["tokens"] == pytest.approx(476_000, rel=0.001)
    assert document["pool_bytes"] / 2**30 == pytest.approx(58.1, rel=0.001)
    assert document["token_bytes"] == 131_072
    assert document["blocks"] * document["block_bytes"] <= document["pool_bytes"]


def test_every_line_of_the_table_is_explained() -> None:
    output = printed(f"{MEASURED} --swap-gib 4 --max-model-len 8192")
    for line in ("79.19 GiB", "-14.99 GiB", "58.10 GiB", "131,072 B", "32 layers, 8 KV heads"):
        assert line in output
    assert "2,048 blocks" in output
    assert "sequences of 8,192 tokens" in output
    assert output.count("given") == 3


def test_a_pool_in_16_bit_has_its_line_and_is_taken_off() -> None:
    arguments = f"{MEASURED} --max-seqs 128 --kv-dtype int8:tokens=64,layers=2"
    # 128 sequences of 4 blocks of 16 tokens, 131,072 bytes each: 1 GiB.
    output = printed(arguments)
    for line in ("-1.00 GiB", "first 64 tokens of 128 sequences, in 16 bit", "57.10 GiB"):
        assert line in output
    document = json.loads(printed(f"{arguments} --json"))
    assert document["kv_dtype"] == "int8:layers=2,tokens=64"
    assert (document["wide_blocks"], document["wide_bytes"]) == (512, 1 << 30)
    assert document["longest_tokens"] == document["tokens"] - (512 - 4) * 16
    assert "wide" not in printed(f"{MEASURED} --kv-dtype int8:layers=2")


def test_limits_follow_the_gpu_unless_given() -> None:
    # vLLM: 8,192 tokens and 1,024 sequences from 70 GiB, the A100 excepted: 2,048 and 256.
    assert json.loads(printed("--gpu h100 --json"))["max_seqs"] == 1024
    assert json.loads(printed("--gpu a100-80gb --json"))["max_batched_tokens"] == 2048
    assert json.loads(printed("--gpu h100 --max-seqs 64 --json"))["max_seqs"] == 64


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("--model llama-3.1-70b --gpu h100", "needs at least TP 2"),
        ("--gpu a10 --max-model-len 100000", "needs at least TP 2"),
        ("--tp 3", "accepted: 1, 2, 4, 8, 16, 32"),
        ("--model llama", "unknown model 'llama'; did you mean"),
        ("--gpu h10", "unknown gpu 'h10'; did you mean h100"),
        ("--max-model-len 200000", "accepted: up to 131072"),
        ("--weight-dtype int3", "unknown weight dtype 'int3'"),
        ("--kv-dtype int3", "unknown kv dtype 'int3'; did you mean int8"),
        ("--kv-dtype bf16:layers=2", "accepted: fp8, int8"),
        ("--kv-dtype int8:layers=17", "accepted: layers=0 to 16"),
        ("--kv-dtype int8:tokens=4096", "wide KV blocks 128.00"),
    ],
)
def test_what_cannot_be_ends_in_one_line_and_status_2(
    arguments: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = CliRunner().invoke(app, arguments.split())
    assert isinstance(result.exception, UserError)
    with pytest.raises(SystemExit) as ended, one_line_errors():
        raise result.exception
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1


def test_numbers_out_of_range_are_refused() -> None:
    for arguments in ("--tp 0", "--gpu-memory-utilization 1.5", "--block-size 0"):
        assert CliRunner().invoke(app, arguments.split()).exit_code == 2
