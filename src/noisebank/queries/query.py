"""A query: a canonical linear statistic with one noise, and its digest."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any

from noisebank.digests import tagged
from noisebank.queries.predicates import TRUE, Predicate


class Function(Enum):
    """What is added up over the rows that the predicate selects."""

    COUNT = "count"
    SUM = "sum"


@dataclass(frozen=True, eq=False)
class Query:
    """COUNT of the rows, or SUM of a column's steps, where a predicate holds.

    Queries compare by digest: the canonical form is what they *are*.
    """

    function: Function
    column: str | None
    where: Predicate

    @cached_property
    def canonical(self) -> dict[str, Any]:
        """As plain text and integers."""
        return {"function": self.function.value, "column": self.column or "", "where": self.where.canonical}

    @cached_property
    def digest(self) -> bytes:
        """The paper's "query type"; never leaves the bank unsalted."""
        return tagged("query 1", self.canonical)

    @property
    def whole_table(self) -> bool:
        """Whether it is about everybody."""
        return self.where is TRUE

    @property
    def about(self) -> int:
        """The public byte of a record: the function, and 16 more if it is about a part of the table."""
        return {Function.COUNT: 1, Function.SUM: 2}[self.function] + (0 if self.whole_table else 16)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, slots=True)
class Question:
    """A query as somebody asked it: the answer is `statistic in steps * unit`.

    `unit` is the column's step, divided by the public number of rows for averages: so AVG and SUM
    of a column are one query with one price.
    """

    query: Query
    unit: Fraction
    sql: str
