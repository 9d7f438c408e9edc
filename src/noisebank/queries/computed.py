"""Computed columns: what a condition or a group says about a row that no single column says.

`ABS(hours - 42) <= 2` is a set of values of `hours`, and so an ordinary predicate. `income > 3 * rent` is none: it is a
condition on the computed column `income - 3 * rent`, an exact integer that the engine works out row by row. A computed
column is named by its definition, as canonical JSON: whoever knows the policy can work out its bounds, and equal
definitions are one column. No declared column has a quotation mark in its name, and each of these begins with `["`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from noisebank.core.caches import cache_results
from noisebank.core.digests import to_canonical_json
from noisebank.core.errors import UnsupportedQuery
from noisebank.policy.model import Column, Kind
from noisebank.queries.polynomials import Interval, Polynomial
from noisebank.queries.values import ValueSet, parse_values

CACHE_BYTES = 4 << 20
"""Of parsed definitions: that of 10,000 groups takes a megabyte."""
MAX_VALUE = 2**62
"""No computed column, and no part of it, reaches this in absolute value: engines compute it in 64 bits."""


@dataclass(frozen=True, slots=True)
class PolynomialColumn:
    """A polynomial with integer coefficients over the steps of columns."""

    terms: tuple[tuple[tuple[str, ...], int], ...]

    @property
    def polynomial(self) -> Polynomial:
        """As a polynomial."""
        return Polynomial(tuple((monomial, Fraction(coefficient)) for monomial, coefficient in self.terms))


@dataclass(frozen=True, slots=True)
class CycleColumn:
    """The hand of a clock: floor((step + offset) / width) modulo `modulus`."""

    column: str
    offset: int
    width: int
    modulus: int


@dataclass(frozen=True, slots=True)
class GroupColumn:
    """The groups of GROUP BY over an expression of one column: disjoint sets of its values, by their first value."""

    column: str
    pieces: tuple[ValueSet, ...]


@dataclass(frozen=True, slots=True)
class CaseColumn:
    """The groups of GROUP BY over an expression of several columns: canonical forms of disjoint predicates."""

    forms: tuple[str, ...]
    columns: frozenset[str]


Definition = PolynomialColumn | CycleColumn | GroupColumn | CaseColumn


def is_computed(name: str) -> bool:
    """Whether a column's name is the definition of a computed column."""
    return name.startswith('["')


def name_polynomial(polynomial: Polynomial) -> str:
    """Returns the name of the computed column; requires integer coefficients, as `Polynomial.normalize` gives."""
    return to_canonical_json(["sum", [[list(monomial), int(weight)] for monomial, weight in polynomial.terms]])


def name_cycle(column: str, offset: int, width: int, modulus: int) -> str:
    """Returns the name of the computed column."""
    return to_canonical_json(["cycle", column, offset % (width * modulus), width, modulus])


def name_groups(column: str, pieces: tuple[ValueSet, ...]) -> str:
    """Returns the name of the computed column; requires pieces in the order of their first values."""
    return to_canonical_json(["groups", column, [piece.to_json() for piece in pieces]])


def name_cases(forms: list[list[object]], columns: frozenset[str]) -> str:
    """Returns the name of the computed column; requires the canonical forms in the order of their texts."""
    return to_canonical_json(["cases", forms, sorted(columns)])


@cache_results(CACHE_BYTES)
def parse_definition(name: str) -> Definition:
    """Returns the definition that a computed column is named by."""
    kind, *facts = json.loads(name)
    if kind == "sum":
        return PolynomialColumn(tuple((tuple(monomial), weight) for monomial, weight in facts[0]))
    if kind == "cycle":
        return CycleColumn(*facts)
    if kind == "groups":
        return GroupColumn(facts[0], tuple(parse_values(piece) for piece in facts[1]))
    return CaseColumn(tuple(to_canonical_json(form) for form in facts[0]), frozenset(facts[1]))


def resolve_column(name: str, columns: Mapping[str, Column]) -> Column:
    """Returns a declared column, or a computed one as a column of integers, or of as many keys as it has groups."""
    if not is_computed(name):
        return columns[name]
    definition = parse_definition(name)
    if isinstance(definition, CycleColumn):
        nullable = resolve_column(definition.column, columns).nullable
        return Column(name, Kind.INTEGER, low=0, high=definition.modulus - 1, nullable=nullable)
    if isinstance(definition, PolynomialColumn):
        low, high = polynomial_bounds(definition.polynomial, columns)
        nullable = any(resolve_column(read, columns).nullable for read in definition.polynomial.columns)
        return Column(name, Kind.INTEGER, low=int(low), high=int(high), nullable=nullable)
    count = len(definition.pieces if isinstance(definition, GroupColumn) else definition.forms)
    return Column(name, Kind.INTEGER, keys=tuple(range(count)), nullable=True)


def polynomial_bounds(polynomial: Polynomial, columns: Mapping[str, Column]) -> tuple[Fraction, Fraction]:
    """Returns bounds of a polynomial over the columns' bounds; refuses what 64 bits could not hold on the way."""
    bounds: dict[str, Interval] = {}
    for name in polynomial.columns:
        bounds[name] = resolve_column(name, columns).bounds
    size = sum(
        (
            max(map(abs, Polynomial(((monomial, abs(weight)),)).range_over(bounds)))
            for monomial, weight in polynomial.terms
        ),
        Fraction(0),
    )
    if size >= MAX_VALUE:
        raise UnsupportedQuery(
            "numbers this large", "use CLAMP(column, lowest, highest), narrower bounds or larger steps"
        )
    return polynomial.range_over(bounds)


def source_columns(name: str) -> frozenset[str]:
    """Returns the declared columns that a column is computed from: itself, if it is declared."""
    if not is_computed(name):
        return frozenset((name,))
    definition = parse_definition(name)
    if isinstance(definition, (CycleColumn, GroupColumn)):
        return source_columns(definition.column)
    read = definition.columns if isinstance(definition, CaseColumn) else definition.polynomial.columns
    return frozenset().union(*(source_columns(column) for column in read))
