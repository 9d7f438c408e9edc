"""The groups of a GROUP BY: every combination of declared keys or bins, whether rows lie in it or not."""

from __future__ import annotations

from itertools import pairwise, product
from math import prod

from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.policy.model import Column, Kind, Policy
from noisebank.queries.query import Query
from noisebank.queries.values import ValueSet

MAX_GROUPS = 10_000


def column_groups(column: Column) -> tuple[ValueSet, ...]:
    """Returns the declared keys or bins of a column as sets of its values; raises `BadQuery` if it has none.

    A value that is none of the declared keys, and a missing one, belongs to no group.
    """
    if column.keys:
        return tuple(ValueSet(((index, index),)) for index in range(len(column.keys)))
    if column.kind is Kind.BOOLEAN:
        return ValueSet(((0, 0),)), ValueSet(((1, 1),))
    if column.is_numeric and column.bins:
        low, high = column.bounds
        edges = [low, *column.bins, high + 1]
        return tuple(ValueSet(((start, stop - 1),)) for start, stop in pairwise(edges) if start < stop)
    raise BadQuery(f"column {column.name} has no declared keys or bins, so nothing can be grouped by it")


def column_labels(column: Column) -> tuple[str, ...]:
    """Returns the labels of a column's groups, in the same order."""
    if column.is_keyed:
        return column.key_names
    if column.kind is Kind.BOOLEAN:
        return "false", "true"
    names = []
    for part in column_groups(column):
        ((low, high),) = part.ranges
        last = high == column.bounds[1]
        end = f"{float(column.step * high):.15g}]" if last else f"{float(column.step * (high + 1)):.15g})"
        names.append(f"[{float(column.step * low):.15g}, {end}")
    return tuple(names)


def group_count(query: Query, policy: Policy) -> int:
    """Returns how many numbers an answer to the query has."""
    return prod(len(column_groups(policy.columns[name])) for name in query.by)


def group_labels(query: Query, policy: Policy) -> tuple[tuple[str, ...], ...]:
    """Returns one row of labels per number, in the order in which engines return them."""
    return tuple(product(*(column_labels(policy.columns[name]) for name in query.by)))


def check_groups(names: tuple[str, ...], policy: Policy) -> None:
    """Raises if a GROUP BY of these columns names one twice or has too many groups."""
    if len(set(names)) != len(names):
        raise BadQuery("GROUP BY names a column twice")
    if prod(len(column_groups(policy.columns[name])) for name in names) > MAX_GROUPS:
        raise UnsupportedQuery(f"more than {MAX_GROUPS} groups", "group by fewer columns, or coarser bins")
