"""What people receive: quotes, answers and receipts."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from fractions import Fraction
from pathlib import Path

import pytest

from noisebank.account.account import Account
from noisebank.core.digests import digest_answer
from noisebank.core.errors import BadRequest
from noisebank.core.estimates import standard_deviation
from noisebank.core.receipts import RECEIPT_FORMAT, read_receipt
from noisebank.core.records import Case
from noisebank.core.result import Result
from noisebank.core.units import GridValue, Precision, floor_to_ladder
from noisebank.core.wording import CASE_DESCRIPTIONS
from support.banks import memory_account, write_people

COUNT = "SELECT COUNT(*) FROM people WHERE age > 30"


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return memory_account(write_people(tmp_path, epsilon="8"))


@pytest.fixture
def answer(account: Account) -> Result:
    return account.ask(COUNT, sigma=2)


def test_an_answer_says_everything(account: Account, answer: Result) -> None:
    assert answer.case is Case.FIRST
    assert answer.cost == answer.parts[0].target == floor_to_ladder(Precision(25 * 10**16))
    assert answer.remaining == account.state.remaining_budget == account.state.budget - answer.cost
    assert answer.value == float(answer.exact)
    assert answer.stddev == pytest.approx(2, rel=1e-8)
    assert answer.sql == COUNT


def test_an_answer_reads_well(answer: Result) -> None:
    question, number, cost, case, _ = repr(answer).splitlines()
    assert question == COUNT and number.startswith("COUNT(*)") and "± 3.9 (95%:" in number
    assert "standard deviation 2.0" in number
    assert "% of the budget; " in cost and "epsilon" in cost.partition("left")[2]
    assert CASE_DESCRIPTIONS[Case.FIRST] in case
    assert set(CASE_DESCRIPTIONS) == set(Case)


def test_an_answer_cannot_be_changed(answer: Result) -> None:
    with pytest.raises(FrozenInstanceError):
        answer.sql = ""  # type: ignore[misc]


def test_intervals_are_symmetric_and_grow_with_confidence(answer: Result) -> None:
    low, high = answer.interval()
    assert (low + high) / 2 == pytest.approx(answer.value)
    assert high - low == pytest.approx(2 * 1.959964 * answer.stddev, rel=1e-6)
    assert answer.interval(0.5)[1] < answer.interval(0.95)[1] < answer.interval(0.999)[1]
    for confidence in (0.0, 1.0, -1.0, 2.0, float("nan")):
        with pytest.raises(BadRequest, match="confidence"):
            answer.interval(confidence)


def test_averages_are_sums_in_another_unit(account: Account) -> None:
    total = account.ask("SELECT SUM(income) FROM people", sigma=5500)
    average = account.ask("SELECT AVG(income) FROM people", sigma=275)
    assert average.case is Case.REPEAT
    assert average.exact == total.exact / 20
    assert average.stddev == pytest.approx(total.stddev / 20)


def test_quotes_cost_nothing_and_tell_the_price(account: Account) -> None:
    quote = account.quote(COUNT, sigma=2)
    assert account.state.spent == Precision(0) and account.ledger.list_reservations(account.id) == ()
    answer = account.ask(COUNT, sigma=2)
    assert (quote.case, quote.cost, quote.target, quote.stddev) == (
        answer.case, answer.cost, answer.parts[0].target, answer.stddev,
    )  # fmt: skip
    assert quote.affordable and quote.share_now == 0 < quote.share_after
    assert quote.interval_half_width() == pytest.approx(3.919928, rel=1e-6)
    assert account.quote(COUNT, sigma=2).case is Case.REPEAT
    assert not account.quote(COUNT, sigma="0.1").affordable


def test_a_receipt_proves_its_answer(account: Account, answer: Result) -> None:
    receipt = answer.receipt
    reservation = account.ledger.find_reservation(account.id, receipt.id)
    assert reservation is not None
    assert reservation.answer_digest == digest_answer(receipt.salt, receipt.answer)
    assert receipt.block == reservation.published_block
    assert receipt.block_digest == account.ledger.block_digest(receipt.block)
    numerator, shift = receipt.answer["value"]
    assert GridValue(numerator, shift).exact * Fraction(receipt.answer["unit"]) == answer.exact


def test_a_receipt_is_one_line_that_can_be_read_back(answer: Result) -> None:
    text = answer.receipt.to_canonical_json()
    assert "\n" not in text
    fields = read_receipt(text)
    assert fields is not None and fields["format"] == RECEIPT_FORMAT
    assert fields == json.loads(text)
    assert bytes.fromhex(fields["id"]) == answer.receipt.id
    assert fields["answer"] == answer.receipt.answer


@pytest.mark.parametrize("text", ["", "x", "{}", "[]", "null", '{"format": "other"}', "[" * 100_000, "\ud800"])
def test_what_is_no_receipt(text: str) -> None:
    assert read_receipt(text) is None


def test_the_standard_deviation_follows_from_sensitivity_and_precision() -> None:
    assert standard_deviation(Fraction(202), Fraction(1), Precision(4 * 10**18)) == 101.0
