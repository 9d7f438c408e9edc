"""Queries over the cells of a cube: what a measurement of all groups charges."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from noisebank.core.records import CellRun
from noisebank.core.units import Precision
from noisebank.planning.serving import COUNT_KEY, CubeQuery, GroupQuery, cube_statistic, find_cube_query, make_look
from noisebank.planning.strategies.kronecker import find_strategy
from noisebank.planning.strategies.looks import find_missing
from noisebank.policy.file import parse_policy
from noisebank.queries.query import Function
from noisebank.queries.sql import parse_question

CUBED = parse_policy(
    """
name = "t"
source = "t.csv"
neighbours = "replace-one"
rows = 50
cubes = [["town"]]
[budget]
epsilon = 1
delta = 1e-6
[columns.town]
type = "text"
keys = ["a", "b"]
[columns.age]
type = "integer"
bounds = [0, 99]
""",
    Path(),
)


@dataclass(frozen=True)
class FixedCharges:
    """Stands for a linear query."""

    runs: list[tuple[int, int, int]]

    def cell_charges(self) -> list[CellRun]:
        return [CellRun(*run) for run in self.runs]


def cube_query(groups: list[Any]) -> CubeQuery:
    """A query whose groups charge these runs; None is a group without cells."""
    parts = (None if runs is None else GroupQuery(cast(Any, FixedCharges(runs)), Fraction(1)) for runs in groups)
    return CubeQuery(0, cast(Any, None), COUNT_KEY, tuple(parts), 1)


@pytest.mark.parametrize(
    ("groups", "charges"),
    [
        ([], []),
        ([None, [(0, 4, 9)]], [(0, 4, 9)]),
        ([[(4, 8, 9)], [(0, 4, 9)]], [(0, 8, 9)]),  # neighbours of one weight are one run
        ([[(0, 2, 9)], [(3, 4, 9)]], [(0, 2, 9), (3, 4, 9)]),
        ([[(0, 2, 1), (4, 6, 2)], [(2, 4, 2)], [(6, 8, 1)]], [(0, 2, 1), (2, 6, 2), (6, 8, 1)]),
    ],
)
def test_charges_of_all_groups_are_joined_where_they_are_alike(
    groups: list[Any], charges: list[tuple[int, int, int]]
) -> None:
    assert cube_query(groups).cell_charges() == tuple(CellRun(*run) for run in charges)


@pytest.mark.parametrize(("select", "key"), [("COUNT(*)", COUNT_KEY), ("SUM(age)", (Function.SUM, "age"))])
def test_a_query_over_cells_names_its_statistic(select: str, key: tuple[Function, str]) -> None:
    question = parse_question(f"SELECT {select} FROM t WHERE town = 'b'", CUBED)
    found = find_cube_query(question.query, CUBED)
    assert found is not None and found.statistic_key == key
    strategy = find_strategy(cube_statistic(CUBED, found.cube, key).axes, (True,))
    nothing_known = np.zeros((0, strategy.part_count))
    missing = find_missing(strategy, Precision.ceil(Fraction(1)), nothing_known, np.zeros(0))
    assert missing is not None
    look = make_look(found.cube, key, missing.round_rows())
    looked = find_cube_query(look, CUBED)
    assert looked is not None and looked.statistic_key == key and looked.groups == ()
