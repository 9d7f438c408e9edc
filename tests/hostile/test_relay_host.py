"""A relay host that may say anything, against one member: what it learns is what the member was promised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from hostile.relay_host import TINY, HostileHost, Order, orders
from noisebank.federated.relay import Terms


def test_a_bound_that_no_float_holds_reads_nothing():
    """0/0 is NaN, and NaN as a whole number is -2^63: past any noise the host read which numbers are 0."""
    seen = HostileHost(Order({**Terms(8).plain(), "bound": TINY})).play([0.0, 0.5, 0.0, -1.0, 2.0, 0.0, 3.0, 0.0])
    read = [bool(np.abs(one.astype(float)).max() > 2.0**60) for one in seen.releases]
    assert not any(read)


@pytest.mark.parametrize("field", ["bound", "floor", "least", "skip", "slice_norm", "delta"])
@pytest.mark.parametrize("text", [TINY, "0.5", "2/4", "1e-5", "nan", "inf", "-1", "1/0", "1" * 50, 1, True, [], "٣"])
def test_numbers_of_terms_have_one_spelling_and_a_range(field: str, text: Any):
    from support.internals import BadRequest

    with pytest.raises(BadRequest):
        Terms.parse({**Terms(4, mode="sar").plain(), field: text})


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
