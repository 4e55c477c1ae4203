"""What ships is what is on disk: an unlisted folder works in a checkout and is missing later."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_SHIPPED = {"tests", "benchmarks", "docs", "build", "dist", "runs"}


def settings() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_every_package_on_disk_is_listed() -> None:
    found = {
        ".".join(("pagecast", *init.parent.relative_to(ROOT).parts))
        for init in ROOT.glob("*/**/__init__.py")
        if init.relative_to(ROOT).parts[0] not in NOT_SHIPPED
        and not init.relative_to(ROOT).parts[0].startswith(".")
    }
    assert found == set(settings()["packages"])


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {
        module.parent
        for module in ROOT.glob("*/**/*.py")
        if module.relative_to(ROOT).parts[0] not in NOT_SHIPPED
        and not module.relative_to(ROOT).parts[0].startswith(".")
    }
    assert all((folder / "__init__.py").exists() for folder in folders)


def test_the_root_is_no_package() -> None:
    assert not (ROOT / "__init__.py").exists()


def test_top_folders_say_that_they_are_typed() -> None:
    tops = {name.split(".")[1] for name in settings()["packages"]}
    assert all((ROOT / top / "py.typed").exists() for top in tops)


def matches(package: str, pattern: str) -> set[Path]:
    return set(ROOT.joinpath(*package.split(".")[1:]).glob(pattern))


def test_every_pattern_of_data_matches_a_file() -> None:
    for package, patterns in settings()["package-data"].items():
        if package != "*":
            assert all(matches(package, pattern) for pattern in patterns), package


def test_every_data_file_is_shipped() -> None:
    packages, data = settings()["packages"], settings()["package-data"]
    shipped = {
        path
        for package in packages
        for pattern in [*data["*"], *data.get(package, [])]
        for path in matches(package, pattern)
    }
    found = {
        path
        for top in {name.split(".")[1] for name in packages}
        for path in (ROOT / top).rglob("*")
        if path.is_file()
        and path.suffix not in {".py", ".pyc"}
        and not any(part.startswith(".") for part in path.relative_to(ROOT).parts)  # tools' caches
    }
    assert found == shipped
