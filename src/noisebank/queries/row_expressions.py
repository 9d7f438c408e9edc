"""Parses row expressions (arithmetic, CASE, COALESCE, ABS, FLOOR, ...) into arms of exact values, with SQL's NULL.

Nothing is left that could fail on a value: a division is by constants, a result has bounds that follow from the
policy, and the engine works out integers only. GREATEST and LEAST skip NULL, as in PostgreSQL and DuckDB; everything
else is NULL where an argument is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import reduce
from itertools import chain

from sqlglot import exp

from noisebank.core.errors import BadQuery, BadRequest, UnsupportedQuery
from noisebank.core.units import parse_exact
from noisebank.policy.model import Column, Kind
from noisebank.queries.date_functions import DATE_FUNCTIONS, parse_date_part, refuse_age, refuse_moving
from noisebank.queries.dates import is_date_expression, join_dates, shift_by_interval
from noisebank.queries.key_functions import KEY_FUNCTIONS, parse_both_trim, parse_initcap
from noisebank.queries.number_functions import FUNCTIONS, describe_node, parse_clamp
from noisebank.queries.patterns import PATTERNS
from noisebank.queries.polynomials import Polynomial, make_constant, make_polynomial
from noisebank.queries.predicates import FALSE, TRUE, Predicate
from noisebank.queries.row_functions import map_values, round_zero, take_remainder
from noisebank.queries.row_values import Arm, RowAlgebra, RowExpression, StepFunction, TextColumn, Value, ValueType
from noisebank.queries.text_functions import TEXT_FUNCTIONS
from noisebank.queries.values import ValueSet, make_value_set

Outcomes = tuple[Predicate, Predicate]
"""The rows for which a condition is true, and those for which it is false; for all others it is unknown."""
NUMBER, TEXT, TRUTH = ValueType.NUMBER, ValueType.TEXT, ValueType.TRUTH
CONDITIONS = (
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Is,
    exp.Boolean, exp.NullSafeEQ, exp.NullSafeNEQ, *PATTERNS,
)  # fmt: skip
SUPPORTED_FUNCTIONS = (
    "of single rows, use +, -, *, / by constants, CASE, COALESCE, NULLIF, ABS, SIGN, GREATEST, LEAST, CLAMP, FLOOR, "
    "CEIL, ROUND, MOD, POWER, width_bucket, UPPER, LEFT, SUBSTRING, SPLIT_PART, REPLACE, DATE_TRUNC, EXTRACT and "
    "STRFTIME"
)


class ExpressionParser:
    """Parses the row expressions of one SELECT. `parse_outcomes` parses conditions inside of them."""

    def __init__(
        self,
        algebra: RowAlgebra,
        find_column: Callable[[exp.Column], Column],
        parse_outcomes: Callable[[exp.Expr], Outcomes],
    ) -> None:
        self.algebra, self.find_column, self.parse_outcomes = algebra, find_column, parse_outcomes
        self.builder = algebra.builder

    def parse_expression(self, node: exp.Expr) -> RowExpression:
        """Returns a row expression; raises `UnsupportedQuery`, which names what is not answered."""
        node = node.unnest()
        if isinstance(node, exp.Column):
            return self._read_column(self.find_column(node))
        if isinstance(node, exp.Literal):
            return self._constant(TEXT, str(node.this)) if node.is_string else self.make_number(_parse_number(node))
        if isinstance(node, exp.Null):
            return self._constant(ValueType.NOTHING, None)
        if isinstance(node, CONDITIONS):
            return self._truth(self.parse_outcomes(node))
        parse = PARSERS.get(type(node))
        if parse is not None:
            return parse(self, node)
        named = NAMED_FUNCTIONS.get(str(node.this).lower()) if isinstance(node, exp.Anonymous) else None
        if named is not None:
            return named(self, node)
        raise UnsupportedQuery(_name_node(node), SUPPORTED_FUNCTIONS)

    def parse_number(self, node: exp.Expr) -> RowExpression:
        """Returns an expression that is a number."""
        return self._require_number(self.parse_expression(node), node)

    def _require_number(self, expression: RowExpression, node: exp.Expr) -> RowExpression:
        if expression.type not in (NUMBER, ValueType.NOTHING):
            bare = node.unnest()
            if isinstance(bare, exp.Column):
                column = self.find_column(bare)
                raise BadQuery(f"column {column.name} is {column.kind.value}, not a number")
            hint = ": write CAST(... AS INT), or use COUNT_IF" if expression.type is TRUTH else ""
            raise BadQuery(f"{describe_node(node)} is {expression.type.value}, not a number{hint}")
        return expression

    # -- leaves ------------------------------------------------------------------------------------

    def _read_column(self, column: Column) -> RowExpression:
        values: list[Arm] = []
        if column.kind is Kind.BOOLEAN:
            yes = self.builder.in_values(column.name, ValueSet(((1, 1),)))
            return self._truth((yes, self.builder.conjunction(self.builder.negation(yes), self._present(column))))
        if column.kind is Kind.TEXT:
            kind: ValueType = TEXT
            values = [Arm(self._present(column), TextColumn(column.name))]
        elif column.is_date:
            kind = ValueType.DATE if column.kind is Kind.DATE else ValueType.TIMESTAMP
            values = [Arm(self._present(column), make_polynomial([((column.name,), column.step_days)]))]
        elif column.is_keyed:
            kind, values = NUMBER, [Arm(self._present(column), _codes(column))]
        else:
            kind = NUMBER
            values = [Arm(self._present(column), make_polynomial([((column.name,), column.step)]))]
        return self.algebra.make_expression(kind, [*values, self._missing(column)])

    def _present(self, column: Column) -> Predicate:
        domain = self.builder.domain_of(column.name)
        return self.builder.in_values(column.name, ValueSet(domain.ranges)) if column.nullable else TRUE

    def _missing(self, column: Column) -> Arm:
        return Arm(self.builder.negation(self._present(column)), None)

    def _constant(self, kind: ValueType, value: Value) -> RowExpression:
        return RowExpression(kind, (Arm(TRUE, value),))

    def make_number(self, value: Fraction) -> RowExpression:
        """Returns a constant."""
        return self._constant(NUMBER, make_constant(value))

    def _truth(self, outcomes: Outcomes) -> RowExpression:
        true, false = outcomes
        unknown = self.builder.negation(self.builder.disjunction(true, false))
        return self.algebra.make_expression(TRUTH, [Arm(true, True), Arm(false, False), Arm(unknown, None)])

    # -- arithmetic --------------------------------------------------------------------------------

    def _parse_arithmetic(self, node: exp.Expr) -> RowExpression:
        interval = node.expression.unnest()
        if isinstance(interval, exp.Interval) and isinstance(node, (exp.Add, exp.Sub)):
            return shift_by_interval(self, node, self.parse_expression(node.this), interval)
        left, right = self.parse_expression(node.this), self.parse_expression(node.expression)
        if isinstance(node, (exp.Add, exp.Sub)) and (is_date_expression(left) or is_date_expression(right)):
            return join_dates(self, node, left, right)
        left, right = self._require_number(left, node.this), self._require_number(right, node.expression)
        if isinstance(node, exp.Div):
            return self._divide(left, right)
        operators: dict[type[exp.Expr], Callable[[Polynomial, Polynomial], Polynomial]] = {
            exp.Add: Polynomial.plus, exp.Sub: Polynomial.minus, exp.Mul: Polynomial.times,
        }  # fmt: skip
        return self.join_numbers(left, right, operators[type(node)])

    def join_numbers(
        self, left: RowExpression, right: RowExpression, operator: Callable[[Polynomial, Polynomial], Polynomial]
    ) -> RowExpression:
        """Returns a function of two numbers that polynomials are closed under."""

        def join(where: Predicate, a: Value, b: Value) -> Iterator[Arm]:
            if isinstance(a, StepFunction) and isinstance(b, Polynomial) and b.is_constant:
                yield Arm(where, a.map_values(lambda value: operator(make_constant(value), b).constant))
            elif isinstance(b, StepFunction) and isinstance(a, Polynomial) and a.is_constant:
                yield Arm(where, b.map_values(lambda value: operator(a, make_constant(value)).constant))
            else:
                for first in self.algebra.expand([Arm(where, a)]):
                    for second in self.algebra.expand([Arm(first.where, b)]):
                        assert isinstance(first.value, Polynomial) and isinstance(second.value, Polynomial)
                        yield Arm(second.where, operator(first.value, second.value))

        return self.algebra.make_expression(NUMBER, self.algebra.combine(left, right, join))

    def _divide(self, left: RowExpression, right: RowExpression) -> RowExpression:
        inverse = []
        for arm in self.algebra.expand(right.arms):
            if isinstance(arm.value, Polynomial):
                if not arm.value.is_constant:
                    raise UnsupportedQuery("a division by a column", "divide by constants, or one aggregate by another")
                if not arm.value.constant:
                    if self.builder.conjunction(arm.where, self.algebra.within) is FALSE:
                        continue
                    raise BadQuery("this divides by zero")
                inverse.append(Arm(arm.where, make_constant(1 / arm.value.constant)))
            else:
                inverse.append(arm)
        divisors = self.algebra.make_expression(NUMBER, inverse)
        return self.join_numbers(left, divisors, Polynomial.times)

    def _parse_negative(self, node: exp.Expr) -> RowExpression:
        return self.join_numbers(self.make_number(Fraction(-1)), self.parse_number(node.this), Polynomial.times)

    def _parse_power(self, node: exp.Expr) -> RowExpression:
        exponent = self.parse_number(node.expression).constant
        if exponent not in (1, 2, 3, 4):
            raise UnsupportedQuery(describe_node(node), "POWER takes 1, 2, 3 or 4 as its exponent")
        base = self.parse_number(node.this)
        return reduce(lambda a, b: self.join_numbers(a, b, Polynomial.times), [base] * int(exponent))

    def _parse_integer_division(self, node: exp.Expr) -> RowExpression:
        quotient = self._divide(self.parse_number(node.this), self.parse_number(node.expression))
        return map_values(self.algebra, quotient, round_zero, grid=Fraction(1))

    def _parse_remainder(self, node: exp.Expr) -> RowExpression:
        modulus = self.parse_number(node.expression).constant
        if modulus is None:
            raise UnsupportedQuery("MOD by a column", "use a constant")
        if not modulus:
            raise BadQuery("this divides by zero")
        return take_remainder(self.algebra, self.parse_number(node.this), modulus)

    # -- CASE and its relatives --------------------------------------------------------------------

    def _parse_case(self, node: exp.Expr) -> RowExpression:
        branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        subject, default = node.this if isinstance(node, exp.Case) else None, node.args.get("default")
        if isinstance(node, exp.If):
            default = node.args.get("false")
        results: list[tuple[Predicate, RowExpression]] = []
        rest = TRUE
        for branch in branches:
            condition = exp.EQ(this=subject.copy(), expression=branch.this.copy()) if subject else branch.this
            true, _ = self.parse_outcomes(condition)
            taken = self.builder.conjunction(rest, true)
            results.append((taken, self.parse_expression(branch.args["true"])))
            rest = self.builder.conjunction(rest, self.builder.negation(true))
        results.append((rest, self.parse_expression(default) if default else self._constant(ValueType.NOTHING, None)))
        return self._join_results(results, node)

    def _join_results(self, results: list[tuple[Predicate, RowExpression]], node: exp.Expr) -> RowExpression:
        kind = _common_type([expression.type for _, expression in results], node)
        return self.algebra.make_expression(
            kind, chain.from_iterable(self.algebra.restrict(expression, where) for where, expression in results)
        )

    def _parse_coalesce(self, node: exp.Expr) -> RowExpression:
        rest, results = TRUE, []
        for argument in (node.this, *node.expressions):
            expression = self.parse_expression(argument)
            results.append((rest, expression))
            missing = reduce(
                self.builder.disjunction, (arm.where for arm in expression.arms if arm.value is None), FALSE
            )
            rest = self.builder.conjunction(rest, missing)
        kind = _common_type([expression.type for _, expression in results], node)
        arms = [arm for where, part in results for arm in self.algebra.restrict(part, where) if arm.value is not None]
        return self.algebra.make_expression(kind, [*arms, Arm(rest, None)])

    def _parse_nullif(self, node: exp.Expr) -> RowExpression:
        true, _ = self.parse_outcomes(exp.EQ(this=node.this.copy(), expression=node.expression.copy()))
        kept = self.parse_expression(node.this)
        arms = self.algebra.restrict(kept, self.builder.negation(true))
        return self.algebra.make_expression(kept.type, [*arms, Arm(true, None)])


PARSERS: dict[type[exp.Expr], Callable[[ExpressionParser, exp.Expr], RowExpression]] = {
    **FUNCTIONS,
    **DATE_FUNCTIONS,
    **TEXT_FUNCTIONS,
    **KEY_FUNCTIONS,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div), ExpressionParser._parse_arithmetic),
    **dict.fromkeys((exp.Case, exp.If), ExpressionParser._parse_case),
    exp.Neg: ExpressionParser._parse_negative,
    exp.Pow: ExpressionParser._parse_power,
    exp.IntDiv: ExpressionParser._parse_integer_division,
    exp.Mod: ExpressionParser._parse_remainder,
    exp.Coalesce: ExpressionParser._parse_coalesce,
    exp.Nullif: ExpressionParser._parse_nullif,
}

NAMED_FUNCTIONS: dict[str, Callable[[ExpressionParser, exp.Expr], RowExpression]] = {
    "clamp": parse_clamp,
    "date_part": parse_date_part,
    "age": refuse_age,
    "btrim": parse_both_trim,
    "initcap": parse_initcap,
    **dict.fromkeys(("now", "today", "getdate"), refuse_moving),
}


def _common_type(kinds: Iterable[ValueType], node: exp.Expr) -> ValueType:
    different = {kind for kind in kinds if kind is not ValueType.NOTHING}
    if different == {ValueType.DATE, ValueType.TIMESTAMP}:
        return ValueType.TIMESTAMP
    if len(different) > 1:
        names = " and ".join(sorted(kind.value for kind in different))
        raise BadQuery(f"{describe_node(node)} is {names}: all of its results must be of one type")
    return different.pop() if different else ValueType.NOTHING


def _codes(column: Column) -> StepFunction:
    """Returns the codes of an integer column with keys, as numbers."""
    if not column.complete:
        raise UnsupportedQuery(
            f"an expression of {column.name}", "its keys may not be all that there is: use =, <> or IN"
        )
    levels = ((Fraction(key), make_value_set([position])) for position, key in enumerate(column.keys))
    return StepFunction(column.name, tuple(levels))


def _parse_number(node: exp.Literal) -> Fraction:
    try:
        return parse_exact(str(node.this))
    except BadRequest:
        raise BadQuery(f"{str(node.this)[:40]} is no number of ordinary size") from None


def _name_node(node: exp.Expr) -> str:
    if isinstance(node, (exp.AggFunc, exp.Filter)):
        return f"{describe_node(node)} inside of a row expression"
    return f"the row function {describe_node(node)}"
