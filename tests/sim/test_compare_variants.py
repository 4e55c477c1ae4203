"""Variants: how they are typed and named, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from pagecast.cli.compare import SHORT
from pagecast.engine.core.errors import UserError
from pagecast.sim.study.keys import Keys
from pagecast.sim.study.variants import collect, make_variants

KEYS = Keys(SHORT)
BASE = {
    "load": {"trace": "azure_conv_like"},
    "model": {"name": "llama-3.1-8b"},
    "gpu": {"name": "a100-80gb"},
}


def test_every_combination_is_a_variant() -> None:
    found = collect(KEYS, ["preset=vllm-v1@0.33,vllm-v1@0.11", "low_watermark=0,0.02"])
    assert found == {
        "vllm-v1@0.33 + low_watermark=0": {
            "policy.preset": "vllm-v1@0.33", "policy.low_watermark": 0},
        "vllm-v1@0.33 + low_watermark=0.02": {
            "policy.preset": "vllm-v1@0.33", "policy.low_watermark": 0.02},
        "vllm-v1@0.11 + low_watermark=0": {
            "policy.preset": "vllm-v1@0.11", "policy.low_watermark": 0},
        "vllm-v1@0.11 + low_watermark=0.02": {
            "policy.preset": "vllm-v1@0.11", "policy.low_watermark": 0.02},
    }  # fmt: skip


def test_words_that_stand_for_two_keys_are_told_apart() -> None:
    found = collect(KEYS, ["kv_dtype=bf16,fp8", "weight_dtype=bf16,int4"])
    assert list(found)[:2] == [
        "kv_dtype=bf16 + weight_dtype=bf16", "kv_dtype=bf16 + int4",
    ]  # fmt: skip


def test_quotes_keep_commas() -> None:
    mixed = "int8:layers=2,tokens=64"
    assert list(collect(KEYS, [f'kv_dtype=bf16,"{mixed}"'])) == ["bf16", mixed]
    assert collect(KEYS, [], [f"x: kv_dtype='{mixed}', kv-blocks=9"]) == {
        "x": {"kv.dtype": mixed, "kv.blocks": 9}
    }


@pytest.mark.parametrize("value", ["off", "false", "no"])
def test_a_switch_takes_words_and_yes_or_no(value: str) -> None:
    for key in ("prefix_cache", "policy.prefix"):
        assert collect(KEYS, [], [f"x: {key}={value}"]) == {"x": {"policy.prefix": "off"}}


def test_the_file_and_the_command_line_say_the_same() -> None:
    section = yaml.safe_load(
        "as is:\nsmall:\n  kv.blocks: 900\n  policy: {preemption: recompute, prefix: off}\n"
    )
    typed = ["as is:", "small: kv_blocks=900, preemption=recompute, prefix_cache=off"]
    assert collect(KEYS, section=section) == collect(KEYS, variants=typed)


def test_the_file_comes_first_and_the_grid_last() -> None:
    found = collect(KEYS, ["seed=1,2"], ["b: seed=3"], {"a": {"seed": 4}})
    assert list(found) == ["a", "b", "seed=1", "seed=2"]


def test_a_variant_changes_its_own_keys_alone() -> None:
    base: dict[str, Any] = {**BASE, "policy": {"preset": "vllm-v1@0.33"}}
    one, other = make_variants(base, {"a": {}, "b/c ": {"policy.low_watermark": 0.1}})
    assert one.scenario.policy.axes() == {}
    assert other.scenario.policy.axes() == {"low_watermark": 0.1}
    assert base["policy"] == {"preset": "vllm-v1@0.33"}
    assert (one.folder, other.folder) == ("a", "b_c_")


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "no variants to compare; accepted: two or more"),
    "one": ({"vary": ["seed=1"]}, "one variant to compare"),
    "no list": ({"vary": ["seed"]}, "--vary seed: no list of values"),
    "a gap": ({"vary": ["seed=1,,2"]}, "no list of values"),
    "twice": ({"vary": ["seed=1,1"]}, "a value is given twice"),
    "key twice": ({"vary": ["seed=1,2", "seed=3,4"]}, "seed is varied twice"),
    "same key": ({"variants": ["x: kv_blocks=1, kv.blocks=2"]}, "kv.blocks is given twice"),
    "no name": ({"variants": ["seed=1"]}, "no name; accepted: 'name: key=value"),
    "no value": ({"variants": ["x: seed"]}, "'seed'; accepted: 'name: key=value"),
    "no yaml": ({"variants": ["x: seed=[1"]}, "'[1' is not YAML"),
    "same name": ({"variants": ["x:", "x: seed=1"]}, "two variants are named 'x'"),
    "same folder": ({"variants": ["a b:", "a/b:"]}, "'a b' and 'a/b' would share a folder"),
    "case": ({"variants": ["A:", "a:"]}, "would share a folder"),
    "load": ({"vary": ["rate_scale=1,2"]}, "rate_scale: variants serve the same load"),
    "trace": ({"vary": ["load.trace=a,b"]}, "load.trace: variants serve the same load"),
    "slo": ({"variants": ["x: slo.ttft_p99=1"]}, "slo.ttft_p99: variants serve the same load"),
    "unknown": ({"vary": ["kv_block=1,2"]}, "unknown key 'kv_block'; did you mean kv_blocks"),
    "section": ({"vary": ["policies.chunk=any,none"]}, "unknown key 'policies.chunk'"),
    "key": ({"vary": ["kv.bocks=1,2"]}, "kv.bocks: unknown key; did you mean blocks?"),
    "axis": ({"vary": ["policy.victims=last,cost"]}, "variant last: unknown policy axis"),
    "value": ({"vary": ["kv_dtype=bf16,fp4"]}, "variant fp4: kv.dtype: 'fp4'"),
    "list": ({"section": ["a", "b"]}, "variants: ['a', 'b']; accepted: names"),
    "text": ({"section": {"a": "seed=1"}}, "variants.a: 'seed=1'; accepted: keys with values"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_one_line(what: str) -> None:
    given, line = MISTAKES[what]
    with pytest.raises(UserError) as error:
        make_variants(BASE, collect(KEYS, **given))
    assert line in str(error.value)
    assert "\n" not in str(error.value)
