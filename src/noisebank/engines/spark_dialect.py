"""Spark's SQL, with ANSI rules on: a mistake in our SQL is an error, never a silent NULL."""

from __future__ import annotations

from noisebank.engines.dialect import Dialect, Stored

NUMBER = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?"
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,:")


class SparkDialect(Dialect):
    """Spark 4."""

    name = "Spark"

    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def literal(self, text: str) -> str:
        # Backslashes, quotes and ${variables} mean something to Spark: nothing but plain characters is written.
        return "'" + "".join(sign if sign in PLAIN else f"\\U{ord(sign):08X}" for sign in text) + "'"

    def double(self, value: float) -> str:
        return f"CAST('{value!r}' AS DOUBLE)"

    def number(self, expression: str, stored: Stored) -> str:
        if stored in (Stored.INTEGER, Stored.FLOAT, Stored.DECIMAL, Stored.BOOLEAN):
            return f"CAST({expression} AS DOUBLE)"
        text = self.text(expression, stored)
        # Java also reads 1d, 0x1p3 and more.
        pattern = self.literal(rf"\A[ \t\n\x0B\f\r]*({NUMBER})[ \t\n\x0B\f\r]*\z")
        return f"CASE WHEN {text} RLIKE {pattern} THEN try_cast({text} AS DOUBLE) END"

    def truth(self, expression: str, stored: Stored) -> str:
        if stored is Stored.BOOLEAN:
            return expression
        if stored in (Stored.INTEGER, Stored.FLOAT, Stored.DECIMAL):
            return f"({expression} <> 0)"
        return self.words(self.text(expression, stored))

    def text(self, expression: str, stored: Stored) -> str:
        if stored is Stored.TEXT:  # a plain STRING: with a collation it would be OTHER
            return expression
        if stored is Stored.BYTES:
            return f"hex({expression})"
        return f"(CAST({expression} AS STRING) COLLATE UTF8_BINARY)"

    def rounded(self, double: str) -> str:
        whole = f"try_cast({double} AS BIGINT)"  # towards zero; the rest is exact, and so is twice the rest
        return f"({whole} + try_cast(({double} - CAST({whole} AS DOUBLE)) * CAST('2' AS DOUBLE) AS BIGINT))"

    def long(self, integer: str) -> str:
        return f"CAST({integer} AS BIGINT)"

    def wide(self, integer: str) -> str:
        return f"CAST({integer} AS DECIMAL(38, 0))"

    def summand(self, long: str) -> str:
        return self.wide(long)  # sums of 64 bits have 64 bits here

    def spelled(self, integer: str) -> str:
        return f"CAST({integer} AS STRING)"

    def md5(self, text: str) -> str:
        return f"md5(CAST({text} AS BINARY))"

    def sha256(self, text: str) -> str:
        return f"sha2(CAST({text} AS BINARY), 256)"

    def lane(self, digest: str, place: int) -> str:
        return f"CAST(conv(substr({digest}, {15 * place + 1}, 15), 16, 10) AS DECIMAL(38, 0))"


SPARK = SparkDialect()
