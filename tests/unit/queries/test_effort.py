"""Nobody keeps a bank busy with a text: what takes long to read is refused, by a count of steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from noisebank.core.errors import Misuse, UnsupportedQuery
from noisebank.policy.file import parse_policy
from noisebank.queries import selects
from noisebank.queries.effort import CURRENT, MAX_STEPS, Effort, add_steps, limit_effort
from noisebank.queries.selects import parse_select_list

POLICY = parse_policy(
    """
name = "t"
source = "t.csv"
neighbours = "add-remove"
row_cap = 1000
[budget]
epsilon = 8
delta = 1e-6
[columns.pay]
type = "integer"
bounds = [0, 200000]
[columns.age]
type = "integer"
bounds = [0, 120]
[columns.hours]
type = "integer"
bounds = [0, 80]
[columns.town]
type = "text"
keys = KEYS
""".replace("KEYS", repr([f"town {number:04d}" for number in range(1_000)])),
    Path(),
)
FLOORS = "SELECT " + ", ".join(f"SUM(FLOOR(pay / {23 + n})) AS a{n}" for n in range(60)) + " FROM t"
POWERS = f"SELECT COUNT(*) FROM t WHERE age < {'POWER(' * 20}9{', 4)' * 20}"
RESULTS = f"SELECT {'POWER(' * 20}COUNT(*){', 4)' * 20} FROM t"
KEYS = "SELECT COUNT(DISTINCT age) FROM t GROUP BY " + ", ".join(f"FLOOR(pay / {20 + n})" for n in range(100))
PATTERNS = ", ".join(f"COUNT_IF(town LIKE '%{n}{'%_' * 90}%') AS a{n}" for n in range(60))
LISTS = {
    "own": "SELECT COUNT(*) FROM t WHERE 2 * pay IN ({})",
    "several columns": "SELECT COUNT(*) FROM t WHERE pay + age NOT IN ({})",
    "plain": "SELECT COUNT(*) FROM t WHERE pay IN ({})",
}


@pytest.fixture
def efforts(monkeypatch: pytest.MonkeyPatch) -> list[Effort]:
    """What was read, with its steps."""
    counted: list[Effort] = []

    class CountedEffort(Effort):
        def __init__(self, limit: int) -> None:
            super().__init__(limit)
            counted.append(self)

    monkeypatch.setattr("noisebank.queries.effort.Effort", CountedEffort)
    return counted


@pytest.mark.parametrize(
    "sql",
    [FLOORS, POWERS, RESULTS, KEYS, f"SELECT {PATTERNS} FROM t"],
    ids=["floors", "powers", "results", "keys", "patterns"],
)
def test_what_takes_long_to_read_is_refused(sql: str, efforts: list[Effort]) -> None:
    with pytest.raises(Misuse):
        parse_select_list(sql, POLICY)
    assert efforts and all(effort.steps < 2 * MAX_STEPS for effort in efforts)
    assert CURRENT.get() is None


@pytest.mark.parametrize("name", LISTS)
def test_long_lists_are_read_once(name: str, efforts: list[Effort]) -> None:
    """A thousand times as many values take a thousand times as many steps, not a million."""
    steps = []
    for count in (3, 3000):
        values = ", ".join(str(7 * number) for number in range(count))
        parse_select_list(LISTS[name].format(values), POLICY)
        steps.append(sum(effort.steps for effort in efforts))
        efforts.clear()
    assert steps[1] < 2_000 * steps[0] < MAX_STEPS


def test_a_list_of_ten_thousand_values_is_too_long_a_text() -> None:
    values = ",".join(str(number % 100) for number in range(10_000))
    with pytest.raises(Misuse, match="at most 20000 are read"):
        parse_select_list(LISTS["plain"].format(values), POLICY)


def test_steps_are_counted_for_one_statement_only() -> None:
    add_steps(10 * MAX_STEPS)  # nothing is read
    with limit_effort(5) as effort:
        add_steps(5)
        with pytest.raises(UnsupportedQuery):
            add_steps(1)
    assert effort.steps == 6
    assert selects.parse_select_list("SELECT COUNT(*) FROM t WHERE pay > 5", POLICY).aggregates
