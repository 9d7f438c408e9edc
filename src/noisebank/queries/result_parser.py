"""Parses what a SELECT computes from its aggregates: expressions, HAVING and ORDER BY over released numbers.

The largest linear parts (sums, differences and constant multiples of plain aggregates) are one question each; what is
between them is arithmetic on the answers. Used by `queries.selects`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from functools import reduce

from sqlglot import exp

from noisebank.core.errors import BadQuery, BadRequest, UnsupportedQuery
from noisebank.core.units import parse_exact
from noisebank.policy.model import Column, Kind
from noisebank.queries.conditions import find_column
from noisebank.queries.derived import Aggregate, AggregateRewriter, strip_parens
from noisebank.queries.groups import column_labels
from noisebank.queries.result_expressions import (
    Choice,
    Condition,
    Expression,
    Grouping,
    Key,
    Number,
    Operation,
    OrderTerm,
    Released,
    Text,
)
from noisebank.queries.window_parser import WindowParser

ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Nullif: "NULLIF", exp.Coalesce: "COALESCE", exp.Greatest: "GREATEST", exp.Least: "LEAST", exp.Abs: "ABS",
    exp.Round: "ROUND", exp.Floor: "FLOOR", exp.Ceil: "CEIL", exp.Sqrt: "SQRT", exp.Ln: "LN", exp.Exp: "EXP",
}  # fmt: skip
SPELLED_FUNCTIONS = (*FUNCTIONS.values(), "SUM(...) OVER ()")
COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="
}  # fmt: skip
PLAIN_AGGREGATES = (exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Filter)
MAX_POWER = 4
MAX_BASE = 64
"""Parts of what a power is taken of: powers of powers would be as many copies as no time is enough for."""
MAX_DIGITS = 12
"""Of ROUND, on both sides of the point."""


class ResultParser:
    """Parses the results of one SELECT; collects its aggregates, each once."""

    def __init__(
        self,
        rewriter: AggregateRewriter,
        find_key: Callable[[exp.Expr], str | None],
        keys: Mapping[str, Column],
        text_keys: Collection[str] = (),
        number_keys: Collection[str] = (),
    ) -> None:
        """`keys` are declared columns, `text_keys` and `number_keys` expressions whose groups are texts, or numbers."""
        self._rewriter, self.find_key, self._columns = rewriter, find_key, keys
        self._text_keys, self._number_keys = text_keys, number_keys
        self.aggregates: list[Aggregate] = []

    def parse_expression(self, node: exp.Expr) -> Expression:
        """Returns what a node computes from aggregates."""
        bare = strip_parens(node)
        if isinstance(bare, (exp.DPipe, exp.Concat, exp.TimeToStr, exp.Format)) and any(bare.find_all(exp.AggFunc)):
            text = bare.sql(dialect="duckdb")[:60]
            raise UnsupportedQuery(f"a text made of results ({text})", "results are numbers: add signs to them outside")
        if isinstance(bare, (exp.Grouping, exp.GroupingId)):
            return self._parse_grouping(bare)
        public = self._write_public_rows(bare)
        if self.is_linear_node(bare):
            value = _fold_constant(public)
            return Number(value) if value is not None else self._rewrite_aggregate(bare)
        if public is not bare:
            return self.parse_expression(public)
        if isinstance(bare, exp.Neg):
            return Operation("-", (Number(Fraction(0)), self.parse_expression(bare.this)))
        if type(bare) in ARITHMETIC:
            return self._parse_arithmetic(bare)
        if type(bare) in FUNCTIONS:
            return self._parse_function(bare)
        if isinstance(bare, exp.Pow):
            return self._parse_power(bare)
        if isinstance(bare, exp.Cast):
            return self._parse_cast(bare)
        if isinstance(bare, exp.Window):
            return WindowParser(self).parse_window(bare)
        if isinstance(bare, exp.Null):
            raise UnsupportedQuery("NULL as a result", "leave it out")
        self._refuse_columns(bare)
        return self._rewrite_aggregate(bare)

    def parse_condition(self, node: exp.Expr) -> Condition:
        """Returns a condition of HAVING."""
        bare = strip_parens(node)
        if isinstance(bare, (exp.And, exp.Or)):
            name = "AND" if isinstance(bare, exp.And) else "OR"
            return Condition(name, (self.parse_condition(bare.left), self.parse_condition(bare.right)))
        if isinstance(bare, exp.Not):
            return Condition("NOT", (self.parse_condition(bare.this),))
        if isinstance(bare, exp.Between):
            value = self._parse_operand(bare.this)
            low, high = self._parse_operand(bare.args["low"]), self._parse_operand(bare.args["high"])
            ends = (_compare(">=", value, low), _compare("<=", value, high))
            return Condition("AND", tuple(self._check_key(each) for each in ends))
        if isinstance(bare, exp.In) and bare.expressions:
            value = self._parse_operand(bare.this)
            cases = [self._check_key(_compare("=", value, self._parse_operand(each))) for each in bare.expressions]
            return cases[0] if len(cases) == 1 else _join("OR", cases)
        if isinstance(bare, exp.Is) and isinstance(bare.expression, exp.Null):
            return Condition("IS NULL", (self._parse_operand(bare.this),))
        if type(bare) in COMPARISONS:
            left, right = self._parse_operand(bare.this), self._parse_operand(bare.expression)
            return self._check_key(_compare(COMPARISONS[type(bare)], left, right))
        raise UnsupportedQuery(
            f"HAVING {bare.sql(dialect='duckdb')[:60]}", "compare aggregates with numbers, or keys with their values"
        )

    def parse_order(self, node: exp.Ordered, columns: Mapping[str, Key | Expression]) -> OrderTerm:
        """Returns one term of ORDER BY; `columns` are the table's columns by name in lower case."""
        bare = strip_parens(node.this)
        name = bare.name.lower() if isinstance(bare, exp.Column) and not bare.table else None
        term: Key | Expression | Choice
        if name is not None and name in columns:
            term = columns[name]
        else:
            key = self.find_key(bare)
            choice = self._parse_choice(bare) if isinstance(bare, exp.Case) else None
            term = self.make_key(key) if key is not None else choice or self.parse_expression(bare)
        return OrderTerm(term, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))

    def _parse_choice(self, node: exp.Case) -> Choice | None:
        """Returns a CASE over keys with constant results; None where it is about aggregates."""
        if node.find(exp.AggFunc):
            return None
        cases = []
        for branch in node.args["ifs"]:
            test = exp.EQ(this=node.this.copy(), expression=branch.this.copy()) if node.this else branch.this
            cases.append((self.parse_condition(test), self._parse_constant(branch.args["true"])))
        default = node.args.get("default")
        choice = Choice(tuple(cases), None if default is None else self._parse_constant(default))
        constants = [constant for constant in (*(value for _, value in cases), choice.default) if constant is not None]
        if len({type(constant) for constant in constants}) > 1:
            raise BadQuery("ORDER BY CASE takes numbers or texts, and not both")
        return choice

    def _parse_constant(self, node: exp.Expr) -> Number | Text:
        bare, value = strip_parens(node), _fold_constant(node)
        if value is not None:
            return Number(value)
        if isinstance(bare, exp.Literal):
            return Text(str(bare.this))
        raise UnsupportedQuery(f"ORDER BY CASE with {bare.sql(dialect='duckdb')[:40]}", "give constants: THEN 1 ELSE 2")

    def make_key(self, name: str) -> Key:
        """Returns a key of the row."""
        column = self._columns.get(name)
        return Key(name, name in self._text_keys if column is None else column.kind is Kind.TEXT)

    # -- expressions -----------------------------------------------------------------------------

    def is_linear_node(self, node: exp.Expr) -> bool:
        """Whether a node is a linear combination of plain aggregates, so that it is one question, or a constant."""
        bare = strip_parens(node)
        if isinstance(bare, exp.Literal):
            return not bare.is_string
        if isinstance(bare, exp.Neg):
            return self.is_linear_node(bare.this)
        if isinstance(bare, (exp.Add, exp.Sub)):
            return self.is_linear_node(bare.left) and self.is_linear_node(bare.right)
        if isinstance(bare, exp.Mul):
            constant = _fold_constant(bare.left) is not None or _fold_constant(bare.right) is not None
            return constant and self.is_linear_node(bare.left) and self.is_linear_node(bare.right)
        if isinstance(bare, exp.Div):
            return bool(_fold_constant(bare.right)) and self.is_linear_node(bare.left)
        return isinstance(bare, PLAIN_AGGREGATES) and not self._rewriter.needs_derivation(bare)

    def is_single_question(self, node: exp.Expr) -> bool:
        """Whether a node is one question, and no number that is public anyway."""
        bare = strip_parens(node)
        return self.is_linear_node(bare) and _fold_constant(self._write_public_rows(bare)) is None

    def _write_public_rows(self, node: exp.Expr) -> exp.Expr:
        """Returns a node with the number of rows instead of COUNT(*), where it is public and all rows are counted."""
        rows = self._rewriter.public_rows
        if rows is None or not any(map(_counts_all, node.find_all(exp.Count))):
            return node
        written: exp.Expr = exp.paren(node.copy())
        for each in list(written.find_all(exp.Count)):
            if _counts_all(each):
                each.replace(exp.Literal.number(rows))
        return written

    def _rewrite_aggregate(self, node: exp.Expr) -> Released:
        return self.add_aggregate(self._rewriter.rewrite_aggregate(node))

    def add_aggregate(self, aggregate: Aggregate) -> Released:
        """Returns the reference to an aggregate, which is added if it is new."""
        for index, other in enumerate(self.aggregates):
            if other.identity == aggregate.identity:
                return Released(index)
        self.aggregates.append(aggregate)
        return Released(len(self.aggregates) - 1)

    def _parse_grouping(self, node: exp.Grouping | exp.GroupingId) -> Grouping:
        keys = [self.find_key(each) for each in node.expressions]
        if not keys or None in keys or len(keys) > MAX_DIGITS:
            raise UnsupportedQuery(node.sql(dialect="duckdb")[:60], "GROUPING takes keys of GROUP BY")
        return Grouping(tuple(key for key in keys if key is not None))

    def _parse_arithmetic(self, node: exp.Expr) -> Expression:
        left, right = self.parse_expression(node.this), self.parse_expression(node.expression)
        if isinstance(node, exp.Div) and right == Number(Fraction(0)):
            raise BadQuery("this divides by zero")
        return Operation(ARITHMETIC[type(node)], (left, right))

    def _parse_function(self, node: exp.Expr) -> Expression:
        name = FUNCTIONS[type(node)]
        if name == "ROUND":
            return Operation(name, (self.parse_expression(node.this), Number(Fraction(_parse_digits(node)))))
        if name in ("FLOOR", "CEIL") and (node.args.get("decimals") or node.args.get("to")):
            raise UnsupportedQuery(f"{name} with a second argument", f"ask {name}(number)")
        nodes = [node.this, *node.expressions]
        nodes += [node.expression] if isinstance(node, exp.Nullif) else []
        return Operation(name, tuple(self.parse_expression(each) for each in nodes))

    def _parse_power(self, node: exp.Pow) -> Expression:
        """Returns a power as a product: an even one of the absolute value, so its interval is no wider than needed."""
        base, exponent = self.parse_expression(node.this), _fold_constant(node.expression)
        if exponent == Fraction(1, 2):
            return Operation("SQRT", (base,))
        if exponent is None or exponent not in range(1, MAX_POWER + 1):
            raise UnsupportedQuery(node.sql(dialect="duckdb")[:60], f"POWER takes 0.5, or 1 to {MAX_POWER}")
        if _count_nodes(base) > MAX_BASE:
            raise UnsupportedQuery(f"a power of this much: {node.sql(dialect='duckdb')[:40]}", "ask for its parts")
        factor = Operation("ABS", (base,)) if exponent % 2 == 0 else base
        return reduce(lambda left, right: Operation("*", (left, right)), [factor] * int(exponent))

    def _parse_cast(self, node: exp.Cast) -> Expression:
        value, kind = self.parse_expression(node.this), node.to
        if kind.is_type(*exp.DataType.INTEGER_TYPES):
            return Operation("ROUND", (value, Number(Fraction(0))))
        if not kind.is_type(*exp.DataType.REAL_TYPES):
            raise UnsupportedQuery(f"CAST of a result to {kind.sql(dialect='duckdb')}", "results are numbers")
        sizes = [int(size.name) for size in kind.expressions]
        if len(sizes) < 2 or sizes == [18, 3]:  # what the parser writes where nothing is said
            return value
        return Operation("ROUND", (value, Number(Fraction(sizes[1]))))

    def _refuse_columns(self, node: exp.Expr) -> None:
        """Refuses single values, and keys in arithmetic."""
        if isinstance(node, exp.Star):
            raise UnsupportedQuery("SELECT *", "single rows are never shown; ask for an aggregate")
        if any(node.find_all(exp.AggFunc)):
            return
        text = node.sql(dialect="duckdb")[:60]
        if self.find_key(node) is not None:
            raise UnsupportedQuery(f"arithmetic with the key {text}", "group by the expression")
        if isinstance(node, exp.Literal):
            raise UnsupportedQuery(f"the text {text} as a result", "results are numbers")
        column = node.find(exp.Column)
        if column is not None:
            find_column(column, self._rewriter.policy.columns)
            raise UnsupportedQuery(f"SELECT {text}", "single values are never shown; ask for an aggregate")

    # -- conditions ------------------------------------------------------------------------------

    def _parse_operand(self, node: exp.Expr) -> Expression | Key | Text:
        bare = strip_parens(node)
        key = self.find_key(bare)
        if key is not None:
            return self.make_key(key)
        if isinstance(bare, exp.Literal) and bare.is_string:
            return Text(str(bare.this))
        if isinstance(bare, exp.Boolean):
            return Text("true" if bare.this else "false")
        return self.parse_expression(bare)

    def _check_key(self, condition: Condition) -> Condition:
        """Refuses what compares a key with anything but one of its values."""
        texts = [each.value for each in condition.arguments if isinstance(each, Text)]
        keys = [each.name for each in condition.arguments if isinstance(each, Key)]
        numbers = [each for each in condition.arguments if isinstance(each, Number)]
        if (not texts and not keys) or (len(keys) == len(numbers) == 1 and keys[0] in self._number_keys):
            return condition
        if len(texts) != 1 or len(keys) != 1 or condition.operator not in ("=", "<>"):
            raise UnsupportedQuery("this condition of HAVING", "compare a key with one of its values: =, <> or IN")
        column = self._columns.get(keys[0])
        labels = texts if column is None else column_labels(column)
        if texts[0] not in labels:
            raise BadQuery(f"{texts[0]!r} is no key of {keys[0]}; there are {', '.join(map(repr, labels[:12]))}")
        return condition


def _count_nodes(node: Expression) -> int:
    return 1 + sum(map(_count_nodes, node.arguments)) if isinstance(node, Operation) else 1


def _counts_all(node: exp.Count) -> bool:
    """Whether a COUNT is of all rows: COUNT(*) or COUNT(1), without FILTER and OVER."""
    plain = isinstance(node.this, (exp.Star, exp.Literal)) and not node.this.find(exp.Column)
    return plain and not isinstance(node.parent, (exp.Filter, exp.Window))


def _compare(operator: str, left: Expression | Key | Text, right: Expression | Key | Text) -> Condition:
    return Condition(operator, (left, right))


def _join(connective: str, conditions: Sequence[Condition]) -> Condition:
    joined = conditions[0]
    for condition in conditions[1:]:
        joined = Condition(connective, (joined, condition))
    return joined


def _fold_constant(node: exp.Expr) -> Fraction | None:
    """Returns the value of arithmetic on numbers, or None if it is no such thing."""
    bare = strip_parens(node)
    if isinstance(bare, exp.Literal) and not bare.is_string:
        try:
            return parse_exact(str(bare.this))
        except BadRequest:
            raise BadQuery(f"{str(bare.this)[:40]} is no number of ordinary size") from None
    if isinstance(bare, exp.Neg):
        value = _fold_constant(bare.this)
        return None if value is None else -value
    if type(bare) not in ARITHMETIC:
        return None
    left, right = _fold_constant(bare.this), _fold_constant(bare.expression)
    if left is None or right is None:
        return None
    if isinstance(bare, exp.Div):
        if not right:
            raise BadQuery("this divides by zero")
        return left / right
    return left + right if isinstance(bare, exp.Add) else left - right if isinstance(bare, exp.Sub) else left * right


def _parse_digits(node: exp.Expr) -> int:
    decimals = node.args.get("decimals")
    value = Fraction(0) if decimals is None else _fold_constant(decimals)
    if value is None or value.denominator != 1 or abs(value) > MAX_DIGITS:
        raise BadQuery(f"ROUND takes a whole number of digits, from -{MAX_DIGITS} to {MAX_DIGITS}")
    return int(value)
