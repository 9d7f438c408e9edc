"""Nobody changes a question of the reviewers' list by more than its sensitivity: employees, subjects and visitors."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.analysts.questions import read_questions
from conformance.reviewers.worlds import ALL_WORLDS, HERE, TYPES
from conformance.shortfalls import list_changes
from conformance.sixty import banks, test_sensitivity
from conformance.sixty.banks import NOW, ExampleBank
from conformance.sixty.test_sensitivity import change_unit, measure_all
from examples.questions import ExampleQuestion, Expectation
from support.internals import fix_sql, workload_rng

UNITS = {"employees": None, "visits": "subject_id", "events": "user_id"}
EXTREMES = {
    "employees": {
        "salary": ["0", "250000"], "bonus": ["0", "50000", ""], "fte": ["0", "1"], "grade": ["1", "10"],
        "birth": ["1950-01-01", "2008-12-31", "1996-02-29"], "hired": ["2005-01-01", "2026-12-31"],
        "left_on": ["", "2005-01-01", "2026-12-31"], "manager": ["true", "false", ""],
    },
    "visits": {
        "systolic": ["60", "240", ""], "diastolic": ["30", "150", ""], "hba1c": ["3", "18"], "weight_kg": ["40", "160"],
        "severity": ["", "1", "5"], "visit_no": ["1", "8"], "visit_date": ["2025-06-01", "2026-12-31"],
    },
    "events": {
        "revenue": ["0", "500"], "duration_ms": ["0", "600000", ""], "converted": ["true", "false"],
        "happened": ["2026-10-01 00:00:00", "2026-11-30 23:59:59"], "page": ["/", "/product/2"],
        "campaign": ["", "Ads"],
    },
}  # fmt: skip


@pytest.mark.parametrize(("name", "table"), [("people", "employees"), ("trial", "visits"), ("web", "events")])
def test_no_unit_changes_a_question_by_more_than_its_sensitivity(
    name: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noisebank.queries.current_time.clock_now", lambda zone: NOW.replace(tzinfo=None))
    monkeypatch.setitem(banks.TYPES, table, TYPES[table])
    monkeypatch.setitem(test_sensitivity.UNITS, table, UNITS[table])
    monkeypatch.setitem(test_sensitivity.EXTREMES, table, EXTREMES[table])
    random = workload_rng(23)
    before, after = (ExampleBank(ALL_WORLDS[name], tmp_path / folder) for folder in ("before", "after"))
    questions = list_measured(before, name, table)
    change_unit(after.folder / f"{table}.csv", table, random, replaces=False)
    shares = list_changes(before, questions, measure_all(before, questions), measure_all(after, questions))
    assert len(shares) > 40 and max(shares) > 0.3, (len(shares), max(shares))


def list_measured(bank: ExampleBank, name: str, table: str) -> list[ExampleQuestion]:
    """Returns what is answered, with the day written out as the account does."""
    account = bank.account_for(ExampleQuestion("", Expectation.ANSWER, f"FROM {table}"))
    return [
        ExampleQuestion(
            each.name, Expectation.ANSWER, f"{fix_sql(account.context, each.sql.rsplit('--', 1)[0])}\n-- FROM {table}"
        )
        for each in read_questions(HERE / name / "questions.sql")
        if each.is_answered
    ]
