"""The README's annotated tree names what is on disk, all of it, and nothing else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNNAMED = {"__init__.py", "py.typed"}


def tracked() -> set[str]:
    """Modules and folders of the packages, and files at the top, as git knows them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    paths = [Path(line) for line in listed if (ROOT / line).exists()]
    names = {path.as_posix() for path in paths if path.suffix == ".py" and shown(path)}
    folders = {parent.as_posix() for path in paths for parent in path.parents if shown(parent)}
    return (names | folders) - {"."}


def shown(path: Path) -> bool:
    """Tests, docs and benchmarks are shown as folders only; so are folders of data."""
    inside = len(path.parts) > 1 and path.parts[0] in {"tests", "docs", "benchmarks", ".ci"}
    return path.name not in UNNAMED and not inside


def annotated() -> set[str]:
    """Paths of the tree: a line a file or folder, four spaces of indent for each level."""
    section = (ROOT / "README.md").read_text().split("## The tree", 1)[1]
    block = re.search(r"```text\n(.*?)```", section, re.DOTALL)
    assert block, "no fenced text block after '## The tree'"
    stack: list[str] = []
    paths = set()
    for line in block[1].splitlines():
        entry = re.match(r"( *)(\S+)", line)
        if entry:
            depth = len(entry[1]) // 4
            stack = [*stack[:depth], entry[2].rstrip("/")]
            paths.add("/".join(stack))
    return paths


def test_the_tree_is_complete_and_true() -> None:
    assert annotated() == tracked()


def test_every_line_is_annotated() -> None:
    section = (ROOT / "README.md").read_text().split("## The tree", 1)[1]
    block = re.search(r"```text\n(.*?)```", section, re.DOTALL)
    assert block
    assert all(len(line.split(None, 1)) == 2 for line in block[1].splitlines() if line.strip())
