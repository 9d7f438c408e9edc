"""`Aggregate`: one aggregate of a SELECT, and how derived ones (averages, variances, quantiles) split into questions.

Each plain question has SQL of its own, so every part is a query with its own digest, price and record; the derived
aggregate has none. What a SELECT computes from its aggregates: `queries.selects`. How their numbers come from the
answers: `account.derived.aggregates`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum
from fractions import Fraction
from functools import cached_property

from sqlglot import exp

from noisebank.core.errors import BadQuery, BadRequest, UnsupportedQuery
from noisebank.core.units import parse_exact
from noisebank.policy.model import Column, Kind, Policy
from noisebank.queries.arguments import describe_argument
from noisebank.queries.bins import suggest_bins
from noisebank.queries.conditions import ConditionParser, find_column
from noisebank.queries.predicates import TRUE
from noisebank.queries.query import Question
from noisebank.queries.sql import parse_question


class Derivation(Enum):
    """How a result is computed from the answers to its questions."""

    LINEAR = "linear"
    RATIO = "ratio"
    VARIANCE = "variance"
    STDDEV = "standard deviation"
    COVARIANCE = "covariance"
    CORRELATION = "correlation"
    DETERMINATION = "square of the correlation"
    SLOPE = "slope"
    INTERCEPT = "intercept"
    QUANTILE = "quantile"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    MODE = "most frequent key"


STATISTICS: dict[type[exp.Expr], Derivation] = {
    exp.Variance: Derivation.VARIANCE, exp.VariancePop: Derivation.VARIANCE,
    exp.Stddev: Derivation.STDDEV, exp.StddevSamp: Derivation.STDDEV, exp.StddevPop: Derivation.STDDEV,
    exp.CovarSamp: Derivation.COVARIANCE, exp.CovarPop: Derivation.COVARIANCE,
    exp.Corr: Derivation.CORRELATION, exp.RegrR2: Derivation.DETERMINATION,
    exp.RegrSlope: Derivation.SLOPE, exp.RegrIntercept: Derivation.INTERCEPT,
}  # fmt: skip
"""What is computed from sums of values, squares and products."""
SAMPLE_STATISTICS = (exp.Variance, exp.Stddev, exp.StddevSamp, exp.CovarSamp)
"""Those that divide by one row less."""
MOMENTS = {
    Derivation.VARIANCE: ("xx", "x", "rows"),
    Derivation.STDDEV: ("xx", "x", "rows"),
    Derivation.COVARIANCE: ("xy", "x", "y", "rows"),
    Derivation.CORRELATION: ("xy", "xx", "yy", "x", "y", "rows"),
    Derivation.DETERMINATION: ("xy", "xx", "yy", "x", "y", "rows"),
    Derivation.SLOPE: ("xy", "xx", "x", "y", "rows"),
    Derivation.INTERCEPT: ("xy", "xx", "x", "y", "rows"),
}
"""The sums that each is computed from, in the order of its questions. No question asks for rows that are public."""
QUANTILES = (exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc)
EXTREMES: dict[type[exp.Expr], Derivation] = {exp.Min: Derivation.MINIMUM, exp.Max: Derivation.MAXIMUM}
FROM_COUNTS = (Derivation.QUANTILE, Derivation.MINIMUM, Derivation.MAXIMUM, Derivation.MODE)
"""Derivations from the counts of one column's bins or keys."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate of a SELECT: its questions, and how its numbers (one per row) are derived from them."""

    derivation: Derivation
    questions: tuple[Question, ...]
    """Each is grouped by the keys of the SELECT, and by the column if the aggregate is derived from counts."""
    column: Column | None = None
    """The column whose bounds limit the result, or over whose keys or bins it is computed."""
    rank: Fraction = Fraction(1, 2)
    """Of a quantile."""
    public_rows: int | None = None
    """The number of rows, if it is public and no question asks for it."""
    second_column: Column | None = None
    """y, of what is computed from two columns; `column` is x."""
    is_sample: bool = False
    """Whether it divides by one row less."""

    @property
    def axis(self) -> str | None:
        """The column over whose keys or bins it is computed, if it is derived from counts."""
        return self.column.name if self.column is not None and self.derivation in FROM_COUNTS else None

    @property
    def identity(self) -> tuple[object, ...]:
        """What is equal for aggregates that have the same numbers, however they are written."""
        questions = tuple((question.query, question.unit, question.offset) for question in self.questions)
        name = None if self.column is None else self.column.name
        second = None if self.second_column is None else self.second_column.name
        return self.derivation, questions, name, self.rank, self.public_rows, second, self.is_sample


def list_linear(aggregates: Sequence[Aggregate]) -> frozenset[int]:
    """Returns the indices of the aggregates whose numbers are released as they are."""
    return frozenset(index for index, each in enumerate(aggregates) if each.derivation is Derivation.LINEAR)


class AggregateRewriter:
    """Rewrites the aggregates of one SELECT, which is plain but for them, into plain questions.

    `by` is the SQL of what it is grouped by.
    """

    def __init__(self, policy: Policy, select: exp.Select, by: list[str]) -> None:
        self.policy, self.by, self.select = policy, by, select
        self.conditions = ConditionParser(policy.columns)
        self.filter_sql = ""
        """The condition of FILTER, which stays one: groups that are expressions depend on WHERE."""

    @cached_property
    def is_filtered(self) -> bool:
        """Whether WHERE does not hold for every row."""
        where = self.select.args.get("where")
        return where is not None and self.conditions.parse_condition(where.this) is not TRUE

    @cached_property
    def where_sql(self) -> str:
        """The WHERE clause as SQL; empty if it holds for every row. Lazy: only derived results need it."""
        return str(self.select.args["where"].sql(dialect="duckdb")) if self.is_filtered else ""

    @property
    def public_rows(self) -> int | None:
        """The number of rows that WHERE selects, if it is public."""
        rows = self.policy.public_rows
        return None if rows is None or self.by or self.is_filtered or self.filter_sql else rows

    @cached_property
    def from_sql(self) -> str:
        """The FROM clause as SQL."""
        return str(self.select.args["from_"].sql(dialect="duckdb"))

    def needs_derivation(self, node: exp.Expr) -> bool:
        """Whether a result needs several queries, or the counts of many groups."""
        bare = strip_parens(node)
        if isinstance(bare, exp.Avg):
            return bool(
                self.is_filtered
                or self.filter_sql
                or self.by
                or self.policy.public_rows is None
                or self._is_nullable(strip_parens(bare.this))
            )
        if isinstance(bare, exp.Filter):
            return isinstance(strip_parens(bare.this), exp.Avg) or self.needs_derivation(bare.this)
        if isinstance(bare, exp.WithinGroup):
            return isinstance(bare.this, (*QUANTILES, exp.Mode))
        return isinstance(bare, (*STATISTICS, *QUANTILES, *EXTREMES, exp.Mode))

    def rewrite_aggregate(self, node: exp.Expr) -> Aggregate:
        """Returns a node of which `needs_derivation` holds as an aggregate, else as a linear combination of them."""
        bare = strip_parens(node)
        if not self.needs_derivation(bare):
            return Aggregate(Derivation.LINEAR, (self._make_question(bare.sql(dialect="duckdb")),))
        if isinstance(bare, exp.Filter):
            return self._with_filter(bare).rewrite_aggregate(bare.this)
        if isinstance(bare, exp.WithinGroup):
            return self.rewrite_aggregate(_write_plainly(bare))
        if isinstance(bare, exp.Avg):
            return self._rewrite_average(strip_parens(bare.this))
        if isinstance(bare, tuple(STATISTICS)):
            return self._rewrite_statistic(bare)
        if any(value for key, value in bare.args.items() if key not in ("this", "quantile", "expression", "big_int")):
            raise UnsupportedQuery(f"{bare.key.upper()} with a second argument", f"ask {bare.key.upper()}(column)")
        column = self._argument_column(bare)
        argument = strip_parens(bare.this).sql(dialect="duckdb")
        if not isinstance(bare, exp.Mode) and not column.is_numeric:
            what = "codes, as it has keys" if column.kind is Kind.INTEGER else column.kind.value
            name = bare.sql_name() if isinstance(bare, exp.Func) else bare.key.upper()
            raise BadQuery(f"column {column.name} is {what}, not a number: {name} needs numbers")
        if column.is_numeric and not column.keys and not column.bins and column.low is not None:
            raise BadQuery(
                f"{bare.key.upper()}({column.name}) needs bins: declare some in the policy, for example "
                f"{suggest_bins(column)} under [columns.{column.name}]"
            )
        counts = self._make_question("COUNT(*)", group=argument)
        if isinstance(bare, exp.Mode):
            return Aggregate(Derivation.MODE, (counts,), column)
        how = EXTREMES.get(type(bare), Derivation.QUANTILE)
        return Aggregate(how, (counts,), column, self._parse_rank(bare))

    def _rewrite_average(self, argument: exp.Expr) -> Aggregate:
        text = argument.sql(dialect="duckdb")
        column = describe_argument(argument, self.conditions)
        if column is not None:
            parts = (self._make_question(f"SUM({text})"), self._make_question(f"COUNT({text})"))
            return Aggregate(Derivation.RATIO, parts, column)
        known = f"({text}) OR NOT ({text})"  # rows for which the condition is not unknown
        parts = (self._make_question(f"COUNT_IF({text})"), self._make_question(f"COUNT_IF({known})"))
        return Aggregate(Derivation.RATIO, parts)

    def _rewrite_statistic(self, node: exp.Expr) -> Aggregate:
        """Returns a statistic of one column, or of two over the rows in which both are known."""
        how = STATISTICS[type(node)]
        arguments = [strip_parens(each) for each in (node.this, node.args.get("expression")) if each is not None]
        if isinstance(node, (exp.RegrSlope, exp.RegrIntercept, exp.RegrR2)):
            arguments.reverse()  # SQL writes y first
        if "xy" in MOMENTS[how] and len(arguments) < 2:
            raise BadQuery(f"{node.key.upper()} takes two numbers")
        columns = [self._numeric_column(node, each) for each in arguments]
        texts = dict(zip("xy", (f"({each.sql(dialect='duckdb')})" for each in arguments), strict=False))
        known = {
            name: f"{texts[name]} IS NOT NULL" for name, column in zip("xy", columns, strict=False) if column.nullable
        }
        rows = None if known else self.public_rows
        parts = []
        for moment in MOMENTS[how]:
            if moment == "rows":
                parts += [] if rows is not None else [self._make_question("COUNT(*)", conditions=known.values())]
                continue
            others = [text for name, text in known.items() if name not in moment]  # a sum leaves out what is missing
            product = " * ".join(texts[name] for name in moment)
            parts.append(self._make_question(f"SUM({product})", conditions=others))
        second = columns[1] if len(columns) > 1 else None
        is_sample = isinstance(node, SAMPLE_STATISTICS)
        return Aggregate(how, tuple(parts), columns[0], public_rows=rows, second_column=second, is_sample=is_sample)

    def _numeric_column(self, node: exp.Expr, argument: exp.Expr) -> Column:
        column = describe_argument(argument, self.conditions)
        if column is None:
            name = node.sql_name() if isinstance(node, exp.Func) else node.key.upper()
            raise BadQuery(f"{argument.sql(dialect='duckdb')[:40]} is not a number: {name} needs numbers")
        return column

    def _with_filter(self, node: exp.Filter) -> AggregateRewriter:
        """Returns a rewriter of the same SELECT whose aggregates have this filter."""
        condition = node.expression.this if isinstance(node.expression, exp.Where) else node.expression
        inner = copy(self)
        always = self.conditions.parse_condition(condition) is TRUE
        inner.filter_sql = "" if always else str(condition.sql(dialect="duckdb"))
        return inner

    def _make_question(self, aggregate: str, group: str = "", conditions: Iterable[str] = ()) -> Question:
        by = ", ".join([*self.by, *([group] if group else [])])
        filters = [*([f"({self.filter_sql})"] if self.filter_sql else []), *conditions]
        aggregate += f" FILTER (WHERE {' AND '.join(filters)})" if filters else ""
        sql = " ".join(
            part
            for part in ("SELECT", aggregate, self.from_sql, self.where_sql, f"GROUP BY {by}" if by else "")
            if part
        )
        return parse_question(sql, self.policy)

    def _argument_column(self, node: exp.Expr) -> Column:
        argument = strip_parens(node.this)
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
        column = describe_argument(argument, self.conditions)
        if column is not None:
            return column.nullable
        return not self.conditions.is_never_unknown(argument)


def _write_plainly(node: exp.WithinGroup) -> exp.Expr:
    """Returns PERCENTILE_CONT(rank) WITHIN GROUP (ORDER BY x) as a quantile of x, MODE() likewise."""
    name, terms = node.this.sql_name(), node.expression.expressions
    if len(terms) != 1:
        raise UnsupportedQuery(f"{name} ordered by several columns", f"write {name} WITHIN GROUP (ORDER BY column)")
    column, descending = terms[0].this, bool(terms[0].args.get("desc"))
    if isinstance(node.this, exp.Mode):
        return exp.Mode(this=column)
    rank = node.this.this
    if descending and isinstance(rank, exp.Literal):
        with suppress(InvalidOperation):  # what is no number is refused as a rank
            rank = exp.Literal.number(str(1 - Decimal(rank.this)))
    return exp.PercentileCont(this=column, expression=rank)


def strip_parens(node: exp.Expr) -> exp.Expr:
    """Returns a node without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node
