"""No customer or employee changes a question by more than its sensitivity: all that analysts ask of two worlds."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.analysts.questions import read_questions
from conformance.analysts.worlds import ALL_WORLDS, HERE, TYPES
from conformance.shortfalls import list_changes
from conformance.sixty import banks, test_sensitivity
from conformance.sixty.banks import NOW, ExampleBank
from conformance.sixty.test_sensitivity import change_unit, measure_all
from examples.questions import ExampleQuestion, Expectation
from support.internals import fix_sql, workload_rng

UNITS = {"orders": "customer_id", "staff": None}
EXTREMES = {
    "orders": {
        "amount": ["0", "2000"], "items": ["1", "12"], "rating": ["1", "5", ""], "coupon": ["true", ""],
        "shipped": ["2024-01-01", "2027-01-31", ""], "ordered_at": ["2024-01-01 00:00:00", "2026-12-31 23:59:59"],
    },
    "staff": {
        "salary": ["20000", "150000"], "fte": ["0", "1"], "born": ["1950-01-01", "2008-12-31", "1996-02-29"],
        "hired": ["1995-01-01", "2026-12-31"], "left_on": ["", "2040-12-31"], "Review Score": ["", "0", "100"],
    },
}  # fmt: skip
NEIGHBOURS = 2


@pytest.mark.parametrize(("name", "table"), [("shop", "orders"), ("company", "staff")])
def test_no_unit_changes_a_question_by_more_than_its_sensitivity(
    name: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noisebank.queries.current_time.clock_now", lambda zone: NOW.replace(tzinfo=None))
    monkeypatch.setitem(banks.TYPES, table, TYPES[table])
    monkeypatch.setitem(test_sensitivity.UNITS, table, UNITS[table])
    monkeypatch.setitem(test_sensitivity.EXTREMES, table, EXTREMES[table])
    random, shares = workload_rng(22), list[float]()
    before = ExampleBank(ALL_WORLDS[name], tmp_path / "before")
    questions = list_measured(before, name, table)
    base = measure_all(before, questions)
    for number in range(NEIGHBOURS):
        after = ExampleBank(ALL_WORLDS[name], tmp_path / f"after {number}")
        change_unit(after.folder / f"{table}.csv", table, random, replaces=table == "staff")
        shares += list_changes(before, questions, base, measure_all(after, questions))
    assert len(shares) > 150 and max(shares) > 0.4, (len(shares), max(shares))


def list_measured(bank: ExampleBank, name: str, table: str) -> list[ExampleQuestion]:
    """Returns what is answered, with the day written out as the account does, and without other databases' schemas."""
    account = bank.account_for(ExampleQuestion("", Expectation.ANSWER, f"FROM {table}"))
    questions = []
    for each in read_questions(HERE / name / "questions.sql"):
        if each.is_answered:
            sql = fix_sql(account.context, each.sql)
            questions.append(ExampleQuestion(each.name, Expectation.ANSWER, f"{sql}\n-- FROM {table}"))
    return questions
