"""Sensitivity against brute force: all neighbours of small tables, in exact integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.queries.sensitivity import l2_sensitivity
from noisebank.queries.sql import parse_question

Row = tuple[int | None, bool]  # the summed value in steps, and what the predicate asks for
Person = tuple[Row, ...]

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


@dataclass(frozen=True)
class World:
    """A statistic, the tables that it is asked of, and what counts as a neighbour."""

    neighbours: Neighbours
    statistic: str
    low: int
    high: int
    rows: int = 1
    nullable: bool = False

    @property
    def claimed(self) -> int:
        columns = {
            "x": Column("x", Kind.INTEGER, low=self.low, high=self.high, nullable=self.nullable),
            "b": Column("b", Kind.BOOLEAN),
            "id": Column("id", Kind.TEXT),
        }
        unit = "row" if self.rows == 1 else "id"
        policy = Policy(
            "t", Path("/t"), self.neighbours, 100, MappingProxyType(columns), Fraction(1), Fraction(1, 10**6), unit,
            self.rows,
        )  # fmt: skip
        return l2_sensitivity(parse_question(f"SELECT {self.statistic}", policy).query, policy)

    def people(self) -> list[Person]:
        """Everybody who could be in the table: one row at least, `rows` at most."""
        values = [*range(self.low, self.high + 1), *([None] if self.nullable else [])]
        rows = list(product(values, (False, True)))
        return [person for k in range(1, self.rows + 1) for person in combinations_with_replacement(rows, k)]

    def answer(self, table: tuple[Person, ...]) -> int:
        rows = [row for person in table for row in person]
        if "WHERE b" in self.statistic:
            rows = [(x, b) for x, b in rows if b]
        if self.statistic.startswith("COUNT(x)"):
            return sum(x is not None for x, _ in rows)
        if self.statistic.startswith("COUNT"):
            return len(rows)
        return sum(x for x, _ in rows if x is not None)

    def neighbours_of(self, table: tuple[Person, ...]) -> Iterator[tuple[Person, ...]]:
        for at in range(len(table)):
            rest = table[:at] + table[at + 1 :]
            if self.neighbours is ADD:
                yield rest
            else:
                yield from ((*rest, person) for person in self.people())
        if self.neighbours is ADD:
            yield from ((*table, person) for person in self.people())

    def change(self, table: tuple[Person, ...]) -> int:
        """The most that one person changes the answer, starting from this table."""
        here = self.answer(table)
        return max((abs(self.answer(other) - here) for other in self.neighbours_of(table)), default=0)

    def worst(self) -> int:
        """The most that one person changes the answer, over all tables of at most one person.

        The statistics are sums over people, so everybody else cancels; `test_never_understated`
        checks larger tables.
        """
        alone = {self.answer((person,)) for person in self.people()}
        others = {self.answer(())} if self.neighbours is ADD else alone
        return max(abs(here - there) for here in alone for there in others)


STATISTICS = ["COUNT(*) FROM t", "COUNT(*) FROM t WHERE b", "COUNT(x) FROM t", "COUNT(x) FROM t WHERE b",
              "SUM(x) FROM t", "SUM(x) FROM t WHERE b"]  # fmt: skip


@st.composite
def worlds(draw) -> World:
    neighbours = draw(st.sampled_from([ADD, REPLACE]))
    low = draw(st.integers(-4, 4))
    world = World(
        neighbours,
        draw(st.sampled_from(STATISTICS)),
        low,
        low + draw(st.integers(1, 2)),
        draw(st.integers(1, 3)),
        draw(st.booleans()),
    )
    public = neighbours is REPLACE and world.rows == 1 and world.statistic.startswith("COUNT")
    if public and "WHERE" not in world.statistic and not (world.nullable and "(x)" in world.statistic):
        return World(neighbours, "COUNT(*) FROM t WHERE b", low, world.high, 1, world.nullable)
    return world


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_never_understated(data):
    world = data.draw(worlds())
    table = tuple(data.draw(st.lists(st.sampled_from(world.people()), max_size=4)))
    assert world.change(table) <= world.claimed


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_attained_so_never_overstated(world):
    assert world.worst() == world.claimed


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(("low", "high"), [(2, 3), (-3, -2), (-1, 1), (0, 1)])
@pytest.mark.parametrize("statistic", ["COUNT(*) FROM t WHERE b", "SUM(x) FROM t", "SUM(x) FROM t WHERE b"])
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_attained_for_every_row_of_the_table(neighbours, statistic, low, high, rows, nullable):
    world = World(neighbours, statistic, low, high, rows, nullable)
    assert world.worst() == world.claimed


Rule = Callable[[World], int]
PLANTED: list[tuple[str, World, Rule]] = [
    ("k(u - l) for replace-one", World(REPLACE, "SUM(x) FROM t", 100, 110, 3), lambda w: w.rows * (w.high - w.low)),
    ("u - l in spite of a predicate", World(REPLACE, "SUM(x) FROM t WHERE b", 4, 6), lambda w: w.high - w.low),
    ("max(|l|, |u|) for replace-one", World(REPLACE, "SUM(x) FROM t", -2, 3), lambda w: max(abs(w.low), abs(w.high))),
    ("nulls ignored", World(REPLACE, "SUM(x) FROM t", 4, 6, nullable=True), lambda w: w.high - w.low),
    ("k forgotten, add-remove", World(ADD, "SUM(x) FROM t", 1, 2, 3), lambda w: max(abs(w.low), abs(w.high))),
    ("k forgotten, count", World(ADD, "COUNT(*) FROM t WHERE b", 0, 1, 3), lambda w: 1),
    ("k forgotten, replace-one", World(REPLACE, "COUNT(*) FROM t WHERE b", 0, 1, 2), lambda w: 1),
    ("k - 1 in spite of a predicate", World(REPLACE, "COUNT(*) FROM t WHERE b", 0, 1, 3), lambda w: w.rows - 1),
    ("u for a negative l", World(ADD, "SUM(x) FROM t", -4, 1), lambda w: w.high),
    ("u - l for add-remove", World(ADD, "SUM(x) FROM t", 5, 7), lambda w: w.high - w.low),
]  # fmt: skip


@pytest.mark.parametrize(("world", "planted"), [case[1:] for case in PLANTED], ids=[case[0] for case in PLANTED])
def test_brute_force_catches_each_understatement(world, planted):
    assert planted(world) < world.worst() == world.claimed


def test_the_example_with_bounds_100_to_110_and_three_rows():
    world = World(REPLACE, "SUM(x) FROM t", 100, 110, 3)
    one, three = ((100, True),), ((110, True),) * 3
    assert (one, three) in [(one, other) for other in world.people()]
    assert abs(world.answer((one, one)) - world.answer((one, three))) == world.claimed == 230


@pytest.mark.parametrize(
    "world", [World(ADD, "SUM(x) FROM t", 1, 2, 2, True), World(REPLACE, "SUM(x) FROM t", -1, 1, 2)]
)
def test_tables_of_one_person_are_enough(world):
    tables = [(), *((person,) for person in world.people()), *product(world.people()[:6], repeat=2)]
    assert max(world.change(table) for table in tables) == world.worst()


@pytest.mark.parametrize("condition", ["x = 3", "x > 1", "x <= 2 OR b", "b AND x < 3"])
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_a_predicate_on_the_summed_column_is_covered(neighbours, condition):
    rule = {
        "x = 3": lambda x, b: x == 3,
        "x > 1": lambda x, b: x > 1,
        "x <= 2 OR b": lambda x, b: x <= 2 or b,
        "b AND x < 3": lambda x, b: b and x < 3,
    }[condition]
    claimed = World(neighbours, f"SUM(x) FROM t WHERE {condition}", -2, 4).claimed
    given_by_one = [x if rule(x, b) else 0 for x in range(-2, 5) for b in (False, True)]
    if neighbours is ADD:
        assert max(map(abs, given_by_one)) <= claimed
    else:
        assert max(given_by_one) - min(given_by_one) <= claimed
