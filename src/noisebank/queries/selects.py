"""`SelectList`: what a SELECT asks for: aggregates, which cost, and what is computed from their numbers, which is free.

`parse_select_list` writes a SELECT as a plain one (`queries.inlining`), its aggregates as questions (`queries.derived`)
and the rest as expressions over released numbers (`queries.result_parser`). How the table comes from the answers:
`account.results`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from noisebank.core.errors import BadPolicy, BadQuery, Mistake, Misuse, UnsupportedQuery
from noisebank.policy.model import Policy
from noisebank.queries.bins import suggest_bins
from noisebank.queries.clauses import parse_grouping, split_clauses
from noisebank.queries.conditions import ConditionParser
from noisebank.queries.current_time import policy_now, write_moment
from noisebank.queries.derived import Aggregate, AggregateRewriter, Derivation, strip_parens
from noisebank.queries.effort import MAX_STEPS, limit_effort
from noisebank.queries.group_keys import parse_group_key
from noisebank.queries.hints import list_hints
from noisebank.queries.inlining import inline_subqueries
from noisebank.queries.result_expressions import (
    Condition,
    Expression,
    Key,
    OrderTerm,
    Released,
    is_noisy,
    list_rankings,
    reads_other_rows,
)
from noisebank.queries.result_parser import ResultParser
from noisebank.queries.scalar_subqueries import inline_scalars
from noisebank.queries.sql import (
    check_plain_select,
    find_first_select,
    parse_question,
    parse_statement,
    refuse_public_rows,
)
from noisebank.queries.suggestions import suggest_question

MAX_RESULTS = 64
"""Of one SELECT: enough for every statistic of some columns. What is computed from released numbers costs nothing; the
questions behind the results are limited by what one transaction holds."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of a SELECT's table: a key of its GROUP BY, or a number computed from its aggregates."""

    name: str
    """As written: the alias, or the expression."""
    key: str | None = None
    """The policy's column, if it is a key."""
    expression: Expression | None = None
    """What it is computed from, if it is a number."""
    total: str | None = None
    """What the key is called in rows of all of them together: COALESCE(key, 'all')."""


@dataclass(frozen=True, slots=True)
class SelectList:
    """What a SELECT asks for. Everything in it is public: it follows from the text and the policy."""

    aggregates: tuple[Aggregate, ...]
    """What is measured, each once however often it is written."""
    columns: tuple[OutputColumn, ...]
    """Of the table, in the order in which they are written."""
    by: tuple[str, ...] = ()
    """The keys, in the order in which they are selected, then the others."""
    grouping_sets: tuple[tuple[str, ...], ...] = ()
    """Of CUBE, ROLLUP and GROUPING SETS: the keys that each block of rows is grouped by. None: by all keys."""
    having: Condition | None = None
    order: tuple[OrderTerm, ...] = ()
    offset: int = 0
    limit: int | None = None
    hints: tuple[str, ...] = ()
    """What means something else in other databases, in sentences."""

    @property
    def items(self) -> tuple[OutputColumn, ...]:
        """The columns that are numbers."""
        return tuple(column for column in self.columns if column.key is None)

    @property
    def is_plain_question(self) -> bool:
        """Whether its numbers are the answer to one plain question, just as it was released."""
        expressions = [column.expression for column in self.items]
        single = len(self.aggregates) == 1 and self.aggregates[0].derivation is Derivation.LINEAR
        return single and expressions == [Released(0)] and not self.grouping_sets

    @property
    def is_single_number(self) -> bool:
        """Whether the table is one released number, which nothing computes with, orders or leaves out."""
        acts = self.having is not None or self.order or self.offset or self.limit is not None
        return len(self.columns) == 1 and not acts and self.is_plain_question


def parse_select_aggregates(sql: str, policy: Policy) -> tuple[Aggregate, ...]:
    """Returns the aggregates that a SELECT needs. Raises before anything is planned or charged."""
    return parse_select_list(sql, policy).aggregates


def parse_select_list(sql: str, policy: Policy) -> SelectList:
    """Returns what a SELECT asks for. Raises before anything is planned or charged."""
    text = sql.strip()
    if text.isidentifier():
        names = f"its queries are {', '.join(sorted(policy.queries))}" if policy.queries else "it names none"
        raise BadQuery(f"the policy names no query {text}: {names}. Or ask in SQL: SELECT COUNT(*) FROM {policy.name}")
    try:
        statement = parse_statement(text)
    except UnsupportedQuery as error:
        first = find_first_select(text)
        if first is not None:
            _name_nearest(error, first, policy)
        raise
    try:
        return _build_select(policy, text, statement)
    except RecursionError:
        raise BadQuery("this SQL is nested too deeply") from None
    except Misuse as error:
        if not (isinstance(error, BadQuery) and error.is_answer):
            _name_nearest(error, statement, policy)
        raise


def _build_select(policy: Policy, text: str, statement: exp.Select) -> SelectList:
    with limit_effort():
        return _SelectBuilder(policy, text, statement).build_list()


def _name_nearest(error: Misuse, statement: exp.Select, policy: Policy) -> None:
    with limit_effort(MAX_STEPS // 4):  # of all candidates together
        nearest = suggest_question(statement, policy, lambda each: _build_list(each, policy))
    if nearest is not None:
        error.name_nearest(nearest)


def _build_list(sql: str, policy: Policy) -> SelectList:
    return _SelectBuilder(policy, sql, parse_statement(sql)).build_list()


def check_named_queries(policy: Policy) -> None:
    """Parses the policy's named queries and the examples of what it expects; raises `BadPolicy` with all that fail,
    before anybody asks them."""
    mistakes = []
    texts = [(f"queries.{name}", sql) for name, sql in policy.queries.items()]
    for where, sql in [*texts, *(("expect", sql) for sql in policy.expected_sql)]:
        try:
            parse_select_list(write_moment(sql, policy_now(policy)), policy)
        except Misuse as error:
            kinds = "values, marginals, ranges, prefixes, or " if where == "expect" else ""
            mistakes.append(Mistake(0, where, str(error), f"write {kinds}a query that this policy can answer"))
    if mistakes:
        raise BadPolicy(tuple(mistakes))


class _SelectBuilder:
    """Builds the `SelectList` of one statement."""

    def __init__(self, policy: Policy, text: str, statement: exp.Select) -> None:
        self.policy, self.text, self.statement = policy, text, statement
        inlined = inline_scalars(inline_subqueries(statement))
        self.is_inlined = inlined is not statement
        self.clauses = split_clauses(inlined, policy.columns)
        self.plain = self.clauses.plain
        check_plain_select(self.plain, policy)
        self.grouping = parse_grouping(self.plain)
        nodes = self.grouping.nodes
        conditions = ConditionParser(policy.columns)
        where = self.plain.args.get("where")
        if where is not None and any(not isinstance(node, exp.Column) for node in nodes):
            conditions.look_within(conditions.parse_condition(where.this))
        group_keys = [parse_group_key(node, conditions) for node in nodes]
        for node, key in zip(nodes, group_keys, strict=True):
            if isinstance(node, exp.Column):
                self._check_bins(key.column)
        self.keys = [(node, key.column) for node, key in zip(nodes, group_keys, strict=True)]
        self.rewriter = AggregateRewriter(policy, self.plain, [node.sql(dialect="duckdb") for node in nodes])
        columns = {key.column: policy.columns[key.column] for key in group_keys if key.labels is None}
        text_keys = {key.column for key in group_keys if key.is_text}
        number_keys = {key.column for key in group_keys if key.is_number}
        self.results = ResultParser(self.rewriter, self.find_key, columns, text_keys, number_keys)

    def build_list(self) -> SelectList:
        columns = self._build_columns()
        items = [column for column in columns if column.expression is not None]
        if not items:
            raise UnsupportedQuery("SELECT without an aggregate", "single values are never shown")
        if not self.results.aggregates:
            raise refuse_public_rows(self.policy)
        if len(items) > MAX_RESULTS:
            raise UnsupportedQuery(f"more than {MAX_RESULTS} results", "ask for fewer at a time")
        if len({column.name for column in columns}) < len(columns):
            raise BadQuery("two results have the same name: give them different ones with AS")
        having = self.clauses.having
        condition = None if having is None else self.results.parse_condition(having)
        by_name = {column.name.lower(): self._column_term(column) for column in columns}
        order = tuple(self.results.parse_order(node, by_name) for node in self._order_nodes(columns))
        sets = self._name_grouping_sets()
        nodes = [*(column.expression for column in items), *(term.by for term in order)]
        if (condition is not None or sets) and any(node is not None and reads_other_rows(node) for node in nodes):
            raise UnsupportedQuery("OVER with HAVING, CUBE, ROLLUP or GROUPING SETS", "leave one of them out")
        if condition is not None and reads_other_rows(condition):
            raise UnsupportedQuery("OVER in HAVING", "select the share and look at the rows")
        return SelectList(
            tuple(self.results.aggregates),
            columns,
            tuple(column.key for column in columns if column.key is not None),
            sets,
            condition,
            order,
            self.clauses.offset,
            self.clauses.limit,
            list_hints(self.plain, self.policy),
        )

    def find_key(self, node: exp.Expr) -> str | None:
        """Returns the key that a node is, if it is one of GROUP BY."""
        bare = strip_parens(node)
        for key, name in self.keys:
            if bare == key or (_is_column(key) and _is_column(bare) and key.name.lower() == bare.name.lower()):
                return name
        if isinstance(bare, exp.Column):
            return next((name for _, name in self.keys if name.lower() == bare.name.lower()), None)
        return None

    def _check_bins(self, name: str) -> None:
        """Names the bins to declare for a number that cannot be grouped by."""
        column = self.policy.columns.get(name)
        if column and column.is_numeric and not column.keys and not column.bins and column.low is not None:
            raise BadQuery(
                f"column {column.name} has no declared keys or bins, so nothing can be grouped by it: declare some in "
                f"the policy, for example {suggest_bins(column)} under [columns.{column.name}]"
            )

    def _name_grouping_sets(self) -> tuple[tuple[str, ...], ...]:
        names = [name for _, name in self.keys]
        return tuple(tuple(names[index] for index in indices) for indices in self.grouping.sets)

    def _build_columns(self) -> tuple[OutputColumn, ...]:
        """Returns the columns as written. Keys that are not selected come first: rows could not be told apart without.

        A SELECT that is one plain question as it is written keeps its own text as the question's.
        """
        columns: list[OutputColumn] = []
        nodes = self.plain.expressions
        for node in nodes:
            key = self.find_key(node.unalias())
            named = self._name_total(node)
            if named is not None:
                columns.append(named)
                continue
            if key is None:
                columns.append(OutputColumn(_output_name(node), expression=self._parse_result(node)))
                continue
            column = OutputColumn(node.alias or (key if isinstance(node, exp.Column) else _output_name(node)), key)
            columns += [] if column in columns else [column]  # a key that is written twice is one column
        selected = {column.key for column in columns}
        others = sorted((name, node) for node, name in self.keys if name not in selected)
        return (*(OutputColumn(_output_name(node), name) for name, node in others), *columns)

    def _name_total(self, node: exp.Expr) -> OutputColumn | None:
        """Returns the column of COALESCE(key, 'all'), where rows of all keys together are shown."""
        bare = strip_parens(node.unalias())
        if not self.grouping.sets or not isinstance(bare, exp.Coalesce) or len(bare.expressions) != 1:
            return None
        key, text = self.find_key(bare.this), bare.expressions[0]
        if key is None or not isinstance(text, exp.Literal) or not text.is_string:
            return None
        if not self.results.make_key(key).is_text:
            raise UnsupportedQuery(f"a text for all of {key}, which is no text", "leave out COALESCE: it is shown")
        return OutputColumn(_output_name(node), key, total=str(text.this))

    def _parse_result(self, node: exp.Expr) -> Expression:
        if (
            self.clauses.is_verbatim
            and not self.is_inlined
            and not self.grouping.sets
            and self.results.is_single_question(node.unalias())
            and sum(1 for each in self.plain.expressions if self.find_key(each.unalias()) is None) == 1
        ):
            question = parse_question(self.text, self.policy, self.plain)
            return self.results.add_aggregate(Aggregate(Derivation.LINEAR, (question,)))
        expression = self.results.parse_expression(node.unalias())
        if not is_noisy(expression) and not node.find(exp.AggFunc) and not any(list_rankings(expression)):
            raise UnsupportedQuery(f"a constant: {node.sql(dialect='duckdb')[:40]}", "select aggregates only")
        return expression

    def _order_nodes(self, columns: tuple[OutputColumn, ...]) -> list[exp.Ordered]:
        """Returns the terms of ORDER BY, positions written as names."""
        nodes = []
        for node in self.clauses.order:
            bare = strip_parens(node.this)
            if isinstance(bare, exp.Var) and bare.name.upper() == "ALL":
                nodes += [_order_by_name(node, column.name) for column in columns]
            elif isinstance(bare, exp.Literal):
                nodes.append(_order_by_name(node, self._name_position(bare, columns)))
            else:
                nodes.append(node)
        return nodes

    def _name_position(self, literal: exp.Literal, columns: Sequence[OutputColumn]) -> str:
        """Returns the name of the column that stands in a position."""
        written = self.plain.expressions
        position = int(literal.name) if literal.is_int and not literal.is_string else 0
        if not 1 <= position <= len(written):
            raise BadQuery(f"ORDER BY {literal.sql()}: there are {len(written)} columns")
        target = written[position - 1]
        key = self.find_key(target.unalias())
        return _output_name(target) if key is None else next(each.name for each in columns if each.key == key)

    def _column_term(self, column: OutputColumn) -> Key | Expression:
        if column.expression is not None:
            return column.expression
        assert column.key is not None
        return self.results.make_key(column.key)


def _is_column(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column)


def _order_by_name(node: exp.Ordered, name: str) -> exp.Ordered:
    return exp.Ordered(**{**node.args, "this": exp.column(name, quoted=True)})


def _output_name(node: exp.Expr) -> str:
    return node.alias or str(node.unalias().sql(dialect="duckdb"))
