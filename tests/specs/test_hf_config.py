"""Any config.json: published ones as their repositories word them, and broken ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pagecast.engine.core.errors import UserError
from pagecast.engine.specs.geometry import active_parameters, parameters
from pagecast.engine.specs.models import model

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 131072, "tie_word_embeddings": False,
    "attention_bias": False, "mlp_bias": False,
}  # fmt: skip

PUBLISHED: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": LLAMA,
    "mistral-7b": {
        "model_type": "mistral", "head_dim": None, "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 32768, "max_position_embeddings": 32768, "sliding_window": None,
    },
    "qwen2.5-7b": {
        "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
        "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
        "vocab_size": 152064, "max_position_embeddings": 32768, "sliding_window": 131072,
        "use_sliding_window": False, "max_window_layers": 28,
    },
    "qwen3-8b": {
        "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "head_dim": 128,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 151936, "max_position_embeddings": 40960, "sliding_window": None,
        "attention_bias": False,
    },
    "qwen3-30b-a3b": {
        "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
        "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
        "decoder_sparse_step": 1, "mlp_only_layers": [], "head_dim": 128, "num_hidden_layers": 48,
        "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 151936,
        "max_position_embeddings": 40960, "attention_bias": False,
    },
    "gpt-oss-120b": {
        "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880,
        "num_local_experts": 128, "num_experts_per_tok": 4, "head_dim": 64,
        "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8,
        "vocab_size": 201088, "max_position_embeddings": 131072, "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 18, "attention_bias": True,
    },
}  # fmt: skip


def written(folder: Path, document: object) -> str:
    (folder / "config.json").write_text(json.dumps(document), encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_config_gives_what_the_table_says(name: str, tmp_path: Path) -> None:
    spec = model(written(tmp_path, PUBLISHED[name]))
    known = model(name)
    assert replace(spec, name=known.name, source=known.source) == known
    assert spec.name == tmp_path.name


def test_mixtral_counts_its_experts(tmp_path: Path) -> None:
    mixtral = {
        "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
        "num_local_experts": 8, "num_experts_per_tok": 2, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
        "max_position_embeddings": 32768, "sliding_window": None,
    }  # fmt: skip
    spec = model(written(tmp_path, mixtral))
    # Mixtral of Experts (Jiang et al., 2024): 46.7 billion, 12.9 billion active.
    assert parameters(spec) == pytest.approx(46.7e9, rel=0.001)
    assert active_parameters(spec) == pytest.approx(12.9e9, rel=0.005)


def test_a_shared_expert_is_always_active(tmp_path: Path) -> None:
    qwen = {
        "model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632,
        "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
        "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 24,
        "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 151936,
        "max_position_embeddings": 8192, "decoder_sparse_step": 1,
    }  # fmt: skip
    spec = model(written(tmp_path, qwen))
    # Qwen1.5-MoE-A2.7B: 14.3 billion, 2.7 billion active.
    assert parameters(spec) == pytest.approx(14.3e9, rel=0.005)
    assert active_parameters(spec) == pytest.approx(2.7e9, rel=0.01)


def test_a_nested_text_model_is_found(tmp_path: Path) -> None:
    spec = model(written(tmp_path, {"model_type": "vision", "text_config": LLAMA}))
    assert spec.hidden == 4096


def test_a_window_on_all_layers(tmp_path: Path) -> None:
    config = {**PUBLISHED["mistral-7b"], "sliding_window": 4096}
    spec = model(written(tmp_path, config))
    assert (spec.sliding_window, spec.sliding_layers) == (4096, 32)


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size"])
def test_a_missing_key_is_named_with_its_file(key: str, tmp_path: Path) -> None:
    config = {name: value for name, value in LLAMA.items() if name != key}
    with pytest.raises(UserError, match=rf"config\.json: {key}: missing"):
        model(written(tmp_path, config))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"hidden_size": "4096"}, r"hidden_size: '4096'; accepted: a whole number"),
        ({"num_hidden_layers": 0}, "layers: 0; accepted: from 1"),
        ({"num_attention_heads": 0}, "heads: 0; accepted: from 1"),
        ({"num_key_value_heads": 5}, "kv_heads: 5; accepted: a divisor of heads, 32"),
        ({"model_type": "lama"}, "unknown model_type 'lama'; did you mean llama"),
        ({"model_type": "deepseek_v3"}, "unknown model_type 'deepseek_v3'"),
        ({"mlp_only_layers": [0]}, r"mlp_only_layers \[0\]"),
        ({"text_config": 3}, "text_config: 3"),
        (
            {"num_experts": 4, "num_experts_per_tok": 8, "moe_intermediate_size": 64},
            "active_experts: 8; accepted: 1 to 4",
        ),
    ],
)
def test_a_wrong_value_is_named(change: dict[str, Any], line: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=line):
        model(written(tmp_path, {**LLAMA, **change}))


def test_files_that_are_no_config(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        model(str(tmp_path))
    file = tmp_path / "config.json"
    file.write_text("{\n  nonsense", encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.json:2: not JSON"):
        model(str(file))
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(UserError, match="holds no keys"):
        model(str(file))
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not text"):
        model(str(file))
