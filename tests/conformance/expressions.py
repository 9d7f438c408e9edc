"""Random row expressions as SQL and as plain Python on exact fractions: what every engine must work out.

Nothing here comes from the code under test: CASE, COALESCE, GREATEST and all others are written down a second time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from conformance.reference import Condition, Steps, both, either, negated
from conformance.tables import Drawn
from support.internals import Column, Kind

Number = Fraction | None


@dataclass(frozen=True)
class Expression:
    """A number as SQL and as a function of a row's steps; None is NULL."""

    sql: str
    value: Callable[[Steps], Number]


@dataclass(frozen=True)
class Key:
    """Something to group by, as SQL and as a function of a row's steps; None belongs to no group."""

    sql: str
    label: Callable[[Steps], Fraction | str | None]


def constant(value: Fraction | int) -> Expression:
    """A number as it is written."""
    number = Fraction(value)
    return Expression(f"{float(number)!r}" if number.denominator != 1 else str(number), lambda row: number)


def joined(sql: str, function: Callable[..., Number], *parts: Expression) -> Expression:
    """A function that is NULL where one of its arguments is."""

    def value(row: Steps) -> Number:
        values = [part.value(row) for part in parts]
        return None if None in values else function(*values)

    return Expression(sql.format(*(part.sql for part in parts)), value)


def compared(a: Expression, sign: str, b: Expression) -> Condition:
    """A comparison, unknown where one side is NULL."""
    test = {"<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y, ">=": lambda x, y: x >= y,
            "=": lambda x, y: x == y, "<>": lambda x, y: x != y}[sign]  # fmt: skip

    def holds(row: Steps) -> bool | None:
        x, y = a.value(row), b.value(row)
        return None if x is None or y is None else test(x, y)

    return Condition(f"({a.sql} {sign} {b.sql})", holds)


def half_away(x: Fraction) -> Fraction:
    """To the nearest integer, halves away from zero."""
    return Fraction(math.floor(abs(x) + Fraction(1, 2))) * (1 if x >= 0 else -1)


class ExpressionDraw:
    """Random expressions over the columns of one drawn table."""

    def __init__(self, drawn: Drawn, random: Random) -> None:
        self.drawn, self.random = drawn, random
        self.columns = [column for name, column in drawn.policy.columns.items() if name != drawn.person]

    def number(self, depth: int = 3) -> Expression:
        """A number; calm enough for 64 bits most of the time."""
        random = self.random
        if not depth or random.random() < 0.2:
            return self.leaf()
        one, two = self.number(depth - 1), self.number(depth - 1)
        test = self.condition(depth - 1)
        kind = random.randrange(16)
        some = constant(random.choice([0, 1, -3, 5, 10, Fraction(1, 2), Fraction(31, 100), 1000]))
        if kind == 0:
            return joined("({} + {})", lambda x, y: x + y, one, two)
        if kind == 1:
            return joined("({} - {})", lambda x, y: x - y, one, two)
        if kind == 2:
            return joined("({} * {})", lambda x, y: x * y, one, some)
        if kind == 3:
            return joined("({} * {})", lambda x, y: x * y, self.leaf(), self.leaf())
        if kind == 4:
            by = Fraction(random.choice([2, 5, -4, 8]))
            return joined("({} / " + str(by) + ")", lambda x: x / by, one)
        if kind == 5:
            return self.case(test, one, two)
        if kind == 6:
            return self.case(test, one, None)
        if kind == 7:
            return Expression(
                f"COALESCE({one.sql}, {two.sql})",
                lambda row: two.value(row) if one.value(row) is None else one.value(row),
            )
        if kind == 8:
            return Expression(
                f"NULLIF({one.sql}, {some.sql})",
                lambda row: None if one.value(row) == some.value(row) else one.value(row),
            )
        if kind == 9:
            return joined("ABS({})", abs, one)
        if kind == 10:
            word, choose = random.choice([("GREATEST", max), ("LEAST", min)])
            return Expression(f"{word}({one.sql}, {two.sql})", lambda row: self._chosen(choose, one, two, row))
        if kind == 11:
            low, high = sorted(random.sample([-20, 0, 1, 7, 40, 100], 2))
            return joined(f"CLAMP({{}}, {low}, {high})", lambda x: min(max(x, Fraction(low)), Fraction(high)), one)
        if kind == 12:
            width = random.choice([5, 10, 1000])
            return joined(
                f"(FLOOR({{}} / {width}) * {width})", lambda x: Fraction(math.floor(x / width) * width), self.leaf()
            )
        if kind == 13:
            return joined("ROUND({}, -1)", lambda x: half_away(x / 10) * 10, self.leaf())
        if kind == 14:
            return joined("SIGN({})", lambda x: Fraction((x > 0) - (x < 0)), one)
        return Expression(f"CAST({test.sql} AS INT)", lambda row: self._truth(test.holds(row)))

    def leaf(self) -> Expression:
        """A column or a constant."""
        numeric = [column for column in self.columns if column.is_numeric]
        if self.random.random() < 0.25:
            return constant(self.random.choice([0, 1, 2, 7, -5, 40, Fraction(5, 2)]))
        return self.column(self.random.choice(numeric))

    def column(self, column: Column) -> Expression:
        """A column as it is read: its step."""
        name = column.name
        return Expression(f'"{name}"', lambda row: None if row[name] is None else row[name] * column.step)

    def condition(self, depth: int = 2) -> Condition:
        """A condition on expressions, or one on a single column."""
        random = self.random
        if depth and random.random() < 0.4:
            parts = [self.condition(depth - 1) for _ in range(2)]
            return random.choice([lambda: both(*parts), lambda: either(*parts), lambda: negated(parts[0])])()
        if random.random() < 0.4:
            return self.drawn.condition(0)
        one, two = self.number(max(0, depth - 1)), self.number(max(0, depth - 1))
        if random.random() < 0.15:
            return Condition(f"({one.sql} IS NULL)", lambda row: one.value(row) is None)
        return compared(one, random.choice(["<", "<=", ">", ">=", "=", "<>"]), two)

    def case(self, test: Condition, one: Expression, two: Expression | None) -> Expression:
        """CASE, with and without ELSE."""

        def value(row: Steps) -> Number:
            return one.value(row) if test.holds(row) else two.value(row) if two else None

        ending = f" ELSE {two.sql}" if two else ""
        return Expression(f"CASE WHEN {test.sql} THEN {one.sql}{ending} END", value)

    def key(self) -> Key:
        """An expression with few values."""
        random = self.random
        column = self.column(random.choice([column for column in self.columns if column.is_numeric]))
        texts = [column for column in self.columns if column.kind is Kind.TEXT]
        tests = [self.condition(1), self.condition(1)]
        kind = random.randrange(4)
        if kind == 0:

            def label(row: Steps) -> str | None:
                return next((name for name, test in zip("ab", tests, strict=True) if test.holds(row)), "c")

            return Key(f"CASE WHEN {tests[0].sql} THEN 'a' WHEN {tests[1].sql} THEN 'b' ELSE 'c' END", label)
        if kind == 1:
            text = random.choice(texts)

            def filled(row: Steps) -> str | None:
                step = row[text.name]
                return "none" if step is None else text.keys[step] if step < len(text.keys) else None

            return Key(f"COALESCE(\"{text.name}\", 'none')", filled)
        if kind == 2:
            clamped = joined("CLAMP({}, 0, 60)", lambda x: min(max(x, Fraction(0)), Fraction(60)), column)
            return Key(
                f"width_bucket({clamped.sql}, 0, 50, 5)",
                joined("", lambda x: Fraction(min(math.floor(x / 10) + 1, 6)), clamped).value,
            )
        clamped = joined("CLAMP({}, -30, 60)", lambda x: min(max(x, Fraction(-30)), Fraction(60)), column)
        return Key(
            f"FLOOR({clamped.sql} / 20) * 20", joined("", lambda x: Fraction(math.floor(x / 20) * 20), clamped).value
        )

    def _chosen(self, choose: Callable[..., Fraction], one: Expression, two: Expression, row: Steps) -> Number:
        values = [value for value in (one.value(row), two.value(row)) if value is not None]
        return choose(values) if values else None

    def _truth(self, truth: bool | None) -> Number:
        return None if truth is None else Fraction(int(truth))
