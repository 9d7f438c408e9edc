"""Random small tables with everything odd in them, and random questions about them."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from conformance.reference import Condition, Row, both, either, negated
from noisebank import Policy
from support.internals import Column, Kind, Neighbours

NAMES = (
    "age", "select", "größe", "a b", "x'); DROP TABLE t; --", "c0", "c1", "who", "place", "t", "h", "${HOME}", "a`b",
    "group", "年齢", "a.b", "a\\b", "%s", "{x}", "Ünï", "it's", "--", "count(*)", "order", "user", "rowid", ";",
    "one", "value", "TRUE", "null", "\\u0027", "${spark.app.name}", "🎲", "x::INT",
)  # fmt: skip
KEYS = (
    "north", "North", "north ", "it's", "x' OR '1' = '1", "'; DROP TABLE t; --", "a\\'b", "\\", "%", "ß", "ss", "a\nb",
    "NULL", "é", "é", "${spark.app.name}", "🎲", "\\u0041", "a,b", 'a"b', "1", "true", "--", "$$", "E'x'", "\t",
)  # fmt: skip
NUMBERS = (
    "1", "+5", "-5", " 7 ", "\t3", "4\n", "1.", ".5", "-.5", "1.e1", "1e1", "1E1", "1e+1", "1e-1", "1e", "e5", ".", "-",
    "inf", "-INF", "+Infinity", "inff", "nan", "NaN", "-nan", "word", "1x", "1d", "1f", "0x10", "0x1p3", "--1", "++1",
    "٣", "1 2", "true", "$5", "9" * 400, "-" + "9" * 400, "1e400", "-1e400", "1e-400", "1e99999999999",
    "-1e99999999999", "1e-99999999999", "0e99999999999", "0.0e400", "00012", "1e0001", "2.5", "-2.5", "0.5",
    "-0.5", "1.5", "1.005",
    "0.49999999999999994", "-0.49999999999999994", "4503599627370497.5", "1.7976931348623159e308", "5e-324", "1e-310",
    "0." + "0" * 400 + "1", "1" + "0" * 400 + "e-400", "-0", "1,5", "1%", "(1)", "NULL", "2.4999999999999996", "\xa07",
)  # fmt: skip
CODES = (-1, 0, 1, 2, 3, 5, 7, 41, 100, 2**31)
FLOATS = (
    0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.4999999999999996, 1.005, 0.29, 99.995, 1e308, -1e308, 5e-324, -5e-324,
    1e-310, 0.49999999999999994, 2147483647.5, -2147483648.5, 4503599627370497.5, math.inf,
    -math.inf, math.nan, 7.0, 41.0, 0.1,
)  # fmt: skip
INTEGERS = (0, 1, -1, 2, 5, 7, 10, 41, 99, 100, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), 120, 3)
DECIMALS = ("0", "0.5", "-0.5", "2.5", "1.005", "99.995", "7", "-3.333333", "99999999999999999999.999999", "0.000001")
BOOLEANS = ("true", "TRUE", "t", "yes", "Y", "1", "false", "F", "no", "n", "0", "on", "off", "maybe", "2", " true", "")
STEPS = (Fraction(1), Fraction(1), Fraction(1, 100), Fraction(1, 10), Fraction(10), Fraction(3, 7), Fraction(1, 4))


def policy_of(columns: list[Column], **facts: Any) -> Policy:
    """A policy over these columns; where its table lies comes later."""
    return Policy(
        **{
            "name": "t",
            "source": Path("nowhere"),
            "neighbours": Neighbours.ADD_REMOVE,
            "row_cap": 1_000,
            "columns": MappingProxyType({column.name: column for column in columns}),
            "epsilon": Fraction(1),
            "delta": Fraction(1, 10**6),
            **facts,
        }
    )


class Drawn:
    """One random policy with a table for it."""

    def __init__(self, seed: int, only_text: bool = False, unreadable: tuple[str, ...] = ()) -> None:
        self.random = Random(seed)
        self.only_text = only_text
        names = self.random.sample([name for name in NAMES if name not in unreadable], 7)
        self.person = names.pop()
        columns = [self._number(names[0]), self._number(names[1]), self._number(names[2])]
        columns += [self._text(names[3]), self._keyed(names[4]), Column(names[5], Kind.BOOLEAN, nullable=self._flip())]
        self.types = {column.name: self._stored(column) for column in columns}
        facts: dict[str, Any] = {"row_cap": self.random.choice([1, 5, 1_000])}
        if self._flip():
            facts |= {"unit": self.person, "max_rows": self.random.choice([1, 2, 3])}
        columns.append(Column(self.person, Kind.TEXT))
        self.types[self.person] = "text" if only_text else self.random.choice(["text", "bigint"])
        if "max_rows" not in facts:
            facts["unit"] = "row"
        self.policy = policy_of(columns, **facts)
        size = self.random.choice([0, 1, 8, 40])
        self.rows: list[Row] = [
            {name: self._value(self.policy.columns[name], kind) for name, kind in self.types.items()}
            for _ in range(size)
        ]

    def _flip(self) -> bool:
        return self.random.random() < 0.5

    def _number(self, name: str) -> Column:
        step = self.random.choice(STEPS)
        kind = Kind.INTEGER if step.denominator == 1 and self._flip() else Kind.NUMBER
        low, high = self.random.choice(
            [(0, 10), (-7, 120), (100, 110), (-50, -20), (-(2**30), 2**30), (0, 2**31), (0, 1)]
        )
        edges = sorted(self.random.sample(range(low + 1, high + 1), min(3, high - low))) if self._flip() else []
        return Column(name, kind, step, low, high, bins=tuple(edges), nullable=self._flip())

    def _text(self, name: str) -> Column:
        keys = tuple(sorted(self.random.sample(KEYS, 3)))
        return Column(name, Kind.TEXT, keys=keys, nullable=self._flip(), complete=self.random.random() < 0.2)

    def _keyed(self, name: str) -> Column:
        """Texts or codes."""
        if self._flip():
            return self._text(name)
        keys = tuple(sorted(self.random.sample(CODES, 4)))
        return Column(name, Kind.INTEGER, keys=keys, nullable=self._flip(), complete=self._flip())

    def _stored(self, column: Column) -> str:
        if self.only_text:
            return "text"
        if column.kind in (Kind.INTEGER, Kind.NUMBER):
            return self.random.choice(["text", "bigint", "double", "double", "decimal", "boolean", "real", "date"])
        if column.kind is Kind.BOOLEAN:
            return self.random.choice(["text", "boolean", "boolean", "bigint", "double", "decimal"])
        return self.random.choice(["text", "text", "text", "bigint", "boolean"])

    def _value(self, column: Column, stored: str) -> Any:
        random = self.random
        if random.random() < 0.1:
            return None
        if column.name == self.person:
            return random.choice([1, 2, 3]) if stored == "bigint" else random.choice(["ann", "Ann", "bób", "x' --", ""])
        if column.is_keyed and column.kind is Kind.INTEGER and stored in ("bigint", "double", "text") and self._flip():
            code = random.choice(column.keys)
            return str(code) if stored == "text" else code if stored == "bigint" else code + random.choice((0.0, 0.25))
        if stored == "bigint":
            return random.choice(INTEGERS)
        if stored == "double":
            if column.kind is Kind.NUMBER and self._flip():
                return random.uniform(-20, 150) * float(column.step)
            return random.choice(FLOATS)
        if stored == "real":
            return random.choice([0.0, 0.5, -2.5, 7.0, math.inf, math.nan, 41.25])
        if stored == "decimal":
            return Decimal(random.choice(DECIMALS))
        if stored == "boolean":
            return self._flip()
        if stored == "date":
            return "2020-02-29"
        if column.kind in (Kind.INTEGER, Kind.NUMBER):
            return random.choice(NUMBERS)
        if column.kind is Kind.BOOLEAN:
            return random.choice(BOOLEANS)
        return random.choice([*column.keys, *random.sample(KEYS, 2), ""])

    # -- questions ---------------------------------------------------------------------------------

    def condition(self, depth: int = 2) -> Condition:
        """A random condition over the declared columns."""
        if depth and self.random.random() < 0.6:
            parts = [self.condition(depth - 1) for _ in range(2)]
            return self.random.choice([lambda: both(*parts), lambda: either(*parts), lambda: negated(parts[0])])()
        column = self.random.choice([column for name, column in self.policy.columns.items() if name != self.person])
        name = f'"{column.name}"'
        if self.random.random() < 0.15:
            key = column.name
            return Condition(f"{name} IS NULL", lambda row: row[key] is None)
        if column.kind is Kind.BOOLEAN:
            return self._compared(column, name, lambda step: step == 1)
        if column.complete and column.kind is Kind.INTEGER and self._flip():
            code = self.random.choice(CODES)
            return self._compared(column, f"{name} > {code}", lambda step: int(column.keys[step]) > code)
        if column.keys:
            chosen = self.random.sample(range(len(column.keys)), self.random.choice([1, 2, 3]))
            quote = (lambda key: "'" + key.replace("'", "''") + "'") if column.kind is Kind.TEXT else str
            listed = ", ".join(quote(column.keys[place]) for place in chosen)
            return self._compared(column, f"{name} IN ({listed})", lambda step: step in chosen)
        low, high = column.bounds
        bound = Fraction(self.random.choice([low, high, (low + high) // 2, low + 1, high + 5, low - 5]))
        if column.step != Fraction(3, 7) and self._flip():
            bound += Fraction(1, 2)
        if column.step == Fraction(3, 7):  # no decimal: only the bounds' own multiples can be written
            bound = Fraction(low // 3 * 3 + 1)
            return Condition("TRUE", lambda _: True)
        text = format(_decimal(bound * column.step), "f")
        sign, test = self.random.choice(
            [("<", lambda s: s < bound), (">=", lambda s: s >= bound), ("=", lambda s: s == bound),
             ("<>", lambda s: s != bound), ("<=", lambda s: s <= bound), (">", lambda s: s > bound)]
        )  # fmt: skip
        return self._compared(column, f"{name} {sign} {text}", test)

    def _compared(self, column: Column, sql: str, test: Any) -> Condition:
        key = column.name
        return Condition(sql, lambda row: None if row[key] is None else bool(test(row[key])))

    def numeric(self) -> Column:
        """A column to add up."""
        return self.random.choice([column for column in self.policy.columns.values() if column.is_numeric])

    def groups(self) -> tuple[str, ...]:
        """One or two columns to group by."""
        possible = [
            name
            for name, column in self.policy.columns.items()
            if column.bins or column.keys or column.kind is Kind.BOOLEAN
        ]
        return tuple(sorted(self.random.sample(possible, min(len(possible), self.random.choice([1, 2])))))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
