"""Models by name, from models.toml, or by the path of a Hugging Face config.json."""

from __future__ import annotations

from pathlib import Path

from pagecast.engine.core.errors import UserError, nearest
from pagecast.engine.specs import tables
from pagecast.engine.specs.hf_config import read_config
from pagecast.engine.specs.model_spec import ModelSpec

__all__ = ["ModelSpec", "model", "names"]

FILE = "models.toml"


def model(name_or_path: str) -> ModelSpec:
    """The model of that name, or the one that a config.json (or the folder of one) describes.

    Raises:
        UserError: if there is none, with the nearest names, or if the file is of no use.
    """
    if name_or_path in tables.read(FILE):
        return ModelSpec(name=name_or_path, **tables.read(FILE)[name_or_path])
    path = Path(name_or_path)
    if path.exists():
        return read_config(path)
    raise UserError(f"{nearest('model', name_or_path, names())}, or the path of a config.json")


def names() -> list[str]:
    """Names of all models that are known without a file."""
    return list(tables.read(FILE))
