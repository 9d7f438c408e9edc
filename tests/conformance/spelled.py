"""Random conditions and functions of declared keys, in PostgreSQL's own words: PostgreSQL says what is right.

All values are in bounds and all texts are declared keys, so every number here must be PostgreSQL's own, NULL or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from fractions import Fraction
from random import Random

from conformance.reference import Row
from conformance.tables import policy_of
from noisebank import Policy
from support.internals import Column, Kind, Neighbours

KEYS = (
    "north", "South", "it's", "a.b", "N-1-x", "x_y", "%n", "-lead", "tail-", "aba", "ABBA x", "é-ü", "back\\s", "a|b",
    "",
)  # fmt: skip
PIECES = ("o", "n", "a", "b", "-", "N", "x", "ab", "é", "1", "%", "_", "\\", ".", " ", "th", "South", "north", "aba")
WILD = ("%", "_", "a", "b", "o", "n", "N", "th", "-", "x", r"\%", r"\_", "é", ".")
ATOMS = ("a", "b", "o", "n", "N", "[a-n]", "[^a-n]", "-", "th", "x")
TYPES = {
    "n": "integer", "m": "integer", "a": "text", "k": "text", "c": "integer", "b": "boolean", "t": "timestamp",
    "who": "text",
}  # fmt: skip
DAY = 1440


def spelled_policy(first_minute: int) -> Policy:
    """Three days of minutes, texts, codes and small numbers; all but two columns may be missing."""
    columns = [
        Column("n", Kind.INTEGER, Fraction(1), -3, 9, nullable=True),
        Column("m", Kind.INTEGER, Fraction(1), 0, 6),
        Column("a", Kind.TEXT, keys=KEYS, nullable=True),
        Column("k", Kind.TEXT, keys=("p", "q", "rr"), complete=True),
        Column("c", Kind.INTEGER, keys=(-1, 2, 7, 100), nullable=True, complete=True),
        Column("b", Kind.BOOLEAN, nullable=True),
        Column("t", Kind.TIMESTAMP, Fraction(60), first_minute, first_minute + 3 * DAY, nullable=True, zone="UTC"),
        Column("who", Kind.TEXT),
    ]
    return policy_of(columns, row_cap=10**6, neighbours=Neighbours.ADD_REMOVE, name="p", unit="row")


def spelled_rows(random: Random, first_minute: int) -> Iterator[Row]:
    """Rows that the policy describes."""
    for number in range(60):
        moment = datetime(1970, 1, 1) + timedelta(minutes=first_minute + random.randint(0, 3 * DAY))
        row: Row = {
            "n": random.randint(-3, 9), "m": random.randint(0, 6), "a": random.choice(KEYS), "t": moment,
            "k": random.choice(["p", "q", "rr"]), "c": random.choice([-1, 2, 7, 100]), "b": random.random() < 0.5,
            "who": f"w{number}", "d": date(2026, 1, 1),
        }  # fmt: skip
        missing = [name for name in ("n", "a", "c", "b", "t") if random.random() < 0.15]
        yield {**row, **dict.fromkeys(missing)}


class SpelledSql:
    """Texts, from a grammar: most are answered, some are refused."""

    def __init__(self, random: Random) -> None:
        self.random, self.pick = random, random.choice

    def piece(self) -> str:
        return "'" + self.pick(PIECES).replace("'", "''") + "'"

    def wild(self) -> str:
        return "".join(self.pick(WILD) for _ in range(self.random.randint(0, 4)))

    def clock(self) -> str:
        return f"'{self.random.randrange(24):02d}:{self.pick(['00', '30', '59'])}{self.pick(['', ':00', ':59'])}'"

    def pattern(self, depth: int, is_similar: bool) -> str:
        """Of SIMILAR TO, or a regular expression."""
        if depth <= 0:
            return self.pick([*ATOMS, *(["%", "_"] if is_similar else [".", r"\.", r"\d", r"\w", "[]a]"])])
        one, two = self.pattern(depth - 1, is_similar), self.pattern(depth - 1, is_similar)
        kinds = [one + two, f"({one}|{two})", f"({one})*", f"({one})+{two}", f"({one})?{two}", f"({one}){{1,2}}"]
        kinds += [f"{one}|{two}", f"({one}){{2,}}"] + ([] if is_similar else ["^" + one, one + "$"])
        return self.pick(kinds)

    def text(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(["a", "k", "a", "COALESCE(a, 'none-x')"])
        text, piece, other, pick = self.text(depth - 1), self.piece(), self.piece(), self.pick
        side = pick(["LEADING", "TRAILING", "BOTH"])
        return pick(
            [
                f"UPPER({text})", f"LOWER({text})",
                f"REPLACE({text}, {piece}, {other})",
                f"TRIM({side} {piece} FROM {text})",
                f"SPLIT_PART({text}, {piece}, {pick([1, 2, 3, -1, -2])})", f"LTRIM({text}, {piece})",
                f"INITCAP({text})",
                f"BTRIM({text}, {piece})", f"LEFT({text}, {pick([0, 1, 5])})", f"RIGHT({text}, {pick([0, 2, 9])})",
                f"SUBSTRING({text}, {pick([1, 2, 4])}, {pick([0, 1, 3])})", f"REVERSE({text})", f"{text} || {piece}",
                f"CONCAT({text}, {piece})", f"COALESCE({text}, {piece})", f"NULLIF({text}, {piece})",
                f"CASE WHEN n > 2 THEN {text} ELSE {piece} END", "CAST(m AS TEXT)",
            ]
        )  # fmt: skip

    def number(self, depth: int) -> str:
        text = self.text(depth)
        condition = self.condition(0)
        return self.pick(
            [f"LENGTH({text})", f"POSITION({self.piece()} IN {text})", "m", "n", f"CAST(({condition}) AS INT)"]
        )

    def condition(self, depth: int) -> str:
        pick = self.pick
        if depth > 0 and self.random.random() < 0.4:
            one, two = self.condition(depth - 1), self.condition(depth - 1)
            joined = [f"({one} AND {two})", f"({one} OR {two})", f"NOT ({one})"]
            return pick([*joined, f"({one}) IS NOT TRUE", f"(({one}) IS NULL)"])
        negated, text, end = pick(["", "NOT "]), self.text(self.random.randint(0, 1)), pick(["m", "n", "1", "7"])
        patterns = ", ".join(f"'{self.wild()}'" for _ in range(self.random.randint(1, 3)))
        escaped = self.wild().replace("\\", "!")
        sign = pick(["<", "<=", "=", "<>", ">"])
        return pick(
            [
                f"{text} {negated}LIKE '{self.wild()}'", f"{text} {negated}ILIKE '{self.wild()}'",
                f"{text} {negated}{pick(['LIKE', 'ILIKE'])} {pick(['ANY', 'ALL'])}(ARRAY[{patterns}])",
                f"{text} {negated}LIKE '{escaped}' ESCAPE '!'", f"{text} {negated}SIMILAR TO '{self.pattern(2, True)}'",
                f"{text} {pick(['~', '!~', '~*', '!~*'])} '{self.pattern(2, False)}'",
                f"starts_with({text}, {self.piece()})",
                f"LENGTH({text}) {sign} {pick([0, 1, 3, 5])}",
                f"STRPOS({text}, {self.piece()}) {sign} {pick([0, 1, 2])}",
                f"n + 0 {negated}BETWEEN SYMMETRIC {pick(['m', 'c', '5'])} AND {end}", f"c {negated}IN (2, 7)",
                f"n {negated}BETWEEN SYMMETRIC {pick([5, 1])} AND {pick([2, 6])}", "n <> ALL(ARRAY[1, 3])",
                f"(n, m) {negated}IN (({pick([1, 2])}, 3), (2, 2))", f"(a, m) {negated}IN (('north', 2), ('aba', 1))",
                f"(n + 1, k) {negated}IN ((3, 'p'), (2, 'q'))", f"(n, m) = ({pick([1, 2])}, 2)", "n = ANY(ARRAY[1, 3])",
                f"n {negated}IN (VALUES (1), (2))", "n + 0 <> ALL(ARRAY[1, 3])", f"t::time {sign} {self.clock()}",
                f"CAST(t AS TIME) {negated}BETWEEN {pick(['', 'SYMMETRIC '])}{self.clock()} AND {self.clock()}",
                f"t::time {negated}IN ({self.clock()}, {self.clock()})", f"a IS {negated}NULL", f"b IS {negated}TRUE",
            ]
        )  # fmt: skip

    def select(self) -> str:
        """One SELECT of one number, or of one for each group."""
        pick = self.pick
        where = f" WHERE {self.condition(2)}" if self.random.random() < 0.7 else ""
        filtered = f" FILTER (WHERE {self.condition(2)})" if self.random.random() < 0.4 else ""
        argument = pick(["*", self.text(2), self.number(1)])
        result = pick([f"COUNT({argument}){filtered}", f"SUM({self.number(2)}){filtered}"])
        kind = self.random.random()
        if kind < 0.15:
            inner = f"(SELECT {pick(['COUNT(*)', 'SUM(m)', 'COUNT(n)'])} FROM p WHERE {self.condition(1)})"
            return f"SELECT {result} {pick('+-')} {inner} FROM p{where}"
        if kind < 0.4:
            key = pick(
                ["n", "m", "c", "k", "a", "b", self.text(2), self.number(1), f"({self.condition(1)})", "MOD(n, 3)"]
            )
            return f"SELECT {key} AS g, {result} FROM p{where} GROUP BY {key}"
        return f"SELECT {result} FROM p{where}"
