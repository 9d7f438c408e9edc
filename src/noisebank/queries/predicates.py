"""Predicates as reduced ordered decision diagrams: two predicates are equivalent iff they are equal.

A node tests one column and splits its domain into sets with different outcomes. Columns are
tested in alphabetical order, sets with the same outcome are joined, a node with a single outcome
is dropped. Such reduced ordered diagrams are canonical (Bryant 1986, Theorem 1; for many-valued
variables Srinivasan et al. 1990), so De Morgan, order, ranges and redundancy make no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from noisebank.core.errors import UnsupportedQuery
from noisebank.policy.model import Column
from noisebank.queries.values import Values, domain_of

MAX_NODES = MAX_PATHS = 2_000
"""More than anybody writes by hand, and few enough not to slow the bank or an engine."""


@dataclass(frozen=True, eq=False)
class Predicate:
    """A node of a diagram: `branches` partition the domain of `column`. A leaf has neither."""

    column: str
    branches: tuple[tuple[Values, Predicate], ...]

    @cached_property
    def nodes(self) -> tuple[Predicate, ...]:
        """All inner nodes below and including this one, children first, each once."""
        seen: dict[int, Predicate] = {}

        def walk(node: Predicate) -> None:
            if not node.branches or id(node) in seen:
                return
            for _, child in node.branches:
                walk(child)
            seen[id(node)] = node

        walk(self)
        return tuple(seen.values())

    @property
    def canonical(self) -> list[object]:
        """The predicate as JSON of texts and integers; equal for equivalent predicates, different otherwise."""
        if not self.branches:
            return [self is TRUE]
        number = {id(FALSE): 0, id(TRUE): 1}
        text: list[object] = []
        for node in self.nodes:
            number[id(node)] = len(number)
            text.append([node.column, *([values.canonical(), number[id(child)]] for values, child in node.branches)])
        return text

    @cached_property
    def paths(self) -> int:
        """Number of paths to TRUE: the size of its SQL."""
        return sum(child.paths for _, child in self.branches) if self.branches else int(self is TRUE)

    def columns(self) -> frozenset[str]:
        """Returns the columns that it depends on."""
        return frozenset(node.column for node in self.nodes)

    def holds(self, row: Mapping[str, int | None]) -> bool:
        """Whether it is true for a row given in domain values (for tests)."""
        node = self
        while node.branches:
            value = row[node.column]
            node = next(child for values, child in node.branches if value in values)
        return node is TRUE

    def __repr__(self) -> str:
        return f"Predicate({self.canonical})"


TRUE = Predicate("", ())
FALSE = Predicate("", ())


class Diagrams:
    """Builds predicates over one policy's columns; equal nodes are the same object."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns
        self._unique: dict[tuple[object, ...], Predicate] = {}
        self._memo: dict[tuple[object, ...], Predicate] = {}

    def among(self, column: str, values: Values) -> Predicate:
        """Returns the predicate that is true where `column` has one of `values`."""
        domain = domain_of(self._columns[column])
        inside = values & domain
        return self._node(column, [(inside, TRUE), (inside.outside(domain), FALSE)])

    def both(self, left: Predicate, right: Predicate) -> Predicate:
        """Returns the predicate that is true where both are."""
        return self._combined("and", left, right, lambda a, b: FALSE if FALSE in (a, b) else b if a is TRUE else a)

    def either(self, left: Predicate, right: Predicate) -> Predicate:
        """Returns the predicate that is true where at least one is."""
        return self._combined("or", left, right, lambda a, b: TRUE if TRUE in (a, b) else b if a is FALSE else a)

    def negation(self, node: Predicate) -> Predicate:
        """Returns the predicate of all other rows, missing values included (which SQL's NOT leaves out)."""
        if not node.branches:
            return FALSE if node is TRUE else TRUE
        key = ("not", id(node))
        if key not in self._memo:
            self._memo[key] = self._node(
                node.column, [(values, self.negation(child)) for values, child in node.branches]
            )
        return self._memo[key]

    def _combined(
        self, name: str, left: Predicate, right: Predicate, leaf: Callable[[Predicate, Predicate], Predicate]
    ) -> Predicate:
        if not left.branches or not right.branches or left is right:
            return left if left is right else leaf(left, right)
        key = (name, id(left), id(right))
        if key not in self._memo:
            column = min(left.column, right.column)
            parts = [
                (values & others, self._combined(name, a, b, leaf))
                for values, a in self._split(left, column)
                for others, b in self._split(right, column)
                if values & others
            ]
            self._memo[key] = self._node(column, parts)
        return self._memo[key]

    def _split(self, node: Predicate, column: str) -> Iterator[tuple[Values, Predicate]]:
        if node.column == column:
            yield from node.branches
        else:
            yield domain_of(self._columns[column]), node

    def _node(self, column: str, parts: list[tuple[Values, Predicate]]) -> Predicate:
        joined: dict[int, tuple[Values, Predicate]] = {}
        for values, child in parts:
            if values:
                known = joined.get(id(child))
                joined[id(child)] = (known[0] | values if known else values, child)
        if len(joined) == 1:
            return next(iter(joined.values()))[1]
        branches = tuple(sorted(joined.values(), key=lambda branch: branch[0].order()))
        key = (column, *((values, id(child)) for values, child in branches))
        if key not in self._unique:
            self._unique[key] = Predicate(column, branches)
            if len(self._unique) > MAX_NODES or self._unique[key].paths > MAX_PATHS:
                raise UnsupportedQuery("a condition this complex", "split the question into simpler ones")
        return self._unique[key]
