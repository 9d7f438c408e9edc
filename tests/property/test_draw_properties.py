"""The discreteness margin against exact sums: vectors, neighbours, few and coarse draws; and which draws are touched.

At the bank's scale of 2^26 steps nothing could be seen. So the lemmas of docs/proofs/discrete_gaussian.md are held to
small scales, where their bounds are large, with every probability summed up in 60 digits.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from noisebank.core.records import MAX_DRAWS
from noisebank.core.units import Precision
from noisebank.planning.draws import changed_rows, max_draws, touched_draws
from noisebank.planning.serving import COUNT_KEY, cube_statistic, make_look
from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.privacy.calibration import DELTA_MARGIN, DELTA_RANGE, DISCRETE_RATIO, EPSILON_MARGIN
from noisebank.privacy.noise import MIN_SCALE
from noisebank.queries.cells import policy_cubes
from noisebank.queries.sql import parse_question
from support.inference import whole_look

mp.dps = 60
CUT = 6
"""Standard deviations, in the place of the proof's 46."""


def log_ratio(scale: int, cut: int) -> mpf:
    """The proof's bound on |log(d/g)| within the cut: step 2."""
    return mpf(cut) ** 2 / (8 * scale**2) + 2 * mp.exp(-2 * mp.pi**2 * scale**2) / (1 - mpf("0.5"))


@cache
def laws(scale: int) -> tuple[dict[int, mpf], dict[int, mpf]]:
    """The discrete Gaussian and the rounded one, far into the tails."""
    reach = range(-24 * scale, 24 * scale + 1)
    weights = {t: mp.exp(-(mpf(t) ** 2) / (2 * scale**2)) for t in reach}
    total = mp.fsum(weights.values())
    discrete = {t: weight / total for t, weight in weights.items()}

    def below(x: mpf) -> mpf:
        return mp.erfc(-x / scale / mp.sqrt(2)) / 2

    rounded = {t: below(t + mpf("0.5")) - below(t - mpf("0.5")) for t in reach}
    return discrete, rounded


def tail(scale: int, cut: int) -> mpf:
    """The probability of a draw beyond the cut, of either law, by Chernoff's bound: step 3."""
    return 2 * mp.exp(-((mpf(cut) - mpf(1) / (2 * scale)) ** 2) / 2)


@pytest.mark.parametrize("scale", [1, 2, 3, 5, 8])
def test_one_draw_is_within_the_ratio_and_the_tails(scale: int) -> None:
    discrete, rounded = laws(scale)
    inside = [t for t in discrete if abs(t) <= CUT * scale]
    worst = max(abs(mp.log(discrete[t] / rounded[t])) for t in inside)
    assert worst <= log_ratio(scale, CUT) <= 8 * worst
    for law in (discrete, rounded):
        assert mp.fsum(p for t, p in law.items() if abs(t) > CUT * scale) <= tail(scale, CUT)


@pytest.mark.parametrize("scale", [2, 4])
@pytest.mark.parametrize("touched", [1, 4, 9])
def test_a_vector_needs_the_ratio_of_every_touched_coordinate(scale: int, touched: int) -> None:
    """The ratio of the laws of a whole vector, at its worst within the cut; one count per vector is too few."""
    discrete, rounded = laws(scale)
    worst = max(abs(mp.log(discrete[t] / rounded[t])) for t in discrete if abs(t) <= CUT * scale)
    assert touched * worst <= touched * log_ratio(scale, CUT)
    if touched >= 4:
        assert touched * worst > log_ratio(scale, CUT), "a count of one per reservation would pass"


def hockey_stick(law: dict[int, mpf], moves: tuple[int, ...], epsilon: mpf) -> mpf:
    """sup over events of P(x + noise) - e^eps P(x' + noise): the positive parts summed over all vectors."""
    kept = [t for t in law if law[t] > mpf(10) ** -9]
    found = mpf(0)
    for point in product(kept, repeat=len(moves)):
        here = there = mpf(1)
        for t, move in zip(point, moves, strict=True):
            here, there = here * law[t], there * law.get(t + move, mpf(0))
        found += max(mpf(0), here - mp.exp(epsilon) * there)
    return found


@pytest.mark.parametrize("moves", [(1,), (2,), (1, 1), (1, -1), (1, 0), (2, 0)])
@pytest.mark.parametrize("epsilon", ["0.2", "1"])
def test_the_margin_covers_the_exact_loss_of_a_vector(moves: tuple[int, ...], epsilon: str) -> None:
    """eps' -> eps' + 2 T eta and delta' -> e^(T eta) delta' + tails, where T counts the coordinates that move."""
    scale, inner = 2, mpf(epsilon)
    discrete, rounded = laws(scale)
    touched = sum(1 for move in moves if move)
    eta = log_ratio(scale, CUT)
    outer = inner + 2 * touched * eta
    ideal = hockey_stick(rounded, moves, inner)
    allowed = mp.exp(touched * eta) * ideal + (1 + mp.exp(outer)) * touched * tail(scale, CUT)
    assert hockey_stick(discrete, moves, outer) <= allowed + mpf(10) ** -6  # what was left out of the sum
    still = tuple(move for move in moves if move)  # untouched coordinates cancel exactly
    assert abs(hockey_stick(rounded, moves, inner) - hockey_stick(rounded, still, inner)) < mpf(10) ** -6


def test_the_banks_margins_are_the_lemmas() -> None:
    eta = log_ratio(MIN_SCALE, 46)
    assert eta < mpf(DISCRETE_RATIO.numerator) / DISCRETE_RATIO.denominator
    assert 2 * MAX_DRAWS * DISCRETE_RATIO == EPSILON_MARGIN
    grown = mp.exp(MAX_DRAWS * mpf(DISCRETE_RATIO.numerator) / DISCRETE_RATIO.denominator)
    kept = mpf((1 - DELTA_MARGIN).numerator) / (1 - DELTA_MARGIN).denominator
    least = mpf(DELTA_RANGE[0].numerator) / DELTA_RANGE[0].denominator
    assert (1 + mp.exp(900)) * MAX_DRAWS * tail(MIN_SCALE, 46) < least * (1 - grown * kept)


# -- which draws are touched -----------------------------------------------------------------------

Row = tuple[int, int]


def policy_of(neighbours: Neighbours, rows: int) -> Policy:
    columns = {
        "x": Column("x", Kind.INTEGER, low=0, high=11, bins=(2, 4, 6, 8, 10)),
        "g": Column("g", Kind.TEXT, keys=("a", "b", "c")),
        "id": Column("id", Kind.TEXT),
    }
    return Policy(
        "t", Path("/t"), neighbours, 100, MappingProxyType(columns), Fraction(1), Fraction(1, 10**6),
        "row" if rows == 1 else "id", rows, cubes=(("x",), ("x", "g")),
    )  # fmt: skip


TABLES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=6)
"""Which bin of x, and which key of g; 3 is none of them."""


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(Neighbours)), st.integers(1, 4), TABLES, st.data())
def test_neighbours_differ_in_no_more_draws_than_are_counted(
    neighbours: Neighbours, rows: int, others: list[Row], data: st.DataObject
) -> None:
    policy = policy_of(neighbours, rows)
    person = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=rows)
    mine = data.draw(person)
    theirs = data.draw(person) if neighbours is Neighbours.REPLACE_ONE else []
    for by in ((), ("x",), ("g",), ("g", "x")):
        query = parse_question(
            f"SELECT COUNT(*) FROM t{' GROUP BY ' + ', '.join(by) if by else ''}",
            policy_of(Neighbours.ADD_REMOVE, rows),
        ).query
        differ = sum(a != b for a, b in zip(grouped(by, others + mine), grouped(by, others + theirs), strict=True))
        assert differ <= touched_draws(query, policy) <= max_draws(policy, query.category, False)
    for cube in policy_cubes(policy):
        look = whole_look(cube_statistic(policy, cube, COUNT_KEY).axes, Precision(10**18))
        query = make_look(cube, COUNT_KEY, look)
        first, second = (
            look.round_values(cells(cube.columns, cube.shape, table).reshape(-1))
            for table in (others + mine, others + theirs)
        )
        assert int((first != second).sum()) <= touched_draws(query, policy) <= max_draws(policy, query.category, False)


def grouped(by: tuple[str, ...], table: list[Row]) -> list[int]:
    places = {"x": lambda row: row[0], "g": lambda row: row[1]}
    sizes = {"x": 6, "g": 3}
    return [
        sum(all(places[name](row) == at for name, at in zip(by, spot, strict=True)) for row in table)
        for spot in product(*(range(sizes[name]) for name in by))
    ]


def cells(columns: tuple[str, ...], shape: tuple[int, ...], table: list[Row]) -> np.ndarray:
    found = np.zeros(shape, dtype=object)
    for row in table:
        found[tuple({"x": row[0], "g": row[1]}[name] for name in columns)] += 1
    return found


def test_the_count_is_reached() -> None:
    """Not only a bound: two people in different corners of a cube touch every draw that is counted."""
    policy = policy_of(Neighbours.REPLACE_ONE, 1)
    cube = next(cube for cube in policy_cubes(policy) if len(cube.columns) == 2)
    look = whole_look(cube_statistic(policy, cube, COUNT_KEY).axes, Precision(10**18))
    first, second = (look.round_values(cells(cube.columns, cube.shape, [row]).reshape(-1)) for row in ((0, 0), (5, 3)))
    assert int((first != second).sum()) == touched_draws(make_look(cube, COUNT_KEY, look), policy) == cube.cell_count
    assert changed_rows(policy) == 2
