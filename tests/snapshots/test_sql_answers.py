"""Every statement of the page about SQL, answered: with repeatable noise, what comes out is compared number by number.

So are the prices, and the words with which others are refused. The file takes about ten seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from noisebank import Account
from noisebank.core.errors import Misuse
from snapshots.comparing import DATA, compact_json, hold_text
from snapshots.doors import Repeatable, still_bank, write_moment
from support.paths import ROOT

PAGE = (ROOT / "docs" / "reference" / "sql.md").read_text()
ROWS, FIRST_ROWS, NOW = 400, 5, datetime(2026, 11, 18, 12, 30)
COST = {"epsilon": "0.25", "delta": "1e-6"}
GOALS = (
    ("SELECT AVG(income) FROM people WHERE smoker", {"within": "9000"}),
    ("SELECT SUM(income) FROM people", {"relative": "50%", "floor": "9000000"}),
    ("SELECT town, COUNT(*) FROM people GROUP BY town", {"within": "30", "confidence": "0.9", "groups": "all"}),
    ("SELECT COUNT(*) FROM people WHERE age > 60", {"sigma": "12"}),
    ("SELECT STDDEV(age) FROM people", {"spend": "1%"}),
    ("SELECT COUNT(*) FROM people WHERE age > 60", {"epsilon": "0.2", "delta": "1e-6"}),
    ("SELECT COUNT(*) FROM people WHERE age > 60", {"within": "3"}),
    ("SELECT CORR(age, income) FROM people", {"within": "0.4"}),
    ("SELECT town, AVG(income) FROM people GROUP BY town", {"relative": "0.3", "confidence": "0.9"}),
)
"""Accuracy that is chosen in other ways than by epsilon."""
WRONG_GOALS = (
    {"within": "0"}, {"relative": "2", "floor": "0"}, {"spend": "101%"}, {"epsilon": "0.1"}, {"sigma": "-1"}, {},
    {"within": "5", "sigma": "3"}, {"within": "5", "confidence": "1"}, {"epsilon": "9", "delta": "1e-6"},
)  # fmt: skip

MORE_ANSWERED = (DATA / "tables" / "questions.sql").read_text().splitlines()
"""What the page has no line for."""


def list_lines(kind: str) -> list[str]:
    blocks = re.findall(rf"```sql {kind}\n(.*?)```", PAGE, re.DOTALL)
    return [write_moment(line, NOW) for block in blocks for line in block.strip().splitlines()]


def write_table(folder: Path) -> Path:
    """A table for the policy of the page."""
    (policy,) = re.findall(r"```toml policy\n(.*?)```", PAGE, re.DOTALL)
    lines = ["age,income,smoker,town,children,joined,seen"]
    for i in range(ROWS):
        joined = date(2020, 1, 1) + timedelta(days=9 * i)
        seen = f"{date(2026, 1, 1) + timedelta(days=i % 365)} {i % 24:02}:{i % 60:02}:00" if i % 7 else ""
        smoker, town, children = "true" if i % 3 else "false", ("north", "south")[i % 5 < 2], i % 4 if i % 6 else ""
        lines.append(f"{5 + 7 * i % 88},{131 * i % 9000},{smoker},{town},{children},{joined},{seen}")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "people.toml").write_text(policy.replace("rows = 100", f"rows = {ROWS}"))
    return folder / "people.toml"


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    """One for each test: prices follow from what was asked before."""
    with still_bank(tmp_path / "bank", Repeatable()) as bank:
        yield bank.open_account(write_table(tmp_path))


def describe_answer(account: Account, sql: str, options: dict[str, str]) -> str:
    """Price and answer; the interval of each number, and what was asked of the ledger for it."""
    quote = account.quote(sql, **options).to_json()
    facts: dict[str, Any] = account.ask(sql, **options).to_json()
    parts = [
        {"case": part["case"], "cost": part["cost"], "query": part["receipt"]["answer"].get("query", "")[:12]}
        for part in facts.pop("parts")
    ]
    rows = [compact_json([_list_numbers(cell) for cell in row.values()]) for row in facts.pop("rows")]
    for name in ("in_words", "delta", "confidence", "budget", "left"):  # as always, or as in the line before
        del quote[name]
    shown = [f"... {len(rows)} rows", *rows[:FIRST_ROWS], rows[-1]]
    return "\n".join([f"== {sql}", compact_json(quote), compact_json(facts), compact_json(parts), *shown])


def _list_numbers(cell: Any) -> Any:
    """Of an estimate: value, ends of the interval, standard deviation and what is said about it."""
    return [number for name, number in cell.items() if name != "exact"] if isinstance(cell, dict) else cell


def describe_refusal(act: Callable[[], object]) -> str:
    with pytest.raises(Misuse) as refused:
        act()
    return f"{refused.value}\n   nearest: {getattr(refused.value, 'nearest', None)}"


def test_answers_come_out_as_they_did(account: Account) -> None:
    texts = [*list_lines("answered"), *MORE_ANSWERED]
    hold_text("sql/answers.txt", "\n".join(describe_answer(account, sql, COST) for sql in texts))


def test_other_ways_to_choose_accuracy_cost_what_they_did(account: Account) -> None:
    hold_text("sql/goals.txt", "\n".join(describe_answer(account, sql, dict(options)) for sql, options in GOALS))


def test_refusals_say_what_they_said(account: Account) -> None:
    texts = [line.partition(" -- ")[0] for line in list_lines("refused")]
    seen = [f"== {sql}\n{describe_refusal(lambda sql=sql: account.quote(sql, **COST))}" for sql in texts]
    sql = "SELECT COUNT(*) FROM people"
    seen += [f"== {goal}\n{describe_refusal(lambda goal=goal: account.quote(sql, **goal))}" for goal in WRONG_GOALS]
    hold_text("sql/refusals.txt", "\n".join(seen))
