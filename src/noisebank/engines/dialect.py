"""SQL dialects: what differs between engines in a statement (quoting, casts that never fail, exact sums).

Every engine must give the same integer for the same table. So a dialect says how one stored value
becomes a number, a truth value or a text *as documented in docs/reference/engines.md*, whatever the engine's
own casts would do; everything else is written once, in `fields` and `statement`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum

TRUE_WORDS = ("true", "t", "yes", "y", "1")
FALSE_WORDS = ("false", "f", "no", "n", "0")
DIGEST_LANES = 2
"""A row's keyed digest is added up in this many lanes of 60 bits."""


class StorageType(Enum):
    """How an engine stores a column, as far as casts need to know."""

    INTEGER = "integer"
    """At most 64 bits with sign, so that it may be compared with any literal of ours."""
    FLOAT = "float"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    CLOCK = "clock"
    """A timestamp without a time zone."""
    INSTANT = "instant"
    """A timestamp of UTC."""
    OTHER = "other"


class Dialect(ABC):
    """One engine's SQL. NaN compares as larger than every number in all of them."""

    name: str
    optimizer_fence = ""
    """SQL that keeps an engine from computing a costly expression again wherever it is used."""

    underflow_fails = False
    """Whether a product too small for a double is an error."""

    quick_filters = False
    """Whether filtered aggregates cost less than one CASE per row; sums of 64 bits must not overflow then."""

    @abstractmethod
    def quote_name(self, name: str) -> str:
        """Returns an identifier in quotes."""

    @abstractmethod
    def quote_text(self, text: str) -> str:
        """Returns a text literal."""

    @abstractmethod
    def double_literal(self, value: float) -> str:
        """Returns a literal of a 64-bit float, infinities included."""

    @abstractmethod
    def cast_number(self, expression: str, stored: StorageType) -> str:
        """Returns SQL for a stored value as a double; NULL or NaN where it is no number. Never fails."""

    @abstractmethod
    def cast_boolean(self, expression: str, stored: StorageType) -> str:
        """Returns SQL for a stored value as TRUE or FALSE; NULL where it is neither. Never fails."""

    @abstractmethod
    def cast_text(self, expression: str, stored: StorageType) -> str:
        """Returns SQL for a stored value as a text that compares byte by byte."""

    @abstractmethod
    def round_double(self, double: str) -> str:
        """Returns SQL for the 64-bit integer nearest to a double below 2^32 in size; halves go away from zero."""

    @abstractmethod
    def cast_wide(self, integer: str) -> str:
        """Returns SQL for an integer as a type with at least 126 bits."""

    @abstractmethod
    def cast_long(self, integer: str) -> str:
        """Returns SQL for an integer as a type of exactly 64 bits."""

    @abstractmethod
    def divide_whole(self, integer: str, divisor: int) -> str:
        """Returns SQL for a quotient of 64-bit integers, rounded down; neither is negative, the divisor is not 0."""

    def cast_summand(self, long: str) -> str:
        """Returns SQL for an integer of at most 64 bits as a type whose sum does not overflow."""
        return long

    def can_hold(self, text: str) -> bool:
        """Whether a text of the engine can be equal to this one at all."""
        return True

    @abstractmethod
    def matches(self, text: str, form: str) -> str:
        """Returns an SQL test: a text matches a regular expression from its beginning to its end."""

    @abstractmethod
    def digits_number(self, digits: str) -> str:
        """Returns SQL for a text of up to 9 digits as an integer of 64 bits. Never fails on a text of digits."""

    @abstractmethod
    def text_days(self, text: str) -> str:
        """Returns SQL for a text like 2026-11-18 as days since 1970; NULL if there is no such day. Never fails."""

    @abstractmethod
    def date_days(self, date: str) -> str:
        """Returns SQL for a stored date as days since 1970; NULL where it is infinite. Never fails."""

    @abstractmethod
    def clock_seconds(self, moment: str, stored: StorageType) -> str:
        """Returns SQL for a stored timestamp as whole seconds since 1970, rounded down; NULL where it is infinite."""

    @abstractmethod
    def format_integer(self, integer: str) -> str:
        """Returns SQL for an integer as a text."""

    @abstractmethod
    def md5_hex(self, text: str) -> str:
        """Returns SQL for the MD5 of a text's UTF-8 bytes, in lower-case hexadecimal digits."""

    @abstractmethod
    def sha256_hex(self, text: str) -> str:
        """Returns SQL for the SHA-256 of a text's UTF-8 bytes, in lower-case hexadecimal digits."""

    @abstractmethod
    def digest_lane(self, digest: str, number: int) -> str:
        """Returns SQL for 15 hexadecimal digits of a digest, from digit 15 * number on, as a wide integer."""

    def column_sql(self, name: str) -> str:
        """Returns a column of the table, which every statement calls `t`: never one of the statement's own names."""
        return f"t.{self.quote_name(name)}"

    def parse_boolean(self, text: str) -> str:
        """Returns SQL for a text as TRUE, FALSE or NULL, by the words for them, ignoring case."""
        true, false = (", ".join(map(self.quote_text, words)) for words in (TRUE_WORDS, FALSE_WORDS))
        return f"CASE WHEN lower({text}) IN ({true}) THEN TRUE WHEN lower({text}) IN ({false}) THEN FALSE END"

    def frame_text(self, text: str) -> str:
        """Returns SQL for a text with its length before it, so that joined texts cannot be confused; `-` if missing."""
        return f"coalesce({self.format_integer(f'length({text})')} || ':' || {text}, '-')"

    def concat_texts(self, texts: Iterable[str]) -> str:
        """Returns SQL that joins texts."""
        return " || ".join(texts)


class DuckDBDialect(Dialect):
    """DuckDB. `collated`: columns may have collations of their own, as in its databases, never in files."""

    name = "DuckDB"
    quick_filters = True

    def __init__(self, collated: bool = False) -> None:
        self._collated = collated

    def quote_name(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def quote_text(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def double_literal(self, value: float) -> str:
        return f"'{value!r}'::DOUBLE"

    def cast_number(self, expression: str, stored: StorageType) -> str:
        return f"TRY_CAST({expression} AS DOUBLE)"

    def cast_boolean(self, expression: str, stored: StorageType) -> str:
        return expression if stored is StorageType.BOOLEAN else f"TRY_CAST({expression} AS BOOLEAN)"

    def cast_text(self, expression: str, stored: StorageType) -> str:
        text = expression if stored is StorageType.TEXT else f"{expression}::VARCHAR"
        return f'({text} COLLATE "binary")' if self._collated else text

    def round_double(self, double: str) -> str:
        return f"TRY_CAST(round({double}) AS BIGINT)"

    def cast_long(self, integer: str) -> str:
        return f"({integer})::BIGINT"

    def divide_whole(self, integer: str, divisor: int) -> str:
        return f"(({integer}) // {self.cast_long(str(divisor))})"

    def cast_wide(self, integer: str) -> str:
        return f"({integer})::HUGEINT"

    def matches(self, text: str, form: str) -> str:
        return f"regexp_full_match({text}, {self.quote_text(form)})"

    def digits_number(self, digits: str) -> str:
        return f"TRY_CAST({digits} AS BIGINT)"

    def text_days(self, text: str) -> str:
        return self.date_days(f"TRY_CAST({text} AS DATE)")

    def date_days(self, date: str) -> str:
        return f"date_diff('day', DATE '1970-01-01', {date})"

    def clock_seconds(self, moment: str, stored: StorageType) -> str:
        micros = f"epoch_us({moment})"
        quotient = f"{micros} // 1000000"  # cut towards zero; nothing is subtracted before: -2^63 is a timestamp, too
        return f"CASE WHEN {micros} % 1000000 < 0 THEN {quotient} - 1 ELSE {quotient} END"

    def format_integer(self, integer: str) -> str:
        return f"({integer})::VARCHAR"

    def md5_hex(self, text: str) -> str:
        return f"md5({text})"

    def sha256_hex(self, text: str) -> str:
        return f"sha256({text})"

    def digest_lane(self, digest: str, number: int) -> str:
        return f"('0x' || substr({digest}, {15 * number + 1}, 15))::BIGINT::HUGEINT"


DUCKDB = DuckDBDialect()
