"""More functions of declared keys: LENGTH, POSITION, SPLIT_PART, REPLACE, TRIM, INITCAP, and LIKE of what they give.

What is none of the declared keys is not known: its length is NULL, and no pattern matches it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

from sqlglot import exp

from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.queries.number_functions import describe_node
from noisebank.queries.patterns import read_pattern
from noisebank.queries.polynomials import make_constant
from noisebank.queries.predicates import FALSE, Predicate
from noisebank.queries.row_values import Arm, RowExpression, ValueType
from noisebank.queries.text_functions import list_texts, map_texts

if TYPE_CHECKING:
    from noisebank.queries.row_expressions import ExpressionParser

MAX_TEXT = 10_000
"""Signs of a text that a function makes of a key."""


def match_texts(parser: ExpressionParser, node: exp.Expr) -> tuple[Predicate, Predicate]:
    """Returns where a computed text matches a pattern, and where it does not; unknown where it is NULL."""
    text = parser.parse_expression(node.this)
    if text.type not in (ValueType.TEXT, ValueType.NOTHING):
        raise BadQuery(f"{describe_node(node)} needs a text, not {text.type.value}")
    arms = [arm for arm in list_texts(parser, text, node) if arm.value is not None]
    names = [arm.value for arm in arms if isinstance(arm.value, str)]
    matching = {name for name, matches in zip(names, read_pattern(node)(names), strict=True) if matches}
    join = parser.builder.disjunction
    true = reduce(join, (arm.where for arm in arms if arm.value in matching), FALSE)
    false = reduce(join, (arm.where for arm in arms if arm.value not in matching), FALSE)
    return (false, true) if node.args.get("negate") else (true, false)


def read_whole_numbers(parser: ExpressionParser, text: RowExpression, node: exp.Expr) -> RowExpression:
    """CAST(text AS INT), where all that the text can be are whole numbers; NULL where it is no declared key."""
    arms = []
    for arm in list_texts(parser, text, node):
        if arm.where is FALSE:
            continue
        if isinstance(arm.value, str) and not re.fullmatch(r"-?[0-9]{1,15}", arm.value):
            raise BadQuery(f"{describe_node(node)}: {arm.value[:20]!r} is no whole number")
        arms.append(Arm(arm.where, make_constant(int(arm.value)) if isinstance(arm.value, str) else None))
    return parser.algebra.make_expression(ValueType.NUMBER, arms)


def _count_signs(parser: ExpressionParser, node: exp.Expr, count: Callable[[str], int]) -> RowExpression:
    arms = [
        Arm(arm.where, make_constant(count(arm.value)) if isinstance(arm.value, str) else None)
        for arm in list_texts(parser, parser.parse_expression(node.this), node)
    ]
    return parser.algebra.make_expression(ValueType.NUMBER, arms)


def parse_length(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """LENGTH."""
    _refuse_others(node, "this")
    return _count_signs(parser, node, len)


def parse_position(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """POSITION and STRPOS: where a text begins in another one, counted from 1; 0 if it does not."""
    _refuse_others(node, "this", "substr")
    sought = _read_text(node.args.get("substr"), node)
    return _count_signs(parser, node, lambda text: text.find(sought) + 1)


def parse_split(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """SPLIT_PART(text, delimiter, number), counted from 1; an empty text where there is no such part."""
    delimiter = _read_text(node.args.get("delimiter"), node)
    index = node.args.get("part_index")
    number = None if index is None else parser.parse_number(index).constant
    if not delimiter or number is None or number.denominator != 1 or not 0 < abs(number) < MAX_TEXT:
        raise BadQuery(f"{describe_node(node)}: write SPLIT_PART(text, '-', 1)")
    place = int(number) - (number > 0)

    def split(text: str) -> str:
        parts = text.split(delimiter)
        return parts[place] if -len(parts) <= place < len(parts) else ""

    return map_texts(parser, node, split)


def parse_replacement(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """REPLACE(text, old, new)."""
    old, new = _read_text(node.expression, node), _read_text(node.args.get("replacement"), node)

    def replace(text: str) -> str:
        written = text.replace(old, new) if old else text
        if len(written) > MAX_TEXT:
            raise UnsupportedQuery(describe_node(node), "this makes texts that are too long")
        return written

    return map_texts(parser, node, replace)


def parse_trim(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """TRIM, LTRIM and RTRIM, of spaces or of other signs."""
    signs = _read_text(node.args["expression"], node) if node.args.get("expression") is not None else " "
    return _trim(parser, node, str(node.args.get("position") or "BOTH").upper(), signs)


def parse_both_trim(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """BTRIM(text, signs)."""
    if len(node.expressions) not in (1, 2):
        raise BadQuery("BTRIM takes a text, and the signs to take away")
    text, *rest = node.expressions
    return parse_trim(parser, exp.Trim(this=text.copy(), expression=rest[0].copy() if rest else None))


def _trim(parser: ExpressionParser, node: exp.Expr, side: str, signs: str) -> RowExpression:
    trims: dict[str, Callable[[str], str]] = {
        "BOTH": lambda text: text.strip(signs),
        "LEADING": lambda text: text.lstrip(signs),
        "TRAILING": lambda text: text.rstrip(signs),
    }
    if side not in trims or not signs:
        raise UnsupportedQuery(describe_node(node), "write TRIM(text) or TRIM(BOTH '/' FROM text)")
    return map_texts(parser, node, trims[side])


def parse_initcap(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """INITCAP: the first letter of each word is large, all others are small."""
    text = exp.Initcap(this=node.expressions[0].copy())
    return map_texts(
        parser, text, lambda text: re.sub(r"[^\W_]+", lambda word: word[0][:1].upper() + word[0][1:].lower(), text)
    )


def parse_reverse(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """REVERSE."""
    return map_texts(parser, node, lambda text: text[::-1])


def _refuse_others(node: exp.Expr, *names: str) -> None:
    """Refuses arguments beyond these, which other databases have."""
    if any(value for name, value in node.args.items() if name not in names):
        raise UnsupportedQuery(f"{describe_node(node)} with this many arguments", "leave out the last one")


def _read_text(node: exp.Expr | None, whole: exp.Expr) -> str:
    bare = None if node is None else node.unnest()
    if not isinstance(bare, exp.Literal) or not bare.is_string:
        raise UnsupportedQuery(describe_node(whole), "write its other arguments in single quotes")
    return str(bare.this)


KEY_FUNCTIONS: dict[type[exp.Expr], Callable[[ExpressionParser, exp.Expr], RowExpression]] = {
    exp.Length: parse_length,
    exp.StrPosition: parse_position,
    exp.SplitPart: parse_split,
    exp.Replace: parse_replacement,
    exp.Trim: parse_trim,
    exp.Reverse: parse_reverse,
}
