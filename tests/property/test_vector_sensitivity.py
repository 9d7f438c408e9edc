"""Sensitivity of vectors and combinations against brute force: everything that one person can be, in exact arithmetic.

A statistic is a sum over people, so everybody else cancels: the true maximum is taken over all contributions of one
person (add-remove), or over all pairs of contributions (replace-one). What a row adds is written down here a second
time, in Python, from SQL's meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from pathlib import Path
from types import MappingProxyType
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assurance.planting import plant_bug
from noisebank.core.entropy import workload_rng
from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.queries import sensitivity as module
from noisebank.queries.query import Query, Question
from noisebank.queries.sensitivity import l2_sensitivity, sensitivity_squared
from noisebank.queries.sql import parse_question

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
Value = int | None
Row = tuple[Value, bool, Value]
"""x, b, and the place of g among its two keys; 2 is none of them."""
Vector = tuple[int, ...]
"""A number a group, in sixths: all coefficients below are whole numbers of them."""
SIX = 6


def zero(row: Row) -> int:
    return row[0] or 0


COUNTS: dict[str, Callable[[Row, int], Fraction | int]] = {
    "COUNT(*)": lambda r, m: 1,
    "COUNT(x)": lambda r, m: r[0] is not None,
    "COUNT_IF(b)": lambda r, m: r[1],
    "3 * COUNT_IF(b) - 2 * COUNT_IF(x > {m})": lambda r, m: 3 * r[1] - 2 * (r[0] is not None and r[0] > m),
    "3 * COUNT_IF(b) + 2 * COUNT_IF(x > {m})": lambda r, m: 3 * r[1] + 2 * (r[0] is not None and r[0] > m),
    "COUNT(*) + 4 * COUNT_IF(b AND x <= {m})": lambda r, m: 1 + 4 * (r[1] and r[0] is not None and r[0] <= m),
    "0.5 * COUNT_IF(b) - COUNT_IF(NOT b) / 3": lambda r, m: Fraction(1, 2) if r[1] else -Fraction(1, 3),
    "COUNT_IF(x > {m}) - 1000": lambda r, m: r[0] is not None and r[0] > m,
}
SUMS: dict[str, Callable[[Row, int], Fraction | int]] = {
    "SUM(x)": lambda r, m: zero(r),
    "-2 * SUM(x)": lambda r, m: -2 * zero(r),
    "SUM(x) FILTER (WHERE b)": lambda r, m: zero(r) * r[1],
    "SUM(x * x)": lambda r, m: zero(r) ** 2,
    "SUM(x * x) FILTER (WHERE b)": lambda r, m: zero(r) ** 2 * r[1],
}
"""Closed forms: the claim is reached."""
INDEPENDENT: dict[str, Callable[[Row, int], Fraction | int]] = {
    "SUM(x) - 2 * COUNT_IF(b)": lambda r, m: zero(r) - 2 * r[1],
    "SUM(x) + 5 * COUNT_IF(b)": lambda r, m: zero(r) + 5 * r[1],
    "3 * SUM(x) FILTER (WHERE b) - 2 * SUM(x) FILTER (WHERE NOT b)": lambda r, m: (3 if r[1] else -2) * zero(r),
    "SUM(x * x) - 7 * COUNT_IF(b)": lambda r, m: zero(r) ** 2 - 7 * r[1],
}
DEPENDENT: dict[str, Callable[[Row, int], Fraction | int]] = {
    "SUM(x) + 5 * COUNT(x)": lambda r, m: zero(r) + 5 * (r[0] is not None),
    "SUM(x * x) - 3 * SUM(x)": lambda r, m: zero(r) ** 2 - 3 * zero(r),
    "SUM(x) - 2 * COUNT_IF(x > {m})": lambda r, m: zero(r) - 2 * (r[0] is not None and r[0] > m),
    "SUM(x) FILTER (WHERE x > {m})": lambda r, m: zero(r) * (r[0] is not None and r[0] > m),
    "SUM(x * x) FILTER (WHERE x <= {m})": lambda r, m: zero(r) ** 2 * (r[0] is not None and r[0] <= m),
    "SUM(CLAMP(x, 0, 1) - 2 * x)": lambda r, m: 0 if r[0] is None else min(max(r[0], 0), 1) - 2 * r[0],
    "SUM(ABS(x - {m}) * x)": lambda r, m: 0 if r[0] is None else abs(r[0] - m) * r[0],
    "SUM(GREATEST(x, b::int))": lambda r, m: r[1] if r[0] is None else max(r[0], r[1]),
    "SUM(CASE WHEN b THEN x * x WHEN x > {m} THEN -x END)": lambda r, m: (
        0 if r[0] is None else r[0] ** 2 if r[1] else -r[0] if r[0] > m else 0
    ),
    "SUM(x) FILTER (WHERE x > {m} OR b)": lambda r, m: zero(r) * (r[1] or (r[0] is not None and r[0] > m)),
}
"""The parts depend on each other: the claim may be larger than the truth."""
STATISTICS = {**COUNTS, **SUMS, **INDEPENDENT, **DEPENDENT}
GROUPS = ((), ("g",), ("b", "g"), ("x",))


@dataclass(frozen=True)
class World:
    """A statistic, what it is asked of, and what counts as a neighbour."""

    neighbours: Neighbours
    statistic: str
    low: int
    high: int
    rows: int = 1
    nullable: bool = False
    by: tuple[str, ...] = ()

    @property
    def middle(self) -> int:
        return (self.low + self.high) // 2

    @property
    def policy(self) -> Policy:
        columns = {
            "x": Column("x", Kind.INTEGER, low=self.low, high=self.high, bins=(self.high,), nullable=self.nullable),
            "b": Column("b", Kind.BOOLEAN),
            "g": Column("g", Kind.TEXT, keys=("one", "two"), nullable=self.nullable),
            "id": Column("id", Kind.TEXT),
        }
        return Policy(
            "t", Path("/t"), self.neighbours, 100, MappingProxyType(columns), Fraction(1), Fraction(1, 10**6),
            "row" if self.rows == 1 else "id", self.rows,
        )  # fmt: skip

    @cache  # noqa: B019 (worlds are few and live as long as the tests)
    def question(self) -> Question:
        group = f" GROUP BY {', '.join(self.by)}" if self.by else ""
        return parse_question(f"SELECT {self.statistic.format(m=self.middle)} FROM t{group}", self.policy)

    @property
    def public(self) -> bool:
        """Nobody can change it: refused, so there is nothing to compare."""
        return not true_square(self) and not self.by

    # -- the truth -----------------------------------------------------------------------------

    def place(self, row: Row) -> int | None:
        """The group that a row lies in."""
        x, b, g = row
        place = 0
        for name in self.by:
            if name == "b":
                place = 2 * place + b
            elif (name == "g" and g in (None, 2)) or (name == "x" and x is None):
                return None
            else:
                place = 2 * place + (g if name == "g" else x >= self.high)  # type: ignore[operator]
        return place

    def vectors(self) -> set[Vector]:
        """What one row can add."""
        missing: list[Value] = [None] if self.nullable else []
        size = 2 ** len(self.by)
        found = set()
        for row in product([*range(self.low, self.high + 1), *missing], (False, True), [0, 1, 2, *missing]):
            place, amount = self.place(row), SIX * STATISTICS[self.statistic](row, self.middle)
            assert amount == int(amount)
            found.add(tuple(int(amount) if number == place else 0 for number in range(size)))
        return found

    def contributions(self) -> set[Vector]:
        """What one person can add: the sum of one row, or of up to `rows`."""
        single = self.vectors()
        found, longest = set(single), set(single)
        for _ in range(self.rows - 1):
            longest = {tuple(map(sum, zip(a, b, strict=True))) for a in longest for b in single}
            found |= longest
        return found


def claimed(world: World) -> Fraction:
    """Squared, in the asker's unit."""
    question = world.question()
    return module.sensitivity_squared(question.query, world.policy) * question.unit**2


@cache
def true_square(world: World) -> Fraction:
    """The square of the largest distance between neighbours."""
    contributions = list(world.contributions())
    if world.neighbours is ADD:
        return Fraction(max(sum(x * x for x in one) for one in contributions), SIX**2)
    if not world.by:
        return Fraction((max(contributions)[0] - min(contributions)[0]) ** 2, SIX**2)
    pairs = combinations_with_replacement(contributions, 2)
    return Fraction(max(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) for a, b in pairs), SIX**2)


# -- never understated, over everything -----------------------------------------------------------------


def battery() -> list[World]:
    """Small domains, all relations: some thousand times fewer worlds than one could try, but every kind of them."""
    found, random = [], workload_rng(6)
    for number, (statistic, neighbours, by) in enumerate(product(STATISTICS, (ADD, REPLACE), GROUPS)):
        bounds = [(-1, 1), (2, 3), (-3, -2), (-3, 2), (0, 2), (-2, 3)]
        for again in range(3):
            low, high = bounds[(number + again) % len(bounds)]
            rows, nullable = random.randint(1, 3), random.random() < 0.5
            if len(by) == 2:
                rows = min(rows, 2)
            world = World(neighbours, statistic, low, high, rows, nullable, by)
            if not world.public:
                found.append(world)
    return found


@cache
def cached_battery() -> tuple[World, ...]:
    return tuple(battery())


def test_never_understated():
    short = [world for world in cached_battery() if claimed(world) < true_square(world)]
    assert not short


def test_attained_where_there_is_a_closed_form():
    """Counts, weighted counts and sums: neither too small nor too large, with keys that some rows do not have."""
    closed = {**COUNTS, **SUMS, **INDEPENDENT}
    worlds = [world for world in cached_battery() if world.by in ((), ("g",)) and world.statistic in closed]
    # Parts that a missing x silences together are the exception.
    worlds = [world for world in worlds if not (world.nullable and world.statistic in INDEPENDENT)]
    assert len(worlds) > 100
    loose = [world for world in worlds if claimed(world) != true_square(world)]
    assert not loose


@settings(max_examples=80)
@given(
    st.sampled_from([ADD, REPLACE]), st.sampled_from(list(STATISTICS)), st.integers(-4, 4), st.integers(1, 3),
    st.integers(1, 3), st.booleans(), st.sampled_from(GROUPS),
)  # fmt: skip
def test_never_understated_at_random(neighbours, statistic, low, width, rows, nullable, by):
    if len(by) == 2 or width == 3:
        rows = min(rows, 2)
    world = World(neighbours, statistic, low, low + width, rows, nullable, by)
    if not world.public:
        assert claimed(world) >= true_square(world)


@settings(max_examples=40)
@given(st.sampled_from([ADD, REPLACE]), st.sampled_from(["COUNT_IF(b)", "SUM(x)", "3 * COUNT_IF(b) - 2 * COUNT_IF(x > {m})"]),  # noqa: E501
       st.booleans(), st.sampled_from([(), ("g",)]), st.data())  # fmt: skip
def test_whole_tables_and_their_neighbours(neighbours, statistic, nullable, by, data):
    """The statistic as a sum over people is not assumed here: whole tables, one person changed."""
    world = World(neighbours, statistic, -1, 2, 2, nullable, by)
    people = sorted(world.contributions())
    table = data.draw(st.lists(st.sampled_from(people), min_size=1, max_size=4))
    other = table[1:] if neighbours is ADD else [data.draw(st.sampled_from(people)), *table[1:]]
    size = 2 ** len(by)
    here, there = (tuple(sum(person[place] for person in rows) for place in range(size)) for rows in (table, other))
    assert sum((x - y) ** 2 for x, y in zip(here, there, strict=True)) <= SIX**2 * claimed(world)


# -- the table of MATHS, section 6 ------------------------------------------------------------------------

BOUNDS = [(0, 3), (2, 3), (-3, -2), (-1, 2), (-3, 1), (-2, 2)]


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_the_table_of_closed_forms(low, high, nullable):
    most = max(abs(low), abs(high))
    wide = max(high - low, most)
    rows: list[tuple[str, tuple[str, ...], Neighbours, int]] = [
        ("COUNT_IF(b)", (), ADD, 1),
        ("COUNT_IF(b)", (), REPLACE, 1),
        ("SUM(x)", (), ADD, most**2),
        ("SUM(x)", (), REPLACE, (wide if nullable else high - low) ** 2),
        ("SUM(x) FILTER (WHERE b)", (), ADD, most**2),
        ("SUM(x) FILTER (WHERE b)", (), REPLACE, wide**2),
        ("COUNT(*)", ("g",), ADD, 1),
        ("COUNT(*)", ("g",), REPLACE, 2),
        ("SUM(x)", ("g",), ADD, most**2),
        ("SUM(x)", ("g",), REPLACE, max((high - low) ** 2, 2 * most**2)),
    ]
    for statistic, by, neighbours, square in rows:
        world = World(neighbours, statistic, low, high, 1, nullable, by)
        assert claimed(world) == true_square(world) == square, (statistic, by, neighbours)


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_people_with_several_rows(low, high, rows):
    for statistic, by in (("SUM(x)", ()), ("SUM(x)", ("g",)), ("COUNT(*)", ("g",)), ("SUM(x * x)", ())):
        alone = World(ADD, statistic, low, high, 1, False, by)
        several = World(ADD, statistic, low, high, rows, False, by)
        assert claimed(several) == true_square(several) == rows**2 * claimed(alone)


def test_the_counterexample_of_the_table():
    world = World(REPLACE, "SUM(x)", 100, 110, 3)
    assert claimed(world) == 230**2
    grouped = World(REPLACE, "SUM(x)", 100, 110, 3, False, ("g",))
    assert claimed(grouped) == 2 * 330**2


def test_averages_by_a_public_number_of_rows():
    world = World(REPLACE, "SUM(x)", -3, 2)
    for sql, square in (("AVG(x)", Fraction(25, 100**2)), ("AVG(b)", Fraction(1, 100**2))):
        question = parse_question(f"SELECT {sql} FROM t", world.policy)
        assert sensitivity_squared(question.query, world.policy) * question.unit**2 == square


def test_the_root_is_never_rounded_down():
    for world in cached_battery():
        query, square = world.question().query, sensitivity_squared(world.question().query, world.policy)
        root = l2_sensitivity(query, world.policy)
        assert square <= root**2 <= square * (1 + Fraction(1, 2**38))


def test_many_weights_are_bounded_by_their_extremes():
    """Beyond the limit of combinations the bound is coarser, and never smaller."""
    with patch.object(module, "MAX_COMBINATIONS", 1):
        coarse = {world: claimed(world) for world in cached_battery()}
    assert all(coarse[world] >= claimed(world) for world in coarse)
    assert any(coarse[world] > claimed(world) for world in coarse)


# -- planted understatements ------------------------------------------------------------------------------

Claim = Callable[[Query, Policy], int]
RIGHT_RANGE, RIGHT_ROW = module.contribution_range, module.row_range
RIGHT_SUM, RIGHT_JOINT, RIGHT_QUADRATIC = module._sum_range, module._joint_weights, module.quadratic_range


def without_root_two(query: Query, policy: Policy) -> int:
    lowest, highest = RIGHT_RANGE(query, policy)
    return max(abs(lowest), abs(highest)) ** 2 if policy.neighbours is ADD else (highest - lowest) ** 2


def root_two_only(query: Query, policy: Policy) -> int:
    lowest, highest = RIGHT_RANGE(query, policy)
    most = max(abs(lowest), abs(highest)) ** 2
    return most if policy.neighbours is ADD else 2 * most if query.by else (highest - lowest) ** 2


def width_for_add_remove(query: Query, policy: Policy) -> int:
    lowest, highest = RIGHT_RANGE(query, policy)
    return (highest - lowest) ** 2 or highest**2


def largest_for_replace_one(query: Query, policy: Policy) -> int:
    return max(map(abs, RIGHT_RANGE(query, policy))) ** 2 * (2 if query.by and policy.neighbours is REPLACE else 1)


def rows_times_width(query: Query, policy: Policy) -> tuple[int, int]:
    low, high = RIGHT_ROW(query, policy)
    return policy.max_rows * low, policy.max_rows * high


def rows_forgotten(query: Query, policy: Policy) -> tuple[int, int]:
    low, high = RIGHT_ROW(query, policy)
    return (min(low, 0), max(high, 0)) if query.by else (low, high)


def hidden_zero_forgotten(query: Query, builder):
    """Rows that the predicate leaves out add 0: not so here."""
    return [piece for piece in RIGHT_JOINT(query, builder) if piece[1]]


def weights_forgotten(chosen, where, builder):
    return RIGHT_SUM([(part, 1 if weight > 0 else -1) for part, weight in chosen], where, builder)


def root_of_weights(chosen, where, builder):
    """As if the squared sensitivity grew with the weight, not with its square."""
    return RIGHT_SUM([(p, int(abs(weight) ** 0.5) * (1 if weight > 0 else -1)) for p, weight in chosen], where, builder)


def negative_weights_forgotten(chosen, where, builder):
    low, high = RIGHT_SUM(chosen, where, builder)
    return max(low, 0), max(high, 0)


def squares_of_the_ends(square, factor, values):
    """l^2 and u^2 as the ends of squares, though 0 lies between bounds of both signs."""
    results = [(square * x + factor) * x for x in (values.ranges[0][0], values.ranges[-1][1])]
    return min(results), max(results)


def squares_of_the_upper_bound(square, factor, values):
    low, high = RIGHT_QUADRATIC(square, factor, values)
    return (0, (square * values.ranges[-1][1] + factor) * values.ranges[-1][1]) if square else (low, high)


def narrowed_too_far(square, factor, values):
    """As if `x > m` left out the largest value as well."""
    ranges = values.ranges[:-1] if len(values.ranges) > 1 else values.ranges
    low, high = ranges[-1]
    return RIGHT_QUADRATIC(square, factor, type(values)((*ranges[:-1], (low, max(low, high - 1)))))


def largest_part_only(query: Query, policy: Policy) -> tuple[int, int]:
    ends = [module._part_range(part, policy) for part in query.parts]
    return min(low for low, _ in ends), max(high for _, high in ends)


PLANTED: dict[str, tuple[str, Callable]] = {
    "square root of two forgotten for groups": ("sensitivity_squared", without_root_two),
    "u - l forgotten for groups": ("sensitivity_squared", root_two_only),
    "u - l for add-remove": ("sensitivity_squared", width_for_add_remove),
    "max(|l|, |u|) for replace-one": ("sensitivity_squared", largest_for_replace_one),
    "k(u - l) for replace-one": ("contribution_range", rows_times_width),
    "k forgotten": ("contribution_range", rows_forgotten),
    "the hidden 0 of a predicate forgotten": ("_joint_weights", hidden_zero_forgotten),
    "weights forgotten": ("_sum_range", weights_forgotten),
    "weights not squared": ("_sum_range", root_of_weights),
    "negative weights forgotten": ("_sum_range", negative_weights_forgotten),
    "squares between l^2 and u^2": ("quadratic_range", squares_of_the_ends),
    "squares up to u^2": ("quadratic_range", squares_of_the_upper_bound),
    "narrowed by one value too many": ("quadratic_range", narrowed_too_far),
    "only the largest part of a combination": ("row_range", largest_part_only),
}


@pytest.mark.parametrize("plant", PLANTED)
def test_each_planted_understatement_is_caught(plant):
    name, wrong = PLANTED[plant]
    worlds = cached_battery()
    assert all(world.question() for world in worlds)  # parsed before anything is planted
    with plant_bug(module, name, wrong):
        assert any(claimed(world) < true_square(world) for world in worlds)


def test_the_battery_has_every_kind_of_world():
    """Guards the tests above."""
    worlds = cached_battery()
    kinds = {(world.neighbours, world.by, world.rows, world.nullable) for world in worlds}
    wanted = set(product((ADD, REPLACE), GROUPS, (1, 2, 3), (False, True)))
    wanted = {kind for kind in wanted if len(kind[1]) < 2 or kind[2] < 3}
    assert kinds == wanted
    assert len(worlds) > 300 and {world.statistic for world in worlds} == set(STATISTICS)
