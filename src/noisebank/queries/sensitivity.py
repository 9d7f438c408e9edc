"""How far one person can move a query: L2 sensitivity in steps, from the policy alone."""

from __future__ import annotations

from noisebank.policy import Neighbours, Policy
from noisebank.queries.query import Function, Query


def sensitivity(query: Query, policy: Policy) -> int:
    """The largest change of `query` (in steps) between neighbouring tables.

    Requires: the engine clips each value to its bounds and counts at most `max_rows` rows of one
    person. Guarantees: at least |q(D) - q(D')| for all neighbours D, D'.
    Argument: one person contributes a sum of a rows, each in [l, u] or, where a predicate or a
    missing value may hide it, 0. Add-remove moves the query by one contribution, replace-one by
    the difference of two. A person in the table has at least one row (else the tables would be
    add-remove neighbours), so a starts at 1. Proof: docs/proofs/sensitivity.md.
    """
    lowest, highest = contribution_range(query, policy)
    if policy.neighbours is Neighbours.ADD_REMOVE:
        return max(abs(lowest), abs(highest))
    return highest - lowest


def contribution_range(query: Query, policy: Policy) -> tuple[int, int]:
    """The least and the most that one person can add to the query."""
    if query.function is Function.COUNT:
        low = high = 1
        hidden = not query.whole_table
    else:
        assert query.column is not None
        column = policy.columns[query.column]
        low, high = column.bounds
        hidden = column.nullable or not query.whole_table
    most = policy.max_rows
    # A sum of a rows in [low, high], 1 <= a <= most, is extreme at one end of a.
    lowest, highest = min(low, most * low), max(high, most * high)
    return (min(lowest, 0), max(highest, 0)) if hidden else (lowest, highest)


def saturation(query: Query, policy: Policy) -> int:
    """The largest absolute value that the statistic may take: row cap x bound."""
    if query.function is Function.COUNT or query.column is None:
        return policy.row_cap
    low, high = policy.columns[query.column].bounds
    return policy.row_cap * max(abs(low), abs(high))
