"""How a derived answer's precision is shared by its parts, so that its error is least for a typical table.

An error of sum a_i e_i, where part i has the sensitivity d_i and the precision w_i, has the variance
sum (a_i d_i)^2 / w_i. For a given sum of the w_i it is least where w_i is proportional to |a_i| d_i. The a_i depend on
the data; here they are those of a table whose mean is a third of the largest value that the policy allows. From public
numbers only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isqrt

from noisebank.policy.model import Column
from noisebank.queries.derived import MOMENTS, Aggregate, Derivation
from noisebank.queries.query import Query

TYPICAL_SHARE = Fraction(1, 3)
"""A typical mean, as a share of the largest value. At half or a quarter, 4% or 2% of the precision is lost."""
LEAST_SHARE = Fraction(1, 20)
"""No part gets less, before all are scaled to one."""
ROOT_SCALE = 10**6
"""Roots of shares are whole numbers in this scale: no float decides a cost."""


def optimal_shares(aggregate: Aggregate, sensitivity_of: Callable[[Query], Fraction]) -> list[Fraction]:
    """Returns each question's share of an aggregate's precision; they add up to one."""
    coefficients = _list_coefficients(aggregate)
    sizes = [
        abs(coefficient) * sensitivity_of(question.query) * abs(question.unit)
        for coefficient, question in zip(coefficients, aggregate.questions, strict=True)
    ]
    total = sum(sizes)
    raised = [max(LEAST_SHARE, size / total) for size in sizes]
    whole = sum(raised, Fraction(0))
    shares = [(share / whole).limit_denominator(10_000) for share in raised[:-1]]
    return [*shares, 1 - sum(shares, Fraction(0))]


def balance_shares(
    aggregates: Sequence[Aggregate], sensitivity_of: Callable[[Query], Fraction]
) -> dict[Query, Fraction]:
    """Returns each query's share of the precision of a whole SELECT; they add up to one.

    Aggregate a has the variance V_a = sum over its queries of s_aq^2 / w_q, in units of the least that the whole
    precision would give it, where the s_aq are its own optimal shares. The sum of all V_a is least where w_q is
    proportional to the root of sum over a of s_aq^2 (Cauchy-Schwarz): what several results need gets more.
    """
    squares: dict[Query, Fraction] = defaultdict(Fraction)
    for aggregate in aggregates:
        for question, share in zip(aggregate.questions, optimal_shares(aggregate, sensitivity_of), strict=True):
            squares[question.query] += share * share
    roots = {query: isqrt(int(square * ROOT_SCALE**2)) for query, square in squares.items()}
    total = sum(roots.values())
    return {query: Fraction(root, total) for query, root in roots.items()}


def _list_coefficients(aggregate: Aggregate) -> list[Fraction]:
    """Returns how much each part's error moves the answer, in a typical table, up to a common factor."""
    mean = _typical_mean(aggregate.column)
    if aggregate.derivation is Derivation.RATIO:
        return [Fraction(1), mean]
    if aggregate.derivation not in MOMENTS:
        return [Fraction(1)] * len(aggregate.questions)
    y_mean = _typical_mean(aggregate.second_column)
    steep = y_mean / mean
    by_moment = {
        Derivation.VARIANCE: {"xx": Fraction(1), "x": 2 * mean, "rows": mean * mean / 2},
        Derivation.STDDEV: {"xx": Fraction(1), "x": 2 * mean, "rows": mean * mean / 2},
        Derivation.COVARIANCE: {"xy": Fraction(1), "x": y_mean, "y": mean, "rows": mean * y_mean},
    }.get(
        aggregate.derivation,
        {
            "xy": Fraction(1), "xx": steep / 2, "yy": 1 / (2 * steep),
            "x": y_mean, "y": mean, "rows": mean * y_mean / 2,
        },
    )  # fmt: skip
    names = MOMENTS[aggregate.derivation][: len(aggregate.questions)]
    return [by_moment[name] for name in names]


def _typical_mean(column: Column | None) -> Fraction:
    """Returns a typical mean of a column, or of a condition."""
    if column is None or column.low is None:
        return TYPICAL_SHARE
    return TYPICAL_SHARE * max(abs(bound) for bound in column.bounds) * column.step
