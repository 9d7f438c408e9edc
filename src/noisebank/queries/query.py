"""`Query`: a canonical linear statistic and its digest; `Question`: a query as somebody asked it.

Every linear statistic adds up, over the rows, a weight that depends on the row: times 1 (COUNT), times a column's
steps (SUM), or times their squares. Weights are integers, written as disjoint predicates; proportional statistics are
one query with different units. A grouped query is a vector: the same sum for each combination of declared keys or bins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any

from noisebank.core.digests import digest_tagged
from noisebank.queries.predicates import TRUE, Predicate

Weights = tuple[tuple[int, Predicate], ...]
"""Nonzero weights by rising value, each with the rows that have it; no row has two."""
GROUPED_BIT, PART_OF_TABLE_BIT = 8, 16
"""Bits of a query's public category, a byte that the ledger shows."""


class Function(Enum):
    """What a row's weight is multiplied with."""

    COUNT = "count"
    SUM = "sum"
    SQUARES = "squares"


FUNCTION_CODES = {Function.COUNT: 1, Function.SUM: 2, Function.SQUARES: 3}
SEVERAL_CODE = 4
"""The category code of a sum of different functions or columns."""


def describe_category(category: int) -> str:
    """Returns the public category of a record in words.

    >>> describe_category(1), describe_category(2 + GROUPED_BIT + PART_OF_TABLE_BIT)
    ('count, whole table', 'sum by groups, part of the table')
    """
    names = {code: function.value for function, code in FUNCTION_CODES.items()} | {SEVERAL_CODE: "several"}
    name = names.get(category & 7, "something")
    groups = " by groups" if category & GROUPED_BIT else ""
    return f"{name}{groups}, {'part of the' if category & PART_OF_TABLE_BIT else 'whole'} table"


def is_single_draw(category: int, whole_cube: bool) -> bool:
    """Whether a measurement with this public category is a single draw, whatever the policy."""
    return not category & GROUPED_BIT and not whole_cube


@dataclass(frozen=True, eq=False)
class QueryPart:
    """One function of one column, with the weights of the rows. COUNT has no column."""

    function: Function
    column: str | None
    weights: Weights

    @property
    def canonical_form(self) -> list[Any]:
        """As JSON of texts and integers."""
        weights = [[weight, predicate.canonical_form] for weight, predicate in self.weights]
        return [self.function.value, self.column or "", weights]

    @property
    def is_uniform(self) -> bool:
        """Whether all rows have the same weight."""
        return len(self.weights) == 1 and self.weights[0][1] is TRUE

    def column_names(self) -> frozenset[str]:
        """Returns the columns that it reads."""
        read = frozenset().union(*(predicate.column_names() for _, predicate in self.weights))
        return read | ({self.column} if self.column else frozenset())


@dataclass(frozen=True, slots=True)
class AxisLabels:
    """What the groups of one key are called by whoever asks, in the order of the groups, and how to show them."""

    names: tuple[str, ...]
    order: tuple[int, ...]
    """The numbers of the groups in the order in which they are shown."""


@dataclass(frozen=True, eq=False)
class Query:
    """A linear statistic that can be measured. Queries compare by the digest of their canonical form."""

    parts: tuple[QueryPart, ...]
    by: tuple[str, ...] = ()
    """The columns of GROUP BY, declared or computed, in alphabetical order."""
    labels: Mapping[str, AxisLabels] = field(default_factory=dict)
    """Of keys that are expressions. They are no part of what is measured."""

    @classmethod
    def from_predicate(
        cls, function: Function, column: str | None, where: Predicate, by: tuple[str, ...] = ()
    ) -> Query:
        """Returns the COUNT of the rows, or the SUM of a column's steps, where a predicate holds."""
        return cls((QueryPart(function, column, ((1, where),)),), by)

    @property
    def canonical_form(self) -> dict[str, Any]:
        """As JSON of texts and integers."""
        return {"parts": [part.canonical_form for part in self.parts], "by": list(self.by)}

    @cached_property
    def digest(self) -> bytes:
        """The reuse paper's "query type"; never leaves the bank unsalted."""
        return digest_tagged("query 2", self.canonical_form)

    @property
    def is_simple(self) -> bool:
        """Whether it is one function with one weight: COUNT or SUM WHERE."""
        return len(self.parts) == 1 and len(self.parts[0].weights) == 1

    @property
    def function(self) -> Function:
        """The function of a simple query."""
        return self._simple_part().function

    @property
    def column(self) -> str | None:
        """The column of a simple query; None for COUNT."""
        return self._simple_part().column

    @property
    def where(self) -> Predicate:
        """The predicate of a simple query: the rows that it reads."""
        return self._simple_part().weights[0][1]

    @property
    def is_whole_table(self) -> bool:
        """Whether all rows have the same weight in every part."""
        return all(part.is_uniform for part in self.parts)

    @cached_property
    def category(self) -> int:
        """The public byte of a record: the function, whether it is grouped, whether it reads only part of the table."""
        code = FUNCTION_CODES[self.parts[0].function] if len(self.parts) == 1 else SEVERAL_CODE
        return code + (GROUPED_BIT if self.by else 0) + (0 if self.is_whole_table else PART_OF_TABLE_BIT)

    def column_names(self) -> frozenset[str]:
        """Returns the columns that it reads."""
        return frozenset(self.by).union(*(part.column_names() for part in self.parts))

    def _simple_part(self) -> QueryPart:
        if not self.is_simple:
            raise ValueError("this query has several weights")
        return self.parts[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, slots=True)
class Question:
    """A query as somebody asked it: the answer is `statistic in steps * unit + offset`.

    `unit` is the column's step, divided by the public number of rows for averages: so AVG and SUM
    of a column are one query with one price. `offset` is a constant that the asker adds.
    """

    query: Query
    unit: Fraction
    sql: str
    offset: Fraction = Fraction(0)

    def __hash__(self) -> int:
        """Leaves out the fractions: hashing them takes longer than all other lookups for a repeated answer."""
        return hash((self.query, self.sql))
