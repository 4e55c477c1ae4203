"""The result folder: all of it is written, or nothing is.

Everything goes into a hidden folder beside the target, which takes the target's name at the end.
A run that is killed leaves at most that hidden folder. Only a folder that such a write made may be
replaced; the marker file in it says so.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from pagecast.engine.core.errors import UserError

MARKER = ".pagecast"
SUMMARY = "summary.json"
COMPARISON = "compare.json"


def check_target(target: Path) -> None:
    """Refuse a path that results may not be written to.

    Raises:
        UserError: if it is a file, or a folder with something in it that is no earlier result.
    """
    if target.exists() and not target.is_dir():
        raise UserError(f"{target}: is a file; accepted: a new folder, or an earlier result's")
    if target.is_dir() and any(target.iterdir()) and not _is_result(target):
        raise UserError(
            f"{target}: holds files that are no earlier result and is left alone; accepted: a new "
            "or empty folder, or an earlier result's"
        )


def save_results(
    target: Path,
    summary: Mapping[str, Any],
    scenario: Mapping[str, Any],
    frames: Mapping[str, pd.DataFrame],
    draw: Callable[[Path], None],
) -> None:
    """Write a run's results, in place of an earlier result if there is one.

    Args:
        target: the folder; its parents are made.
        summary: becomes `summary.json`, NaN and infinity as null.
        scenario: becomes `scenario.yaml`.
        frames: each becomes `<name>.parquet`.
        draw: writes figures into the folder it is given.

    Raises:
        UserError: if the target may not be written to.
    """
    with replacing(target) as folder:
        for name, frame in frames.items():
            frame.to_parquet(folder / f"{name}.parquet", index=False)
        draw(folder)
        text = yaml.safe_dump(_plain(scenario), sort_keys=False, allow_unicode=True)
        (folder / "scenario.yaml").write_text(text, encoding="utf-8")
        (folder / SUMMARY).write_text(to_json(summary) + "\n", encoding="utf-8")


def load_summary(path: Path) -> dict[str, Any]:
    """The summary of a result folder, or of its `summary.json`.

    Raises:
        UserError: if there is none, or it cannot be read.
    """
    file = path / SUMMARY if path.is_dir() else path
    try:
        summary = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}; accepted: a result folder") from None
    except ValueError as error:
        raise UserError(f"{file}: not JSON ({error}); accepted: a result folder") from None
    if not isinstance(summary, dict) or "requests" not in summary:
        raise UserError(f"{file}: no summary of a run; accepted: a result folder")
    return summary


def to_json(document: Mapping[str, Any]) -> str:
    """JSON of nested values, numpy's among them; NaN and infinity become null."""
    return json.dumps(_plain(document), indent=2, allow_nan=False, ensure_ascii=False)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A folder to write into, which becomes the target at the end, or vanishes on an error.

    Raises:
        UserError: if the target may not be written to.
    """
    check_target(target)
    target = target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.parent / f".{target.name}.partial-{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        yield partial
        (partial / MARKER).touch()
        _take_place(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _take_place(partial: Path, target: Path) -> None:
    """Give a finished folder its name. The earlier result steps aside before it is removed."""
    check_target(target)
    if not target.exists():
        partial.rename(target)
        return
    earlier = partial.with_name(f".{target.name}.earlier-{os.getpid()}")
    target.rename(earlier)
    partial.rename(target)
    shutil.rmtree(earlier)


def _is_result(folder: Path) -> bool:
    results = (folder / name for name in (SUMMARY, COMPARISON))
    return (folder / MARKER).is_file() and any(file.is_file() for file in results)


def _plain(value: Any) -> Any:
    """The same in JSON's own types."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
