"""The papers' own questions through whole banks on every engine: five of a survey, four of Adult, some of PUMS."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from conformance.banks import account_over
from conformance.stores import Store
from noisebank import Account, Result
from noisebank.demo.survey import POLICY as SURVEY
from research.benches.engine import group_seconds
from support.internals import write_survey

SURE = 7
"""Standard deviations: one false alarm in 10^11 answers."""
Rows = list[dict[str, str]]

ADULT_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
]
ADULT = """
name = "adult"
neighbours = "replace-one"
rows = 32561
[budget]
epsilon = 40
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, 120]
bins = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
[columns.hours_per_week]
type = "integer"
bounds = [0, 100]
[columns.sex]
type = "text"
keys = ["Female", "Male"]
"""
PUMS = """
name = "pums"
neighbours = "add-remove"
row_cap = 2000
[budget]
epsilon = 40
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, 120]
bins = [20, 35, 50, 65]
[columns.educ]
type = "integer"
bounds = [1, 16]
bins = [9, 13]
[columns.income]
type = "integer"
bounds = [0, 500000]
[columns.married]
type = "boolean"
[columns.sex]
type = "boolean"
"""


def data(name: str) -> Path:
    """A real table, or a skip that says so."""
    folder = os.environ.get("NOISEBANK_DATA")
    if not folder or not (Path(folder) / name).exists():
        pytest.skip(f"NOISEBANK_DATA has no {name}")
    return Path(folder) / name


def read(path: Path) -> Rows:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def near(answer: Result, truth: float) -> None:
    assert abs(answer.value - truth) <= SURE * answer.stddev + 1e-9 * abs(truth), (answer, truth)


def grouped(answer: Any, rows: Rows, key: Callable[[dict[str, str]], str]) -> None:
    """Counts of all groups, near those of the rows."""
    assert answer.by
    for group in answer.rows:
        truth = sum(key(row) == group.keys[0] for row in rows)
        assert abs(group.value - truth) <= SURE * group.stddev, group


def test_the_five_queries_of_the_survey(bank_store: Store, tmp_path: Path) -> None:
    path = write_survey(tmp_path / "survey").with_name("survey.csv")
    rows = read(path)
    types = {"personal_income": "bigint", "family_income": "bigint", "age": "integer", "race": "text"}
    source = bank_store.put_csv(path, {**types, "citizenship": "text"})
    account = account_over(source, SURVEY.replace('source = "survey.csv"\n', ""), tmp_path)
    truths = {
        "personal_income": fmean(int(row["personal_income"]) for row in rows),
        "family_income": fmean(int(row["family_income"]) for row in rows),
        "citizens": fmean(row["citizenship"] != "not a citizen" for row in rows),
        "white": fmean(row["race"] == "white" for row in rows),
        "over_60": fmean(int(row["age"]) > 60 for row in rows),
    }
    spent = 0
    for name, truth in truths.items():
        answer = account.ask(name, epsilon="0.8", delta="1e-5")
        near(answer, truth)
        assert answer.stddev < {"personal_income": 3_000, "family_income": 6_000}.get(name, 0.003)
        spent += answer.cost.units
        assert account.state.spent.units == spent > 0
        assert account.ask(name, epsilon="0.8", delta="1e-5").exact == answer.exact
    assert account.state.spent.units == spent


def test_count_average_maximum_minimum_of_adult(bank_store: Store, tmp_path: Path) -> None:
    lines = [[field.strip() for field in line.split(",")] for line in data("adult.data").read_text().splitlines()]
    rows = [dict(zip(ADULT_COLUMNS, line, strict=True)) for line in lines if len(line) == len(ADULT_COLUMNS)]
    path = tmp_path / "adult.csv"
    path.write_text("\n".join(",".join(fields) for fields in [ADULT_COLUMNS, *(row.values() for row in rows)]) + "\n")
    numbers = {"age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"}
    types = {name: "integer" if name in numbers else "text" for name in ADULT_COLUMNS}
    account = account_over(bank_store.put_csv(path, types), ADULT, tmp_path)
    ages = [int(row["age"]) for row in rows]
    near(account.ask("SELECT COUNT(*) FROM adult WHERE age > 50", sigma="5"), sum(age > 50 for age in ages))
    near(account.ask("SELECT AVG(age) FROM adult", sigma="0.05"), fmean(ages))
    largest = account.ask("SELECT MAX(age) FROM adult", epsilon="4", delta="1e-6")
    smallest = account.ask("SELECT MIN(age) FROM adult", epsilon="4", delta="1e-6")
    assert abs(largest.value - max(ages)) <= 10 and abs(smallest.value - min(ages)) <= 10  # a bin is ten years wide
    assert smallest.cost.units == 0  # both are made of the same counts
    groups = account.ask("SELECT sex, COUNT(*) FROM adult GROUP BY sex", sigma="5")
    grouped(groups, rows, lambda row: row["sex"])


def test_questions_of_a_survey_of_pums(bank_store: Store, tmp_path: Path) -> None:
    path = data("pums_1000.csv")
    rows = read(path)
    account = account_over(
        bank_store.put_csv(path, {**dict.fromkeys(rows[0], "bigint"), "income": "double"}), PUMS, tmp_path
    )
    married = [row for row in rows if row["married"] == "1"]
    incomes = [float(row["income"]) for row in married]  # one is spelled 1e+05
    near(account.ask("SELECT COUNT(*) FROM pums WHERE married", sigma="2"), len(married))
    near(account.ask("SELECT SUM(income) FROM pums WHERE married", sigma="500000"), sum(incomes))
    sql = "SELECT AVG(income) FROM pums WHERE married"
    low, high = account.ask(sql, epsilon="4", delta="1e-6", confidence=0.999999).interval(0.999999)
    assert low <= fmean(incomes) <= high and high - low < 80_000
    median = account.ask("SELECT MEDIAN(age) FROM pums", epsilon="4", delta="1e-6")
    ages = sorted(int(row["age"]) for row in rows)
    assert abs(median.value - ages[500]) <= 15  # inside its bin
    groups = account.ask("SELECT educ, COUNT(*) FROM pums GROUP BY educ", sigma="2")
    grouped(groups, rows, lambda row: _bin(int(row["educ"])))
    both = account.ask("SELECT COUNT(*) FROM pums WHERE NOT sex AND age BETWEEN 30 AND 39", sigma="2")
    near(both, sum(row["sex"] == "0" and 30 <= int(row["age"]) <= 39 for row in rows))


def _bin(educ: int) -> str:
    return "[1, 9)" if educ < 9 else "[9, 13)" if educ < 13 else "[13, 16]"


def test_a_thousand_keys(bank_store: Store, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """All of them, in one order, with and without anybody in them. Its time: `python -m research bench engine`."""
    keys = [f"town {town:03d}" for town in range(1_000)]
    path = tmp_path / "towns.csv"
    path.write_text("\n".join(["town", *(keys[n * n % 997] for n in range(3_000))]) + "\n")
    policy = f"""
name = "people"
neighbours = "add-remove"
row_cap = 10000
[budget]
epsilon = 8
delta = 1e-6
[columns.town]
type = "text"
keys = [{", ".join(f'"{key}"' for key in keys)}]
"""
    account: Account = account_over(bank_store.put_csv(path, {"town": "text"}), policy, tmp_path)
    sql = "SELECT town, COUNT(*) FROM people GROUP BY town"
    rows = read(path)
    record_property("seconds", group_seconds(account, sql, asks=1))  # before anything is known
    answer = account.ask(sql, sigma="1.5")
    assert [row.keys for row in answer] == [(key,) for key in keys]
    grouped(answer, rows, lambda row: row["town"])
    counts = {key: sum(row["town"] == key for row in rows) for key in keys}
    assert account.engine.statistics(account.parse(sql).query) == tuple(counts.values())
    assert sum(not count for count in counts.values()) > 400
