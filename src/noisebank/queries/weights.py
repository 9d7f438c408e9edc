"""The canonical form of sums of weighted predicates: disjoint predicates with different weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd

from noisebank.core.digests import canonical
from noisebank.core.errors import UnsupportedQuery
from noisebank.queries.predicates import FALSE, TRUE, Diagrams, Predicate
from noisebank.queries.query import Function, Part, Query, Weights

MAX_WEIGHT = 2**40
"""In absolute value, after common factors are gone: keeps every sum inside an engine's 128 bits."""
Terms = Mapping[tuple[Function, str | None], Sequence[tuple[int, Predicate]]]
"""By function and column: weights that add up where their predicates overlap."""


def combined(diagrams: Diagrams, terms: Sequence[tuple[int, Predicate]]) -> Weights:
    """Returns weights that add up where predicates overlap as disjoint predicates, by rising weight.

    Guarantees: for every row the weight is the sum of those terms whose predicate holds; equal
    sums give equal results, since each weight's rows are one canonical diagram.
    """
    if len(terms) == 1:  # nothing overlaps: the most frequent kind
        return tuple((amount, predicate) for amount, predicate in terms if amount and predicate is not FALSE)
    rows: dict[int, Predicate] = {0: TRUE}
    for amount, predicate in terms:
        updated: dict[int, Predicate] = {}
        for weight, where in rows.items():
            for total, part in (
                (weight + amount, diagrams.both(where, predicate)),
                (weight, diagrams.both(where, diagrams.negation(predicate))),
            ):
                if part is not FALSE:
                    updated[total] = diagrams.either(updated.get(total, FALSE), part)
        rows = updated
    return tuple((weight, rows[weight]) for weight in sorted(rows) if weight)


def query_of(diagrams: Diagrams, terms: Terms, by: tuple[str, ...] = ()) -> tuple[Query, int]:
    """Returns the canonical query that a linear combination is a multiple of, and the factor.

    Raises if all terms cancel out.
    """
    parts = []
    for function, column in sorted(terms, key=lambda key: (key[0].value, key[1] or "")):
        weights = combined(diagrams, terms[function, column])
        if weights:
            parts.append(Part(function, column, weights))
    if not parts:
        raise UnsupportedQuery("a combination that cancels out", "its answer is the constant, whatever the table")
    factor = gcd(*(weight for part in parts for weight, _ in part.weights))
    # A statistic and its negative are one query: the one whose weights are mostly positive, by number, sum, then text.
    candidates = [(sign * factor, _scaled(parts, sign * factor, by)) for sign in _signs(parts)]
    factor, query = candidates[0] if len(candidates) == 1 else max(candidates, key=lambda pair: _text(pair[1]))
    if any(abs(weight) > MAX_WEIGHT for part in query.parts for weight, _ in part.weights):
        raise UnsupportedQuery("a coefficient this large", "use coefficients whose ratios stay below 2^40")
    return query, factor


def _scaled(parts: Iterable[Part], factor: int, by: tuple[str, ...]) -> Query:
    return Query(
        tuple(
            Part(
                part.function,
                part.column,
                tuple(sorted(((w // factor, p) for w, p in part.weights), key=lambda x: x[0])),
            )
            for part in parts
        ),
        by,
    )


def _signs(parts: Iterable[Part]) -> tuple[int, ...]:
    """Returns the sign that makes most weights positive, else their sum; both signs where neither decides."""
    weights = [weight for part in parts for weight, _ in part.weights]
    decided = sum((weight > 0) - (weight < 0) for weight in weights) or sum(weights)
    return (1, -1) if not decided else (1,) if decided > 0 else (-1,)


def _text(query: Query) -> str:
    return canonical([part.canonical for part in query.parts])
