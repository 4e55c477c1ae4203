"""Reads the geometry of a model from a Hugging Face config.json.

Knows the decoder families whose layers `ModelSpec` can describe, by their `model_type`. Others,
such as those with latent attention (MLA) or recurrent layers, are refused: their memory follows
other rules.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pagecast.engine.core.errors import UserError, nearest
from pagecast.engine.specs.model_spec import ModelSpec

FAMILIES = ("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gpt_oss")
WITH_QKV_BIAS = ("qwen2", "qwen2_moe")
"""Families whose q, k and v have a bias although no key says so."""
WITH_QK_NORM = ("qwen3", "qwen3_moe")


class Keys:
    """The keys of one config, with errors that name file and key."""

    def __init__(self, path: Path, keys: dict[str, Any]) -> None:
        self.path = path
        self.keys = keys

    def __contains__(self, key: str) -> bool:
        return self.keys.get(key) is not None

    def number(self, *names: str, default: int | None = None) -> int:
        """The whole number under the first of these keys that is there.

        Raises:
            UserError: if none is there and no default, or if it is no whole number from 0.
        """
        for name in names:
            if name not in self:
                continue
            value = self.keys[name]
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise UserError(f"{self.path}: {name}: {value!r}; accepted: a whole number from 0")
            return value
        if default is None:
            raise UserError(f"{self.path}: {names[0]}: missing; accepted: a whole number from 1")
        return default

    def flag(self, name: str) -> bool:
        """Whether a key is there and true."""
        return self.keys.get(name) is True


def read_config(path: Path) -> ModelSpec:
    """The model that a config.json, or the folder that holds one, describes.

    Raises:
        UserError: naming the file, and the key that is missing, wrong or of an unknown family.
    """
    file = path / "config.json" if path.is_dir() else path
    keys = _load(file)
    family = str(keys.keys.get("model_type", ""))
    if family not in FAMILIES:
        raise UserError(f"{file}: {nearest('model_type', family, FAMILIES)}")
    _refuse_mixed_layers(keys)
    hidden, heads = keys.number("hidden_size"), keys.number("num_attention_heads")
    experts = keys.number("num_local_experts", "num_experts", default=0)
    window, sliding_layers = _sliding(keys)
    return ModelSpec(
        name=file.resolve().parent.name,
        source=str(file),
        layers=keys.number("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=keys.number("num_key_value_heads", default=heads),
        head_dim=keys.number("head_dim", default=hidden // max(heads, 1)),
        vocab=keys.number("vocab_size"),
        max_position=keys.number("max_position_embeddings"),
        intermediate=0 if experts else keys.number("intermediate_size"),
        experts=experts,
        active_experts=keys.number("num_experts_per_tok") if experts else 0,
        expert_intermediate=(
            keys.number("moe_intermediate_size", "intermediate_size") if experts else 0
        ),
        shared_intermediate=keys.number("shared_expert_intermediate_size", default=0),
        sliding_window=window,
        sliding_layers=sliding_layers,
        tied=keys.flag("tie_word_embeddings"),
        qkv_bias=keys.flag("attention_bias") or family in WITH_QKV_BIAS,
        output_bias=keys.flag("attention_bias"),
        mlp_bias=keys.flag("mlp_bias") or family == "gpt_oss",
        qk_norm=family in WITH_QK_NORM,
    )


def _load(file: Path) -> Keys:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}; accepted: a config.json") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{file}:{error.lineno}: not JSON: {error.msg}") from None
    except UnicodeDecodeError:
        raise UserError(f"{file}: not text; accepted: a config.json") from None
    if not isinstance(document, dict):
        raise UserError(f"{file}: holds no keys; accepted: a config.json")
    text = document.get("text_config", document)
    if not isinstance(text, dict):
        raise UserError(f"{file}: text_config: {text!r}; accepted: the keys of a text model")
    return Keys(file, text)


def _refuse_mixed_layers(keys: Keys) -> None:
    """All layers must be alike: a model with both dense and expert layers is not described."""
    step = keys.number("decoder_sparse_step", default=1)
    if step != 1 or keys.keys.get("mlp_only_layers"):
        raise UserError(
            f"{keys.path}: decoder_sparse_step {step}, mlp_only_layers "
            f"{keys.keys.get('mlp_only_layers')}; accepted: experts in every layer (1, none)"
        )


def _sliding(keys: Keys) -> tuple[int, int]:
    """Window in tokens and number of layers that have it."""
    window = keys.number("sliding_window", default=0)
    if not window or keys.keys.get("use_sliding_window") is False:
        return 0, 0
    kinds = keys.keys.get("layer_types")
    if isinstance(kinds, list):
        return window, kinds.count("sliding_attention")
    layers = keys.number("num_hidden_layers")
    full = keys.number("max_window_layers", default=0) if keys.flag("use_sliding_window") else 0
    return window, max(0, layers - full)
