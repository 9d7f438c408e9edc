"""Writes conditions that are spelled with tuples, arrays and times of day as those that are read here.

(a, b) IN ((1, 2)) is a = 1 AND b = 2; BETWEEN SYMMETRIC takes its ends in any order; LIKE ANY is several LIKEs. A time
of day is a number of seconds. Used by `queries.spellings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import reduce

from sqlglot import exp

from noisebank.core.errors import UnsupportedQuery

CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
MAX_ALTERNATIVES = 200
SHIFT_SECONDS = 86_400 * 1_000_000
"""Whole days from the first year to 1970, and more: the remainder of a negative number would be negative."""
TIMED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In)


def order_ends(node: exp.Expr) -> exp.Expr:
    """x BETWEEN SYMMETRIC a AND b is x BETWEEN a AND b OR x BETWEEN b AND a."""
    if not node.args.get("symmetric"):
        return compare_times(node)
    low, high = node.args["low"], node.args["high"]
    ways = [exp.Between(this=node.this.copy(), low=a.copy(), high=b.copy()) for a, b in ((low, high), (high, low))]
    return exp.paren(exp.or_(*map(compare_times, ways), copy=False), copy=False)


def split_tuples(node: exp.Expr) -> exp.Expr:
    """(a, b) IN ((1, 2), (3, 4)), and IN (VALUES (1), (2))."""
    items = [item for each in node.expressions for item in _list_values(each)]
    if isinstance(node.this.unnest(), exp.Tuple) and items:
        _refuse_many(items)
        return exp.paren(exp.or_(*(_equate(node.this, item) for item in items), copy=False), copy=False)
    if len(items) != len(node.expressions) or any(isinstance(each, exp.Values) for each in node.expressions):
        node = exp.In(this=node.this.copy(), expressions=[item.copy() for item in items])
    return compare_times(node)


def _refuse_many(items: Sequence[exp.Expr]) -> None:
    """Each of them becomes a condition, as if it were written out."""
    if len(items) > MAX_ALTERNATIVES:
        raise UnsupportedQuery(f"a list of {len(items)} tuples or patterns", f"write at most {MAX_ALTERNATIVES}")


def _list_values(node: exp.Expr) -> Iterable[exp.Expr]:
    if not isinstance(node, exp.Values):
        return [node]
    rows = [each.expressions if isinstance(each, exp.Tuple) else [each] for each in node.expressions]
    return [row[0] if len(row) == 1 else exp.Tuple(expressions=[each.copy() for each in row]) for row in rows]


def equate_tuples(node: exp.Expr) -> exp.Expr:
    """(a, b) = (1, 2)."""
    if isinstance(node.this.unnest(), exp.Tuple) and isinstance(node.expression.unnest(), exp.Tuple):
        return _equate(node.this, node.expression)
    return compare_times(node)


def _equate(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    sides = left.unnest().expressions, right.unnest().expressions
    if len(sides[0]) != len(sides[1]) or not sides[0]:
        text = str(left.sql(dialect="duckdb"))[:60]
        raise UnsupportedQuery(f"{text} beside another number of values", "compare it with as many values as it has")
    pairs = (exp.EQ(this=a.copy(), expression=b.copy()) for a, b in zip(*sides, strict=True))
    return exp.paren(exp.and_(*map(compare_times, pairs), copy=False), copy=False)


def differ_from_all(node: exp.Expr) -> exp.Expr:
    """x <> ALL(ARRAY[1, 2]) is x NOT IN (1, 2)."""
    all_of = node.expression
    if isinstance(all_of, exp.Anonymous) and str(all_of.this).upper() == "ALL" and len(all_of.expressions) == 1:
        array = all_of.expressions[0].unnest()
        if isinstance(array, exp.Array) and array.expressions:
            return exp.Not(this=exp.In(this=node.this.copy(), expressions=[each.copy() for each in array.expressions]))
    return compare_times(node)


def split_patterns(node: exp.Expr) -> exp.Expr:
    """x LIKE ANY(ARRAY['a%', 'b%']), and LIKE ALL."""
    chosen = node.expression
    if not isinstance(chosen, (exp.Any, exp.All)):
        return node
    array = chosen.this.unnest()
    if not isinstance(array, (exp.Array, exp.Tuple)) or not array.expressions:
        raise UnsupportedQuery(str(node.sql(dialect="duckdb"))[:60], "write the patterns: LIKE ANY(ARRAY['a%', 'b%'])")
    _refuse_many(array.expressions)
    negate = node.args.get("negate")  # a NOT LIKE ANY (...) is one NOT LIKE or another one
    ways = [type(node)(this=node.this.copy(), expression=each.copy(), negate=negate) for each in array.expressions]
    return exp.paren((exp.or_ if isinstance(chosen, exp.Any) else exp.and_)(*ways, copy=False), copy=False)


def compare_times(node: exp.Expr) -> exp.Expr:
    """moment::time >= '22:00' compares seconds of the day."""
    operands = [
        each for key in ("this", "expression", "low", "high") if isinstance(each := node.args.get(key), exp.Expr)
    ]
    operands += node.expressions
    clocks = [_is_clock(each) for each in operands]
    if not isinstance(node, TIMED) or not any(clocks):
        return node
    if not all(is_clock or _is_text(each) for each, is_clock in zip(operands, clocks, strict=True)):
        return node  # refused where casts are
    written = node.copy()
    for operand in [*written.iter_expressions()]:
        operand.replace(_count_seconds(operand))
    return written


def _is_clock(node: exp.Expr) -> bool:
    """Whether a node is the time of day of a column."""
    bare = node.unnest()
    return (
        isinstance(bare, exp.Cast)
        and bare.to.is_type(exp.DataType.Type.TIME)
        and bare.this.find(exp.Column) is not None
    )


def _is_text(node: exp.Expr) -> bool:
    """Whether a node is '22:00' or TIME '22:00'."""
    bare = node.unnest()
    literal = bare.this.unnest() if isinstance(bare, exp.Cast) else bare
    return isinstance(literal, exp.Literal) and literal.is_string


def _count_seconds(node: exp.Expr) -> exp.Expr:
    bare = node.unnest()
    if _is_clock(bare):
        seconds = exp.Extract(this=exp.var("epoch"), expression=bare.this.copy())
        positive = exp.Add(this=seconds, expression=exp.Literal.number(SHIFT_SECONDS))
        return exp.Mod(this=exp.paren(positive, copy=False), expression=exp.Literal.number(86_400))
    literal = bare.this.unnest() if isinstance(bare, exp.Cast) else bare
    match = CLOCK.fullmatch(literal.name) if isinstance(literal, exp.Literal) and literal.is_string else None
    hour, minute, second = (int(part or 0) for part in match.groups()) if match is not None else (99, 0, 0)
    if not (hour < 24 and minute < 60 and second < 60):
        raise UnsupportedQuery(f"{node.sql(dialect='duckdb')[:40]} as a time of day", "write '22:00'")
    return exp.Literal.number(reduce(lambda total, part: 60 * total + part, (hour, minute, second)))
