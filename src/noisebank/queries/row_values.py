"""What a row expression is: disjoint arms, each with the rows that it holds for and a value. Used by `row_expressions`.

Every expression is brought into this form as it is read, so it does not matter how it was spelled: CASE, FILTER, ABS
and GREATEST leave nothing but predicates, polynomials and functions of one column with few values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from math import isqrt, lcm

from noisebank.core.errors import UnsupportedQuery
from noisebank.queries.computed import name_cycle, name_polynomial
from noisebank.queries.effort import add_steps
from noisebank.queries.polynomials import Polynomial, make_constant, make_polynomial, solve_at_least
from noisebank.queries.predicates import FALSE, TRUE, Predicate, PredicateBuilder
from noisebank.queries.values import ValueRange, ValueSet, join_ranges, make_value_set

MAX_ARMS = 300
"""More than anybody writes by hand: every arm is a condition of its own."""
TOO_MANY_ARMS = f"at most {MAX_ARMS} are read: compare it with a constant, or use a coarser function"
MAX_LEVELS = 10_000
"""Of a function with finitely many values."""


class ValueType(Enum):
    """What an expression is, as far as operators need to know."""

    NUMBER = "a number"
    TEXT = "a text"
    TRUTH = "a truth value"
    DATE = "a date"
    TIMESTAMP = "a timestamp"
    INTERVAL = "an interval"
    NOTHING = "NULL"


@dataclass(frozen=True, slots=True)
class TextColumn:
    """The text in a column that has declared keys."""

    column: str


@dataclass(frozen=True, slots=True)
class StepFunction:
    """A function of one column with finitely many values: those values in rising order, each with where it has them."""

    column: str
    levels: tuple[tuple[Fraction, ValueSet], ...]

    def map_values(self, function: Callable[[Fraction], Fraction | None]) -> StepFunction:
        """Returns the function of these values; where that is None, the result has no value."""
        ranges: dict[Fraction, list[ValueRange]] = {}
        for value, values in self.levels:
            image = function(value)
            if image is not None:
                ranges.setdefault(image, []).extend(values.ranges)
        return make_step_function(self.column, ranges)


Value = Polynomial | StepFunction | TextColumn | str | bool | None
"""Dates are days since 1970 as polynomials and step functions; None is NULL."""


def make_step_function(column: str, ranges: dict[Fraction, list[ValueRange]]) -> StepFunction:
    """Returns the function with these values where the column lies in these ranges."""
    return StepFunction(column, tuple((value, join_ranges(ranges[value])) for value in sorted(ranges)))


@dataclass(frozen=True, slots=True)
class Arm:
    """The rows of one arm, and their value."""

    where: Predicate
    value: Value


@dataclass(frozen=True, slots=True)
class RowExpression:
    """An expression: its arms are disjoint, and every row lies in one of them."""

    type: ValueType
    arms: tuple[Arm, ...]

    @property
    def constant(self) -> Fraction | None:
        """Its value, if it is a number that is the same for every row."""
        if len(self.arms) == 1 and isinstance(self.arms[0].value, Polynomial) and self.arms[0].value.is_constant:
            return self.arms[0].value.constant
        return None


class RowAlgebra:
    """Joins and compares expressions. `within`: the rows that matter, those of the WHERE clause."""

    def __init__(self, builder: PredicateBuilder, within: Predicate = TRUE) -> None:
        self.builder, self.within = builder, within
        self._levels = 0

    def count_levels(self, count: Fraction | int) -> None:
        """Notes that a function has so many values; refuses too many in one question: each takes its time."""
        if count > MAX_LEVELS or self._levels > 4 * MAX_LEVELS:
            raise UnsupportedQuery(
                f"a function with more than {MAX_LEVELS} values", "use WHERE to look at fewer, or a coarser function"
            )
        self._levels += int(count)
        add_steps(2 * int(count))

    def make_expression(self, kind: ValueType, arms: Iterable[Arm]) -> RowExpression:
        """Returns the expression with these arms; arms with one value are joined."""
        joined: dict[Value | tuple[str, bool], Arm] = {}
        for arm in arms:
            if arm.where is not FALSE:
                key = ("truth", arm.value) if isinstance(arm.value, bool) else arm.value
                known = joined.get(key)
                where = self.builder.disjunction(known.where, arm.where) if known else arm.where
                joined[key] = Arm(where, arm.value)
        if len(joined) > MAX_ARMS:
            raise UnsupportedQuery("an expression with this many cases", TOO_MANY_ARMS)
        return RowExpression(kind, tuple(joined.values()))

    def restrict(self, expression: RowExpression, where: Predicate) -> Iterator[Arm]:
        """Yields the arms inside of `where`."""
        for arm in expression.arms:
            both = self.builder.conjunction(where, arm.where)
            if both is not FALSE:
                yield Arm(both, arm.value)

    def values_of(self, column: str, where: Predicate = TRUE) -> ValueSet:
        """Returns the values, without the missing one, that a column can have in the rows that matter."""
        inside = where if self.within is TRUE else self.builder.conjunction(where, self.within)
        return ValueSet(inside.values_of(column, self.builder.domain_of(column)).ranges)

    def expand(self, arms: Iterable[Arm]) -> Iterator[Arm]:
        """Yields the arms with one arm per value of a step function."""
        for arm in arms:
            if not isinstance(arm.value, StepFunction):
                yield arm
                continue
            if len(arm.value.levels) > MAX_ARMS:
                steps = as_even_steps(arm.value)
                if steps is not None:
                    yield Arm(arm.where, steps)
                    continue
                raise UnsupportedQuery("an expression with this many cases", TOO_MANY_ARMS)
            for value, values in arm.value.levels:
                where = self.builder.conjunction(arm.where, self.builder.in_values(arm.value.column, values))
                if where is not FALSE:
                    yield Arm(where, make_constant(value))

    def combine(
        self,
        left: RowExpression,
        right: RowExpression,
        join: Callable[[Predicate, Value, Value], Iterable[Arm]],
        skips_null: bool = False,
    ) -> Iterator[Arm]:
        """Yields the arms of a function of two expressions. It is NULL where one of them is, or is the other one."""
        for a in left.arms:
            for b in right.arms:
                where = self.builder.conjunction(a.where, b.where)
                if where is FALSE:
                    continue
                if a.value is None or b.value is None:
                    other = (b if a.value is None else a).value
                    yield Arm(where, other if skips_null else None)
                else:
                    yield from join(where, a.value, b.value)

    def at_least_zero(self, polynomial: Polynomial) -> Predicate:
        """Returns the rows for which a polynomial is not negative, among those where it is not NULL."""
        if polynomial.is_constant:
            return TRUE if polynomial.constant >= 0 else FALSE
        column, solved = self._solve_at_least_zero(polynomial)
        return self.builder.in_values(column, solved)

    def where_sign(self, polynomial: Polynomial, sign: Fraction) -> Predicate:
        """Returns the rows for which a polynomial is negative, zero or positive, as `sign` is; NULL is none of them."""
        if polynomial.is_constant:
            return TRUE if _sign_of(polynomial.constant) == sign else FALSE
        column, least = self._solve_at_least_zero(polynomial)
        _, most = self._solve_at_least_zero(polynomial.scale_by(Fraction(-1)))
        if not sign:
            return self.builder.in_values(column, least & most)
        inside, outside = (least, most) if sign > 0 else (most, least)
        return self.builder.in_values(column, outside.complement_in(inside))

    def where_members(self, polynomial: Polynomial, members: Collection[Fraction]) -> tuple[Predicate, Predicate]:
        """Returns the rows for which a polynomial is one of these numbers, and those for which it is none of them.

        Requires: not constant. NULL is neither.
        """
        column, square, factor, constant = as_univariate(polynomial)
        domain = ValueSet(self.builder.domain_of(column).ranges)
        roots = (root for member in members for root in _find_roots(square, factor, constant - member, domain))
        return self.split_values(column, make_value_set(roots))

    def split_values(self, column: str, inside: ValueSet) -> tuple[Predicate, Predicate]:
        """Returns where a column has one of these values, and where it has another one; NULL is neither."""
        outside = inside.complement_in(ValueSet(self.builder.domain_of(column).ranges))
        return self.builder.in_values(column, inside), self.builder.in_values(column, outside)

    def _solve_at_least_zero(self, polynomial: Polynomial) -> tuple[str, ValueSet]:
        """Returns the column, declared or computed, that decides whether it is at least zero, and where it is."""
        column, square, factor, constant = as_univariate(polynomial)
        scale = reduce(lcm, (square.denominator, factor.denominator, constant.denominator))
        domain = ValueSet(self.builder.domain_of(column).ranges)
        return column, solve_at_least(int(square * scale), int(factor * scale), int(constant * scale), domain)


def _sign_of(number: Fraction) -> int:
    return (number > 0) - (number < 0)


def _find_roots(square: Fraction, factor: Fraction, constant: Fraction, values: ValueSet) -> list[int]:
    """Returns those of the values x for which square * x^2 + factor * x + constant = 0."""
    if not square:
        root = -constant / factor
        return [int(root)] if root.denominator == 1 and int(root) in values else []
    scale = lcm(square.denominator, factor.denominator, constant.denominator)
    a, b, c = int(square * scale), int(factor * scale), int(constant * scale)
    discriminant = b * b - 4 * a * c
    if discriminant < 0 or isqrt(discriminant) ** 2 != discriminant:
        return []
    tops = {-b - isqrt(discriminant), -b + isqrt(discriminant)}
    return [top // (2 * a) for top in tops if not top % (2 * a) and top // (2 * a) in values]


def as_even_steps(function: StepFunction) -> Polynomial | None:
    """Returns a function that rises evenly (the day of a timestamp, FLOOR(x / 5)) as a computed column; None if it does
    not."""
    if any(len(values.ranges) != 1 for _, values in function.levels):
        return None
    values = [value for value, _ in function.levels]
    ranges = [piece.ranges[0] for _, piece in function.levels]
    rise, width = values[1] - values[0], ranges[1][1] - ranges[1][0] + 1
    even = all(after - before == rise for before, after in pairwise(values))
    joined = all(high + 1 == low for (_, high), (low, _) in pairwise(ranges))
    inside = all(high - low + 1 == width for low, high in ranges[1:-1])
    if not even or not joined or not inside or max(high - low + 1 for low, high in ranges) > width:
        return None
    name = name_cycle(function.column, width - ranges[1][0], width, len(ranges))
    return make_polynomial([((), values[0]), ((name,), rise)])


def as_univariate(polynomial: Polynomial) -> tuple[str, Fraction, Fraction, Fraction]:
    """Returns a column, declared or computed, and a, b, c such that the polynomial is a * column^2 + b * column + c.

    Requires: not constant."""
    names = {monomial for monomial, _ in polynomial.terms if monomial}
    columns = polynomial.columns
    if len(columns) == 1 and max(map(len, names)) <= 2:
        (column,) = columns
        coefficients = dict(polynomial.terms)
        zero = Fraction(0)
        return column, coefficients.get((column, column), zero), coefficients.get((column,), zero), polynomial.constant
    whole, factor = polynomial.normalize()
    return name_polynomial(whole), Fraction(0), factor, polynomial.constant


def step_levels(
    values: ValueSet, value_at: Callable[[int], Fraction], monotone: bool, max_steps: int = MAX_LEVELS
) -> dict[Fraction, list[ValueRange]]:
    """Returns the ranges of steps on which a function is constant, by its values; refuses too many.

    A monotone function is followed by bisection, any other one step by step.
    """
    levels: dict[Fraction, list[ValueRange]] = {}
    count, width = 0, 1
    add_steps(1)  # refused before the work is done, where there was too much of it already
    if not monotone and sum(high - low + 1 for low, high in values.ranges) > max_steps:
        raise UnsupportedQuery("a function with this many steps", "CLAMP its column, or use coarser steps")
    for low, high in values.ranges:
        while low <= high:
            value = value_at(low)
            last = _last_with(value, low, high, value_at, width) if monotone else low
            levels.setdefault(value, []).append((low, last))
            width, low = last - low + 1, last + 1
            count += 1
            if count > 2 * max_steps:
                raise UnsupportedQuery("a function with this many steps", "CLAMP its column, or use coarser steps")
    return levels


def _last_with(value: Fraction, low: int, high: int, value_at: Callable[[int], Fraction], width: int) -> int:
    """Returns the last step up to `high` that has the value of `low`: where `width` says, as most ranges are as wide as
    the one before, or by doubling, then by bisection."""
    last = low + width - 1
    if last < high and value_at(last) == value and value_at(last + 1) != value:
        return last
    width = 1
    while low + width <= high and value_at(low + width) == value:
        low, width = low + width, 2 * width
    high = min(high, low + width - 1)
    while low < high:
        middle = (low + high + 1) // 2
        if value_at(middle) == value:
            low = middle
        else:
            high = middle - 1
    return low
