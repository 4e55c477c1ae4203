"""Real vLLM runs, recorded step by step: our scheduler must decide every step alike.

The negative control changes one rule at a time. The shares of steps that stay identical without a
rule were published with the recordings, counted by another implementation.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import golden
import pytest


@pytest.mark.parametrize("name", golden.RUNS)
def test_every_recorded_step_is_decided_alike(data_dir: Path, name: str) -> None:
    run = golden.read(data_dir / "golden" / name)
    made = golden.decisions(run, run.policy())
    assert golden.identical_steps(run, made) == len(run.rows)


@pytest.mark.parametrize(
    ("name", "axis", "identical"),
    [
        ("D_tight_wm0", {"null_blocks": 0}, 89),
        ("E_tight_wm01", {"null_blocks": 0}, 98),
        ("G_prefix", {"null_blocks": 0}, 33),
        ("D_tight_wm0", {"reserve": "chunk"}, 780),
        ("E_tight_wm01", {"low_watermark": 0.0}, 102),
        ("D_tight_wm0", {"requeue": "back"}, 95),
        ("G_prefix", {"publish": "at_commit"}, 4),
        ("G_prefix", {"free_order": "lru"}, 318),
    ],
)
def test_without_one_rule_steps_differ(
    data_dir: Path, name: str, axis: dict[str, Any], identical: int
) -> None:
    run = golden.read(data_dir / "golden" / name)
    made = golden.decisions(run, replace(run.policy(), **axis))
    assert golden.identical_steps(run, made, free_blocks=False) == identical
