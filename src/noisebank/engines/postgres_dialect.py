"""PostgreSQL's SQL. Its casts raise, and its floats raise on underflow, so texts pass regular expressions first."""

from __future__ import annotations

from noisebank.engines.dialect import Dialect, Stored

BLANKS = "' ' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13)"
SHORT = "^[+-]?([0-9]{1,15}([.][0-9]{0,15})?|[.][0-9]{1,15})$"
"""Numbers whose cast cannot fail."""
NUMBER = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$"
FAR = "[eE][+-]?0*[1-9][0-9]{4}"
"""An exponent of at least 10,000: infinite or zero as a double, and too much even for numeric."""
LONGEST = 5_000
"""In characters; longer numbers count as missing. With exponents below 10,000, numeric holds all others."""
LARGE, SMALL = "1e308", "1e-300"
"""Outside of these, doubles are written by hand: the cast from numeric raises where no double fits."""


class PostgresDialect(Dialect):
    """PostgreSQL 13 and later."""

    name = "PostgreSQL"
    fence = " OFFSET 0"
    underflow_fails = True

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def literal(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def holds(self, text: str) -> bool:
        return "\x00" not in text

    def double(self, value: float) -> str:
        return f"'{value!r}'::float8"

    def number(self, expression: str, stored: Stored) -> str:
        if stored in (Stored.INTEGER, Stored.FLOAT):
            return f"{expression}::float8"
        if stored is Stored.BOOLEAN:
            return f"{expression}::integer::float8"
        if stored is Stored.DECIMAL:
            return self._double_of(expression)
        return self._parsed(f"btrim({self.text(expression, stored)}, {BLANKS})")

    def truth(self, expression: str, stored: Stored) -> str:
        if stored is Stored.BOOLEAN:
            return expression
        if stored in (Stored.INTEGER, Stored.FLOAT, Stored.DECIMAL):
            return f"({expression} <> 0)"
        return self.words(self.text(expression, stored))

    def text(self, expression: str, stored: Stored) -> str:
        return f'({expression}::text COLLATE "C")'

    def rounded(self, double: str) -> str:
        # round() takes halves to the even neighbour here. The rest after trunc is exact, and so is twice the rest.
        return f"(trunc({double}) + trunc(({double} - trunc({double})) * 2))::bigint"

    def long(self, integer: str) -> str:
        return f"({integer})::bigint"

    def summand(self, long: str) -> str:
        return self.long(long)  # sums of 32 bits have 64 bits here, those of 64 bits are numeric

    def wide(self, integer: str) -> str:
        return f"({integer})::numeric"

    def spelled(self, integer: str) -> str:
        return f"({integer})::text"

    def md5(self, text: str) -> str:
        return f"(md5(convert_to({text}, 'UTF8')) COLLATE \"C\")"

    def sha256(self, text: str) -> str:
        return f"encode(sha256(convert_to({text}, 'UTF8')), 'hex')"

    def lane(self, digest: str, place: int) -> str:
        return f"('x' || substr({digest}, {15 * place + 1}, 15))::bit(60)::bigint::numeric"

    def _double_of(self, numeric: str) -> str:
        return (
            f"CASE WHEN {numeric} = 'NaN' THEN NULL WHEN {numeric} > {LARGE} THEN 'Infinity'::float8 "
            f"WHEN {numeric} < -{LARGE} THEN '-Infinity'::float8 "
            f"WHEN abs({numeric}) < {SMALL} THEN 0::float8 ELSE {numeric}::float8 END"
        )

    def _parsed(self, text: str) -> str:
        infinite = f"CASE WHEN {text} ~ '^-' THEN '-Infinity'::float8 ELSE 'Infinity'::float8 END"
        nothing = f"({text} ~ '[eE]-' OR {text} !~ '^[+-]?[0.]*[1-9]')"
        return (
            f"CASE WHEN {text} ~ '{SHORT}' THEN {text}::float8 "
            f"WHEN length({text}) > {LONGEST} THEN NULL "
            f"WHEN {text} ~* '^[+-]?inf(inity)?$' THEN {infinite} "
            f"WHEN {text} !~ '{NUMBER}' THEN NULL "
            f"WHEN {text} ~ '{FAR}' THEN CASE WHEN {nothing} THEN 0::float8 ELSE {infinite} END "
            f"ELSE {self._double_of(f'{text}::numeric')} END"
        )


POSTGRES = PostgresDialect()
