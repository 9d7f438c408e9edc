"""Writes what one database spells in its own way as the SQL that is read here, before anything else sees it.

What means the same becomes the same syntax tree, so it is the same question: REGR_COUNT is a COUNT, DATEADD adds an
interval, TO_CHAR is STRFTIME. Used by `queries.sql`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.queries.condition_spellings import (
    compare_times,
    differ_from_all,
    equate_tuples,
    order_ends,
    split_patterns,
    split_tuples,
)

SCHEMAS = ("public", "main", "dbo")
"""Where databases put tables unless they are told otherwise."""
FORMAT_CODES = {
    "YYYY": "%Y", "YY": "%y", "MM": "%m", "DD": "%d", "DDD": "%j", "Q": "%q", "HH24": "%H", "MI": "%M", "SS": "%S",
    "MONTH": "%B", "MON": "%b", "DAY": "%A", "DY": "%a", "IYYY": "%G", "IW": "%V", "ID": "%u", "FM": "",
}  # fmt: skip
"""Of TO_CHAR, as those of STRFTIME. Names of months and days are not padded with spaces."""
CODE_PATTERN = re.compile("|".join(sorted(FORMAT_CODES, key=len, reverse=True)), re.IGNORECASE)
Rewrite = Callable[[exp.Expr], exp.Expr]


def rewrite_spellings(statement: exp.Select) -> exp.Select:
    """Returns a statement in this package's spelling: itself, if it has no other."""
    nodes = [node for node in statement.walk() if _find_rewrite(node) is not None]
    for node in reversed(nodes):  # inner ones first
        rewrite = _find_rewrite(node)
        assert rewrite is not None
        written = rewrite(node)
        if written is not node:
            node.replace(written)
    return statement


def _find_rewrite(node: exp.Expr) -> Rewrite | None:
    if isinstance(node, exp.Anonymous):
        return NAMED.get(str(node.this).lower())
    return REWRITES.get(type(node))


def _drop_schema(node: exp.Expr) -> exp.Expr:
    """public.persons is persons."""
    schema = node.args.get("db")
    if schema is not None and schema.name.lower() in SCHEMAS and not node.args.get("catalog"):
        node.set("db", None)
    return node


def _group_with(node: exp.Expr) -> exp.Expr:
    """GROUP BY a, b WITH ROLLUP is GROUP BY ROLLUP (a, b)."""
    for name, kind in (("rollup", exp.Rollup), ("cube", exp.Cube)):
        written = node.args.get(name)
        if written and node.expressions and not any(each.expressions for each in written):
            node.set("expressions", [kind(expressions=list(node.expressions))])
            node.set(name, None)
    return node


def _known_only(value: exp.Expr | None, other: exp.Expr | None) -> exp.Expr:
    """Returns a value where the other one is known, else NULL."""
    if value is None or other is None:
        raise BadQuery("this function takes two numbers")
    known = exp.Not(this=exp.Is(this=exp.paren(other.copy()), expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=known, true=value.copy())])


def _count_pairs(node: exp.Expr) -> exp.Expr:
    """REGR_COUNT(y, x): the rows in which both are known."""
    inner = _known_only(node.args.get("expression"), node.this)
    return exp.Count(this=inner)


def _average_x(node: exp.Expr) -> exp.Expr:
    return exp.Avg(this=_known_only(node.args.get("expression"), node.this))


def _average_y(node: exp.Expr) -> exp.Expr:
    return exp.Avg(this=_known_only(node.this, node.args.get("expression")))


def _find_in_array(node: exp.Expr) -> exp.Expr:
    """x = ANY(ARRAY[1, 2]) is x IN (1, 2)."""
    any_of = node.expression
    if isinstance(any_of, exp.Any):
        array = any_of.this.unnest()
        if isinstance(array, exp.Array) and array.expressions:
            return exp.In(this=node.this.copy(), expressions=[each.copy() for each in array.expressions])
    return equate_tuples(node)


def _name_initials(node: exp.Expr) -> exp.Expr:
    """INITCAP without the list of signs that the parser adds."""
    return exp.Anonymous(this="INITCAP", expressions=[node.this.copy()])


def _escape_pattern(node: exp.Expr) -> exp.Expr:
    """LIKE 'a!%' ESCAPE '!' is LIKE with a backslash, which is the sign that takes the next one as it stands."""
    like, sign = node.this, node.expression
    pattern = like.args.get("expression")
    literals = isinstance(pattern, exp.Literal) and isinstance(sign, exp.Literal)
    if not literals or len(str(sign.this)) != 1 or not pattern.is_string:
        raise UnsupportedQuery("ESCAPE", "LIKE takes a pattern in single quotes, ESCAPE a single sign")
    written = like.copy()
    if str(sign.this) != "\\":
        text = re.sub(
            re.escape(str(sign.this)) + r"(.)|\\",
            lambda match: "\\\\" if match[1] is None else "\\" + match[1],
            str(pattern.this),
            flags=re.DOTALL,
        )
        written.set("expression", exp.Literal.string(text))
    return exp.paren(written, copy=False)


def _format_date(node: exp.Expr) -> exp.Expr:
    """TO_CHAR(day, 'YYYY-MM') is STRFTIME(day, '%Y-%m')."""
    form = node.args.get("format")
    if not isinstance(form, exp.Literal) or not form.is_string:
        raise UnsupportedQuery("TO_CHAR without a form in quotes", "write TO_CHAR(day, 'YYYY-MM')")
    literal = re.split(r'"([^"]*)"', str(form.this))
    parts = [
        part.replace("%", "%%") if place % 2 else CODE_PATTERN.sub(_format_code, part.replace("%", "%%"))
        for place, part in enumerate(literal)
    ]
    return exp.TimeToStr(this=node.this.copy(), format=exp.Literal.string("".join(parts)))


def _format_code(match: re.Match[str]) -> str:
    return FORMAT_CODES[match[0].upper()]


def _format_plainly(node: exp.Expr) -> exp.Expr:
    """DATE_FORMAT(day, '%Y-%m') of MySQL, where its codes mean the same."""
    form = node.expressions[1] if len(node.expressions) == 2 else None
    codes = set(re.findall("%(.)", str(form.this))) if isinstance(form, exp.Literal) and form.is_string else {"?"}
    if form is None or not codes <= set("YymdHj"):
        raise UnsupportedQuery("this form of DATE_FORMAT", "write TO_CHAR(day, 'YYYY-MM')")
    return exp.TimeToStr(this=node.expressions[0].copy(), format=form.copy())


def _format_pattern(node: exp.Expr) -> exp.Expr:
    """FORMAT(day, 'yyyy-MM')."""
    form = node.expressions[0] if len(node.expressions) == 1 else None
    if not isinstance(form, exp.Literal) or not re.fullmatch(r"(yyyy|yy|MM|dd|HH|[-/. ])+", str(form.this)):
        return node
    return _format_date(
        exp.ToChar(this=node.this.copy(), format=exp.Literal.string(str(form.this).replace("HH", "HH24")))
    )


def _compare_age(node: exp.Expr) -> exp.Expr:
    """AGE(day, born) >= INTERVAL '18 years': at least 18 full years."""
    age, interval = node.this.unnest(), node.expression.unnest()
    is_age = isinstance(age, exp.Anonymous) and str(age.this).lower() == "age"
    if not is_age or not isinstance(interval, exp.Interval):
        return compare_times(node)
    text = f"{interval.this.name} {interval.args['unit'].name if interval.args.get('unit') else ''}".lower()
    years = re.fullmatch(r"(\d{1,4}) years?", text.strip())
    if years is None:
        return node
    full = exp.Extract(this=exp.var("year"), expression=age.copy())
    return type(node)(this=full, expression=exp.Literal.number(years[1]))


def _divide_safely(node: exp.Expr) -> exp.Expr:
    """CASE WHEN n = 0 THEN x ELSE s / n END is COALESCE(s / NULLIF(n, 0), x), of results."""
    branches, default = node.args.get("ifs") or [], node.args.get("default")
    test = branches[0].this if len(branches) == 1 and node.this is None else None
    if not isinstance(test, (exp.EQ, exp.NEQ, exp.GT)) or not test.find(exp.AggFunc):
        return node
    zero, number = test.expression.unnest(), test.this.unnest()
    if (
        not isinstance(zero, exp.Literal)
        or zero.name != "0"
        or (isinstance(test, exp.GT) and not number.find(exp.Count))
    ):
        return node
    taken = branches[0].args["true"]
    divided, other = (default, taken) if isinstance(test, exp.EQ) else (taken, default)
    if divided is None or not any(each.expression.unnest() == number for each in divided.find_all(exp.Div)):
        return node
    written = divided.copy()
    for each in written.find_all(exp.Div):
        if each.expression.unnest() == number:
            each.set("expression", exp.Nullif(this=number.copy(), expression=exp.Literal.number(0)))
    if other is None or isinstance(other.unnest(), exp.Null):
        return exp.paren(written, copy=False)
    return exp.Coalesce(this=written, expressions=[other.copy()])


def _name_total(node: exp.Expr) -> exp.Expr:
    """CASE WHEN GROUPING(key) = 1 THEN 'all' ELSE key END is COALESCE(key, 'all')."""
    branches, default = node.args.get("ifs") or [], node.args.get("default")
    test = branches[0].this if len(branches) == 1 and node.this is None else None
    if not isinstance(test, exp.EQ) or not isinstance(test.this, exp.Grouping) or default is None:
        return _divide_safely(node)
    keys, text = test.this.expressions, branches[0].args["true"]
    if len(keys) != 1 or keys[0] != default or test.expression.name != "1":
        return node
    return exp.Coalesce(this=default.copy(), expressions=[text.copy()])


def _name_mode(node: exp.Expr) -> exp.Expr:
    """MODE() WITHIN GROUP (ORDER BY town) is MODE(town)."""
    terms = node.expression.expressions if isinstance(node.this, exp.Mode) else []
    return exp.Mode(this=terms[0].this.copy()) if len(terms) == 1 and node.this.this is None else node


def _name_part(form: str) -> Rewrite:
    """MONTHNAME and DAYNAME."""
    return lambda node: exp.TimeToStr(this=node.this.copy(), format=exp.Literal.string(form))


def _add_interval(node: exp.Expr) -> exp.Expr:
    """DATEADD(day, -30, moment)."""
    if len(node.expressions) != 3:
        raise BadQuery("DATEADD takes a unit, a number and a date: DATEADD(day, -30, day)")
    unit, count, moment = node.expressions
    number = count.this if isinstance(count, exp.Neg) else count
    if not isinstance(number, exp.Literal) or not number.is_int:
        raise UnsupportedQuery("DATEADD with a number that is not written out", "write DATEADD(day, -30, day)")
    text = f"{'-' if isinstance(count, exp.Neg) else ''}{number.name}"
    interval = exp.Interval(this=exp.Literal.string(text), unit=exp.var(unit.name))
    return exp.paren(exp.Add(this=moment.copy(), expression=interval), copy=False)


def _extract_part(node: exp.Expr) -> exp.Expr:
    """DATEPART(year, day)."""
    if len(node.expressions) != 2:
        raise BadQuery("DATEPART takes a part and a date: DATEPART(year, day)")
    part, moment = node.expressions
    return exp.Extract(this=exp.var(part.name), expression=moment.copy())


def _replace_missing(node: exp.Expr) -> exp.Expr:
    """ISNULL(a, b)."""
    if len(node.expressions) != 2:
        return node
    value, other = node.expressions
    return exp.Coalesce(this=value.copy(), expressions=[other.copy()])


def _refuse_difference(node: exp.Expr) -> exp.Expr:
    advice = "write DATE_DIFF('year', first, last), which counts beginnings, or EXTRACT(year FROM AGE(last, first))"
    raise UnsupportedQuery("TIMESTAMPDIFF, which counts in different ways in different databases", advice)


REWRITES: dict[type[exp.Expr], Rewrite] = {
    exp.Table: _drop_schema, exp.Column: _drop_schema, exp.Group: _group_with, exp.EQ: _find_in_array,
    exp.In: split_tuples, exp.Between: order_ends, exp.NEQ: differ_from_all, exp.GT: compare_times,
    exp.LTE: compare_times, exp.Like: split_patterns, exp.ILike: split_patterns, exp.Initcap: _name_initials,
    exp.WithinGroup: _name_mode,
    exp.Escape: _escape_pattern, exp.ToChar: _format_date, exp.TimestampDiff: _refuse_difference,
    exp.RegrCount: _count_pairs, exp.RegrAvgx: _average_x, exp.RegrAvgy: _average_y,
    exp.Format: _format_pattern, exp.GTE: _compare_age, exp.LT: _compare_age, exp.Case: _name_total,
    exp.Monthname: _name_part("%B"), exp.Dayname: _name_part("%A"),
}  # fmt: skip
NAMED: dict[str, Rewrite] = {
    "dateadd": _add_interval, "datepart": _extract_part, "isnull": _replace_missing, "date_format": _format_plainly,
}  # fmt: skip
