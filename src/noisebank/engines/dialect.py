"""What differs between SQL engines when a statement is written: names, texts, casts that never fail, exact sums.

Every engine must give the same integer for the same table. So a dialect says how one stored value
becomes a number, a truth value or a text *as documented in docs/engines.md*, whatever the engine's
own casts would do; everything else is written once, in `fields` and `statement`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum

TRUE_WORDS = ("true", "t", "yes", "y", "1")
FALSE_WORDS = ("false", "f", "no", "n", "0")
LANES = 2
"""A row's keyed digest is added up in so many pieces of 60 bits."""


class Stored(Enum):
    """How an engine stores a column, as far as casts care."""

    INTEGER = "integer"
    """At most 64 bits with sign, so that it may be compared with any literal of ours."""
    FLOAT = "float"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    TEXT = "text"
    BYTES = "bytes"
    OTHER = "other"


class Dialect(ABC):
    """One engine's SQL. NaN compares as larger than every number in all of them."""

    name: str
    fence = ""
    """What keeps an engine from writing a costly expression out again wherever it is used."""

    underflow_fails = False
    """Whether a product too small for a double is an error."""

    quick_filters = False
    """Whether filtered aggregates cost less than a CASE a row; sums of 64 bits must not overflow then."""

    @abstractmethod
    def quoted(self, name: str) -> str:
        """An identifier."""

    @abstractmethod
    def literal(self, text: str) -> str:
        """A text."""

    @abstractmethod
    def double(self, value: float) -> str:
        """A number of 64 bits, infinities included."""

    @abstractmethod
    def number(self, expression: str, stored: Stored) -> str:
        """A stored value as a double; NULL or NaN where it is no number. Never fails."""

    @abstractmethod
    def truth(self, expression: str, stored: Stored) -> str:
        """A stored value as TRUE or FALSE; NULL where it is neither. Never fails."""

    @abstractmethod
    def text(self, expression: str, stored: Stored) -> str:
        """A stored value as a text that compares byte by byte."""

    @abstractmethod
    def rounded(self, double: str) -> str:
        """A double below 2^32 in size as the nearest integer of 64 bits; halves go away from zero."""

    @abstractmethod
    def wide(self, integer: str) -> str:
        """An integer of any kind with room for at least 126 bits."""

    @abstractmethod
    def long(self, integer: str) -> str:
        """An integer of exactly 64 bits."""

    def summand(self, long: str) -> str:
        """An integer of at most 64 bits inside a sum that must not overflow."""
        return long

    def holds(self, text: str) -> bool:
        """Whether the engine's texts can be this one at all."""
        return True

    @abstractmethod
    def spelled(self, integer: str) -> str:
        """An integer as a text."""

    @abstractmethod
    def md5(self, text: str) -> str:
        """The MD5 of a text's UTF-8 bytes, in small hexadecimal digits."""

    @abstractmethod
    def sha256(self, text: str) -> str:
        """The SHA-256 of a text's UTF-8 bytes, in small hexadecimal digits."""

    @abstractmethod
    def lane(self, digest: str, place: int) -> str:
        """The `place`th 15 hexadecimal digits of a digest as an integer, wide."""

    def raw(self, name: str) -> str:
        """A column of the table, which every statement calls `t`: never one of the statement's own names."""
        return f"t.{self.quoted(name)}"

    def words(self, text: str) -> str:
        """A text as TRUE, FALSE or NULL, by the words that count as such in any case of letters."""
        true, false = (", ".join(map(self.literal, words)) for words in (TRUE_WORDS, FALSE_WORDS))
        return f"CASE WHEN lower({text}) IN ({true}) THEN TRUE WHEN lower({text}) IN ({false}) THEN FALSE END"

    def framed(self, text: str) -> str:
        """A text with its length before it, so that texts put in a row are told apart; `-` if missing."""
        return f"coalesce({self.spelled(f'length({text})')} || ':' || {text}, '-')"

    def joined(self, texts: Iterable[str]) -> str:
        """Texts one after the other."""
        return " || ".join(texts)


class DuckDBDialect(Dialect):
    """DuckDB. `collated` where columns may carry collations of their own: in its databases, never in files."""

    name = "DuckDB"
    quick_filters = True

    def __init__(self, collated: bool = False) -> None:
        self._collated = collated

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def literal(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def double(self, value: float) -> str:
        return f"'{value!r}'::DOUBLE"

    def number(self, expression: str, stored: Stored) -> str:
        return f"TRY_CAST({expression} AS DOUBLE)"

    def truth(self, expression: str, stored: Stored) -> str:
        return expression if stored is Stored.BOOLEAN else f"TRY_CAST({expression} AS BOOLEAN)"

    def text(self, expression: str, stored: Stored) -> str:
        text = expression if stored is Stored.TEXT else f"{expression}::VARCHAR"
        return f'({text} COLLATE "binary")' if self._collated else text

    def rounded(self, double: str) -> str:
        return f"TRY_CAST(round({double}) AS BIGINT)"

    def long(self, integer: str) -> str:
        return f"({integer})::BIGINT"

    def wide(self, integer: str) -> str:
        return f"({integer})::HUGEINT"

    def spelled(self, integer: str) -> str:
        return f"({integer})::VARCHAR"

    def md5(self, text: str) -> str:
        return f"md5({text})"

    def sha256(self, text: str) -> str:
        return f"sha256({text})"

    def lane(self, digest: str, place: int) -> str:
        return f"('0x' || substr({digest}, {15 * place + 1}, 15))::BIGINT::HUGEINT"


DUCKDB = DuckDBDialect()
