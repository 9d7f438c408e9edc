"""A learning task whose participations are on a real node."""

from __future__ import annotations

import numpy as np
import pytest

from chain.gateway import deployed, gateway
from contract.node import node_or_skip
from support.internals import (
    AlreadyTookPart,
    BankParts,
    SqliteVault,
    SystemEntropy,
    learn_model,
    open_or_resume_task,
    open_task,
    verify_chain,
)
from support.learning import table, task


def test_participations_on_a_node_are_charged_once_and_verified() -> None:
    rows, targets = table(20)
    with node_or_skip() as node:
        where, vault = deployed(node), SqliteVault(":memory:")
        first = gateway(where)
        account = open_task(BankParts(first, vault, SystemEntropy()), task())
        learned = learn_model(task(), rows, targets, account)
        with pytest.raises(AlreadyTookPart):
            account.charge_devices(3, 9)
        first.close()
        second = gateway(where)  # another gateway reads the same books from the chain
        again = open_or_resume_task(BankParts(second, vault, SystemEntropy()), task())
        assert np.array_equal(learn_model(task(), rows, targets, again).weights, learned.weights)
        assert float(again.state.spent) == 1.0 and len(again.charged_ranges()) == 4
        second.close()
        assert verify_chain(where.url, where.contract).passed
