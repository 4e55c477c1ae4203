"""Planning needs no GPU stack, and the core nothing but the standard library."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NO_CLOCK = {"time", "random", "datetime", "secrets", "uuid"}

WITHOUT_TORCH = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "triton"):
            raise ImportError("planning must not need " + name)
        return None

sys.meta_path.insert(0, Refuse())
from pagecast.cli.main import main
sys.argv = ["pagecast", *sys.argv[1:]]
main()
"""


def imported(module: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("folder", ["engine/core", "engine/specs"])
def test_core_and_specs_import_the_standard_library_alone(folder: str) -> None:
    for module in (ROOT / folder).glob("*.py"):
        for name in imported(module):
            own = name.startswith(("pagecast.engine.core", "pagecast.engine.specs"))
            assert own or name.split(".")[0] in sys.stdlib_module_names, f"{module}: {name}"


def test_the_core_sees_no_clock_and_no_chance() -> None:
    for module in (ROOT / "engine/core").glob("*.py"):
        assert not {name.split(".")[0] for name in imported(module)} & NO_CLOCK, module


def test_a_trace_is_replayed_where_torch_cannot_be_imported(tmp_path: Path) -> None:
    command = ["run", "--trace", "azure_conv_like", "--limit", "50", "--model", "llama-3.1-8b",
               "--gpu", "a100-80gb", "--out", str(tmp_path / "run")]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "summary.json").exists()
