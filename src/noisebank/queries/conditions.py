"""Parses the conditions of WHERE, FILTER and AVG(...) into predicates, with SQL's three-valued logic.

`NOT` is pushed down to the comparisons first. After that the formula is monotone, so a row is
selected exactly when it holds with "unknown" read as false; and every comparison has become the
set of values for which it is *true*.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor

from sqlglot import exp

from noisebank.core.errors import BadQuery, BadRequest, UnsupportedQuery
from noisebank.core.units import parse_exact
from noisebank.policy.model import Column, Kind
from noisebank.queries.predicates import FALSE, TRUE, Predicate, PredicateBuilder
from noisebank.queries.values import ValueSet, column_domain, make_value_set

Literal = Fraction | str | bool

MIRRORED_OPERATORS: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ, exp.NEQ: exp.NEQ
}  # fmt: skip


def find_column(node: exp.Column, columns: Mapping[str, Column]) -> Column:
    """Returns the declared column that `node` names, ignoring case as SQL does."""
    for name, column in columns.items():
        if name.lower() == node.name.lower():
            return column
    raise BadQuery(f"there is no column {node.name}; declared are {', '.join(sorted(columns))}")


class ConditionParser:
    """Parses conditions over one policy's columns into predicates."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = columns
        self.builder = PredicateBuilder(columns)

    def parse_condition(self, node: exp.Expr, negated: bool = False) -> Predicate:
        """Returns the predicate of the rows for which the condition (or its SQL negation) is true."""
        if isinstance(node, exp.Paren):
            return self.parse_condition(node.this, negated)
        if isinstance(node, exp.Not):
            return self.parse_condition(node.this, not negated)
        if isinstance(node, (exp.And, exp.Or)):
            left, right = self.parse_condition(node.left, negated), self.parse_condition(node.right, negated)
            join = self.builder.conjunction if isinstance(node, exp.And) is not negated else self.builder.disjunction
            return join(left, right)
        if isinstance(node, exp.Boolean):
            return TRUE if bool(node.this) is not negated else FALSE
        column, values = self._parse_comparison(node)
        if negated:
            values = self._negate_values(node, column, values)
        return self.builder.in_values(column.name, values)

    def is_never_unknown(self, node: exp.Expr) -> bool:
        """Whether the condition is true or false for every row, never unknown."""
        return self.builder.disjunction(self.parse_condition(node), self.parse_condition(node, negated=True)) is TRUE

    def not_missing(self, column: Column) -> Predicate:
        """Returns the predicate of the rows in which `column` is not missing."""
        if not column.nullable:
            return TRUE
        return self.builder.in_values(column.name, ValueSet(column_domain(column).ranges))

    def columns_in(self, node: exp.Expr) -> set[str]:
        """Returns the declared names of all columns in a condition."""
        return {find_column(column, self.columns).name for column in node.find_all(exp.Column)}

    def _negate_values(self, node: exp.Expr, column: Column, values: ValueSet) -> ValueSet:
        domain = column_domain(column)
        if isinstance(node, exp.Is):  # IS NULL is never unknown
            return values.complement_in(domain)
        return ValueSet(values.complement_in(domain).ranges)  # a comparison with a missing value stays unknown

    def _parse_comparison(self, node: exp.Expr) -> tuple[Column, ValueSet]:
        """Returns the column and the values for which a single comparison is true."""
        if isinstance(node, exp.Column):
            column = find_column(node, self.columns)
            if column.kind is not Kind.BOOLEAN:
                raise BadQuery(f"column {column.name} is {column.kind.value}, not a condition: compare it")
            return column, make_value_set([1])
        if isinstance(node, exp.Is):
            return self._parse_is(node)
        if isinstance(node, exp.Between):
            if node.args.get("symmetric"):
                raise UnsupportedQuery("BETWEEN SYMMETRIC", "write the lower value first: BETWEEN 1 AND 5")
            column = self._parse_column(node.this)
            low = self._compare_values(column, exp.GTE, self._parse_literal(node.args["low"]))
            high = self._compare_values(column, exp.LTE, self._parse_literal(node.args["high"]))
            return column, low & high
        if isinstance(node, exp.In):
            if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
                raise UnsupportedQuery("IN over a query", "write the values: IN (1, 2, 3)")
            column = self._parse_column(node.this)
            listed = ValueSet(())
            for item in node.expressions:
                listed = listed | self._compare_values(column, exp.EQ, self._parse_literal(item))
            return column, listed
        for kind, flipped in MIRRORED_OPERATORS.items():
            if type(node) is kind:
                left, right = node.this.unnest(), node.expression.unnest()
                if isinstance(left, exp.Column):
                    column = self._parse_column(left)
                    return column, self._compare_values(column, kind, self._parse_literal(right))
                if isinstance(right, exp.Column):
                    column = self._parse_column(right)
                    return column, self._compare_values(column, flipped, self._parse_literal(left))
        raise UnsupportedQuery(
            node.sql(dialect="duckdb")[:60],
            "a condition compares a column with a value: =, <>, <, <=, >, >=, IN, BETWEEN, IS NULL",
        )

    def _parse_is(self, node: exp.Is) -> tuple[Column, ValueSet]:
        column = self._parse_column(node.this)
        domain = column_domain(column)
        if isinstance(node.expression, exp.Null):
            return column, ValueSet((), domain.has_null)
        if isinstance(node.expression, exp.Boolean) and column.kind is Kind.BOOLEAN:
            return column, make_value_set([1 if node.expression.this else 0])
        raise UnsupportedQuery(node.sql(dialect="duckdb")[:60], "IS takes NULL, or TRUE and FALSE for a boolean column")

    def _parse_column(self, node: exp.Expr) -> Column:
        if isinstance(node, exp.Paren):
            return self._parse_column(node.this)
        if not isinstance(node, exp.Column):
            raise UnsupportedQuery(
                node.sql(dialect="duckdb")[:60], "a condition compares a declared column with a value"
            )
        return find_column(node, self.columns)

    def _parse_literal(self, node: exp.Expr) -> Literal:
        if isinstance(node, exp.Paren):
            return self._parse_literal(node.this)
        if isinstance(node, exp.Neg):
            value = self._parse_literal(node.this)
            if isinstance(value, Fraction):
                return -value
        if isinstance(node, exp.Literal):
            if node.is_string:
                return str(node.this)
            try:
                return parse_exact(str(node.this))
            except BadRequest:
                raise BadQuery(f"{str(node.this)[:40]} is no number of ordinary size") from None
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Null):
            raise BadQuery("nothing equals NULL in SQL; write IS NULL or IS NOT NULL")
        raise UnsupportedQuery(node.sql(dialect="duckdb")[:60], "compare with a plain number, text or truth value")

    def _compare_values(self, column: Column, kind: type[exp.Expr], value: Literal) -> ValueSet:
        domain = ValueSet(column_domain(column).ranges)
        if column.kind is Kind.TEXT:
            return self._compare_text(column, kind, value, domain)
        if column.keys:
            return _compare_codes(column, kind, value, domain)
        if column.kind is Kind.BOOLEAN:
            if not isinstance(value, bool) or kind not in (exp.EQ, exp.NEQ):
                raise BadQuery(f"column {column.name} is boolean: compare it with = TRUE or = FALSE")
            return make_value_set([int(value) if kind is exp.EQ else int(not value)])
        if not isinstance(value, Fraction):
            raise BadQuery(f"column {column.name} is a number; {value!r} is not")
        return _compare_numbers(kind, value / column.step, domain)

    def _compare_text(self, column: Column, kind: type[exp.Expr], value: Literal, domain: ValueSet) -> ValueSet:
        if kind not in (exp.EQ, exp.NEQ):
            raise UnsupportedQuery(f"an order of the text column {column.name}", "use =, <> or IN")
        if not isinstance(value, str):
            raise BadQuery(f"column {column.name} is text; {value} is not: write it in single quotes")
        equal = make_value_set([_find_key(column, value)])
        return equal if kind is exp.EQ else equal.complement_in(domain)


def _find_key(column: Column, value: str | int) -> int:
    """Returns the position of a declared key."""
    if value not in column.keys:
        known = ", ".join(repr(key) for key in column.keys[:12])
        raise BadQuery(f"{value!r} is no declared key of {column.name}; declared are {known}")
    return column.keys.index(value)


def _compare_codes(column: Column, kind: type[exp.Expr], value: Literal, domain: ValueSet) -> ValueSet:
    """Returns the positions of the codes for which a comparison holds. What is none of the keys may be above or below,
    so codes have an order only where they are all that there is."""
    if isinstance(value, bool) or not isinstance(value, Fraction):
        raise BadQuery(f"column {column.name} holds whole numbers; {value!r} is none")
    if kind in (exp.EQ, exp.NEQ):
        number = int(value) if value.denominator == 1 else str(value)
        equal = make_value_set([_find_key(column, number)])
        return equal if kind is exp.EQ else equal.complement_in(domain)
    if not column.complete:
        raise UnsupportedQuery(f"an order of {column.name}", "its keys may not be all that there is: use =, <> or IN")
    low, high = int(min(column.keys)), int(max(column.keys))
    chosen = _compare_numbers(kind, value, ValueSet(((low, high),)))
    return make_value_set(position for position, key in enumerate(column.keys) if int(key) in chosen)


def _compare_numbers(kind: type[exp.Expr], bound: Fraction, domain: ValueSet) -> ValueSet:
    """Returns the steps of `domain` for which the comparison with `bound` holds (in steps, not always a whole one)."""
    ((low, high),) = domain.ranges
    if kind in (exp.EQ, exp.NEQ):
        equal = make_value_set([int(bound)] if bound.denominator == 1 else []) & domain
        return equal if kind is exp.EQ else equal.complement_in(domain)
    if kind in (exp.GT, exp.GTE):
        low = max(low, floor(bound) + 1 if kind is exp.GT else ceil(bound))
    else:
        high = min(high, ceil(bound) - 1 if kind is exp.LT else floor(bound))
    return ValueSet(((low, high),) if low <= high else ())
