"""The host's state of an attempt: who may complain about whom, and what may arrive once."""

from __future__ import annotations

import numpy as np
import pytest

from noisebank.core.errors import Refused
from noisebank.federated.relay import RelayTerms
from noisebank.federated.relay.collection import AttemptCollector
from noisebank.federated.relay.messages import Message
from noisebank.federated.relay.sealing import AttemptKey
from support.relay import made_plan

HOST = "0xhost"
PLAN = made_plan(RelayTerms(6, mode="bas"), [1.0] * 5)
KEY = AttemptKey(bytes(31) + b"\x07")


def complaint(sender: str, about: str, chain: object = 0, attempt: int = 1) -> Message:
    body = {"about": about, "chain": chain, "why": "it is silent"}
    return Message("test", attempt, 1, "complain", sender, HOST, body, b"")


def collector() -> AttemptCollector:
    return AttemptCollector(PLAN, KEY, HOST, "test")


@pytest.mark.parametrize("position", range(5))
def test_complaints_are_about_neighbours_in_the_named_chain(position: int) -> None:
    order = PLAN.chains[0].order
    assert len(order) == 5
    for other, address in enumerate(order):
        host = collector()
        if abs(other - position) == 1:
            assert host.accept_message(complaint(order[position], address)) == "noted"
            assert host.has_failed and not host.is_complete
        else:
            with pytest.raises(Refused, match="about a neighbour"):
                host.accept_message(complaint(order[position], address))
            assert not host.has_failed
    for about in ("", HOST):
        assert collector().accept_message(complaint(order[position], about)) == "noted"


@pytest.mark.parametrize("chain", [-1, len(PLAN.chains), "0", True, None])
def test_there_is_no_neighbour_in_a_chain_that_is_none(chain: object) -> None:
    order = PLAN.chains[0].order
    with pytest.raises(Refused, match="about a neighbour"):
        collector().accept_message(complaint(order[0], order[1], chain))


def test_one_complaint_per_member_and_none_of_another_attempt_or_stranger() -> None:
    order, host = PLAN.chains[0].order, collector()
    host.accept_message(complaint(order[0], order[1]))
    with pytest.raises(Refused, match="one complaint"):
        host.accept_message(complaint(order[0], ""))
    with pytest.raises(Refused, match="another attempt"):
        host.accept_message(complaint(order[1], "", attempt=2))
    with pytest.raises(Refused, match="takes no part"):
        host.accept_message(complaint("0xsomebody", ""))
    host.is_closed = True
    with pytest.raises(Refused, match="another attempt"):
        host.accept_message(complaint(order[1], ""))


def test_nothing_that_arrived_is_a_sum_of_zeros() -> None:
    assert np.array_equal(collector().compute_sum(), np.zeros(6, dtype=np.uint64)) and not collector().is_complete
