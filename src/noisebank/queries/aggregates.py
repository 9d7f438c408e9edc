"""Parses a SELECT expression into a linear combination of aggregates plus a constant. Used by `queries.sql`."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from math import lcm

from sqlglot import exp

from noisebank.core.errors import BadQuery, BadRequest, UnsupportedQuery
from noisebank.core.units import parse_exact
from noisebank.policy.model import MAX_STEPS, Column, Kind, Policy
from noisebank.queries.computed import name_polynomial, polynomial_bounds, resolve_column
from noisebank.queries.conditions import ConditionParser, find_column
from noisebank.queries.polynomials import Monomial, Polynomial
from noisebank.queries.predicates import FALSE, TRUE, Predicate
from noisebank.queries.query import Function
from noisebank.queries.row_values import ValueType

TermKey = tuple[Function, str | None]
SUPPORTED_AGGREGATES = (
    "ask for COUNT(*), SUM(column), AVG(column), AVG(condition), or their sums with constant coefficients"
)


@dataclass
class LinearCombination:
    """A linear combination of aggregates, with coefficients in the unit of the answer, plus a constant."""

    terms: dict[TermKey, list[tuple[Fraction, Predicate]]] = field(default_factory=dict)
    constant: Fraction = Fraction(0)

    def scale_by(self, factor: Fraction) -> LinearCombination:
        """Returns the combination times a constant."""
        terms = {key: [(factor * weight, where) for weight, where in terms] for key, terms in self.terms.items()}
        return LinearCombination(terms, factor * self.constant)

    def plus(self, other: LinearCombination) -> LinearCombination:
        """Returns the sum of two combinations."""
        joined = {key: list(terms) for key, terms in self.terms.items()}
        for key, terms in other.terms.items():
            joined.setdefault(key, []).extend(terms)
        return LinearCombination(joined, self.constant + other.constant)

    @property
    def common_unit(self) -> Fraction:
        """The largest 1/n of which all coefficients are whole multiples."""
        return Fraction(1, reduce(lcm, (weight.denominator for terms in self.terms.values() for weight, _ in terms), 1))

    @property
    def integer_terms(self) -> dict[TermKey, list[tuple[int, Predicate]]]:
        """The coefficients as whole multiples of `common_unit`."""
        return {
            key: [(int(weight / self.common_unit), where) for weight, where in terms]
            for key, terms in self.terms.items()
        }


class AggregateParser:
    """Parses one SELECT expression under one WHERE condition."""

    def __init__(self, policy: Policy, conditions: ConditionParser, where: Predicate, grouped: bool) -> None:
        self.policy, self.conditions, self.where, self.grouped = policy, conditions, where, grouped

    def parse_expression(self, node: exp.Expr) -> LinearCombination:
        """Returns `node` as a linear combination; raises `UnsupportedQuery`, which names what is not linear."""
        if isinstance(node, exp.Paren):
            return self.parse_expression(node.this)
        if isinstance(node, exp.Neg):
            return self.parse_expression(node.this).scale_by(Fraction(-1))
        if isinstance(node, exp.Add):
            return self.parse_expression(node.left).plus(self.parse_expression(node.right))
        if isinstance(node, exp.Sub):
            return self.parse_expression(node.left).plus(self.parse_expression(node.right).scale_by(Fraction(-1)))
        if isinstance(node, (exp.Mul, exp.Div)):
            return self._parse_product(node)
        if isinstance(node, exp.Literal) and not node.is_string:
            return LinearCombination(constant=self._parse_number(node))
        if isinstance(node, exp.Filter):
            return self._parse_filter(node)
        return self._parse_aggregate(node, self.where)

    def _parse_product(self, node: exp.Mul | exp.Div) -> LinearCombination:
        left, right = self.parse_expression(node.left), self.parse_expression(node.right)
        if isinstance(node, exp.Div):
            if right.terms:
                raise UnsupportedQuery("a ratio of aggregates", "ask for each by itself and divide")
            if not right.constant:
                raise BadQuery("this divides by zero")
            return left.scale_by(1 / right.constant)
        if left.terms and right.terms:
            raise UnsupportedQuery("a product of aggregates", SUPPORTED_AGGREGATES)
        return right.scale_by(left.constant) if right.terms else left.scale_by(right.constant)

    def _parse_number(self, node: exp.Literal) -> Fraction:
        try:
            return parse_exact(str(node.this))
        except BadRequest:
            raise BadQuery(f"{str(node.this)[:40]} is no number of ordinary size") from None

    def _parse_filter(self, node: exp.Filter) -> LinearCombination:
        condition = node.expression.this if isinstance(node.expression, exp.Where) else node.expression
        where = self.conditions.builder.conjunction(self.where, self.conditions.parse_condition(condition))
        if isinstance(node.this, exp.Avg):
            raise UnsupportedQuery("AVG with FILTER", "its number of rows is not public: ask for the SUM and the COUNT")
        return self._parse_aggregate(node.this, where)

    def _parse_aggregate(self, node: exp.Expr, where: Predicate) -> LinearCombination:
        if isinstance(node, exp.CountIf):
            return self._count_rows(
                self.conditions.builder.conjunction(where, self.conditions.parse_condition(node.this))
            )
        if isinstance(node, (exp.Count, exp.Sum, exp.Avg)):
            if isinstance(node.this, exp.Distinct) or node.expressions:
                raise UnsupportedQuery("DISTINCT", SUPPORTED_AGGREGATES)
            argument = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
            if isinstance(node, exp.Count):
                return self._parse_count(argument, where)
            if isinstance(node, exp.Sum):
                if isinstance(argument, exp.Column) and not self._is_code(argument):
                    return self._sum_column(self._summable_column(argument, "SUM"), where)
                return self._sum_expression(argument, where)
            return self._parse_average(argument, where)
        raise UnsupportedQuery(f"SELECT {node.sql(dialect='duckdb')[:60]}", SUPPORTED_AGGREGATES)

    def _parse_count(self, argument: exp.Expr | None, where: Predicate) -> LinearCombination:
        if isinstance(argument, exp.Column):
            present = self.conditions.not_missing(find_column(argument, self.policy.columns))
            return self._count_rows(self.conditions.builder.conjunction(where, present))
        if isinstance(argument, exp.Star) and argument.find(exp.Column):
            raise UnsupportedQuery("COUNT(* EXCLUDE ...)", "ask COUNT(*), or COUNT(column)")
        if argument is None or isinstance(argument, (exp.Star, exp.Literal)):
            return self._count_rows(where)
        if isinstance(argument, exp.Null):
            raise BadQuery("COUNT(NULL) is 0, whatever the table")
        expression = self.conditions.expressions.parse_expression(argument)
        arms = self.conditions.expressions.algebra.restrict(expression, where)
        wheres = (arm.where for arm in arms if arm.value is not None)
        return self._count_rows(reduce(self.conditions.builder.disjunction, wheres, FALSE))

    def _count_rows(self, where: Predicate) -> LinearCombination:
        return LinearCombination({(Function.COUNT, None): [(Fraction(1), where)]})

    def _sum_column(self, column: Column, where: Predicate, function: Function = Function.SUM) -> LinearCombination:
        # Missing values add nothing: with that in the condition, SUM with and without IS NOT NULL are one query.
        where = self.conditions.builder.conjunction(where, self.conditions.not_missing(column))
        unit = column.step * column.step if function is Function.SQUARES else column.step
        return LinearCombination({(function, column.name): [(unit, where)]})

    def _sum_expression(self, argument: exp.Expr, where: Predicate) -> LinearCombination:
        """Returns the sum of a row expression: of each column on its own, a product is a computed column."""
        terms: dict[TermKey, list[tuple[Fraction, Predicate]]] = {}
        algebra = self.conditions.expressions.algebra
        expression = self.conditions.expressions.parse_number(argument)
        for arm in algebra.expand(algebra.restrict(expression, where)):
            for monomial, weight in arm.value.terms if isinstance(arm.value, Polynomial) else ():
                terms.setdefault(self._monomial_key(monomial), []).append((weight, arm.where))
        return LinearCombination(terms)

    def _monomial_key(self, monomial: Monomial) -> TermKey:
        """Returns the function and the column that add up a product of columns."""
        if not monomial:
            return Function.COUNT, None
        column = resolve_column(monomial[0], self.policy.columns)
        if len(monomial) == 1:
            return Function.SUM, column.name
        if len(monomial) == 2 and monomial[0] == monomial[1] and max(map(abs, column.bounds)) <= MAX_STEPS:
            return Function.SQUARES, column.name
        product = Polynomial(((monomial, Fraction(1)),))
        polynomial_bounds(product, self.policy.columns)  # refuses what 64 bits cannot hold
        return Function.SUM, name_polynomial(product)

    def _summable_column(self, argument: exp.Expr, aggregate: str) -> Column:
        if not isinstance(argument, exp.Column):
            raise UnsupportedQuery(f"{aggregate} of an expression", f"ask {aggregate}(column)")
        column = find_column(argument, self.policy.columns)
        if not column.is_numeric:
            what = "codes, as it has keys" if column.kind is Kind.INTEGER else column.kind.value
            raise BadQuery(f"column {column.name} is {what}, not a number: {aggregate} needs numbers")
        if column.low is None:
            raise BadQuery(f"column {column.name} has no bounds, so it cannot be summed; add bounds to the policy")
        return column

    def _parse_average(self, argument: exp.Expr, where: Predicate) -> LinearCombination:
        rows = self.policy.public_rows
        if rows is None:
            raise UnsupportedQuery("AVG where the number of rows is not public", "ask for the SUM and the COUNT")
        if where is not TRUE or self.grouped:
            raise UnsupportedQuery(
                "AVG with WHERE or GROUP BY", "its number of rows is not public: ask for the SUM and the COUNT"
            )
        if isinstance(argument, exp.Column) and find_column(argument, self.policy.columns).is_numeric:
            column = self._summable_column(argument, "AVG")
            self._refuse_missing({column.name})
            return self._sum_column(column, TRUE).scale_by(Fraction(1, rows))
        if not self._is_condition(argument):
            return self._average_expression(argument, rows)
        predicate = self.conditions.parse_condition(argument)
        if not self.conditions.is_never_unknown(argument):
            self._refuse_missing(self.conditions.columns_in(argument))
        if predicate in (TRUE, FALSE):
            raise BadQuery(f"by the policy this condition holds for {'all' if predicate is TRUE else 'no'} rows")
        return self._count_rows(predicate).scale_by(Fraction(1, rows))

    def _is_code(self, argument: exp.Column) -> bool:
        """Whether a column holds numbers that are all declared as keys: its sum is one of counts."""
        column = find_column(argument, self.policy.columns)
        return column.kind is Kind.INTEGER and column.is_keyed and column.complete

    def _is_condition(self, argument: exp.Expr) -> bool:
        return self.conditions.expressions.parse_expression(argument).type is ValueType.TRUTH

    def _average_expression(self, argument: exp.Expr, rows: int) -> LinearCombination:
        expression = self.conditions.expressions.parse_number(argument)
        if any(arm.value is None for arm in expression.arms):
            raise UnsupportedQuery("AVG of an expression that may be NULL", "ask for SUM and COUNT")
        return self._sum_expression(argument, TRUE).scale_by(Fraction(1, rows))

    def _refuse_missing(self, names: set[str]) -> None:
        for name in sorted(names):
            if self.policy.columns[name].nullable:
                raise UnsupportedQuery(
                    f"AVG over the nullable column {name}", "its number of values is not public: ask for SUM and COUNT"
                )
