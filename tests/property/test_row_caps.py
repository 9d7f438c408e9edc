"""Replace-one with a unit column: somebody's rows become somebody else's, in another number.

Over the real engine: no statistic moves by more than its sensitivity, both tables open, and what is public of them is
the same. Row caps are drawn near the number of rows, so that some tables saturate.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.bank.bank import Bank
from noisebank.bank.opening import Confirmed, open_account
from noisebank.engines.registry import make_engine, read_header
from noisebank.policy.file import parse_policy
from noisebank.policy.model import Policy
from noisebank.queries.derived import Derivation
from noisebank.queries.selects import parse_select_aggregates
from noisebank.queries.sensitivity import l2_sensitivity, sensitivity_squared
from noisebank.queries.sql import parse_question
from noisebank.service.operations import Operations
from support.banks import memory_rooms

POLICY = """\
name = "t"
source = "t.csv"
neighbours = "replace-one"
row_cap = 100
unit = "who"
max_rows = {most}
cubes = [["town"]]
[budget]
epsilon = 4
delta = 1e-6
[columns.who]
type = "text"
[columns.x]
type = "integer"
bounds = [{low}, {high}]
[columns.y]
type = "integer"
bounds = [-5, 3]
nullable = true
[columns.town]
type = "text"
keys = ["n", "s"]
"""
STATISTICS = (
    "COUNT(*) FROM t WHERE town = 'n'", "COUNT(y) FROM t", "SUM(x) FROM t", "SUM(y) FROM t", "SUM(x * x) FROM t",
    "SUM(x) FROM t WHERE town = 's'", "2 * SUM(x) - 3 * COUNT_IF(town = 'n') FROM t",
    "COUNT(*) FROM t GROUP BY town", "SUM(x) FROM t GROUP BY town",
)  # fmt: skip
COUNTED = "COUNT(*) FROM t"
"""Refused where only one row of a person counts: then nobody can change it."""

Person = list[tuple[int, str, str]]
rows = st.tuples(st.integers(-3, 12), st.sampled_from(["", "-5", "0", "3", "9"]), st.sampled_from(["n", "s", "z"]))
people = st.lists(rows, min_size=1, max_size=4)


def table(folder: Path, crowd: dict[str, Person]) -> None:
    lines = [f"{who},{x},{y},{town}" for who, owned in crowd.items() for x, y, town in owned]
    (folder / "t.csv").write_text("\n".join(["who,x,y,town", *lines]) + "\n")


def measured(policy: Policy, statistics: tuple[str, ...]) -> list[tuple[int, ...]]:
    engine = make_engine(policy, read_header(policy.source), "key")
    asked = [parse_question(f"SELECT {statistic}", policy).query for statistic in statistics]
    return [engine.statistics(query) if query.by else (engine.statistic(query),) for query in asked]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(people, max_size=3), people, people, st.integers(1, 3),
    st.sampled_from([(0, 9), (2, 9), (-3, -1), (-3, 9)]), st.integers(1, 12),
)  # fmt: skip
def test_no_statistic_moves_by_more_than_its_sensitivity(tmp_path_factory, others, gone, come, most, bounds, cap):
    folder = tmp_path_factory.mktemp("caps", numbered=True)
    low, high = bounds
    policy = replace(parse_policy(POLICY.format(most=most, low=low, high=high), folder), row_cap=cap, cubes=())
    rest = {f"p{number}": person for number, person in enumerate(others)}
    asked = STATISTICS + ((COUNTED,) if most > 1 else ())
    table(folder, rest | {"gone": gone})
    before = measured(policy, asked)
    table(folder, rest | {"come": come})
    after = measured(policy, asked)
    for statistic, a, b in zip(asked, before, after, strict=True):
        moved = sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
        assert moved <= sensitivity_squared(parse_question(f"SELECT {statistic}", policy).query, policy), statistic


@settings(max_examples=4, deadline=None)
@given(st.lists(people, max_size=3), people, people)
def test_both_open_and_what_is_public_is_the_same(tmp_path_factory, others, gone, come):
    folder = tmp_path_factory.mktemp("caps", numbered=True)
    rest = {f"p{number}": person for number, person in enumerate(others)}
    policy = parse_policy(POLICY.format(most=2, low=0, high=9), folder)
    seen = []
    for crowd in (rest | {"gone": gone}, rest | {"come": come}):
        table(folder, crowd)
        account, _ = open_account(memory_rooms(), policy, confirmed=Confirmed(policy=True))
        facts = Operations(cast(Bank, None)).describe_dataset(account)
        del facts["account"]
        seen.append((facts, account.quote("SELECT SUM(x) FROM t", sigma="40"), account.state.cubes))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("most", [2, 3])
def test_no_public_number_of_rows_is_used(tmp_path: Path, most: int) -> None:
    """An average is a sum and a count there, and so is a variance; nothing is divided by a number of rows."""
    policy = parse_policy(POLICY.format(most=most, low=100, high=110), tmp_path)
    assert policy.public_rows is None
    for asked, parts in (("AVG(x)", 2), ("VARIANCE(x)", 3)):
        (item,) = parse_select_aggregates(f"SELECT {asked} FROM t", policy)
        assert item.derivation is not Derivation.LINEAR and item.public_rows is None and len(item.questions) == parts
    moved = l2_sensitivity(parse_question("SELECT SUM(x) FROM t", policy).query, policy)
    assert moved == most * 110 - 100  # somebody with k rows of 110 becomes somebody with one of 100
