"""A relay host that may say anything, against one member: what it learns is what the member was promised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from hostile.relay_host import TINY, HostileHost, Order, Recording, orders, rehearse
from hostile.relay_judged import (
    TWO_RECORDS,
    broken_promises,
    complains_by_record,
    delays_by_record,
    floats_decide,
    parts_by_record,
)
from noisebank.federated.relay import RelayTerms
from noisebank.federated.relay.grid import BID_UNITS


def test_a_bound_that_no_float_holds_reads_nothing():
    """0/0 is NaN, and NaN as a whole number is -2^63: past any noise the host read which numbers are 0."""
    seen = HostileHost(Order({**RelayTerms(8).to_json(), "bound": TINY})).play(
        [0.0, 0.5, 0.0, -1.0, 2.0, 0.0, 3.0, 0.0]
    )
    read = [bool(np.abs(one.steps.astype(float)).max() > 2.0**60) for one in seen.releases]
    assert not any(read)


@pytest.mark.parametrize("field", ["bound", "floor", "least", "skip", "slice_norm", "delta"])
@pytest.mark.parametrize("text", [TINY, "0.5", "2/4", "1e-5", "nan", "inf", "-1", "1/0", "1" * 50, 1, True, [], "٣"])
def test_numbers_of_terms_have_one_spelling_and_a_range(field: str, text: Any):
    from support.internals import BadRequest

    with pytest.raises(BadRequest):
        RelayTerms.from_json({**RelayTerms(4, mode="sar").to_json(), field: text})


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(orders())
def test_no_order_tells_two_vectors_apart(order: Order):
    assert not broken_promises(order)


def test_places_in_a_relay_tell_nothing_about_a_vector():
    """Only a member that is not the first gets the host's impossible sum, complains, and spends no attempt.

    Places follow from seeds. With other seeds in each conversation this looked like two vectors told apart.
    """
    terms, complained = RelayTerms(4, mode="bas").to_json(), set()
    for seed in range(20):
        order = Order(terms, bids=(2 * BID_UNITS, 3 * BID_UNITS), attempts=(1, 2, 3), before=2**62, seed=seed)
        assert not broken_promises(order)
        complained |= {len([line for line in rehearse(order, TWO_RECORDS[0]).transcript if line.what == "complain"])}
    assert complained >= {0, 1, 2}


@pytest.mark.parametrize(
    ("times", "last"),
    [
        ({"delays": {"pass": 50.0}}, "complain"),
        ({"delays": {"join": 50.0}}, "OutcomeUnknown: 127.0.0.1:40001 did not answer (TimeoutError)"),
        ({"pause": 3_000.0}, "OutcomeUnknown: the host has fallen silent; what was sent stays protected as shown"),
    ],
)
def test_a_member_loses_its_patience_at_the_same_time_whatever_its_vector(times: dict[str, Any], last: str):
    order = Order({**RelayTerms(4).to_json(), "patience_ms": 100}, **times)
    assert last in [line.what for line in rehearse(order, TWO_RECORDS[0]).transcript]
    assert not broken_promises(order)


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(orders())
def test_a_rehearsal_is_the_same_every_time(order: Order):
    assert rehearse(order, TWO_RECORDS[0]).transcript == rehearse(order, TWO_RECORDS[0]).transcript


@pytest.mark.parametrize("mode", ["masked", "bas", "sar"])
@pytest.mark.parametrize(("bid", "before"), [(0, 0), (0, 2**62), (2 * BID_UNITS, 0)])
@pytest.mark.parametrize("extra", [(), (("status", {}), ("go", {"plan": "x"}), ("x", {}))])
def test_a_rehearsal_says_what_sockets_say(mode: str, bid: int, before: int, extra: Any):
    """With one other member the larger bid comes last: no seed decides."""
    order = Order(RelayTerms(4, mode=mode).to_json(), bids=(bid,), attempts=(1, 2), before=before, extra=extra)
    over_sockets = HostileHost(order).play(TWO_RECORDS[0], Recording(silent=True))
    rehearsed = rehearse(order, TWO_RECORDS[0])
    assert sorted(line.what for line in over_sockets.transcript) == sorted(line.what for line in rehearsed.transcript)
    assert [one.steps.tolist() for one in over_sockets.releases] == [one.steps.tolist() for one in rehearsed.releases]


@pytest.mark.parametrize("bug", [complains_by_record, delays_by_record, parts_by_record])
def test_the_judge_catches_what_depends_on_the_record(bug: Any):
    order = Order(RelayTerms(4).to_json())
    with bug():
        assert any("conversations differ" in line for line in broken_promises(order))
    assert not broken_promises(order)


def test_the_judge_catches_floats_that_decide():
    """The same check, on the grid as it was: power."""
    order = Order({**RelayTerms(4).to_json(), "bound": TINY})
    with floats_decide():
        assert any("steps" in line for line in broken_promises(order))
    assert not broken_promises(order)
