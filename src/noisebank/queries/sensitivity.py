"""The L2 sensitivity of a query in steps, by the policy alone: how far one person can change its value."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import isqrt

from noisebank.policy.model import Neighbours, Policy
from noisebank.queries.predicates import FALSE, Predicate, PredicateBuilder
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
    """Returns the least and the most that one row can add."""
    if query.is_simple:  # the most frequent kind, without a predicate of all other rows
        part = query.parts[0]
        low, high = _row_extremes(part, part.weights[0][0], policy)
        return (low, high) if part.is_uniform else (min(low, 0), max(high, 0))
    ranges = [_part_ranges(part, policy) for part in query.parts]
    combinations = 1
    for part_ranges in ranges:
        combinations *= len(part_ranges)
    if len(ranges) == 1 or combinations > MAX_COMBINATIONS:
        lowest = sum(min(low for _, low, _ in part_ranges) for part_ranges in ranges)
        return lowest, sum(max(high for _, _, high in part_ranges) for part_ranges in ranges)
    # Weights of different parts depend on the same row: only combinations that some row can have count.
    builder = PredicateBuilder(policy.columns)
    sums: list[tuple[int, int]] = []
    for choice in product(*ranges):
        where = choice[0][0]
        for other, _, _ in choice[1:]:
            where = builder.conjunction(where, other)
        if where is not FALSE:
            sums.append((sum(low for _, low, _ in choice), sum(high for _, _, high in choice)))
    return min(low for low, _ in sums), max(high for _, high in sums)


def saturation_limit(query: Query, policy: Policy) -> int:
    """Returns the largest absolute value of the statistic, in steps: the row cap times what one row can add."""
    low, high = row_range(query, policy)
    return policy.row_cap * max(abs(low), abs(high))


def _part_ranges(part: QueryPart, policy: Policy) -> list[tuple[Predicate, int, int]]:
    """Returns for each weight, and for rows without one: where it holds, and the extremes of what such a row adds."""
    ranges: list[tuple[Predicate, int, int]] = []
    builder = PredicateBuilder(policy.columns)
    rest: Predicate | None = None
    for weight, predicate in part.weights:
        ranges.append((predicate, *_row_extremes(part, weight, policy)))
        rest = predicate if rest is None else builder.disjunction(rest, predicate)
    nothing = builder.negation(rest) if rest is not None else FALSE
    if nothing is not FALSE:
        ranges.append((nothing, 0, 0))
    return ranges


def _row_extremes(part: QueryPart, weight: int, policy: Policy) -> tuple[int, int]:
    """Returns the least and the most that a row of this weight adds."""
    low = high = 1
    hidden = False
    if part.column is not None:
        column = policy.columns[part.column]
        low, high = column.bounds
        hidden = column.nullable
        if part.function is Function.SQUARES:
            low, high = (0 if low <= 0 <= high else min(low * low, high * high)), max(low * low, high * high)
    low, high = min(weight * low, weight * high), max(weight * low, weight * high)
    return (min(low, 0), max(high, 0)) if hidden else (low, high)
