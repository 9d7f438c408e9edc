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
from noisebank.core.units import exact
from noisebank.policy.model import Column, Policy
from noisebank.queries.conditions import Conditions, column_named
from noisebank.queries.predicates import TRUE
from noisebank.queries.query import Question
from noisebank.queries.sql import parse, read_select

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
ENDS: dict[type[exp.Expr], Derivation] = {exp.Min: Derivation.MINIMUM, exp.Max: Derivation.MAXIMUM}


@dataclass(frozen=True, slots=True)
class Item:
    """One result of a SELECT: its name, its questions, and how it is derived from them."""

    name: str
    how: Derivation
    questions: tuple[Question, ...]
    column: Column | None = None
    """The column whose bounds limit the result, or over whose bins it is computed."""
    rank: Fraction = Fraction(1, 2)
    """Of a quantile."""
    rows: int | None = None
    """The number of rows, if it is public and no question asks for it."""


def items(sql: str, policy: Policy) -> tuple[Item, ...]:
    """Returns the results that a SELECT asks for. Raises before anything is planned or charged."""
    select = read_select(sql, policy)
    group = select.args.get("group")
    if group and any(value for key, value in group.args.items() if key != "expressions"):
        raise UnsupportedQuery("GROUP BY ALL, CUBE, ROLLUP or GROUPING SETS", "name the columns: GROUP BY a, b")
    by = list(group.expressions) if group else []
    for node in by:
        if not isinstance(node, exp.Column):
            raise UnsupportedQuery(f"GROUP BY {node.sql(dialect='duckdb')[:40]}", "group by declared columns, by name")
    keys = {column_named(node, policy.columns).name for node in by}
    nodes = [node for node in select.expressions if not _is_key(node.unalias(), keys, policy)]
    if not nodes:
        raise UnsupportedQuery("SELECT without an aggregate", "single values are never shown")
    if len(nodes) > MAX_ITEMS:
        raise UnsupportedQuery(f"more than {MAX_ITEMS} results", "ask for fewer at a time")
    rewriting = _Rewriting(policy, select, [node.sql(dialect="duckdb") for node in by])
    if len(nodes) == 1 and not rewriting.derives(nodes[0].unalias()):
        return (Item(nodes[0].alias_or_name, Derivation.LINEAR, (parse(sql, policy, select),)),)
    results = tuple(rewriting.item(node) for node in nodes)
    if len({item.name for item in results}) < len(results):
        raise BadQuery("two results have the same name: give them different ones with AS")
    return results


def check_queries(policy: Policy) -> None:
    """Parses the policy's named queries; raises `BadPolicy` with all that fail, before anybody asks them."""
    mistakes = []
    for name, sql in policy.queries.items():
        try:
            items(sql, policy)
        except Misuse as error:
            mistakes.append(Mistake(0, f"queries.{name}", str(error), "write a query that this policy can answer"))
    if mistakes:
        raise BadPolicy(tuple(mistakes))


class _Rewriting:
    """Rewrites the results of one SELECT into plain questions."""

    def __init__(self, policy: Policy, select: exp.Select, by: list[str]) -> None:
        self.policy, self.by, self.select = policy, by, select
        self.conditions = Conditions(policy.columns)

    @cached_property
    def where(self) -> str:
        """The WHERE clause as SQL; empty if it holds for every row. Lazy: only derived results need it."""
        where = self.select.args.get("where")
        if where is None or self.conditions.predicate(where.this) is TRUE:
            return ""
        return str(where.sql(dialect="duckdb"))

    @cached_property
    def source(self) -> str:
        """The FROM clause as SQL."""
        return str(self.select.args["from_"].sql(dialect="duckdb"))

    def derives(self, node: exp.Expr) -> bool:
        """Whether a result needs several queries, or the counts of many groups."""
        bare = _bare(node)
        if isinstance(bare, exp.Avg):
            return bool(self.where or self.by or self.policy.public_rows is None or self._nullable(_bare(bare.this)))
        if isinstance(bare, exp.Filter):
            return not isinstance(_bare(bare.this), exp.Avg) and self.derives(bare.this)
        return isinstance(bare, (*VARIANCES, *DEVIATIONS, *QUANTILES, *ENDS, exp.Mode))

    def item(self, node: exp.Expr) -> Item:
        bare, name = _bare(node.unalias()), node.alias or node.unalias().sql(dialect="duckdb")
        if not self.derives(bare):
            return Item(name, Derivation.LINEAR, (self._plain(bare.sql(dialect="duckdb")),))
        if isinstance(bare, exp.Filter):
            return self._filtered(bare).item(exp.alias_(bare.this, name, quoted=True))
        if isinstance(bare, exp.Avg):
            return self._average(name, _bare(bare.this))
        if any(value for key, value in bare.args.items() if key not in ("this", "quantile", "expression", "big_int")):
            raise UnsupportedQuery(f"{bare.key.upper()} with a second argument", f"ask {bare.key.upper()}(column)")
        column = self._column(bare)
        argument = _bare(bare.this).sql(dialect="duckdb")
        if isinstance(bare, (*VARIANCES, *DEVIATIONS)):
            parts = [self._plain(f"SUM({argument} * {argument})"), self._plain(f"SUM({argument})")]
            if self.policy.public_rows is None or self.where or self.by or column.nullable:
                parts.append(self._plain(f"COUNT({argument})"))
            how = Derivation.VARIANCE if isinstance(bare, VARIANCES) else Derivation.STDDEV
            return Item(name, how, tuple(parts), column, rows=None if len(parts) > 2 else self.policy.public_rows)
        if self.by:
            raise UnsupportedQuery(f"{bare.key.upper()} with GROUP BY", "ask for one group at a time, with WHERE")
        if not isinstance(bare, exp.Mode) and not column.numeric:
            raise BadQuery(
                f"column {column.name} is {column.kind.value}, not a number: {bare.key.upper()} needs numbers"
            )
        counts = self._plain("COUNT(*)", group=argument)
        if isinstance(bare, exp.Mode):
            return Item(name, Derivation.MODE, (counts,), column)
        how = ENDS.get(type(bare), Derivation.QUANTILE)
        return Item(name, how, (counts,), column, self._rank(bare))

    def _average(self, name: str, argument: exp.Expr) -> Item:
        text = argument.sql(dialect="duckdb")
        if isinstance(argument, exp.Column) and column_named(argument, self.policy.columns).numeric:
            column = column_named(argument, self.policy.columns)
            return Item(name, Derivation.RATIO, (self._plain(f"SUM({text})"), self._plain(f"COUNT({text})")), column)
        known = f"({text}) OR NOT ({text})"  # rows for which the condition is not unknown
        parts = (self._plain(f"COUNT_IF({text})"), self._plain(f"COUNT_IF({known})"))
        return Item(name, Derivation.RATIO, parts)

    def _filtered(self, node: exp.Filter) -> _Rewriting:
        """Returns a rewriter of the same SELECT with the filter's condition in its WHERE."""
        condition = node.expression.this if isinstance(node.expression, exp.Where) else node.expression
        inner = copy(self)
        both = f"({self.where.removeprefix('WHERE ')}) AND " if self.where else ""
        always = self.conditions.predicate(condition) is TRUE
        inner.where = self.where if always else f"WHERE {both}({condition.sql(dialect='duckdb')})"
        return inner

    def _plain(self, aggregate: str, group: str = "") -> Question:
        by = ", ".join([*self.by, *([group] if group else [])])
        sql = " ".join(
            part for part in ("SELECT", aggregate, self.source, self.where, f"GROUP BY {by}" if by else "") if part
        )
        return parse(sql, self.policy)

    def _column(self, node: exp.Expr) -> Column:
        argument = _bare(node.this)
        if not isinstance(argument, exp.Column):
            raise UnsupportedQuery(f"{node.key.upper()} of an expression", f"ask {node.key.upper()}(column)")
        return column_named(argument, self.policy.columns)

    def _rank(self, node: exp.Expr) -> Fraction:
        argument = node.args.get("quantile") or node.args.get("expression")
        if argument is None:
            return Fraction(1, 2)
        try:
            rank = exact(str(argument.this) if isinstance(argument, exp.Literal) else "")
        except BadRequest:
            rank = Fraction(-1)
        if not 0 <= rank <= 1:
            raise BadQuery("a quantile's rank is a number from 0 to 1")
        return rank

    def _nullable(self, argument: exp.Expr) -> bool:
        if isinstance(argument, exp.Column) and column_named(argument, self.policy.columns).numeric:
            return column_named(argument, self.policy.columns).nullable
        return not self.conditions.certain(argument)


def _is_key(node: exp.Expr, keys: set[str], policy: Policy) -> bool:
    """Whether a selected node is a column of GROUP BY. Any other bare column would show single values: refused."""
    if not isinstance(node, exp.Column) or not keys:
        return False
    name = column_named(node, policy.columns).name
    if name not in keys:
        raise UnsupportedQuery(f"SELECT {name}", "single values are never shown; ask for an aggregate")
    return True


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node
