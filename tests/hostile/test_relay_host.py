"""A relay host that may say anything, against one member: what it learns is what the member was promised."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostile.relay_host import HostileHost, Order
from noisebank.federated.relay import Terms

TINY = "1e-400"
"""Above 0, and 0.0 as a float."""


def test_a_bound_that_no_float_holds_reads_nothing():
    """0/0 is NaN, and NaN as a whole number is -2^63: past any noise the host read which numbers are 0."""
    seen = HostileHost(Order({**Terms(8).plain(), "bound": TINY})).play([0.0, 0.5, 0.0, -1.0, 2.0, 0.0, 3.0, 0.0])
    read = [bool(np.abs(one.astype(float)).max() > 2.0**60) for one in seen.releases]
    assert not any(read)


@pytest.mark.parametrize("field", ["bound", "floor", "least", "skip", "slice_norm", "delta"])
@pytest.mark.parametrize("text", [TINY, "0.5", "2/4", "1e-5", "nan", "inf", "-1", "1/0", "1" * 50, 1, True, [], "٣"])
def test_numbers_of_terms_have_one_spelling_and_a_range(field: str, text: Any):
    from noisebank.errors import BadRequest

    with pytest.raises(BadRequest):
        Terms.parse({**Terms(4, mode="sar").plain(), field: text})


HOSTILE = st.one_of(
    st.sampled_from(
        [TINY, "0", "1", "1/1000000000000", "1000000000000", "1/3", "1e308", "-1", "nan", "2/4", "", None, True, 0]
    ),
    st.fractions(Fraction(1, 10**13), Fraction(10**13)).map(str),
    st.integers(-(2**70), 2**70),
    st.text(max_size=12),
)  # fmt: skip
MODES = st.sampled_from(["masked", "bas", "sar"])
FIELDS = st.sampled_from(sorted(Terms.__slots__))


@st.composite
def orders(draw: Any) -> Order:
    """Terms of a good host with some fields replaced, any bids and attempts, and messages of any content."""
    mode = draw(MODES)
    plain = Terms(4, mode=mode, slices=draw(st.sampled_from([1, 2])) if mode == "sar" else 1).plain()
    plain["patience_ms"] = 100
    for name in draw(st.lists(FIELDS, max_size=2)):
        plain[name] = draw(HOSTILE)
    extra = st.tuples(
        st.sampled_from(["open", "roster", "plan", "go", "pass", "status", "hello", "x"]),
        st.dictionaries(
            st.sampled_from(["plan", "seeds", "entries", "host_key", "chain", "chains"]), HOSTILE, max_size=3
        ),
    )
    return Order(
        plain,
        bids=tuple(draw(st.lists(st.integers(0, 10**15), min_size=1, max_size=2))),
        attempts=tuple(draw(st.lists(st.integers(-1, 4), min_size=1, max_size=3))),
        before=draw(st.sampled_from([0, 2**40, -(2**40), 2**62, -(2**63)])),
        extra=tuple(draw(st.lists(extra, max_size=2))),
    )


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(orders())
def test_no_order_tells_two_vectors_apart(order: Order):
    from hostile.relay_judged import broken_promises

    assert not broken_promises(order)


def test_the_judge_catches_floats_that_decide():
    """The same check, on the grid as it was: power."""
    from hostile.relay_judged import broken_promises, floats_decide

    order = Order({**Terms(4).plain(), "bound": TINY})
    with floats_decide():
        assert any("steps" in line for line in broken_promises(order))
    assert not broken_promises(order)
