"""Parses the conditions of WHERE, FILTER and AVG(...) into predicates, with SQL's three-valued logic.

`NOT` is pushed down to the comparisons first. After that the formula is monotone, so a row is
selected exactly when it holds with "unknown" read as false; and every comparison has become the
set of values for which it is *true*.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import reduce
from math import ceil, floor

from sqlglot import exp

from noisebank.core.errors import BadQuery, BadRequest, UnsupportedQuery
from noisebank.core.units import parse_exact
from noisebank.policy.model import Column, Kind
from noisebank.queries.comparisons import compare_expressions, find_key, find_members
from noisebank.queries.dates import parse_date_texts
from noisebank.queries.key_functions import match_texts
from noisebank.queries.patterns import PATTERNS, read_pattern
from noisebank.queries.predicates import FALSE, TRUE, Predicate, PredicateBuilder
from noisebank.queries.row_expressions import ExpressionParser
from noisebank.queries.row_values import RowAlgebra, RowExpression, ValueType
from noisebank.queries.values import ValueSet, column_domain, join_ranges, make_value_set

Literal = Fraction | str | bool
SUPPORTED_CONDITIONS = (
    "a condition compares columns and row expressions with values: =, <>, <, <=, >, >=, IN, BETWEEN, LIKE, IS NULL"
)

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
        self.expressions = self._make_expressions(TRUE)
        self._computed: dict[int, tuple[exp.Expr, tuple[Predicate, Predicate]]] = {}

    def _make_expressions(self, within: Predicate) -> ExpressionParser:
        return ExpressionParser(
            RowAlgebra(self.builder, within), lambda node: find_column(node, self.columns), self.parse_outcomes
        )

    def look_within(self, where: Predicate) -> None:
        """Says that only these rows matter from now on, so that functions of many values are read where they count."""
        self.expressions = self._make_expressions(where)
        self._computed.clear()

    def parse_outcomes(self, node: exp.Expr) -> tuple[Predicate, Predicate]:
        """Returns the rows for which a condition is true, and those for which it is false."""
        return self.parse_condition(node), self.parse_condition(node, negated=True)

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
        if not self._is_plain(node):
            known = self._computed.get(id(node))
            if known is None:  # each once, however deeply conditions and CASE are nested
                known = self._computed[id(node)] = node, self._parse_computed(node)
            return known[1][1 if negated else 0]
        if isinstance(node, PATTERNS) and node.args.get("negate"):
            negated = not negated
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

    def _is_plain(self, node: exp.Expr) -> bool:
        """Whether a condition compares one column, which is no date, with constants, as it stands."""
        if isinstance(node, exp.Column):
            return True
        sides = (node.this, node.args.get("expression")) if not isinstance(node, exp.Is) else ()
        if any(isinstance(side, exp.Expr) and self._is_date(side) for side in sides):
            return False
        if isinstance(node, (exp.Between, exp.In)):
            operands = [node.this, *(node.expressions or [node.args.get("low"), node.args.get("high")])]
            return all(_is_leaf(part) for part in operands if part is not None) and _is_column(node.this)
        if isinstance(node, (exp.Is, *PATTERNS)):
            return _is_column(node.this)
        if type(node) in MIRRORED_OPERATORS:
            leaves = _is_leaf(node.this) and _is_leaf(node.expression)
            return leaves and _is_column(node.this) is not _is_column(node.expression)
        return False

    def _is_date(self, node: exp.Expr) -> bool:
        bare = node.unnest()
        return isinstance(bare, exp.Column) and find_column(bare, self.columns).is_date

    def _parse_computed(self, node: exp.Expr) -> tuple[Predicate, Predicate]:
        """Returns the outcomes of a condition on row expressions."""
        if isinstance(node, exp.Between):
            if node.args.get("symmetric"):
                raise UnsupportedQuery("BETWEEN SYMMETRIC", "write the lower value first: BETWEEN 1 AND 5")
            low = self._compare(node, exp.GTE, node.this, node.args["low"])
            high = self._compare(node, exp.LTE, node.this, node.args["high"])
            return self.builder.conjunction(low[0], high[0]), self.builder.disjunction(low[1], high[1])
        if isinstance(node, exp.In):
            _refuse_subquery(node)
            members = self._find_members(node)
            if members is not None:
                return members
            true, false = FALSE, TRUE
            for item in node.expressions:
                outcome = self._compare(node, exp.EQ, node.this, item)
                true = self.builder.disjunction(true, outcome[0])
                false = self.builder.conjunction(false, outcome[1])
            return true, false
        if isinstance(node, exp.Is):
            return self._parse_computed_is(node)
        if isinstance(node, PATTERNS):
            return match_texts(self.expressions, node)
        if type(node) in MIRRORED_OPERATORS:
            return self._compare(node, type(node), node.this, node.expression)
        if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
            return self._parse_distinct(node)
        if isinstance(node, (exp.Case, exp.If, exp.Coalesce, exp.Cast, exp.Nullif)):
            expression = self.expressions.parse_expression(node)
            if expression.type is not ValueType.TRUTH:
                raise BadQuery(f"{_sql(node)} is {expression.type.value}, not a condition: compare it")
            return self._gather(expression, True), self._gather(expression, False)
        raise UnsupportedQuery(_sql(node), SUPPORTED_CONDITIONS)

    def _find_members(self, node: exp.In) -> tuple[Predicate, Predicate] | None:
        """Returns the outcomes of IN where a number or date is compared with constants; None where it is not."""
        items = [self.expressions.parse_expression(item) for item in node.expressions]
        value = self.expressions.parse_expression(node.this)
        if value.type in (ValueType.DATE, ValueType.TIMESTAMP):
            items = [parse_date_texts(item) if item.type is ValueType.TEXT else item for item in items]
            fits = all(item.type in (ValueType.DATE, ValueType.TIMESTAMP) for item in items)
        else:
            fits = value.type is ValueType.NUMBER and all(item.type is ValueType.NUMBER for item in items)
        members = {item.constant for item in items if item.constant is not None} if fits else set()
        if not fits or any(item.constant is None for item in items):
            return None
        return find_members(self.expressions.algebra, value, members)

    def _parse_computed_is(self, node: exp.Is) -> tuple[Predicate, Predicate]:
        """IS is never unknown."""
        expression = self.expressions.parse_expression(node.this)
        if isinstance(node.expression, exp.Null):
            value: bool | None = None
        elif isinstance(node.expression, exp.Boolean) and expression.type is ValueType.TRUTH:
            value = bool(node.expression.this)
        else:
            raise UnsupportedQuery(_sql(node), "IS takes NULL, or TRUE and FALSE for a condition")
        true = self._gather(expression, value)
        return true, self.builder.negation(true)

    def _parse_distinct(self, node: exp.NullSafeEQ | exp.NullSafeNEQ) -> tuple[Predicate, Predicate]:
        """IS DISTINCT FROM takes NULL for a value: it is never unknown."""
        equal, _ = self._compare(node, exp.EQ, node.this, node.expression)
        missing = [self._gather(self.expressions.parse_expression(side), None) for side in (node.this, node.expression)]
        same = self.builder.disjunction(equal, self.builder.conjunction(*missing))
        different = self.builder.negation(same)
        return (same, different) if isinstance(node, exp.NullSafeEQ) else (different, same)

    def _gather(self, expression: RowExpression, value: bool | None) -> Predicate:
        """Returns the rows in which an expression has this truth value, or is NULL."""
        chosen = (arm.where for arm in expression.arms if arm.value is value)
        return reduce(self.builder.disjunction, chosen, FALSE)

    def _compare(
        self, node: exp.Expr, operator: type[exp.Expr], left: exp.Expr, right: exp.Expr
    ) -> tuple[Predicate, Predicate]:
        a, b = (self.expressions.parse_expression(side) for side in (left, right))
        return compare_expressions(self.expressions.algebra, self.columns, operator, a, b, _sql(node))

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
            _refuse_subquery(node)
            column = self._parse_column(node.this)
            values = (self._compare_values(column, exp.EQ, self._parse_literal(item)) for item in node.expressions)
            return column, join_ranges(piece for listed in values for piece in listed.ranges)
        if isinstance(node, PATTERNS):
            return self._parse_pattern(node)
        for kind, flipped in MIRRORED_OPERATORS.items():
            if type(node) is kind:
                left, right = node.this.unnest(), node.expression.unnest()
                if isinstance(left, exp.Column):
                    column = self._parse_column(left)
                    return column, self._compare_values(column, kind, self._parse_literal(right))
                if isinstance(right, exp.Column):
                    column = self._parse_column(right)
                    return column, self._compare_values(column, flipped, self._parse_literal(left))
        raise UnsupportedQuery(_sql(node), SUPPORTED_CONDITIONS)

    def _parse_pattern(self, node: exp.Expr) -> tuple[Column, ValueSet]:
        """LIKE on declared keys is a set of keys. A value that is none of them is not known, and so not like it."""
        column = self._parse_column(node.this)
        if column.kind is not Kind.TEXT:
            raise BadQuery(f"column {column.name} is {column.kind.value}, not text: LIKE needs declared keys")
        matches = read_pattern(node)(column.key_names)
        column_domain(column)  # refuses a column without keys
        return column, make_value_set(number for number, is_match in enumerate(matches) if is_match)

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
            value = bool(value) if not isinstance(value, str) and value in (0, 1) else value
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
        equal = find_key(column, value)
        return equal if kind is exp.EQ else equal.complement_in(domain)


def _is_column(node: exp.Expr) -> bool:
    return isinstance(node.unnest(), exp.Column)


def _is_leaf(node: exp.Expr) -> bool:
    bare = node.unnest()
    while isinstance(bare, exp.Neg):
        bare = bare.this.unnest()
    return isinstance(bare, (exp.Column, exp.Literal, exp.Boolean, exp.Null))


def _refuse_subquery(node: exp.In) -> None:
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
        raise UnsupportedQuery("IN over a query", "write the values: IN (1, 2, 3)")


def _sql(node: exp.Expr) -> str:
    return str(node.sql(dialect="duckdb"))[:60]


def _compare_codes(column: Column, kind: type[exp.Expr], value: Literal, domain: ValueSet) -> ValueSet:
    """Returns the positions of the codes for which a comparison holds. What is none of the keys may be above or below,
    so codes have an order only where they are all that there is."""
    if isinstance(value, bool) or not isinstance(value, Fraction):
        raise BadQuery(f"column {column.name} holds whole numbers; {value!r} is none")
    if kind in (exp.EQ, exp.NEQ):
        number = int(value) if value.denominator == 1 else str(value)
        equal = find_key(column, number)
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
