"""Intervals go through what a SELECT computes, and tests that would see it if they did not.

The noise is seeded and drawn around known numbers. Where the interval is exact, coverage must be neither too low nor
too high: noise of 0.7 and 1.3 times the stated scale is rejected. Where it is a bound, 1.3 times is not always seen:
there the planted mistake is larger, and the test says how large.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf, sqrt
from pathlib import Path

import numpy as np
import pytest

from support.internals import (
    Expression,
    ExpressionEvaluator,
    Gaussian,
    NoiseSource,
    NoisyPart,
    RowNumbers,
    SelectList,
    parse_policy,
    parse_select_list,
    simulation_rng,
    sort_rows,
    sum_gaussians,
)

RUNS, CONFIDENCE = 1_000, 0.9
SLACK = 5 * sqrt(RUNS * CONFIDENCE * (1 - CONFIDENCE))
LEAST, MOST = RUNS * CONFIDENCE - SLACK, RUNS * CONFIDENCE + SLACK
POLICY = parse_policy(
    """
name = "t"
source = "t.csv"
neighbours = "add-remove"
row_cap = 100000
[budget]
epsilon = 8
delta = 1e-6
[columns.x]
type = "integer"
bounds = [0, 100]
[columns.y]
type = "integer"
bounds = [0, 100]
[columns.k]
type = "integer"
keys = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
""",
    Path(),
)
TRUE, NOISE = {"SUM(x)": 900.0, "SUM(y)": 400.0, "COUNT(*)": 100.0}, {"SUM(x)": 40.0, "SUM(y)": 30.0, "COUNT(*)": 6.0}


def parse(sql: str) -> SelectList:
    return parse_select_list(sql, POLICY)


def draw_row(select: SelectList, scale: float, noise: np.random.Generator) -> RowNumbers:
    """One row: every question of every aggregate is one of the known numbers with noise."""
    numbers, parts = {}, []
    for aggregate in select.aggregates:
        own = []
        for question in aggregate.questions:
            name = next(name for name in TRUE if name[:5] in question.sql)
            if name not in numbers:
                value = TRUE[name] + scale * NOISE[name] * noise.standard_normal()
                numbers[name] = Gaussian(Fraction(float(value)), {NoiseSource(len(numbers), 0): NOISE[name]})
            own.append(NoisyPart((numbers[name].scale_by(question.unit),)))
        parts.append(own)
    return RowNumbers(parts, {}, {})


def count_covered(sql: str, true: float, scale: float = 1.0) -> int:
    select, noise = parse(f"SELECT {sql} AS r FROM t"), simulation_rng(31)
    evaluator, expression = ExpressionEvaluator(select.aggregates), select.items[0].expression
    assert expression is not None
    held = 0
    for _ in range(RUNS):
        estimate = evaluator.evaluate(expression, draw_row(select, scale, noise), CONFIDENCE)
        held += (estimate.low or -inf) <= true <= (inf if estimate.high is None else estimate.high)
    return held


EXACT = [
    ("100.0 * SUM(x) / COUNT(*)", 900.0),
    ("SUM(x) / NULLIF(SUM(y), 0)", 2.25),
    ("100 * (SUM(x) / COUNT(*)) - 7", 893.0),
    ("SQRT(SUM(x) / COUNT(*))", 3.0),
    ("ABS(AVG(x) / -3)", 3.0),
    ("-LN(SUM(x) / SUM(y))", -0.8109302162163288),
    ("GREATEST(SUM(x), 0) / 12", 75.0),
]


@pytest.mark.parametrize(("sql", "true"), EXACT)
def test_ratios_and_functions_of_one_number_cover_exactly(sql: str, true: float) -> None:
    assert LEAST <= count_covered(sql, true) <= MOST
    assert count_covered(sql, true, 1.3) < LEAST
    assert count_covered(sql, true, 0.7) > MOST


BOUNDS = [
    ("AVG(x) - AVG(y)", 5.0),
    ("AVG(x) / AVG(y)", 2.25),
    ("SUM(x) * COUNT(*)", 90_000.0),
    ("GREATEST(SUM(x), SUM(y))", 900.0),
    ("SUM(x) / SUM(y) + COUNT(*)", 102.25),
]


@pytest.mark.parametrize(("sql", "true"), BOUNDS)
def test_other_expressions_cover_at_least(sql: str, true: float) -> None:
    assert count_covered(sql, true) >= LEAST
    assert count_covered(sql, true, 3.0) < LEAST


# -- totals and rows ---------------------------------------------------------------------------------

COUNTS = np.array([400.0, 250.0, 120.0, 80.0, 60.0, 40.0, 20.0, 15.0, 10.0, 5.0])
STDDEV = 12.0


def draw_groups(values: Sequence[float], scale: float, noise: np.random.Generator) -> list[Gaussian]:
    drawn = np.asarray(values) + scale * STDDEV * noise.standard_normal(len(values))
    return [Gaussian(Fraction(float(value)), {NoiseSource(0, n): STDDEV}) for n, value in enumerate(drawn)]


def share_covered(group: int, scale: float = 1.0, is_independent: bool = False) -> int:
    """How often the interval of a group's share of the total holds it; the total has the group's own noise in it."""
    select, noise = parse("SELECT k, 1.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS s FROM t GROUP BY k"), simulation_rng(32)
    evaluator, expression = ExpressionEvaluator(select.aggregates), select.items[0].expression
    assert expression is not None
    (total,) = expression.arguments[1:]  # type: ignore[union-attr]
    true, held = COUNTS[group] / COUNTS.sum(), 0
    for _ in range(RUNS):
        numbers = draw_groups(COUNTS, scale, noise)
        own = numbers[group]
        if is_independent:  # planted: as if the total had been measured by itself
            own = Gaussian(own.exact, {NoiseSource(1, 0): STDDEV})
        parts = [[NoisyPart((own,))] for _ in select.aggregates]
        row = RowNumbers(parts, {total: sum_gaussians(numbers)}, {})
        estimate = evaluator.evaluate(expression, row, CONFIDENCE)
        held += (estimate.low or 0.0) <= true <= (estimate.high or 1.0)
    return held


@pytest.mark.parametrize("group", [0, 3, 9])
def test_shares_of_a_total_cover_exactly(group: int) -> None:
    assert LEAST <= share_covered(group) <= MOST
    assert share_covered(group, 1.3) < LEAST and share_covered(group, 0.7) > MOST


def test_a_share_without_the_common_noise_would_be_seen() -> None:
    assert share_covered(0, is_independent=True) > MOST


def largest_covered(scale: float, is_adjusted: bool = True) -> int:
    """How often the interval of the largest of ten equal counts holds its true value: ORDER BY n DESC LIMIT 1."""
    select, noise = parse("SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY n DESC LIMIT 1"), simulation_rng(33)
    evaluator, expression = ExpressionEvaluator(select.aggregates), select.items[0].expression
    assert expression is not None
    confidence = 1 - (1 - CONFIDENCE) / 10 if is_adjusted else CONFIDENCE
    held = 0
    for _ in range(RUNS):
        numbers = draw_groups([100.0] * 10, scale, noise)
        rows = [RowNumbers([[NoisyPart((number,))]], {}, {"k": str(n)}) for n, number in enumerate(numbers)]
        first = sort_rows(rows, select.order, evaluator, {"k": [str(n) for n in range(10)]})[0]
        estimate = evaluator.evaluate(expression, first, confidence)
        held += (estimate.low or 0.0) <= 100.0 <= (estimate.high or 0.0)
    return held


def test_what_noise_has_chosen_is_covered() -> None:
    """The largest is too large: with intervals for single numbers it would be covered far too rarely."""
    assert largest_covered(1.0) >= LEAST
    assert largest_covered(1.0, is_adjusted=False) < LEAST
    assert largest_covered(1.3) < LEAST and largest_covered(0.7) > MOST


def subtotal(expression: Expression | None, scale: float) -> int:
    """How often a subtotal of CUBE, the sum of ten groups, is covered."""
    noise, held = simulation_rng(34), 0
    select = parse("SELECT k, COUNT(*) AS n FROM t GROUP BY ROLLUP (k)")
    evaluator = ExpressionEvaluator(select.aggregates)
    assert expression is not None
    for _ in range(RUNS):
        row = RowNumbers([[NoisyPart((sum_gaussians(draw_groups(COUNTS, scale, noise)),))]], {}, {})
        estimate = evaluator.evaluate(expression, row, CONFIDENCE)
        assert estimate.stddev == pytest.approx(STDDEV * sqrt(10))
        held += (estimate.low or 0.0) <= COUNTS.sum() <= (estimate.high or 0.0)
    return held


def test_subtotals_cover_exactly() -> None:
    expression = parse("SELECT k, COUNT(*) AS n FROM t GROUP BY ROLLUP (k)").items[0].expression
    assert LEAST <= subtotal(expression, 1.0) <= MOST
    assert subtotal(expression, 1.3) < LEAST and subtotal(expression, 0.7) > MOST
