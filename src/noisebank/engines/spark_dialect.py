"""Spark's SQL, with ANSI rules on: a mistake in our SQL is an error, never a silent NULL."""

from __future__ import annotations

from noisebank.engines.dialect import Dialect, StorageType

NUMBER = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?"
PLAIN_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,:")


class SparkDialect(Dialect):
    """Spark 4."""

    name = "Spark"

    def quote_name(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def quote_text(self, text: str) -> str:
        # Backslashes, quotes and ${variables} mean something to Spark: nothing but plain characters is written.
        return "'" + "".join(sign if sign in PLAIN_CHARACTERS else f"\\U{ord(sign):08X}" for sign in text) + "'"

    def double_literal(self, value: float) -> str:
        return f"CAST('{value!r}' AS DOUBLE)"

    def cast_number(self, expression: str, stored: StorageType) -> str:
        if stored in (StorageType.INTEGER, StorageType.FLOAT, StorageType.DECIMAL, StorageType.BOOLEAN):
            return f"CAST({expression} AS DOUBLE)"
        text = self.cast_text(expression, stored)
        # Java also reads 1d, 0x1p3 and more.
        pattern = self.quote_text(rf"\A[ \t\n\x0B\f\r]*({NUMBER})[ \t\n\x0B\f\r]*\z")
        return f"CASE WHEN {text} RLIKE {pattern} THEN try_cast({text} AS DOUBLE) END"

    def cast_boolean(self, expression: str, stored: StorageType) -> str:
        if stored is StorageType.BOOLEAN:
            return expression
        if stored in (StorageType.INTEGER, StorageType.FLOAT, StorageType.DECIMAL):
            return f"({expression} <> 0)"
        return self.parse_boolean(self.cast_text(expression, stored))

    def cast_text(self, expression: str, stored: StorageType) -> str:
        if stored is StorageType.TEXT:  # a plain STRING: with a collation it would be OTHER
            return expression
        if stored is StorageType.BYTES:
            return f"hex({expression})"
        return f"(CAST({expression} AS STRING) COLLATE UTF8_BINARY)"

    def round_double(self, double: str) -> str:
        whole = f"try_cast({double} AS BIGINT)"  # towards zero; the rest is exact, and so is twice the rest
        return f"({whole} + try_cast(({double} - CAST({whole} AS DOUBLE)) * CAST('2' AS DOUBLE) AS BIGINT))"

    def cast_long(self, integer: str) -> str:
        return f"CAST({integer} AS BIGINT)"

    def cast_wide(self, integer: str) -> str:
        return f"CAST({integer} AS DECIMAL(38, 0))"

    def divide_whole(self, integer: str, divisor: int) -> str:
        return f"(({integer}) div {self.cast_long(str(divisor))})"

    def cast_summand(self, long: str) -> str:
        return self.cast_wide(long)  # sums of 64 bits have 64 bits here

    def matches(self, text: str, form: str) -> str:
        return f"({text} RLIKE {self.quote_text(f'^({form})' + chr(92) + 'z')})"

    def digits_number(self, digits: str) -> str:
        return f"try_cast({digits} AS BIGINT)"

    def text_days(self, text: str) -> str:
        return self.date_days(f"try_cast({text} AS DATE)")

    def date_days(self, date: str) -> str:
        return f"CAST(unix_date({date}) AS BIGINT)"

    def clock_seconds(self, moment: str, stored: StorageType) -> str:
        return f"unix_seconds(CAST({moment} AS TIMESTAMP))"

    def format_integer(self, integer: str) -> str:
        return f"CAST({integer} AS STRING)"

    def md5_hex(self, text: str) -> str:
        return f"md5(CAST({text} AS BINARY))"

    def sha256_hex(self, text: str) -> str:
        return f"sha2(CAST({text} AS BINARY), 256)"

    def digest_lane(self, digest: str, number: int) -> str:
        return f"CAST(conv(substr({digest}, {15 * number + 1}, 15), 16, 10) AS DECIMAL(38, 0))"


SPARK = SparkDialect()
