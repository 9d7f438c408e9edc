"""No unit changes a question by more than its sensitivity: tables with and without one, for all of the sixty."""

from __future__ import annotations

import csv
from math import sqrt
from pathlib import Path
from random import Random
from typing import Any

import pytest

from conformance.sixty.banks import ExampleBank, make_bank
from examples.questions import ExampleQuestion, Expectation, read_questions
from examples.worlds import WORLDS
from noisebank import Account
from support.internals import workload_rng

UNITS = {"patients": None, "stays": "patient_id", "persons": None, "readings": "meter_id", "meters": None}
"""The column that tells units apart; none if each row is one."""
EXTREMES = {
    "patients": {"birth_year": ["1920", "2026"]},
    "stays": {"cost": ["0", "50000"], "discharged": ["2024-01-01", "2027-03-01"], "readmitted": ["true"]},
    "persons": {"income": ["0", "200000"], "age": ["0", "109"], "weight": ["0", "3"], "hours": ["0", "42", "80"]},
    "readings": {"kwh": ["0", "20"], "voltage": ["180", "280"]},
    "meters": {"installed": ["2010-01-01", "2026-12-31"]},
}
"""Values at which a row counts most."""
NEIGHBOURS = 3


def change_unit(path: Path, table: str, random: Random, replaces: bool) -> None:
    """Writes a neighbour of a table: one unit with extreme values comes, or takes the place of another row."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    values = {name: random.choice(choices) for name, choices in EXTREMES[table].items()}
    unit = UNITS[table]
    own = {**random.choice(rows), **values}
    if replaces:
        rows[random.randrange(len(rows))] = own
    else:
        count = 1 if unit is None else 10
        rows += [{**own, **({} if unit is None else {unit: "somebody new"})} for _ in range(count)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(own), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def measure_all(bank: ExampleBank, questions: list[ExampleQuestion]) -> list[list[tuple[int, ...]]]:
    """Returns the exact values of every plain question behind each question."""
    values = []
    for question in questions:
        account = bank.account_for(question)
        queries = [each.query for each, _ in parse(account, question).questions]
        values.append([account.engine.statistics(query) for query in queries])
    return values


def parse(account: Account, question: ExampleQuestion) -> Any:
    """What an ask does first; the present is written out before."""
    sql = question.sql.replace("NOW()", "TIMESTAMP '2026-11-18 12:00:00'")
    sql = sql.replace("CURRENT_DATE", "DATE '2026-11-18'")
    return account._parser.parse_select(sql, {"epsilon": "1", "delta": "1e-6"})


@pytest.mark.parametrize("name", WORLDS)
def test_no_unit_changes_a_question_by_more_than_its_sensitivity(name: str, tmp_path: Path) -> None:
    random = workload_rng(21)
    answered = (Expectation.ANSWER, Expectation.DECLARED)
    questions = [question for question in read_questions(name) if question.expect in answered]
    before = make_bank(name, tmp_path / "before")
    base, largest = measure_all(before, questions), 0.0
    for number in range(NEIGHBOURS):
        after = make_bank(name, tmp_path / f"after {number}")
        for table in after.world.policies:
            change_unit(after.folder / f"{table}.csv", table, random, replaces=table == "persons")
        for question, own, other in zip(questions, base, measure_all(after, questions), strict=True):
            account = before.account_for(question)
            for (plain, _), first, second in zip(parse(account, question).questions, own, other, strict=True):
                change = sqrt(sum((a - b) ** 2 for a, b in zip(first, second, strict=True)))
                allowed = float(account.context.sensitivity_of(plain.query))
                assert change <= allowed * (1 + 1e-12), (question.name, plain.sql, change, allowed)
                largest = max(largest, change / allowed)
    assert largest > 0.9, "some unit comes close to what it may change: half the sensitivity would be noticed"
