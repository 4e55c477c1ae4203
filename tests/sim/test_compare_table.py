"""Winners, ties and differences, on summaries made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from pagecast.sim.study.notes import notes
from pagecast.sim.study.table import METRICS, Row, make_rows
from pagecast.sim.study.words import sentences


def summary(**values: float | None) -> dict[str, Any]:
    """A summary with the given values at their dotted paths, `__` for a dot; all else is 1."""
    document: dict[str, Any] = {}
    changed = {name.replace("__", "."): value for name, value in values.items()}
    for path in [metric.path for metric in METRICS]:
        *parents, key = path.split(".")
        place = document
        for parent in parents:
            place = place.setdefault(parent, {})
        place[key] = changed.get(path, 1.0)
    document["requests"]["total"] = document["requests"]["finished"]
    return {**document, "load": {"saturated": False, "unstable": False}, "scenario": values}


def row(path: str, *values: float | None) -> Row:
    key = path.replace(".", "__")
    rows = make_rows([summary(**{key: value}) for value in values])
    return next(each for each in rows if each.metric.path == path)


def test_less_time_wins_and_more_throughput_wins() -> None:
    assert row("latency_s.ttft.p99", 2.0, 1.0, 3.0).winner == 1
    assert row("throughput.output_tokens_per_s", 2.0, 1.0, 3.0).winner == 2
    assert row("cost.per_million_output_tokens", 0.5, 0.6).winner == 0


def test_differences_are_per_cent_of_the_baseline() -> None:
    changed = row("latency_s.e2e.p50", 2.0, 1.0, 3.0)
    assert [changed.change_percent(at) for at in range(3)] == [0.0, -50.0, 50.0]


def test_a_tie_is_nobodys() -> None:
    assert row("latency_s.itl.p99", 1.0, 1.0009).winner is None
    assert row("latency_s.itl.p99", 1.0, 1.0009).leaders == (0, 1)
    assert row("latency_s.itl.p99", 1.0, 1.0012).winner == 0
    assert row("latency_s.itl.p99", 2.0, 1.0, 1.0005).winner is None
    assert row("latency_s.itl.p99", 2.0, 1.0, 1.0005).leaders == (1, 2)
    assert row("requests.failed", 0, 0).winner is None


@pytest.mark.parametrize(
    "path",
    ["preemptions.swap", "preemptions.recompute", "preemptions.bytes_swapped",
     "preemptions.tokens_recomputed", "kv.mean_used_share", "kv.peak_used_share"],
)  # fmt: skip
def test_what_is_neither_good_nor_bad_marks_nobody(path: str) -> None:
    assert row(path, 5.0, 1.0).leaders == ()


def test_of_zero_there_is_no_per_cent() -> None:
    assert row("preemptions.total", 0, 5).change_percent(1) is None
    assert row("preemptions.total", 0, 0).change_percent(1) == 0
    assert row("preemptions.total", 5, 0).change_percent(1) == -100


def test_who_was_not_measured_neither_wins_nor_loses() -> None:
    measured = row("latency_s.ttft.p99", None, 2.0, 1.0)
    assert measured.winner == 2
    assert measured.change_percent(2) is None
    assert row("latency_s.ttft.p99", None, 2.0).winner is None


def test_a_metric_that_nobody_has_is_left_out() -> None:
    rows = make_rows([summary(goodput__share=None, preemptions__thrash=None)] * 2)
    assert len(rows) == len(METRICS) - 2


def test_sentences_name_winners_and_margins() -> None:
    summaries = [
        summary(latency_s__ttft__p99=2.0, latency_s__itl__p99=1.0),
        summary(latency_s__ttft__p99=1.0, latency_s__itl__p99=1.25),
        summary(latency_s__ttft__p99=3.0, latency_s__itl__p99=2.0),
    ]
    wins, ties = sentences(["a", "b", "c"], make_rows(summaries))
    assert wins == (
        "b wins p99 TTFT (−50.0 %) against a; a, the baseline, wins p99 ITL (−20.0 %) against b."
    )
    assert ties.startswith("No winner in p99 E2E, output tokens a second")


def test_sentences_name_who_shares_a_lead() -> None:
    summaries = [summary(latency_s__e2e__p99=value) for value in (2.0, 1.0, 1.0)]
    shared, _ = sentences(["a", "b", "c"], make_rows(summaries))
    assert shared == "b and c share the lead in p99 E2E (−50.0 %)."


def test_where_all_tie_there_is_no_winner() -> None:
    (sentence,) = sentences(["a", "b"], make_rows([summary(), summary()]))
    assert sentence.startswith("No winner: a and b tie in p99 TTFT, ")
    assert "wins" not in sentence


def test_notes_are_told_once_and_say_whom_they_are_about() -> None:
    common, own = "rows left out", "does not fit"
    one = {**summary(requests__finished=7), "notes": [common]}
    other = {**summary(requests__finished=8), "notes": [common, own]}
    one["requests"]["total"] = 10
    told = notes({"one": one, "other": other})
    assert told == [
        "one: latencies leave out 3 of 10 requests: not finished", common, f"other: {own}",
    ]  # fmt: skip
    assert notes({"a": summary(), "b": summary()}) == ["a and b are one scenario"]
