"""The groups of a GROUP BY: every combination of declared keys or bins, whether rows lie in it or not."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import prod

from noisebank.core.calendar import format_clock
from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.policy.model import Column, Kind, Policy
from noisebank.queries.computed import resolve_column
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
    if (column.is_numeric or column.is_date) and column.bins:
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
    if column.is_date:
        return tuple(_date_label(column, *part.ranges[0]) for part in column_groups(column))
    for part in column_groups(column):
        ((low, high),) = part.ranges
        if low == high:  # the bin is one number
            names.append(f"{float(column.step * low):.15g}")
            continue
        last = high == column.bounds[1]
        end = f"{float(column.step * high):.15g}]" if last else f"{float(column.step * (high + 1)):.15g})"
        names.append(f"[{float(column.step * low):.15g}, {end}")
    return tuple(names)


def _date_label(column: Column, low: int, high: int) -> str:
    if low == high and column.step_days == 1:
        return format_clock(Fraction(low))
    last = high == column.bounds[1]
    end = format_clock(column.step_days * (high if last else high + 1))
    return f"[{format_clock(column.step_days * low)}, {end}{']' if last else ')'}"


def group_count(query: Query, policy: Policy) -> int:
    """Returns how many numbers an answer to the query has."""
    return prod(_group_counts(query, policy))


def group_labels(query: Query, policy: Policy) -> tuple[tuple[str, ...], ...]:
    """Returns one row of labels per number, in the order in which they are shown: see `group_order`."""
    return tuple(product(*(_shown_labels(name, query, policy) for name in query.by)))


def group_order(query: Query, policy: Policy) -> Sequence[int]:
    """Returns where the numbers that are shown lie among those that engines return: keys that are expressions are shown
    in the order of their values, whatever the order of their groups."""
    if not query.labels:
        return range(group_count(query, policy))
    places: list[int] = [0]
    for name, size in zip(query.by, _group_counts(query, policy), strict=True):
        labels = query.labels.get(name)
        order = labels.order if labels else range(size)
        places = [place * size + number for place in places for number in order]
    return places


def _group_counts(query: Query, policy: Policy) -> list[int]:
    return [len(column_groups(resolve_column(name, policy.columns))) for name in query.by]


def _shown_labels(name: str, query: Query, policy: Policy) -> tuple[str, ...]:
    labels = query.labels.get(name)
    if labels is None:
        return column_labels(resolve_column(name, policy.columns))
    return tuple(labels.names[number] for number in labels.order)


def check_groups(names: tuple[str, ...], policy: Policy) -> None:
    """Raises if a GROUP BY of these columns names one twice or has too many groups."""
    if len(set(names)) != len(names):
        raise BadQuery("GROUP BY names a column twice")
    if prod(len(column_groups(resolve_column(name, policy.columns))) for name in names) > MAX_GROUPS:
        raise UnsupportedQuery(f"more than {MAX_GROUPS} groups", "group by fewer columns, or coarser bins")
