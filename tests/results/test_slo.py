"""Limits as they are typed, and what meets them."""

import numpy as np
import pytest
from queues import one_by_one

from pagecast.engine.core.errors import UserError
from pagecast.sim.results.latency import STATISTICS, latencies
from pagecast.sim.results.slo import make_slo, parse_slo


def test_units_become_seconds() -> None:
    slo = parse_slo("ttft_p99=1s, itl_p99=50ms,queue_mean=250us,e2e_max=1.5e1s")
    expected = {"ttft_p99": 1.0, "itl_p99": 0.05, "queue_mean": 0.00025, "e2e_max": 15.0}
    assert slo.as_dict() == pytest.approx(expected)
    assert make_slo(slo.as_dict()) == slo


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ttft_p99", ["ttft_p99", "key=time"]),
        ("", ["''", "key=time"]),
        ("ttft=1s", ["'ttft'", "ttft, itl", "p99"]),
        ("tft_p99=1s", ["'tft_p99'", "ttft, itl"]),
        ("ttft_p98=1s", ["'ttft_p98'", "p99"]),
        ("ttft_p99=1", ["'1'", "unit", "ms"]),
        ("ttft_p99=1h", ["'1h'", "ms"]),
        ("ttft_p99=fast", ["'fast'"]),
        ("ttft_p99=1.2.3s", ["'1.2.3s'"]),
        ("ttft_p99=.s", ["'.s'"]),
        ("ttft_p99=0s", ["0s", "above zero"]),
        ("ttft_p99=-1s", ["'-1s'"]),
        ("ttft_p99=1s,ttft_p99=2s", ["ttft_p99", "twice"]),
    ],
)
def test_mistakes_are_told_in_one_line(text: str, names: list[str]) -> None:
    with pytest.raises(UserError) as error:
        parse_slo(text)
    line = str(error.value)
    assert "\n" not in line
    assert "accepted: " in line
    assert all(name in line for name in names)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0])
def test_limits_are_times_above_zero(value: float) -> None:
    with pytest.raises(UserError, match="above zero"):
        make_slo({"ttft_p99": value})


def fleet(**statistics: float | None) -> dict[str, dict[str, float | None]]:
    return {"ttft": {**dict.fromkeys(STATISTICS), **statistics}}


@pytest.mark.parametrize(
    ("p99_s", "unserved_share", "met"),
    [(0.9, 0.0, True), (1.0, 0.0, True), (1.1, 0.0, False), (0.9, 0.009, True),
     (0.9, 0.02, False), (None, 0.0, False)],
)  # fmt: skip
def test_turning_requests_away_does_not_meet_a_limit(
    p99_s: float | None, unserved_share: float, met: bool
) -> None:
    checks = parse_slo("ttft_p99=1s").check(fleet(p99=p99_s), unserved_share)
    assert checks == {"ttft_p99": {"limit_s": 1.0, "value_s": p99_s, "met": met}}


def test_the_loosest_limit_is_the_one_for_each_request() -> None:
    log = one_by_one(np.array([0, 0, 0, 0]))  # first tokens after 10, 20, 30, 40 ms
    kept = parse_slo("ttft_p50=15ms,ttft_p99=35ms,tpot_p99=1us").kept_by(latencies(log))
    assert kept.tolist() == [True, True, True, False]
