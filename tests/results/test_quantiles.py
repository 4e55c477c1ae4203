"""Weighted percentiles against numpy's on the list written out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pagecast.sim.results.quantiles import weighted_percentiles

PERCENTS = [0.0, 12.5, 50.0, 90.0, 95.0, 99.0, 99.9, 100.0]

weighted = st.lists(
    st.tuples(st.integers(0, 10**12), st.integers(0, 7)), min_size=1, max_size=40
).filter(lambda pairs: any(weight for _, weight in pairs))


@given(weighted)
def test_equals_numpy_on_the_expanded_list(pairs: list[tuple[int, int]]) -> None:
    values, weights = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    expanded = np.repeat(values, weights)
    assert np.array_equal(
        weighted_percentiles(values, weights, PERCENTS), np.percentile(expanded, PERCENTS)
    )
    assert np.array_equal(
        weighted_percentiles(values / 1e9, weights, PERCENTS),
        np.percentile(expanded / 1e9, PERCENTS),
    )


def test_nothing_measured_is_nan() -> None:
    nothing = np.array([], dtype=np.int64)
    assert np.isnan(weighted_percentiles(nothing, nothing, PERCENTS)).all()
    assert np.isnan(weighted_percentiles(np.array([5]), np.array([0]), PERCENTS)).all()


def test_ten_billion_gaps_cost_two_values() -> None:
    values, weights = np.array([10, 20]), np.array([9_900_000_001, 100_000_000])
    assert weighted_percentiles(values, weights, [99.0, 99.5]).tolist() == [10.0, 20.0]
