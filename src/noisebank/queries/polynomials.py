"""Polynomials over the steps of columns, with exact rational coefficients: what a row expression is on an arm.

A variable stands for a column's step, an integer: a column of step 0.01 is the polynomial `1/100 * column`. So sums,
differences and products of columns are exact, and nothing is ever rounded to another grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import gcd, isqrt, lcm

from noisebank.core.errors import UnsupportedQuery
from noisebank.queries.values import ValueSet

Monomial = tuple[str, ...]
"""Column names in alphabetical order, one per factor; empty for the constant."""
Interval = tuple[int, int]
MAX_DEGREE = 4
MAX_MONOMIALS = 64
MAX_NUMBER = 10**400
"""Of a product's numerators and denominators: powers of powers of constants would grow beyond any time and memory."""


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of monomials, sorted, none with coefficient 0: equal polynomials have equal terms."""

    terms: tuple[tuple[Monomial, Fraction], ...]

    @property
    def constant(self) -> Fraction:
        """The coefficient of the empty monomial."""
        return self.terms[0][1] if self.terms and not self.terms[0][0] else Fraction(0)

    @property
    def is_constant(self) -> bool:
        """Whether it has the same value for every row."""
        return all(not monomial for monomial, _ in self.terms)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it depends on."""
        return frozenset(name for monomial, _ in self.terms for name in monomial)

    def plus(self, other: Polynomial) -> Polynomial:
        """Returns the sum."""
        return make_polynomial((*self.terms, *other.terms))

    def minus(self, other: Polynomial) -> Polynomial:
        """Returns the difference."""
        return self.plus(other.scale_by(Fraction(-1)))

    def scale_by(self, factor: Fraction) -> Polynomial:
        """Returns the polynomial times a constant."""
        return make_polynomial((monomial, factor * coefficient) for monomial, coefficient in self.terms)

    def times(self, other: Polynomial) -> Polynomial:
        """Returns the product; raises `UnsupportedQuery` if it has too many factors."""
        product = make_polynomial((tuple(sorted(a + b)), p * q) for a, p in self.terms for b, q in other.terms)
        if any(len(monomial) > MAX_DEGREE for monomial, _ in product.terms) or len(product.terms) > MAX_MONOMIALS:
            raise UnsupportedQuery("a product this long", f"multiply at most {MAX_DEGREE} columns")
        if any(max(abs(number.numerator), number.denominator) > MAX_NUMBER for _, number in product.terms):
            raise UnsupportedQuery("a product this large", "write numbers of ordinary size")
        return product

    def normalize(self) -> tuple[Polynomial, Fraction]:
        """Returns a polynomial with coprime integer coefficients, the first one positive and no constant, and the
        factor: self = factor * polynomial + constant. Requires: not constant."""
        terms = [(monomial, coefficient) for monomial, coefficient in self.terms if monomial]
        scale = reduce(lcm, (coefficient.denominator for _, coefficient in terms), 1)
        divisor = reduce(gcd, (int(coefficient * scale) for _, coefficient in terms), 0)
        factor = Fraction(divisor, scale) * (1 if terms[0][1] > 0 else -1)
        return Polynomial(tuple((monomial, coefficient / factor) for monomial, coefficient in terms)), factor

    def range_over(self, bounds: Mapping[str, Interval]) -> tuple[Fraction, Fraction]:
        """Returns bounds of its values where each column lies in an interval of steps, by interval arithmetic."""
        low = high = Fraction(0)
        for monomial, coefficient in self.terms:
            ends = [coefficient * end for end in _monomial_range(monomial, bounds)]
            low, high = low + min(ends), high + max(ends)
        return low, high


def make_polynomial(terms: Iterable[tuple[Monomial, Fraction]]) -> Polynomial:
    """Returns the sum of terms."""
    sums: dict[Monomial, Fraction] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, Fraction(0)) + coefficient
    return Polynomial(tuple(sorted((monomial, total) for monomial, total in sums.items() if total)))


def make_constant(value: Fraction | int) -> Polynomial:
    """Returns a constant."""
    return make_polynomial([((), Fraction(value))])


def quadratic_range(square: int, factor: int, values: ValueSet) -> Interval:
    """Returns the least and the largest value of square * x^2 + factor * x over these integers, exactly.

    Requires: at least one range. The extremes lie at ends of ranges, or beside the vertex.
    """
    points = {end for ends in values.ranges for end in ends}
    if square:
        vertex = -factor // (2 * square)
        points |= {x for x in (vertex, vertex + 1) if x in values}
    results = [(square * x + factor) * x for x in points]
    return min(results), max(results)


def solve_at_least(square: int, factor: int, constant: int, values: ValueSet) -> ValueSet:
    """Returns those of the values x for which square * x^2 + factor * x + constant >= 0."""
    if not values.ranges:
        return ValueSet(())
    first, last = values.ranges[0][0], values.ranges[-1][1]
    inside: tuple[Interval, ...]
    if not square:
        if not factor:
            inside = ((first, last),) if constant >= 0 else ()
        elif factor > 0:
            inside = ((max(first, -(constant // factor)), last),)
        else:
            inside = ((first, min(last, constant // -factor)),)
    else:
        discriminant = factor * factor - 4 * square * constant
        if discriminant < 0:
            inside = ((first, last),) if square > 0 else ()
        else:
            # Integers between the roots, ends included: |2 * square * x + factor| <= sqrt(discriminant).
            root, size = isqrt(discriminant), 2 * abs(square)
            middle = factor if square > 0 else -factor
            low, high = -((root + middle) // size), (root - middle) // size
            if square < 0:
                inside = ((low, high),)
            else:
                exact = root * root == discriminant
                upper = high if exact and (2 * square * high + factor) == root else high + 1
                lower = low if exact and (2 * square * low + factor) == -root else low - 1
                inside = ((first, lower), (upper, last)) if lower + 1 < upper else ((first, last),)
    kept = tuple((max(first, a), min(last, b)) for a, b in inside if max(first, a) <= min(last, b))
    return ValueSet(kept) & values


def _monomial_range(monomial: Monomial, bounds: Mapping[str, Interval]) -> Interval:
    low = high = 1
    for name in dict.fromkeys(monomial):
        a, b = bounds[name]
        power = monomial.count(name)
        ends = [a**power, b**power]
        least = 0 if power % 2 == 0 and a <= 0 <= b else min(ends)
        corners = [x * y for x in (low, high) for y in (least, max(ends))]
        low, high = min(corners), max(corners)
    return low, high
