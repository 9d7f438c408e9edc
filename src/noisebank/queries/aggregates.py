"""Parses a SELECT expression into a linear combination of aggregates plus a constant. Used by `queries.sql`."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from math import lcm

from sqlglot import exp

from noisebank.core.errors import BadQuery, BadRequest, UnsupportedQuery
from noisebank.core.units import exact
from noisebank.policy.model import Column, Policy
from noisebank.queries.conditions import Conditions, column_named
from noisebank.queries.predicates import FALSE, TRUE, Predicate
from noisebank.queries.query import Function

Key = tuple[Function, str | None]
ASK = "ask for COUNT(*), SUM(column), AVG(column), AVG(condition), or their sums with constant coefficients"


@dataclass
class Combination:
    """A linear combination of aggregates, with coefficients in the unit of the answer, plus a constant."""

    terms: dict[Key, list[tuple[Fraction, Predicate]]] = field(default_factory=dict)
    constant: Fraction = Fraction(0)

    def scaled(self, factor: Fraction) -> Combination:
        """Returns the combination times a constant."""
        terms = {key: [(factor * weight, where) for weight, where in terms] for key, terms in self.terms.items()}
        return Combination(terms, factor * self.constant)

    def plus(self, other: Combination) -> Combination:
        """Returns the sum of two combinations."""
        joined = {key: list(terms) for key, terms in self.terms.items()}
        for key, terms in other.terms.items():
            joined.setdefault(key, []).extend(terms)
        return Combination(joined, self.constant + other.constant)

    @property
    def unit(self) -> Fraction:
        """The largest 1/n of which all coefficients are whole multiples."""
        return Fraction(1, reduce(lcm, (weight.denominator for terms in self.terms.values() for weight, _ in terms), 1))

    @property
    def integers(self) -> dict[Key, list[tuple[int, Predicate]]]:
        """The coefficients as whole multiples of `common_unit`."""
        return {key: [(int(weight / self.unit), where) for weight, where in terms] for key, terms in self.terms.items()}


class Aggregates:
    """Parses one SELECT expression under one WHERE condition."""

    def __init__(self, policy: Policy, conditions: Conditions, where: Predicate, grouped: bool) -> None:
        self.policy, self.conditions, self.where, self.grouped = policy, conditions, where, grouped

    def read(self, node: exp.Expr) -> Combination:
        """Returns `node` as a linear combination; raises `UnsupportedQuery`, which names what is not linear."""
        if isinstance(node, exp.Paren):
            return self.read(node.this)
        if isinstance(node, exp.Neg):
            return self.read(node.this).scaled(Fraction(-1))
        if isinstance(node, exp.Add):
            return self.read(node.left).plus(self.read(node.right))
        if isinstance(node, exp.Sub):
            return self.read(node.left).plus(self.read(node.right).scaled(Fraction(-1)))
        if isinstance(node, (exp.Mul, exp.Div)):
            return self._scaled(node)
        if isinstance(node, exp.Literal) and not node.is_string:
            return Combination(constant=self._number(node))
        if isinstance(node, exp.Filter):
            return self._filtered(node)
        return self._aggregate(node, self.where)

    def _scaled(self, node: exp.Mul | exp.Div) -> Combination:
        left, right = self.read(node.left), self.read(node.right)
        if isinstance(node, exp.Div):
            if right.terms:
                raise UnsupportedQuery("a ratio of aggregates", "ask for each by itself and divide")
            if not right.constant:
                raise BadQuery("this divides by zero")
            return left.scaled(1 / right.constant)
        if left.terms and right.terms:
            raise UnsupportedQuery("a product of aggregates", ASK)
        return right.scaled(left.constant) if right.terms else left.scaled(right.constant)

    def _number(self, node: exp.Literal) -> Fraction:
        try:
            return exact(str(node.this))
        except BadRequest:
            raise BadQuery(f"{str(node.this)[:40]} is no number of ordinary size") from None

    def _filtered(self, node: exp.Filter) -> Combination:
        condition = node.expression.this if isinstance(node.expression, exp.Where) else node.expression
        where = self.conditions.diagrams.both(self.where, self.conditions.predicate(condition))
        if isinstance(node.this, exp.Avg):
            raise UnsupportedQuery("AVG with FILTER", "its number of rows is not public: ask for the SUM and the COUNT")
        return self._aggregate(node.this, where)

    def _aggregate(self, node: exp.Expr, where: Predicate) -> Combination:
        if isinstance(node, exp.CountIf):
            return self._count(self.conditions.diagrams.both(where, self.conditions.predicate(node.this)))
        if isinstance(node, (exp.Count, exp.Sum, exp.Avg)):
            if isinstance(node.this, exp.Distinct) or node.expressions:
                raise UnsupportedQuery("DISTINCT", ASK)
            argument = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
            if isinstance(node, exp.Count):
                return self._counted(argument, where)
            if isinstance(node, exp.Sum):
                squared = self._squared(argument)
                if squared is not None:
                    return self._sum(self._summed(squared, "SUM"), where, Function.SQUARES)
                return self._sum(self._summed(argument, "SUM"), where)
            return self._average(argument, where)
        raise UnsupportedQuery(f"SELECT {node.sql(dialect='duckdb')[:60]}", ASK)

    def _counted(self, argument: exp.Expr | None, where: Predicate) -> Combination:
        if isinstance(argument, exp.Column):
            present = self.conditions.present(column_named(argument, self.policy.columns))
            return self._count(self.conditions.diagrams.both(where, present))
        if not isinstance(argument, (exp.Star, exp.Literal)) or argument.find(exp.Column):  # * EXCLUDE (column)
            raise UnsupportedQuery(
                "COUNT of an expression", "ask COUNT_IF(condition), or COUNT(*) with the condition in WHERE or FILTER"
            )
        return self._count(where)

    def _count(self, where: Predicate) -> Combination:
        return Combination({(Function.COUNT, None): [(Fraction(1), where)]})

    def _sum(self, column: Column, where: Predicate, function: Function = Function.SUM) -> Combination:
        # Missing values add nothing: with that in the condition, SUM with and without IS NOT NULL are one query.
        where = self.conditions.diagrams.both(where, self.conditions.present(column))
        unit = column.step * column.step if function is Function.SQUARES else column.step
        return Combination({(function, column.name): [(unit, where)]})

    def _squared(self, node: exp.Expr) -> exp.Expr | None:
        """Returns the column of `column * column`, else None."""
        if isinstance(node, exp.Mul) and isinstance(node.left, exp.Column) and node.left == node.right:
            return node.left
        return None

    def _summed(self, argument: exp.Expr, aggregate: str) -> Column:
        if not isinstance(argument, exp.Column):
            raise UnsupportedQuery(f"{aggregate} of an expression", f"ask {aggregate}(column)")
        column = column_named(argument, self.policy.columns)
        if not column.numeric:
            raise BadQuery(f"column {column.name} is {column.kind.value}, not a number: {aggregate} needs numbers")
        if column.low is None:
            raise BadQuery(f"column {column.name} has no bounds, so it cannot be summed; add bounds to the policy")
        return column

    def _average(self, argument: exp.Expr, where: Predicate) -> Combination:
        rows = self.policy.public_rows
        if rows is None:
            raise UnsupportedQuery("AVG where the number of rows is not public", "ask for the SUM and the COUNT")
        if where is not TRUE or self.grouped:
            raise UnsupportedQuery(
                "AVG with WHERE or GROUP BY", "its number of rows is not public: ask for the SUM and the COUNT"
            )
        if isinstance(argument, exp.Column) and column_named(argument, self.policy.columns).numeric:
            column = self._summed(argument, "AVG")
            self._refuse_missing({column.name})
            return self._sum(column, TRUE).scaled(Fraction(1, rows))
        predicate = self.conditions.predicate(argument)
        if not self.conditions.certain(argument):
            self._refuse_missing(self.conditions.columns_in(argument))
        if predicate in (TRUE, FALSE):
            raise BadQuery(f"by the policy this condition holds for {'all' if predicate is TRUE else 'no'} rows")
        return self._count(predicate).scaled(Fraction(1, rows))

    def _refuse_missing(self, names: set[str]) -> None:
        for name in sorted(names):
            if self.policy.columns[name].nullable:
                raise UnsupportedQuery(
                    f"AVG over the nullable column {name}", "its number of values is not public: ask for SUM and COUNT"
                )
