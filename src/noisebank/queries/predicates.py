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
from typing import Any

from noisebank.core.errors import UnsupportedQuery
from noisebank.policy.model import Column
from noisebank.queries.computed import resolve_column
from noisebank.queries.effort import add_steps
from noisebank.queries.values import ValueSet, column_domain, parse_values

MAX_NODES = MAX_PATHS = 2_000
"""More than anybody writes by hand, and few enough not to slow the bank or an engine."""


@dataclass(frozen=True, eq=False)
class Predicate:
    """A node of a diagram: `branches` partition the domain of `column`. A leaf has neither."""

    column: str
    branches: tuple[tuple[ValueSet, Predicate], ...]

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
    def canonical_form(self) -> list[object]:
        """The predicate as JSON of texts and integers; equal for equivalent predicates, different otherwise."""
        if not self.branches:
            return [self is TRUE]
        number = {id(FALSE): 0, id(TRUE): 1}
        text: list[object] = []
        for node in self.nodes:
            number[id(node)] = len(number)
            text.append([node.column, *([values.to_json(), number[id(child)]] for values, child in node.branches)])
        return text

    @cached_property
    def path_count(self) -> int:
        """Number of paths to TRUE: the size of its SQL."""
        return sum(child.path_count for _, child in self.branches) if self.branches else int(self is TRUE)

    def column_names(self) -> frozenset[str]:
        """Returns the columns that it depends on."""
        return frozenset(node.column for node in self.nodes)

    def values_of(self, column: str, domain: ValueSet) -> ValueSet:
        """Returns those values of a column that some row can have for which the predicate is true."""
        known: dict[int, ValueSet] = {id(FALSE): ValueSet(()), id(TRUE): domain}
        for node in self.nodes:  # children first
            values = ValueSet(())
            for own, child in node.branches:
                below = known[id(child)]
                values = values | (own & below if node.column == column else below)
            known[id(node)] = values
        return known[id(self)]

    def holds_for(self, row: Mapping[str, int | None]) -> bool:
        """Whether it is true for a row given in domain values (for tests)."""
        node = self
        while node.branches:
            value = row[node.column]
            node = next(child for values, child in node.branches if value in values)
        return node is TRUE

    def __repr__(self) -> str:
        return f"Predicate({self.canonical_form})"


TRUE = Predicate("", ())
FALSE = Predicate("", ())


class PredicateBuilder:
    """Builds predicates over one policy's columns; equal nodes are the same object."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns
        self._unique_nodes: dict[tuple[object, ...], Predicate] = {}
        self._memo: dict[tuple[object, ...], Predicate] = {}
        self._domains: dict[str, ValueSet] = {}

    def domain_of(self, column: str) -> ValueSet:
        """Returns all values that a declared or computed column can have."""
        domain = self._domains.get(column)
        if domain is None:
            domain = self._domains[column] = column_domain(resolve_column(column, self._columns))
        return domain

    def in_values(self, column: str, values: ValueSet) -> Predicate:
        """Returns the predicate that is true where `column` has one of `values`."""
        domain = self.domain_of(column)
        inside = values & domain
        return self._make_node(column, [(inside, TRUE), (inside.complement_in(domain), FALSE)])

    def conjunction(self, left: Predicate, right: Predicate) -> Predicate:
        """Returns the predicate that is true where both are."""
        return self._apply_operator(
            "and", left, right, lambda a, b: FALSE if FALSE in (a, b) else b if a is TRUE else a
        )

    def disjunction(self, left: Predicate, right: Predicate) -> Predicate:
        """Returns the predicate that is true where at least one is."""
        return self._apply_operator("or", left, right, lambda a, b: TRUE if TRUE in (a, b) else b if a is FALSE else a)

    def from_form(self, form: list[Any]) -> Predicate:
        """Returns the predicate that has this canonical form."""
        if isinstance(form[0], bool):
            return TRUE if form[0] else FALSE
        nodes = [FALSE, TRUE]
        for column, *branches in form:
            nodes.append(self._make_node(column, [(parse_values(values), nodes[child]) for values, child in branches]))
        return nodes[-1]

    def negation(self, node: Predicate) -> Predicate:
        """Returns the predicate of all other rows, missing values included (which SQL's NOT leaves out)."""
        if not node.branches:
            return FALSE if node is TRUE else TRUE
        key = ("not", id(node))
        if key not in self._memo:
            self._memo[key] = self._make_node(
                node.column, [(values, self.negation(child)) for values, child in node.branches]
            )
        return self._memo[key]

    def _apply_operator(
        self, name: str, left: Predicate, right: Predicate, leaf: Callable[[Predicate, Predicate], Predicate]
    ) -> Predicate:
        if not left.branches or not right.branches or left is right:
            return left if left is right else leaf(left, right)
        key = (name, id(left), id(right))
        if key not in self._memo:
            column = min(left.column, right.column)
            add_steps(len(left.branches) * len(right.branches) // 4)
            parts = [
                (values & others, self._apply_operator(name, a, b, leaf))
                for values, a in self._branches_on(left, column)
                for others, b in self._branches_on(right, column)
                if values & others
            ]
            self._memo[key] = self._make_node(column, parts)
        return self._memo[key]

    def _branches_on(self, node: Predicate, column: str) -> Iterator[tuple[ValueSet, Predicate]]:
        if node.column == column:
            yield from node.branches
        else:
            yield self.domain_of(column), node

    def _make_node(self, column: str, parts: list[tuple[ValueSet, Predicate]]) -> Predicate:
        joined: dict[int, tuple[ValueSet, Predicate]] = {}
        add_steps(sum(1 + len(values.ranges) for values, _ in parts))
        for values, child in parts:
            if values:
                known = joined.get(id(child))
                joined[id(child)] = (known[0] | values if known else values, child)
        if len(joined) == 1:
            return next(iter(joined.values()))[1]
        branches = tuple(sorted(joined.values(), key=lambda branch: branch[0].sort_key()))
        key = (column, *((values, id(child)) for values, child in branches))
        if key not in self._unique_nodes:
            self._unique_nodes[key] = Predicate(column, branches)
            if len(self._unique_nodes) > MAX_NODES or self._unique_nodes[key].path_count > MAX_PATHS:
                raise UnsupportedQuery("a condition this complex", "split the question into simpler ones")
        return self._unique_nodes[key]
