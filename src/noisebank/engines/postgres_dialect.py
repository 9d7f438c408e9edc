"""PostgreSQL's SQL. Its casts raise, and its floats raise on underflow, so texts pass regular expressions first."""

from __future__ import annotations

from noisebank.engines.dialect import Dialect, StorageType

BLANKS = "' ' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13)"
SHORT_NUMBER = "^[+-]?([0-9]{1,15}([.][0-9]{0,15})?|[.][0-9]{1,15})$"
"""Numbers whose cast cannot fail."""
NUMBER = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$"
FAR_EXPONENT = "[eE][+-]?0*[1-9][0-9]{4}"
"""An exponent of at least 10,000: infinite or zero as a double, and too much even for numeric."""
MAX_NUMBER_LENGTH = 5_000
"""In characters; longer numbers count as missing. With exponents below 10,000, numeric holds all others."""
LARGE, SMALL = "1e308", "1e-300"
"""Outside of these, doubles are written by hand: the cast from numeric raises where no double fits."""


class PostgresDialect(Dialect):
    """PostgreSQL 13 and later."""

    name = "PostgreSQL"
    optimizer_fence = " OFFSET 0"
    underflow_fails = True

    def quote_name(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def quote_text(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def can_hold(self, text: str) -> bool:
        return "\x00" not in text

    def double_literal(self, value: float) -> str:
        return f"'{value!r}'::float8"

    def cast_number(self, expression: str, stored: StorageType) -> str:
        if stored in (StorageType.INTEGER, StorageType.FLOAT):
            return f"{expression}::float8"
        if stored is StorageType.BOOLEAN:
            return f"{expression}::integer::float8"
        if stored is StorageType.DECIMAL:
            return self._numeric_to_double(expression)
        return self._text_to_double(f"btrim({self.cast_text(expression, stored)}, {BLANKS})")

    def cast_boolean(self, expression: str, stored: StorageType) -> str:
        if stored is StorageType.BOOLEAN:
            return expression
        if stored in (StorageType.INTEGER, StorageType.FLOAT, StorageType.DECIMAL):
            return f"({expression} <> 0)"
        return self.parse_boolean(self.cast_text(expression, stored))

    def cast_text(self, expression: str, stored: StorageType) -> str:
        return f'({expression}::text COLLATE "C")'

    def round_double(self, double: str) -> str:
        # round() takes halves to the even neighbour here. The rest after trunc is exact, and so is twice the rest.
        return f"(trunc({double}) + trunc(({double} - trunc({double})) * 2))::bigint"

    def cast_long(self, integer: str) -> str:
        return f"({integer})::bigint"

    def divide_whole(self, integer: str, divisor: int) -> str:
        return f"(({integer}) / {self.cast_long(str(divisor))})"

    def cast_summand(self, long: str) -> str:
        return self.cast_long(long)  # sums of 32 bits have 64 bits here, those of 64 bits are numeric

    def cast_wide(self, integer: str) -> str:
        return f"({integer})::numeric"

    def matches(self, text: str, form: str) -> str:
        return f"({text} ~ {self.quote_text(f'^({form})$')})"

    def digits_number(self, digits: str) -> str:
        return f"CASE WHEN {digits} ~ '^[0-9]{{1,9}}$' THEN ({digits})::bigint END"

    def text_days(self, text: str) -> str:
        year, month, day = (f"substr({text}, {start}, {count})::bigint" for start, count in ((1, 4), (6, 2), (9, 2)))
        leap = f"({year} % 4 = 0 AND ({year} % 100 <> 0 OR {year} % 400 = 0))"
        february = f"CASE WHEN {leap} THEN 29 ELSE 28 END"
        length = f"CASE WHEN {month} = 2 THEN {february} WHEN {month} IN (4, 6, 9, 11) THEN 30 ELSE 31 END"
        return f"CASE WHEN {day} <= {length} THEN (({text})::date - DATE '1970-01-01')::bigint END"

    def date_days(self, date: str) -> str:
        return f"CASE WHEN isfinite({date}) THEN ({date} - DATE '1970-01-01')::bigint END"

    def clock_seconds(self, moment: str, stored: StorageType) -> str:
        clock = f"({moment} AT TIME ZONE 'UTC')" if stored is StorageType.INSTANT else moment
        return f"CASE WHEN isfinite({moment}) THEN extract(epoch FROM date_trunc('second', {clock}))::bigint END"

    def format_integer(self, integer: str) -> str:
        return f"({integer})::text"

    def md5_hex(self, text: str) -> str:
        return f"(md5(convert_to({text}, 'UTF8')) COLLATE \"C\")"

    def sha256_hex(self, text: str) -> str:
        return f"encode(sha256(convert_to({text}, 'UTF8')), 'hex')"

    def digest_lane(self, digest: str, number: int) -> str:
        return f"('x' || substr({digest}, {15 * number + 1}, 15))::bit(60)::bigint::numeric"

    def _numeric_to_double(self, numeric: str) -> str:
        return (
            f"CASE WHEN {numeric} = 'NaN' THEN NULL WHEN {numeric} > {LARGE} THEN 'Infinity'::float8 "
            f"WHEN {numeric} < -{LARGE} THEN '-Infinity'::float8 "
            f"WHEN abs({numeric}) < {SMALL} THEN 0::float8 ELSE {numeric}::float8 END"
        )

    def _text_to_double(self, text: str) -> str:
        infinite = f"CASE WHEN {text} ~ '^-' THEN '-Infinity'::float8 ELSE 'Infinity'::float8 END"
        nothing = f"({text} ~ '[eE]-' OR {text} !~ '^[+-]?[0.]*[1-9]')"
        return (
            f"CASE WHEN {text} ~ '{SHORT_NUMBER}' THEN {text}::float8 "
            f"WHEN length({text}) > {MAX_NUMBER_LENGTH} THEN NULL "
            f"WHEN {text} ~* '^[+-]?inf(inity)?$' THEN {infinite} "
            f"WHEN {text} !~ '{NUMBER}' THEN NULL "
            f"WHEN {text} ~ '{FAR_EXPONENT}' THEN CASE WHEN {nothing} THEN 0::float8 ELSE {infinite} END "
            f"ELSE {self._numeric_to_double(f'{text}::numeric')} END"
        )


POSTGRES = PostgresDialect()
