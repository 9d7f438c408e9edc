"""Gas on a real node stays inside its limits, and the page about it is what is measured."""

from __future__ import annotations

import os

import pytest

from contract.gas_table import BUYS, TABLE, Operation, measured, table
from contract.node import node_or_skip
from contract.real import ARTEFACT

LIMITED = {
    "FIRST",
    "REPEAT",
    "REPEAT, for an analyst who has not seen it",
    "FIRST in a batch of 100, a record",
    "FIRST with a run over 1,024 cells",
}


@pytest.fixture(scope="module")
def operations() -> list[Operation]:
    with node_or_skip() as node:
        return measured(node)


def test_every_operation_stays_inside_its_limit(operations: list[Operation]):
    assert {made.name for made in operations if made.most} == LIMITED
    assert {made.name: max(made.gas) for made in operations if not made.cleared} == {}


def test_free_answers_write_no_money(operations: list[Operation]):
    for made in operations:
        if made.name.startswith(("REPEAT", "BLUR", "INFER", "publish")):
            assert "money" not in made.new + made.changed, made.name
        if made.name == "REPEAT":
            assert made.new + made.changed == {}


def test_every_word_that_is_touched_is_explained(operations: list[Operation]):
    for made in operations:
        assert set(made.new + made.changed + made.read) <= set(BUYS), made.name


@pytest.mark.skipif(ARTEFACT in os.environ, reason="the page is about the contract that is shipped")
def test_page_is_what_is_measured(operations: list[Operation]):
    assert TABLE.read_text() == table(operations), "run python -m contract.gas_table"
