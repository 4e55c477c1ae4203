"""The cohort's sums and buckets against a plain list of lengths that is walked every tick."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pagecast.engine.core.cohort import Cohort
from pagecast.engine.core.request import Request
from pagecast.engine.core.step import StepShape

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(1, 500)),
        st.tuples(st.just("leave"), st.integers(0, 50)),
        st.tuples(st.just("tick"), st.just(0)),
    ),
    max_size=80,
)


@settings(max_examples=150, deadline=None)
@given(ACTIONS, st.sampled_from([1, 2, 16]))
def test_sums_equal_those_of_a_walk(actions: list[tuple[str, int]], block_size: int) -> None:
    cohort, lengths = Cohort(block_size), dict[Request, int]()
    for action, value in actions:
        if action == "join":
            request = Request(len(lengths), value)
            request.computed = value
            cohort.join(request)
            lengths[request] = value
        elif action == "leave" and lengths:
            request = list(lengths)[value % len(lengths)]
            cohort.leave(request)
            assert request.computed == lengths.pop(request)
        elif action == "tick" and lengths:
            shape = StepShape()
            cohort.tick(shape)
            lengths = {request: length + 1 for request, length in lengths.items()}
            assert shape.decode_context_tokens == sum(lengths.values())
            assert shape.decode_context_sq == sum(n * n for n in lengths.values())
            assert shape.decode_context_max == max(lengths.values())
        assert cohort.size == len(lengths)
        assert cohort.tokens() == sum(lengths.values())
        assert {r: cohort.computed(r) for r in lengths} == lengths
        for ahead in (0, 1):
            full = {r for r, length in lengths.items() if (length + ahead) % block_size == 0}
            assert set(cohort.due(ahead)) == full
