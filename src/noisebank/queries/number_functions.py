"""Parses functions of numbers in row expressions: GREATEST, CLAMP, ABS, ROUND, width_bucket, CAST and others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial, reduce
from typing import TYPE_CHECKING

from sqlglot import exp

from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.queries.polynomials import Polynomial, make_constant
from noisebank.queries.predicates import Predicate
from noisebank.queries.row_functions import bucket_number, map_values, round_down, round_half, round_up, round_zero
from noisebank.queries.row_values import Arm, RowExpression, StepFunction, Value, ValueType

if TYPE_CHECKING:
    from noisebank.queries.row_expressions import ExpressionParser

NUMBER, TEXT, TRUTH = ValueType.NUMBER, ValueType.TEXT, ValueType.TRUTH
WHOLE_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "UINT", "UBIGINT")
DECIMAL_TYPES = ("DOUBLE", "FLOAT", "DECIMAL")
CLOCK_TYPES = {
    "DATE": ValueType.DATE,
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"), ValueType.TIMESTAMP),
}
ROUNDINGS: dict[type[exp.Expr], Callable[[Fraction], Fraction]] = {
    exp.Floor: round_down, exp.Ceil: round_up, exp.Round: round_half, exp.Trunc: round_zero
}  # fmt: skip


def describe_node(node: exp.Expr) -> str:
    """Returns the beginning of a node's SQL, for messages."""
    return str(node.sql(dialect="duckdb"))[:60]


def parse_extreme(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """GREATEST and LEAST, which skip NULL."""
    sign = 1 if isinstance(node, exp.Greatest) else -1
    return reduce(
        partial(join_extremes, parser, sign), (parser.parse_number(part) for part in (node.this, *node.expressions))
    )


def join_extremes(parser: ExpressionParser, sign: int, left: RowExpression, right: RowExpression) -> RowExpression:
    """Returns the greater (sign 1) or the lesser (sign -1) of two numbers; NULL only where both are."""

    def join(where: Predicate, a: Value, b: Value) -> Iterator[Arm]:
        for first in parser.algebra.expand([Arm(where, a)]):
            for second in parser.algebra.expand([Arm(first.where, b)]):
                yield from _choose(parser, second.where, first.value, second.value, sign)

    return parser.algebra.make_expression(NUMBER, parser.algebra.combine(left, right, join, skips_null=True))


def _choose(parser: ExpressionParser, where: Predicate, a: Value, b: Value, sign: int) -> Iterable[Arm]:
    assert isinstance(a, Polynomial) and isinstance(b, Polynomial)
    difference = a.minus(b).scale_by(Fraction(sign))
    first, second = parser.algebra.at_least_zero(difference), parser.algebra.where_sign(difference, Fraction(-1))
    yield Arm(parser.builder.conjunction(where, first), a)
    yield Arm(parser.builder.conjunction(where, second), b)


def parse_clamp(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """CLAMP(number, lowest, highest)."""
    if len(node.expressions) != 3:
        raise BadQuery("CLAMP takes a number, its lowest and its highest value: CLAMP(income, 0, 100000)")
    value, low, high = (parser.parse_number(part) for part in node.expressions)
    if low.constant is None or high.constant is None or low.constant > high.constant:
        raise BadQuery("CLAMP takes two constants, the lower one first: CLAMP(income, 0, 100000)")
    missing = [arm for arm in value.arms if arm.value is None]
    present = RowExpression(NUMBER, tuple(arm for arm in value.arms if arm.value is not None))
    inside = join_extremes(parser, -1, join_extremes(parser, 1, present, low), high)
    return parser.algebra.make_expression(NUMBER, [*inside.arms, *missing])


def parse_absolute(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """ABS."""
    value = parser.parse_number(node.this)
    return _map_signs(parser, value, lambda part: part, lambda part: part.scale_by(Fraction(-1)))


def parse_sign(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """SIGN: -1, 0 or 1."""
    value = parser.parse_number(node.this)
    zero = _map_signs(parser, value, lambda _: make_constant(1), lambda _: make_constant(0))
    minus = _map_signs(parser,
        parser.join_numbers(parser.make_number(Fraction(-1)), value, Polynomial.times),
        lambda _: make_constant(1), lambda _: make_constant(0),
    )  # fmt: skip
    return parser.join_numbers(zero, minus, Polynomial.minus)


def _map_signs(
    parser: ExpressionParser,
    value: RowExpression,
    positive: Callable[[Polynomial], Polynomial],
    negative: Callable[[Polynomial], Polynomial],
) -> RowExpression:
    arms = []
    for arm in parser.algebra.expand(value.arms):
        if arm.value is None:
            arms.append(arm)
            continue
        assert isinstance(arm.value, Polynomial)
        first = parser.algebra.at_least_zero(arm.value)
        second = parser.algebra.where_sign(arm.value, Fraction(-1))
        arms.append(Arm(parser.builder.conjunction(arm.where, first), positive(arm.value)))
        arms.append(Arm(parser.builder.conjunction(arm.where, second), negative(arm.value)))
    return parser.algebra.make_expression(NUMBER, arms)


def parse_rounding(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """FLOOR, CEIL, ROUND and TRUNC."""
    function = ROUNDINGS[type(node)]
    places = node.args.get("decimals")
    digits = parser.parse_number(places).constant if places is not None else Fraction(0)
    if digits is None or digits.denominator != 1 or abs(digits) > 30:
        raise BadQuery(f"{describe_node(node)}: the number of decimal places is a whole number")
    return round_to(parser, parser.parse_number(node.this), function, Fraction(10) ** -int(digits))


def round_to(
    parser: ExpressionParser, value: RowExpression, function: Callable[[Fraction], Fraction], unit: Fraction
) -> RowExpression:
    """Returns a number rounded to multiples of a unit."""
    return map_values(parser.algebra, value, lambda number: function(number / unit) * unit, grid=unit)


def parse_bucket(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """width_bucket."""
    low, high, count = (
        parser.parse_number(node.args[name]).constant for name in ("min_value", "max_value", "num_buckets")
    )
    if low is None or high is None or low >= high or count is None or count.denominator != 1 or count < 1:
        raise BadQuery("width_bucket takes a number, constants low < high, and a number of buckets")
    return map_values(parser.algebra, parser.parse_number(node.this), partial(bucket_number, low, high, int(count)))


def parse_cast(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """CAST where it does not depend on the engine."""
    target, value = node.args["to"], parser.parse_expression(node.this)
    name = str(getattr(target.this, "value", target.this)).upper()
    if value.type is TRUTH and name in (*WHOLE_TYPES, *DECIMAL_TYPES):
        arms = [
            Arm(arm.where, arm.value if arm.value is None else make_constant(int(arm.value is True)))
            for arm in value.arms
        ]
        return parser.algebra.make_expression(NUMBER, arms)
    if value.type is NUMBER and name in (*WHOLE_TYPES, *DECIMAL_TYPES):
        places = [int(str(part.this.this)) for part in target.expressions][1:]
        unit = Fraction(10) ** -(places[0] if places else 0)
        if name in ("DOUBLE", "FLOAT") or (name == "DECIMAL" and not target.expressions):
            return value
        if not all(is_on_grid(arm.value, unit) for arm in value.arms):
            raise UnsupportedQuery(describe_node(node), "engines round in different ways: write ROUND, FLOOR or CEIL")
        return value
    if value.type is TEXT and name in WHOLE_TYPES:
        from noisebank.queries.key_functions import read_whole_numbers

        return read_whole_numbers(parser, value, node)
    if name in CLOCK_TYPES:
        return _cast_clock(parser, value, CLOCK_TYPES[name], node)
    if value.type is NUMBER and name in ("TEXT", "VARCHAR") and not target.expressions:
        from noisebank.queries.text_functions import write_text

        return write_text(parser, value, node)
    if (value.type, name) in ((TEXT, "TEXT"), (TEXT, "VARCHAR"), (TRUTH, "BOOLEAN")):
        return value
    raise UnsupportedQuery(describe_node(node), "CAST turns truth values and numbers into numbers")


def is_on_grid(value: Value, unit: Fraction) -> bool:
    """Whether every value is a multiple of `unit`."""
    if isinstance(value, Polynomial):
        return all((coefficient / unit).denominator == 1 for _, coefficient in value.terms)
    return not isinstance(value, StepFunction) or all((level / unit).denominator == 1 for level, _ in value.levels)


def _cast_clock(parser: ExpressionParser, value: RowExpression, kind: ValueType, node: exp.Expr) -> RowExpression:
    """Returns a literal as a date or timestamp, or one of them as the other."""
    from noisebank.queries.dates import parse_date_texts, truncate_dates

    if value.type is TEXT:
        value = parse_date_texts(value)
    if kind is ValueType.DATE:
        return truncate_dates(parser, "day", value, describe_node(node))
    if value.type not in (ValueType.DATE, ValueType.TIMESTAMP):
        raise BadQuery(f"{describe_node(node)} needs a date, not {value.type.value}")
    return RowExpression(ValueType.TIMESTAMP, value.arms)


FUNCTIONS: dict[type[exp.Expr], Callable[[ExpressionParser, exp.Expr], RowExpression]] = {
    **dict.fromkeys((exp.Floor, exp.Ceil, exp.Round, exp.Trunc), parse_rounding),
    **dict.fromkeys((exp.Greatest, exp.Least), parse_extreme),
    **dict.fromkeys((exp.Cast, exp.TryCast), parse_cast),
    exp.Abs: parse_absolute,
    exp.Sign: parse_sign,
    exp.WidthBucket: parse_bucket,
}
