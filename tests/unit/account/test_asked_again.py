"""What is asked again is read, priced, spelled and checked once: nobody may see a difference."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisebank.account.account import Account
from noisebank.account.requests import RequestBuilder
from noisebank.core.charges import Charge, ChargedQuestion
from noisebank.core.digests import digest_tagged, keccak, to_canonical_json
from noisebank.core.errors import BadRequest, NoisebankError, Tampered
from noisebank.core.estimates import Row, make_estimate
from noisebank.core.receipts import Receipt
from noisebank.core.records import Case
from noisebank.core.result import Result
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.planning.pricing import NoiseTarget
from noisebank.queries.query import Question
from noisebank.service import serializers
from support.banks import memory_account, write_people

SQL = "SELECT count(*) FROM people WHERE smoker"
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=30)


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return memory_account(write_people(tmp_path))


@pytest.fixture(scope="module")
def question(tmp_path_factory: pytest.TempPathFactory) -> Question:
    return memory_account(write_people(tmp_path_factory.mktemp("people"))).parse(SQL)


@given(key=NAMES, analyst=NAMES, version=st.sampled_from([1, 2, 17]), sigma=st.integers(1, 99))
def test_an_id_is_the_digest_of_what_it_stands_for(
    question: Question, key: str, analyst: str, version: int, sigma: int
) -> None:
    """Literal: another text, and a retry would be another request."""
    wish, wanted = NoiseTarget(Fraction(sigma)), Precision(sigma)
    asking = RequestBuilder(b"\x07" * 32, version)
    made = asking.build_request(question, wish, wanted, key, analyst)
    core = {"query": question.query.digest.hex(), "unit": str(question.unit), "wanted": wanted.units}
    named: dict[str, Any] = {"account": "07" * 32, "analyst": analyst, "key": key, "request": core}
    if version > 1:
        named["version"] = version
    assert made.id == digest_tagged("reservation 1", named)
    assert made.text == to_canonical_json(made.body)
    looked = asking.build_request(question, wish, wanted, key, analyst, look={"over": ["age"]})
    assert looked.id == made.id and looked.text == to_canonical_json(looked.body) != made.text


@given(
    sql=st.sampled_from(['"remaining":"', '\\"remaining\\":\\"1\\"', "\u2028 ü '", "SELECT 1"]) | st.text(max_size=40),
    value=st.floats(allow_nan=False, allow_infinity=False),
    left=st.lists(st.integers(0, 10**30), min_size=1, max_size=3),
    case=st.sampled_from(Case),
)
def test_what_is_spelled_from_memory_is_what_would_be_spelled(
    sql: str, value: float, left: list[int], case: Case
) -> None:
    receipt = Receipt(
        b"a" * 32,
        keccak(repr(value).encode()),
        {"value": [1, 2], "sql": sql},
        b"s" * 32,
        7,
        "0x" + "1" * 40,
        3,
        b"d" * 32,
    )
    for units in left:
        row = Row((), (make_estimate(value, value - 1, value + 1, 2.5, Fraction(value)),), ("n",))
        charge = Charge(case, ZERO_PRECISION, Precision(units), Precision(10**30), 1e-6)
        asked = ChargedQuestion(sql, case, ZERO_PRECISION, ZERO_PRECISION, receipt)
        made = Result(sql, ("n",), (), ("n",), (row,), charge, (asked,))
        assert json.loads(serializers.result_to_bytes(made)) == made.to_json()
        assert serializers.result_to_bytes(made) == serializers.dump_json(made.to_json()).encode()


def test_a_vault_that_is_altered_under_a_running_bank_cannot_change_an_answer(account: Account) -> None:
    """The answer was compared with the ledger: it stays what it was. Whoever reads the vault again finds out."""
    first = account.ask(SQL, sigma=30)
    assert account.ask(SQL, sigma=30).exact == first.exact  # read once
    database = account.vault._database  # type: ignore[attr-defined]
    database.execute("UPDATE answers SET salt = randomblob(32)")
    again = account.ask(SQL, sigma=30)
    assert (again.exact, again.case) == (first.exact, Case.REPEAT)
    assert again.receipt == first.receipt
    account.context._read_published_cached.cache.clear()
    with pytest.raises(Tampered):
        account.ask(SQL, sigma=30)


def test_what_no_number_can_be_is_refused_though_its_like_was_accepted(account: Account) -> None:
    accepted = account.quote(SQL, sigma=1)
    assert account.quote(SQL, sigma=1.0) == accepted == account.quote(SQL, sigma=Decimal("1"))
    for sigma in (True, [1], {"a": 1}, "one", None):
        with pytest.raises(BadRequest):
            account.quote(SQL, sigma=sigma)
    for sql in (["SELECT"], 7, None):
        with pytest.raises(NoisebankError):
            account.ask(sql, sigma=1)  # type: ignore[call-overload]
