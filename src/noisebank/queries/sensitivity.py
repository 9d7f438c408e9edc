"""The L2 sensitivity of a query in steps, by the policy alone: how far one person can change its value."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from noisebank.core.errors import UnsupportedQuery
from noisebank.policy.model import Neighbours, Policy
from noisebank.queries.computed import name_polynomial
from noisebank.queries.polynomials import make_polynomial, quadratic_range
from noisebank.queries.predicates import FALSE, TRUE, Predicate, PredicateBuilder
from noisebank.queries.query import Function, Query, QueryPart

MAX_COMBINATIONS = 4_096
"""Combinations of weights that are gone through. Beyond, the extremes of the parts are added up: never too small."""


def sensitivity_squared(query: Query, policy: Policy) -> int:
    """Returns the square of the largest L2 distance between the query's values (in steps) on neighbouring tables.

    Requires: the engine clips each value to its bounds, counts at most `max_rows` rows of one
    person, and no row with a value that is no key of a complete column. Guarantees: at least
    |q(D) - q(D')|^2 for all neighbours D, D'. Argument: one person contributes a sum of 1 to `max_rows`
    rows, each between two extremes (0 among them where a row may count nowhere).
    Add-remove changes the query by one contribution, replace-one by the difference of two. With
    groups, the norm of a contribution, or of a difference of two, is a convex function of where the
    rows lie, so it is largest when all rows of a person lie in one group: the two persons' in the
    same one, or in two different ones. Proof: docs/proofs/sensitivity.md.
    """
    lowest, highest = contribution_range(query, policy)
    largest = max(abs(lowest), abs(highest))
    if policy.neighbours is Neighbours.ADD_REMOVE:
        return largest * largest
    width = highest - lowest
    if query.by:
        return max(width * width, 2 * largest * largest)
    return width * width


def l2_sensitivity(query: Query, policy: Policy) -> Fraction:
    """Returns the L2 sensitivity in steps; if not an integer, the next multiple of 2^-40 above it: never too small."""
    square = sensitivity_squared(query, policy)
    root = isqrt(square)
    if root * root == square:
        return Fraction(root)
    return Fraction(isqrt(square << 80) + 1, 1 << 40)


def contribution_range(query: Query, policy: Policy) -> tuple[int, int]:
    """Returns the least and the most that one person can add to the query (to one of its groups)."""
    low, high = row_range(query, policy)
    if query.by or policy.complete_columns:  # a row may lie in no group, or count nowhere
        low, high = min(low, 0), max(high, 0)
    most = policy.max_rows
    # A sum of a rows in [low, high], 1 <= a <= most, is extreme at one end of a.
    return min(low, most * low), max(high, most * high)


def row_range(query: Query, policy: Policy) -> tuple[int, int]:
    """Returns the least and the most that one row can add.

    What a column can add is narrowed by the predicate that the row meets: `SUM(x) WHERE x < 10` adds less than 10.
    """
    builder = PredicateBuilder(policy.columns)
    if query.is_simple:  # the most frequent kind, without a predicate of all other rows
        part = query.parts[0]
        low, high = _sum_range([(part, part.weights[0][0])], part.weights[0][1], builder)
        if not low and not high:  # SUM(x) WHERE x = 0: charged as if it were not known, so that it stays a question
            low, high = _sum_range([(part, part.weights[0][0])], TRUE, builder)
        return (low, high) if part.is_uniform else (min(low, 0), max(high, 0))
    try:
        sums = [_sum_range(chosen, where, builder) for where, chosen in _joint_weights(query, builder)]
    except (UnsupportedQuery, _TooManyCombinations):
        each = [_part_range(part, policy) for part in query.parts]
        return sum(low for low, _ in each), sum(high for _, high in each)
    return min(low for low, _ in sums), max(high for _, high in sums)


def saturation_limit(query: Query, policy: Policy) -> int:
    """Returns the largest absolute value of the statistic, in steps: the row cap times what one row can add."""
    low, high = row_range(query, policy)
    return policy.row_cap * max(abs(low), abs(high))


Chosen = list[tuple[QueryPart, int]]
"""The parts whose weight is not 0 in some rows, each with its weight there."""


class _TooManyCombinations(Exception):
    """Weights of different parts overlap in more ways than are gone through."""


def _joint_weights(query: Query, builder: PredicateBuilder) -> list[tuple[Predicate, Chosen]]:
    """Returns disjoint predicates of all rows with the weights of every part: only combinations that a row can have."""
    joint: list[tuple[Predicate, Chosen]] = [(TRUE, [])]
    for part in query.parts:
        rest = TRUE
        weights: list[tuple[int, Predicate]] = []
        for weight, where in part.weights:
            weights.append((weight, where))
            rest = builder.conjunction(rest, builder.negation(where))
        if rest is not FALSE:
            weights.append((0, rest))
        refined: list[tuple[Predicate, Chosen]] = []
        if len(joint) * len(weights) > MAX_COMBINATIONS:
            raise _TooManyCombinations
        for where, chosen in joint:
            for weight, other in weights:
                both = builder.conjunction(where, other)
                if both is not FALSE:
                    refined.append((both, [*chosen, (part, weight)] if weight else chosen))
        joint = refined
    return joint


def _part_range(part: QueryPart, policy: Policy) -> tuple[int, int]:
    """Returns the extremes of one part on its own: with those of all others never too small a range."""
    ranges = [(0, 0)]
    for weight, where in part.weights:
        ranges.append(_sum_range([(part, weight)], where, PredicateBuilder(policy.columns)))
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _sum_range(chosen: Chosen, where: Predicate, builder: PredicateBuilder) -> tuple[int, int]:
    """Returns the extremes of what a row adds, by weights, for which `where` holds.

    Exact for functions of one column; the ranges of several columns are added up, unless `where` speaks of that very
    sum: `CLAMP(a - b, 0, 60)` adds at most 60.
    """
    constant = 0
    squares: dict[str, int] = {}
    factors: dict[str, int] = {}
    for part, weight in chosen:
        if part.column is None:
            constant += weight
        else:
            coefficients = squares if part.function is Function.SQUARES else factors
            coefficients[part.column] = coefficients.get(part.column, 0) + weight
    low = high = constant
    for column in sorted(squares.keys() | factors.keys()):
        values = where.values_of(column, builder.domain_of(column))
        ends = [0] if values.has_null or not values.ranges else []
        if values.ranges:
            ends += quadratic_range(squares.get(column, 0), factors.get(column, 0), values)
        low, high = low + min(ends), high + max(ends)
    if not squares and len(factors) > 1:
        narrowed = _range_by_sum(factors, where, builder)
        if narrowed is not None:
            low, high = max(low, constant + narrowed[0]), min(high, constant + narrowed[1])
    return low, high


def _range_by_sum(factors: dict[str, int], where: Predicate, builder: PredicateBuilder) -> tuple[int, int] | None:
    """Returns the extremes of a sum of columns, where `where` limits the computed column of this very sum."""
    whole, factor = make_polynomial(((name,), Fraction(weight)) for name, weight in factors.items()).normalize()
    column = name_polynomial(whole)
    if column not in where.column_names():
        return None
    values = where.values_of(column, builder.domain_of(column))
    if values.has_null or not values.ranges:
        return None
    return quadratic_range(0, int(factor), values)
