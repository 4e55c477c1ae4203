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

REFUSED = ("torch", "triton", "pagecast.kernels", "pagecast.engine.runtime")

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if any(f"{name}.".startswith(f"{refused}.") for refused in REFUSED):
            raise ImportError("planning must not need " + name)
        return None

sys.meta_path.insert(0, Refuse())
"""

IMPORT_ALL = """
import importlib, pkgutil
for top in ("cli", "traces", "engine.core", "engine.specs", "sim"):
    package = importlib.import_module(f"pagecast.{top}")
    for module in pkgutil.walk_packages(package.__path__, f"pagecast.{top}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
            print(module.name)
"""

COMMAND = """
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


def run_without_torch(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH + script, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("folder", "below"),
    [
        ("engine/core", ("pagecast.engine.core",)),
        ("engine/specs", ("pagecast.engine.core", "pagecast.engine.specs")),
    ],
)
def test_core_and_specs_import_the_standard_library_alone(
    folder: str, below: tuple[str, ...]
) -> None:
    for module in (ROOT / folder).glob("*.py"):
        for name in imported(module):
            assert name.startswith(below) or name.split(".")[0] in sys.stdlib_module_names, (
                f"{module}: {name}"
            )


def test_the_core_sees_no_clock_and_no_chance() -> None:
    for module in (ROOT / "engine/core").glob("*.py"):
        assert not {name.split(".")[0] for name in imported(module)} & NO_CLOCK, module


@pytest.mark.parametrize("name", ["torch", "triton", "pagecast.kernels", "pagecast.engine.runtime"])
def test_what_is_refused_cannot_be_imported(name: str) -> None:
    assert f"planning must not need {name}" in run_without_torch(f"import {name}").stderr


def test_every_module_of_planning_imports_where_torch_cannot_be() -> None:
    done = run_without_torch(IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    assert {"pagecast.cli.main", "pagecast.engine.core.scheduler", "pagecast.sim.simulate"} <= set(
        done.stdout.split()
    )


def test_a_trace_is_replayed_where_torch_cannot_be_imported(tmp_path: Path) -> None:
    command = ["run", "--trace", "azure_conv_like", "--limit", "50", "--model", "llama-3.1-8b",
               "--gpu", "a100-80gb", "--out", str(tmp_path / "run")]  # fmt: skip
    done = run_without_torch(COMMAND, *command)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "summary.json").exists()
