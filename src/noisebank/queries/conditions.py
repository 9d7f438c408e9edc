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
from noisebank.core.units import exact
from noisebank.policy.model import Column, Kind
from noisebank.queries.predicates import FALSE, TRUE, Diagrams, Predicate
from noisebank.queries.values import Values, domain_of, values_of

Literal = Fraction | str | bool

FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ, exp.NEQ: exp.NEQ
}  # fmt: skip


def column_named(node: exp.Column, columns: Mapping[str, Column]) -> Column:
    """Returns the declared column that `node` names, ignoring case as SQL does."""
    for name, column in columns.items():
        if name.lower() == node.name.lower():
            return column
    raise BadQuery(f"there is no column {node.name}; declared are {', '.join(sorted(columns))}")


class Conditions:
    """Parses conditions over one policy's columns into predicates."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = columns
        self.diagrams = Diagrams(columns)

    def predicate(self, node: exp.Expr, negated: bool = False) -> Predicate:
        """Returns the predicate of the rows for which the condition (or its SQL negation) is true."""
        if isinstance(node, exp.Paren):
            return self.predicate(node.this, negated)
        if isinstance(node, exp.Not):
            return self.predicate(node.this, not negated)
        if isinstance(node, (exp.And, exp.Or)):
            left, right = self.predicate(node.left, negated), self.predicate(node.right, negated)
            join = self.diagrams.both if isinstance(node, exp.And) is not negated else self.diagrams.either
            return join(left, right)
        if isinstance(node, exp.Boolean):
            return TRUE if bool(node.this) is not negated else FALSE
        column, values = self._comparison(node)
        if negated:
            values = self._negation(node, column, values)
        return self.diagrams.among(column.name, values)

    def certain(self, node: exp.Expr) -> bool:
        """Whether the condition is true or false for every row, never unknown."""
        return self.diagrams.either(self.predicate(node), self.predicate(node, negated=True)) is TRUE

    def present(self, column: Column) -> Predicate:
        """Returns the predicate of the rows in which `column` is not missing."""
        if not column.nullable:
            return TRUE
        return self.diagrams.among(column.name, Values(domain_of(column).runs))

    def columns_in(self, node: exp.Expr) -> set[str]:
        """Returns the declared names of all columns in a condition."""
        return {column_named(column, self.columns).name for column in node.find_all(exp.Column)}

    def _negation(self, node: exp.Expr, column: Column, values: Values) -> Values:
        domain = domain_of(column)
        if isinstance(node, exp.Is):  # IS NULL is never unknown
            return values.outside(domain)
        return Values(values.outside(domain).runs)  # a comparison with a missing value stays unknown

    def _comparison(self, node: exp.Expr) -> tuple[Column, Values]:
        """Returns the column and the values for which a single comparison is true."""
        if isinstance(node, exp.Column):
            column = column_named(node, self.columns)
            if column.kind is not Kind.BOOLEAN:
                raise BadQuery(f"column {column.name} is {column.kind.value}, not a condition: compare it")
            return column, values_of([1])
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, exp.Between):
            if node.args.get("symmetric"):
                raise UnsupportedQuery("BETWEEN SYMMETRIC", "write the lower value first: BETWEEN 1 AND 5")
            column = self._column(node.this)
            low = self._compared(column, exp.GTE, self._literal(node.args["low"]))
            high = self._compared(column, exp.LTE, self._literal(node.args["high"]))
            return column, low & high
        if isinstance(node, exp.In):
            if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
                raise UnsupportedQuery("IN over a query", "write the values: IN (1, 2, 3)")
            column = self._column(node.this)
            listed = Values(())
            for item in node.expressions:
                listed = listed | self._compared(column, exp.EQ, self._literal(item))
            return column, listed
        for kind, flipped in FLIPPED.items():
            if type(node) is kind:
                left, right = node.this.unnest(), node.expression.unnest()
                if isinstance(left, exp.Column):
                    column = self._column(left)
                    return column, self._compared(column, kind, self._literal(right))
                if isinstance(right, exp.Column):
                    column = self._column(right)
                    return column, self._compared(column, flipped, self._literal(left))
        raise UnsupportedQuery(
            node.sql(dialect="duckdb")[:60],
            "a condition compares a column with a value: =, <>, <, <=, >, >=, IN, BETWEEN, IS NULL",
        )

    def _is(self, node: exp.Is) -> tuple[Column, Values]:
        column = self._column(node.this)
        domain = domain_of(column)
        if isinstance(node.expression, exp.Null):
            return column, Values((), domain.null)
        if isinstance(node.expression, exp.Boolean) and column.kind is Kind.BOOLEAN:
            return column, values_of([1 if node.expression.this else 0])
        raise UnsupportedQuery(node.sql(dialect="duckdb")[:60], "IS takes NULL, or TRUE and FALSE for a boolean column")

    def _column(self, node: exp.Expr) -> Column:
        if isinstance(node, exp.Paren):
            return self._column(node.this)
        if not isinstance(node, exp.Column):
            raise UnsupportedQuery(
                node.sql(dialect="duckdb")[:60], "a condition compares a declared column with a value"
            )
        return column_named(node, self.columns)

    def _literal(self, node: exp.Expr) -> Literal:
        if isinstance(node, exp.Paren):
            return self._literal(node.this)
        if isinstance(node, exp.Neg):
            value = self._literal(node.this)
            if isinstance(value, Fraction):
                return -value
        if isinstance(node, exp.Literal):
            if node.is_string:
                return str(node.this)
            try:
                return exact(str(node.this))
            except BadRequest:
                raise BadQuery(f"{str(node.this)[:40]} is no number of ordinary size") from None
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Null):
            raise BadQuery("nothing equals NULL in SQL; write IS NULL or IS NOT NULL")
        raise UnsupportedQuery(node.sql(dialect="duckdb")[:60], "compare with a plain number, text or truth value")

    def _compared(self, column: Column, kind: type[exp.Expr], value: Literal) -> Values:
        domain = Values(domain_of(column).runs)
        if column.kind is Kind.TEXT:
            return self._text(column, kind, value, domain)
        if column.kind is Kind.BOOLEAN:
            if not isinstance(value, bool) or kind not in (exp.EQ, exp.NEQ):
                raise BadQuery(f"column {column.name} is boolean: compare it with = TRUE or = FALSE")
            return values_of([int(value) if kind is exp.EQ else int(not value)])
        if not isinstance(value, Fraction):
            raise BadQuery(f"column {column.name} is a number; {value!r} is not")
        return _numbers(kind, value / column.step, domain)

    def _text(self, column: Column, kind: type[exp.Expr], value: Literal, domain: Values) -> Values:
        if kind not in (exp.EQ, exp.NEQ):
            raise UnsupportedQuery(f"an order of the text column {column.name}", "use =, <> or IN")
        if not isinstance(value, str):
            raise BadQuery(f"column {column.name} is text; {value} is not: write it in single quotes")
        if value not in column.keys:
            known = ", ".join(repr(key) for key in column.keys[:12])
            raise BadQuery(f"{value!r} is no declared key of {column.name}; declared are {known}")
        equal = values_of([column.keys.index(value)])
        return equal if kind is exp.EQ else equal.outside(domain)


def _numbers(kind: type[exp.Expr], bound: Fraction, domain: Values) -> Values:
    """Returns the steps of `domain` for which the comparison with `bound` holds (in steps, not always a whole one)."""
    ((low, high),) = domain.runs
    if kind in (exp.EQ, exp.NEQ):
        equal = values_of([int(bound)] if bound.denominator == 1 else []) & domain
        return equal if kind is exp.EQ else equal.outside(domain)
    if kind in (exp.GT, exp.GTE):
        low = max(low, floor(bound) + 1 if kind is exp.GT else ceil(bound))
    else:
        high = min(high, ceil(bound) - 1 if kind is exp.LT else floor(bound))
    return Values(((low, high),) if low <= high else ())
