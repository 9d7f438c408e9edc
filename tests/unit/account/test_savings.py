"""What a statement says was saved: one plain price per answer, looks at cubes apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from noisebank.account.account import Account
from noisebank.account.statement import make_statement
from noisebank.bank.opening import open_account
from noisebank.core.entropy import workload_rng
from noisebank.core.quote import Quote
from noisebank.core.result import Result
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.policy.file import read_policy
from support.banks import memory_rooms

POLICY = """\
name = "people"
source = "people.csv"
neighbours = "{neighbours}"
{rows}
cubes = [["age", "town"]]
[budget]
epsilon = 4
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, 31]
bins = [{bins}]
[columns.town]
type = "text"
keys = ["east", "north", "south"]
complete = true
[columns.income]
type = "integer"
bounds = [0, 100]
"""


RICH = "SELECT SUM(income) FROM people WHERE income > 5"


def account_of(folder: Path, neighbours: str = "add-remove") -> Account:
    pick = workload_rng(3)
    lines = [
        f"{pick.randrange(32)},{pick.choice(['east', 'north', 'south'])},{pick.randrange(100)}" for _ in range(300)
    ]
    (folder / "people.csv").write_text("\n".join(["age,town,income", *lines]) + "\n")
    size = "rows = 300" if neighbours == "replace-one" else "row_cap = 1000"
    text = POLICY.format(neighbours=neighbours, rows=size, bins=", ".join(map(str, range(1, 32))))
    (folder / "people.toml").write_text(text)
    return open_account(memory_rooms(), read_policy(folder / "people.toml"))[0]


def plain_prices(results: list[Result]) -> Precision:
    return sum((part.target for result in results for part in result.parts), ZERO_PRECISION)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_every_answer_counts_with_its_plain_price(tmp_path: Path, neighbours: str):
    """First, asked again, blurred, refined, in a cube (also for nothing), grouped, derived: all with their target."""
    account = account_of(tmp_path, neighbours)
    questions = [
        (RICH, "0.1"), ("SELECT COUNT(*) FROM people WHERE age < 9", "0.2"), (RICH, "0.1"),
        ("SELECT COUNT(*) FROM people WHERE age < 9", "0.1"), (RICH, "0.05"), ("SELECT AVG(income) FROM people", "0.2"),
        (RICH, "0.2"), ("SELECT AVG(age) FROM people GROUP BY town", "0.2"),
        ("SELECT COUNT(*) FROM people WHERE town = 'east' AND age >= 9", "0.1"),
    ]  # fmt: skip
    results = [account.ask(sql, epsilon=epsilon, delta="1e-6") for sql, epsilon in questions]
    assert {result.case.name for result in results} >= {"FIRST", "REFINE", "REPEAT", "BLUR", "INFER"}
    account.ask(questions[0][0], epsilon="0.1", delta="1e-6", key="retried")
    account.ask(questions[0][0], epsilon="0.1", delta="1e-6", key="retried")  # the same answer: counted once
    statement = make_statement(account)
    looks = sum((entry.cost for entry in statement.entries if entry.look), ZERO_PRECISION)
    assert statement.naive == plain_prices([*results, results[0]])
    assert statement.looks == looks and sum(statement.cases.values()) == len(
        [e for e in statement.entries if not e.look]
    )
    assert statement.saved == statement.naive - (statement.spent - looks)  # never dearer than plainly
    assert all(entry.cost <= entry.plain for entry in statement.entries if not entry.look)
    assert sum((entry.plain for entry in statement.entries), ZERO_PRECISION) == statement.naive


def test_a_quote_says_which_way_and_why(tmp_path: Path):
    account = account_of(tmp_path)
    young = "SELECT COUNT(*) FROM people WHERE age < 9"

    def quote(sql: str) -> Quote:
        quoted = account.quote(sql, epsilon="0.2", delta="1e-6")
        assert Quote.from_json(quoted.to_json()) == quoted and quoted.to_json()["way"] == quoted.way
        return quoted

    first = quote(young)
    assert (first.way, first.why.partition(":")[0]) == ("cube", "the cube over age, town")
    account.ask(young, epsilon="0.2", delta="1e-6")
    again = quote(young)
    assert again.cost == ZERO_PRECISION and again.why.startswith("the cube over age, town: free there, 0.")
    assert again.why.endswith("of the budget plainly") and ("way", again.why) in again.describe_lines()
    rich = quote(RICH)
    assert rich.way == "plain" and rich.why == "plain reuse: income has no keys or bins, so no cube can have it"
    average = quote("SELECT AVG(age) FROM people")
    assert average.way == "cube" and len({part.why for part in average.parts}) == average.why.count("the cube over")
    both = quote("SELECT COUNT(*) FILTER (WHERE age < 9), SUM(income * income) FROM people")
    assert both.way == "both" and "cubes hold counts" in both.why
    near = account.quote(young, relative="0.1")
    assert near.way == "plain" and "relative" in near.why


def test_a_look_is_an_investment_that_brings_something_back(tmp_path: Path):
    account, pick = account_of(tmp_path), workload_rng(5)
    results = []
    for _ in range(80):
        low, high = sorted(pick.sample(range(32), 2))
        results.append(account.ask(f"SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {high}", within=20))
    statement = make_statement(account)
    (look,) = [entry for entry in statement.entries if entry.look]
    after = statement.entries[statement.entries.index(look) + 1 :]
    assert look.plain == ZERO_PRECISION and statement.looks == look.cost > ZERO_PRECISION
    assert statement.naive == plain_prices(results)
    assert statement.returned == sum((entry.plain - entry.cost for entry in after), ZERO_PRECISION) > ZERO_PRECISION
    assert statement.spent - statement.looks <= statement.naive
