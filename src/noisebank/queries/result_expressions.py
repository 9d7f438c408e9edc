"""Arithmetic on released numbers: what a SELECT computes from its aggregates, and its conditions of HAVING.

An expression is a small tree over the SELECT's aggregates, by index. It is public: it follows from the text alone.
How its value and interval come from released numbers: `account.derived.expressions`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Released:
    """The number of an aggregate in the row."""

    aggregate: int
    """Its index in the SELECT."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Which rows of a partition a window function adds up."""

    order: tuple[OrderTerm, ...]
    """By keys: noise cannot change it."""
    ends: tuple[int | None, int | None]
    """How many rows after the row the first and the last one are; None for the partition's end."""
    with_peers: bool = False
    """Whether rows with the same keys in ORDER BY are added up with the last one."""
    is_mean: bool = False
    """Whether the sum is divided by the number of rows, which is public."""
    is_first: bool = False
    """Whether only the first of all rows of the partition is taken: FIRST_VALUE."""


@dataclass(frozen=True, slots=True)
class Total:
    """SUM(expression) OVER (PARTITION BY keys): its sum over the rows that have the same keys, or over a frame."""

    summed: Expression
    keys: tuple[str, ...] = ()
    frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """RANK, DENSE_RANK or ROW_NUMBER of a row among those that have the same keys."""

    function: str
    order: tuple[OrderTerm, ...]
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator or function of SQL, applied to expressions: those of `account.derived.interval_arithmetic`."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the row, as text. It stands in conditions and in ORDER BY only."""

    name: str
    """The policy's column."""
    is_text: bool = False
    """Whether ORDER BY sorts it as text; else in the policy's order, which is that of its values."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text that a key is compared with."""

    value: str


@dataclass(frozen=True, slots=True)
class Grouping:
    """GROUPING(keys): one bit per key, 1 where the row is about all of its values together."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """CASE over the keys of a row, in ORDER BY: the first constant whose condition holds."""

    cases: tuple[tuple[Condition, Number | Text], ...]
    default: Number | Text | None


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of expressions or keys (=, <>, <, <=, >, >=, IS NULL), or AND, OR, NOT of conditions."""

    operator: str
    arguments: tuple[Expression | Key | Text | Condition, ...]


Expression = Number | Released | Total | Ranking | Operation | Grouping


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One term of ORDER BY: a key or an expression."""

    by: Key | Expression | Choice
    descending: bool = False
    nulls_first: bool = False


def list_aggregates(node: Expression | Key | Text | Condition | Choice) -> Iterator[int]:
    """Yields the index of each aggregate that an expression or condition reads."""
    if isinstance(node, Released):
        yield node.aggregate
    elif isinstance(node, Total):
        yield from list_aggregates(node.summed)
    elif isinstance(node, Ranking):
        for term in node.order:
            yield from list_aggregates(term.by)
    elif isinstance(node, (Operation, Condition)):
        for argument in node.arguments:
            yield from list_aggregates(argument)


def is_noisy(node: Expression | Key | Text | Condition | Choice) -> bool:
    """Whether an expression or condition depends on released numbers."""
    return next(list_aggregates(node), None) is not None


def is_linear(node: Expression, aggregates: Collection[int]) -> bool:
    """Whether an expression is a linear combination of released numbers; `aggregates` are those that are released."""
    if isinstance(node, Released):
        return node.aggregate in aggregates
    if isinstance(node, Total):
        return is_linear(node.summed, aggregates)
    if isinstance(node, Number):
        return True
    if (
        isinstance(node, (Ranking, Grouping))
        or node.function not in ("+", "-", "*", "/")
        or not all(is_linear(each, aggregates) for each in node.arguments)
    ):
        return False
    left, right = node.arguments
    if node.function == "/":
        return isinstance(right, Number) and bool(right.value)
    return node.function in ("+", "-") or isinstance(left, Number) or isinstance(right, Number)


def list_totals(node: Expression | Key | Text | Condition | Choice) -> Iterator[Total]:
    """Yields the sums over other rows that an expression or condition reads."""
    if isinstance(node, Total):
        yield node
    elif isinstance(node, (Operation, Condition)):
        for argument in node.arguments:
            yield from list_totals(argument)


def list_rankings(node: Expression | Key | Text | Condition | Choice) -> Iterator[Ranking]:
    """Yields the ranks that an expression or condition reads."""
    if isinstance(node, Ranking):
        yield node
    elif isinstance(node, (Operation, Condition)):
        for argument in node.arguments:
            yield from list_rankings(argument)


def reads_other_rows(node: Expression | Key | Text | Condition | Choice) -> bool:
    """Whether a number of other rows goes into an expression or condition."""
    return any(True for _ in list_totals(node)) or any(True for _ in list_rankings(node))
