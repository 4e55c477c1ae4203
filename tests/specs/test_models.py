"""Models by name: counted weights against published counts."""

from __future__ import annotations

import pytest

from pagecast.engine.core.errors import UserError
from pagecast.engine.specs.geometry import active_parameters, parameters
from pagecast.engine.specs.models import model, names

PUBLISHED = {
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "gpt-oss-120b": 116_830_000_000,
    "mistral-7b": 7_248_023_552,
    "smollm2-135m": 134_515_008,
}
"""Sizes that the models' repositories state for their checkpoints; OpenAI's card for gpt-oss."""


def test_every_model_has_a_published_count() -> None:
    assert set(names()) == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_counted_weights_are_those_of_the_published_checkpoint(name: str) -> None:
    assert parameters(model(name)) == pytest.approx(PUBLISHED[name], rel=1e-4)


def test_active_weights_of_a_mixture_are_those_its_card_states() -> None:
    assert active_parameters(model("qwen3-30b-a3b")) == pytest.approx(3.3e9, rel=0.02)
    gpt_oss = model("gpt-oss-120b")
    # OpenAI's card leaves the input embedding out of its 5.13 billion.
    without_embedding = active_parameters(gpt_oss) - gpt_oss.vocab * gpt_oss.hidden
    assert without_embedding == pytest.approx(5.13e9, rel=0.01)


def test_all_weights_of_a_dense_model_are_active() -> None:
    llama = model("llama-3.1-8b")
    assert active_parameters(llama) == parameters(llama)


def test_an_unknown_name_is_answered_with_the_nearest_ones() -> None:
    with pytest.raises(UserError, match=r"unknown model 'llama-3-8b'.*llama-3\.1-8b"):
        model("llama-3-8b")
