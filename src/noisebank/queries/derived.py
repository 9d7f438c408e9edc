"""Splits a SELECT into its results, and derived results (averages, variances, quantiles, modes) into plain questions.

Each plain question has SQL of its own, so every part is a query with its own digest, price and record; the derived
result has none. How results are computed from the answers: `account.derived`.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property

from sqlglot import exp

from noisebank.core.errors import BadPolicy, BadQuery, BadRequest, Mistake, Misuse, UnsupportedQuery
from noisebank.core.units import parse_exact
from noisebank.policy.model import Column, Policy
from noisebank.queries.conditions import ConditionParser, find_column
from noisebank.queries.predicates import TRUE
from noisebank.queries.query import Question
from noisebank.queries.sql import parse_question, parse_select

MAX_ITEMS = 8


class Derivation(Enum):
    """How a result is computed from the answers to its questions."""

    LINEAR = "linear"
    RATIO = "ratio"
    VARIANCE = "variance"
    STDDEV = "standard deviation"
    QUANTILE = "quantile"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    MODE = "most frequent key"


VARIANCES = (exp.Variance, exp.VariancePop)
DEVIATIONS = (exp.Stddev, exp.StddevPop, exp.StddevSamp)
QUANTILES = (exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc)
EXTREMES: dict[type[exp.Expr], Derivation] = {exp.Min: Derivation.MINIMUM, exp.Max: Derivation.MAXIMUM}


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One result of a SELECT: its name, its questions, and how it is derived from them."""

    name: str
    derivation: Derivation
    questions: tuple[Question, ...]
    column: Column | None = None
    """The column whose bounds limit the result, or over whose bins it is computed."""
    rank: Fraction = Fraction(1, 2)
    """Of a quantile."""
    public_rows: int | None = None
    """The number of rows, if it is public and no question asks for it."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of a SELECT's table: a result, or a key of its GROUP BY."""

    name: str
    """As written: the alias, or the expression."""
    key: str | None = None
    """The policy's column, if it is a key."""


@dataclass(frozen=True, slots=True)
class SelectList:
    """What a SELECT asks for: its results, and the columns of its table in the order in which they are written."""

    items: tuple[SelectItem, ...]
    columns: tuple[OutputColumn, ...]


def parse_select_items(sql: str, policy: Policy) -> tuple[SelectItem, ...]:
    """Returns the results that a SELECT asks for. Raises before anything is planned or charged."""
    return parse_select_list(sql, policy).items


def parse_select_list(sql: str, policy: Policy) -> SelectList:
    """Returns the results and the columns that a SELECT asks for. Raises before anything is planned or charged."""
    select = parse_select(sql, policy)
    group = select.args.get("group")
    if group and any(value for key, value in group.args.items() if key != "expressions"):
        raise UnsupportedQuery("GROUP BY ALL, CUBE, ROLLUP or GROUPING SETS", "name the columns: GROUP BY a, b")
    by = list(group.expressions) if group else []
    for node in by:
        if not isinstance(node, exp.Column):
            raise UnsupportedQuery(f"GROUP BY {node.sql(dialect='duckdb')[:40]}", "group by declared columns, by name")
    keys = {find_column(node, policy.columns).name for node in by}
    nodes = [node for node in select.expressions if not _is_group_key(node.unalias(), keys, policy)]
    if not nodes:
        raise UnsupportedQuery("SELECT without an aggregate", "single values are never shown")
    if len(nodes) > MAX_ITEMS:
        raise UnsupportedQuery(f"more than {MAX_ITEMS} results", "ask for fewer at a time")
    rewriting = _ItemRewriter(policy, select, [node.sql(dialect="duckdb") for node in by])
    if len(nodes) == 1 and not rewriting.needs_derivation(nodes[0].unalias()):
        question = parse_question(sql, policy, select)
        results: tuple[SelectItem, ...] = (SelectItem(_output_name(nodes[0]), Derivation.LINEAR, (question,)),)
    else:
        results = tuple(rewriting.rewrite_item(node) for node in nodes)
    columns = _output_columns(select.expressions, keys, policy)
    if len({column.name for column in columns}) < len(columns):
        raise BadQuery("two results have the same name: give them different ones with AS")
    return SelectList(results, columns)


def _output_columns(nodes: list[exp.Expr], keys: set[str], policy: Policy) -> tuple[OutputColumn, ...]:
    """Returns the columns as written. Keys that are not selected come first: rows could not be told apart without."""
    columns = []
    for node in nodes:
        bare = node.unalias()
        if isinstance(bare, exp.Column) and _is_group_key(bare, keys, policy):
            name = find_column(bare, policy.columns).name
            column = OutputColumn(node.alias or name, name)
            columns += [] if column in columns else [column]  # a key that is written twice is one column
        else:
            columns.append(OutputColumn(_output_name(node)))
    selected = {column.key for column in columns}
    return (*(OutputColumn(name, name) for name in sorted(keys - selected)), *columns)


def _output_name(node: exp.Expr) -> str:
    return node.alias or str(node.unalias().sql(dialect="duckdb"))


def check_named_queries(policy: Policy) -> None:
    """Parses the policy's named queries and the examples of what it expects; raises `BadPolicy` with all that fail,
    before anybody asks them."""
    mistakes = []
    texts = [(f"queries.{name}", sql) for name, sql in policy.queries.items()]
    for where, sql in [*texts, *(("expect", sql) for sql in policy.expected_sql)]:
        try:
            parse_select_items(sql, policy)
        except Misuse as error:
            kinds = "marginals, ranges, prefixes, or " if where == "expect" else ""
            mistakes.append(Mistake(0, where, str(error), f"write {kinds}a query that this policy can answer"))
    if mistakes:
        raise BadPolicy(tuple(mistakes))


class _ItemRewriter:
    """Rewrites the results of one SELECT into plain questions."""

    def __init__(self, policy: Policy, select: exp.Select, by: list[str]) -> None:
        self.policy, self.by, self.select = policy, by, select
        self.conditions = ConditionParser(policy.columns)

    @cached_property
    def where_sql(self) -> str:
        """The WHERE clause as SQL; empty if it holds for every row. Lazy: only derived results need it."""
        where = self.select.args.get("where")
        if where is None or self.conditions.parse_condition(where.this) is TRUE:
            return ""
        return str(where.sql(dialect="duckdb"))

    @cached_property
    def from_sql(self) -> str:
        """The FROM clause as SQL."""
        return str(self.select.args["from_"].sql(dialect="duckdb"))

    def needs_derivation(self, node: exp.Expr) -> bool:
        """Whether a result needs several queries, or the counts of many groups."""
        bare = _strip_parens(node)
        if isinstance(bare, exp.Avg):
            return bool(
                self.where_sql
                or self.by
                or self.policy.public_rows is None
                or self._is_nullable(_strip_parens(bare.this))
            )
        if isinstance(bare, exp.Filter):
            return not isinstance(_strip_parens(bare.this), exp.Avg) and self.needs_derivation(bare.this)
        return isinstance(bare, (*VARIANCES, *DEVIATIONS, *QUANTILES, *EXTREMES, exp.Mode))

    def rewrite_item(self, node: exp.Expr) -> SelectItem:
        bare, name = _strip_parens(node.unalias()), _output_name(node)
        if not self.needs_derivation(bare):
            return SelectItem(name, Derivation.LINEAR, (self._make_question(bare.sql(dialect="duckdb")),))
        if isinstance(bare, exp.Filter):
            return self._with_filter(bare).rewrite_item(exp.alias_(bare.this, name, quoted=True))
        if isinstance(bare, exp.Avg):
            return self._rewrite_average(name, _strip_parens(bare.this))
        if any(value for key, value in bare.args.items() if key not in ("this", "quantile", "expression", "big_int")):
            raise UnsupportedQuery(f"{bare.key.upper()} with a second argument", f"ask {bare.key.upper()}(column)")
        column = self._argument_column(bare)
        argument = _strip_parens(bare.this).sql(dialect="duckdb")
        if isinstance(bare, (*VARIANCES, *DEVIATIONS)):
            parts = [self._make_question(f"SUM({argument} * {argument})"), self._make_question(f"SUM({argument})")]
            if self.policy.public_rows is None or self.where_sql or self.by or column.nullable:
                parts.append(self._make_question(f"COUNT({argument})"))
            how = Derivation.VARIANCE if isinstance(bare, VARIANCES) else Derivation.STDDEV
            return SelectItem(
                name, how, tuple(parts), column, public_rows=None if len(parts) > 2 else self.policy.public_rows
            )
        if self.by:
            raise UnsupportedQuery(f"{bare.key.upper()} with GROUP BY", "ask for one group at a time, with WHERE")
        if not isinstance(bare, exp.Mode) and not column.is_numeric:
            raise BadQuery(
                f"column {column.name} is {column.kind.value}, not a number: {bare.key.upper()} needs numbers"
            )
        counts = self._make_question("COUNT(*)", group=argument)
        if isinstance(bare, exp.Mode):
            return SelectItem(name, Derivation.MODE, (counts,), column)
        how = EXTREMES.get(type(bare), Derivation.QUANTILE)
        return SelectItem(name, how, (counts,), column, self._parse_rank(bare))

    def _rewrite_average(self, name: str, argument: exp.Expr) -> SelectItem:
        text = argument.sql(dialect="duckdb")
        if isinstance(argument, exp.Column) and find_column(argument, self.policy.columns).is_numeric:
            column = find_column(argument, self.policy.columns)
            return SelectItem(
                name,
                Derivation.RATIO,
                (self._make_question(f"SUM({text})"), self._make_question(f"COUNT({text})")),
                column,
            )
        known = f"({text}) OR NOT ({text})"  # rows for which the condition is not unknown
        parts = (self._make_question(f"COUNT_IF({text})"), self._make_question(f"COUNT_IF({known})"))
        return SelectItem(name, Derivation.RATIO, parts)

    def _with_filter(self, node: exp.Filter) -> _ItemRewriter:
        """Returns a rewriter of the same SELECT with the filter's condition in its WHERE."""
        condition = node.expression.this if isinstance(node.expression, exp.Where) else node.expression
        inner = copy(self)
        both = f"({self.where_sql.removeprefix('WHERE ')}) AND " if self.where_sql else ""
        always = self.conditions.parse_condition(condition) is TRUE
        inner.where_sql = self.where_sql if always else f"WHERE {both}({condition.sql(dialect='duckdb')})"
        return inner

    def _make_question(self, aggregate: str, group: str = "") -> Question:
        by = ", ".join([*self.by, *([group] if group else [])])
        sql = " ".join(
            part
            for part in ("SELECT", aggregate, self.from_sql, self.where_sql, f"GROUP BY {by}" if by else "")
            if part
        )
        return parse_question(sql, self.policy)

    def _argument_column(self, node: exp.Expr) -> Column:
        argument = _strip_parens(node.this)
        if not isinstance(argument, exp.Column):
            raise UnsupportedQuery(f"{node.key.upper()} of an expression", f"ask {node.key.upper()}(column)")
        return find_column(argument, self.policy.columns)

    def _parse_rank(self, node: exp.Expr) -> Fraction:
        argument = node.args.get("quantile") or node.args.get("expression")
        if argument is None:
            return Fraction(1, 2)
        try:
            rank = parse_exact(str(argument.this) if isinstance(argument, exp.Literal) else "")
        except BadRequest:
            rank = Fraction(-1)
        if not 0 <= rank <= 1:
            raise BadQuery("a quantile's rank is a number from 0 to 1")
        return rank

    def _is_nullable(self, argument: exp.Expr) -> bool:
        if isinstance(argument, exp.Column) and find_column(argument, self.policy.columns).is_numeric:
            return find_column(argument, self.policy.columns).nullable
        return not self.conditions.is_never_unknown(argument)


def _is_group_key(node: exp.Expr, keys: set[str], policy: Policy) -> bool:
    """Whether a selected node is a column of GROUP BY. Any other bare column would show single values: refused."""
    if not isinstance(node, exp.Column) or not keys:
        return False
    name = find_column(node, policy.columns).name
    if name not in keys:
        raise UnsupportedQuery(f"SELECT {name}", "single values are never shown; ask for an aggregate")
    return True


def _strip_parens(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node
