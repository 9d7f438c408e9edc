"""A member's book: a budget that is set once, charges that are made once, models that stay what they were."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from noisebank.core.errors import BadRequest, BudgetExhausted, Refused
from noisebank.core.units import Precision
from noisebank.federated.blockfl.member_book import Budget, MemberBook


@pytest.fixture
def book(tmp_path: Path) -> Iterator[MemberBook]:
    book = MemberBook(tmp_path / "deep" / "book")
    yield book
    book.close()


@pytest.mark.parametrize(("inside", "outside"), [("0.1", "0.1000001"), ("1e-15", "9.99e-16")])
def test_deltas_have_ends(inside: str, outside: str) -> None:
    assert Budget(Fraction(2), Fraction(inside)).total_precision == Precision.floor(Fraction(2))
    with pytest.raises(BadRequest, match=r"1e-15 .. 0.1"):
        Budget(Fraction(2), Fraction(outside))


def test_a_budget_is_set_once_and_pays_for_each_task_once(book: MemberBook) -> None:
    with pytest.raises(BadRequest, match="no budget"):
        book.charge_task(b"a", b"work", Fraction(1), Fraction(0))
    book.set_budget("2", "1e-4")
    book.set_budget("2.0", "0.0001")
    with pytest.raises(BadRequest, match=r"is \(2, 0.0001\) and stays it"):
        book.set_budget("3", "1e-4")
    assert book.charge_task(b"a", b"work", Fraction(1), Fraction(1, 10**5)) == Precision(10**18)
    assert book.charge_task(b"a", b"work", Fraction(1), Fraction(1, 10**5)) == Precision(10**18)
    with pytest.raises(Refused, match="other terms"):
        book.charge_task(b"a", b"other work", Fraction(1), Fraction(1, 10**5))
    with pytest.raises(BudgetExhausted):
        book.charge_task(b"b", b"work", Fraction(10**18 + 1, 10**18), Fraction(0))
    assert book.spent_precision == Precision(10**18) and book.charged_tasks == [b"a"]
    book.charge_task(b"b", b"work", Fraction(1), Fraction(0))  # exactly what is left
    book.adopt_charge(b"c", b"id", Precision(5))
    book.adopt_charge(b"c", b"id", Precision(5))
    assert book.spent_precision == Precision(2 * 10**18 + 5) and sorted(book.charged_tasks) == [b"a", b"b"]


def test_the_first_model_of_a_round_is_the_one_that_leaves(book: MemberBook) -> None:
    assert book.find_model(b"a", 1) is None
    assert [book.seal_model(b"a", 1, content) for content in (b"first", b"second")] == [b"first"] * 2
    assert book.seal_model(b"a", 2, b"next") == book.find_model(b"a", 2) == b"next"
    book.fix_example_count(b"a", 100)
    book.fix_example_count(b"a", 100)
    with pytest.raises(Refused, match="begun with 100 examples"):
        book.fix_example_count(b"a", 101)
