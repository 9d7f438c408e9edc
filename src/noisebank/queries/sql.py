"""SQL text to a canonical question, through sqlglot. What is not supported is refused by name."""

from __future__ import annotations

import re
from fractions import Fraction

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from noisebank.errors import BadQuery, UnsupportedQuery
from noisebank.policy import Column, Policy
from noisebank.queries.conditions import Conditions, column_named
from noisebank.queries.predicates import FALSE, TRUE, Predicate
from noisebank.queries.query import Function, Query, Question
from noisebank.queries.sensitivity import sensitivity

MAX_SQL = 20_000
"""Characters. Longer texts are machine-made and would only slow the parser down."""

REFUSED_CLAUSES = {
    "with_": "WITH", "joins": "JOIN", "laterals": "LATERAL", "group": "GROUP BY", "having": "HAVING",
    "qualify": "QUALIFY", "windows": "WINDOW", "distinct": "DISTINCT", "order": "ORDER BY", "sort": "SORT BY",
    "limit": "LIMIT", "offset": "OFFSET", "sample": "SAMPLE", "pivots": "PIVOT", "into": "INTO", "locks": "FOR UPDATE",
    "match": "MATCH_RECOGNIZE", "connect": "CONNECT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY",
    "prewhere": "PREWHERE", "settings": "SETTINGS", "format": "FORMAT", "hint": "hint", "kind": "SELECT AS",
}  # fmt: skip


def parse(sql: str, policy: Policy) -> Question:
    """The question that `sql` asks of the policy's table.

    Guarantees: equivalent spellings give equal queries; raises before anything else happens.
    """
    text = sql.strip()  # as it was written: a line break ends a comment, spaces in a text count
    if len(text) > MAX_SQL:
        raise BadQuery(f"this SQL has {len(text)} characters; at most {MAX_SQL} are read")
    try:
        select = _select(text)
        _refuse_clauses(select)
        _check_table(select, policy)
        return _Asking(policy, text).question(select)
    except RecursionError:
        raise BadQuery("this SQL is nested too deeply") from None


def _select(text: str) -> exp.Select:
    try:
        statements = sqlglot.parse(text, read="duckdb")
    except SqlglotError as error:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split("\n")[0]
        raise BadQuery(f"this is not SQL: {plain}") from None
    found = [statement for statement in statements if statement is not None]
    if len(found) != 1:
        raise BadQuery("ask exactly one SELECT statement")
    statement = found[0]
    if isinstance(statement, exp.SetOperation):
        raise UnsupportedQuery(statement.key.upper(), "ask each SELECT by itself")
    if isinstance(statement, exp.Condition):
        raise BadQuery(f"this is no SELECT statement: {text[:60]}")
    if not isinstance(statement, exp.Select):
        raise UnsupportedQuery(statement.key.upper(), "only SELECT is answered; data is never changed")
    return statement


def _refuse_clauses(select: exp.Select) -> None:
    for key, value in select.args.items():
        if value and key not in ("expressions", "from_", "where"):
            name = REFUSED_CLAUSES.get(key, key.upper())
            raise UnsupportedQuery(name, "ask SELECT aggregate FROM table [WHERE condition]")
    if select.find(exp.Subquery) or len(list(select.find_all(exp.Select))) > 1:
        raise UnsupportedQuery("a subquery", "ask SELECT aggregate FROM table [WHERE condition]")
    if select.find(exp.Window):
        raise UnsupportedQuery("OVER", "window functions see single rows")


def _check_table(select: exp.Select, policy: Policy) -> None:
    source = select.args.get("from_")
    table = source.this if source else None
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise BadQuery(f"say which table: FROM {policy.name}")
    if table.args.get("db") or table.args.get("catalog") or table.name.lower() != policy.name.lower():
        raise BadQuery(f"there is no table {table.sql()}; this account has {policy.name}")
    for key, value in table.args.items():
        if value and key not in ("this", "alias"):
            raise UnsupportedQuery(key.upper(), f"ask FROM {policy.name}")
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise UnsupportedQuery("column aliases", f"ask FROM {policy.name}")
    for column in select.find_all(exp.Column):
        if column.args.get("db") or column.table.lower() not in ("", table.alias_or_name.lower()):
            raise BadQuery(f"{column.sql(dialect='duckdb')} is no column of {table.alias_or_name}")


class _Asking:
    """One question on its way from SELECT to canonical form."""

    def __init__(self, policy: Policy, text: str) -> None:
        self.policy, self.text = policy, text
        self.conditions = Conditions(policy.columns)

    def question(self, select: exp.Select) -> Question:
        if len(select.expressions) != 1:
            raise UnsupportedQuery("more than one result", "ask for one aggregate at a time")
        where = select.args.get("where")
        condition = self.conditions.predicate(where.this) if where else TRUE
        if condition is FALSE:
            raise BadQuery("by the policy no row can meet this condition, so the answer is 0")
        aggregate = select.expressions[0].unalias()
        while isinstance(aggregate, exp.Paren):
            aggregate = aggregate.this
        if isinstance(aggregate, (exp.Count, exp.Sum, exp.Avg)):
            if isinstance(aggregate.this, exp.Distinct) or aggregate.expressions:
                raise UnsupportedQuery("DISTINCT", "ask for COUNT(*), SUM(column) or AVG(column)")
            argument = aggregate.this.unnest() if isinstance(aggregate.this, exp.Paren) else aggregate.this
            if isinstance(aggregate, exp.Count):
                return self._count(argument, condition)
            if isinstance(aggregate, exp.Sum):
                return self._sum(self._summed(argument, "SUM"), condition, Fraction(1))
            return self._average(argument, condition)
        raise UnsupportedQuery(
            f"SELECT {aggregate.sql(dialect='duckdb')[:60]}",
            "ask for COUNT(*), SUM(column), AVG(column) or AVG(condition)",
        )

    def _count(self, argument: exp.Expr | None, condition: Predicate) -> Question:
        if isinstance(argument, exp.Column):
            present = self.conditions.present(column_named(argument, self.policy.columns))
            condition = self.conditions.diagrams.both(condition, present)
        elif not isinstance(argument, (exp.Star, exp.Literal)) or argument.find(exp.Column):  # * EXCLUDE (column)
            raise UnsupportedQuery("COUNT of an expression", "ask COUNT(*) and put the condition into WHERE")
        return self._counted(condition, Fraction(1))

    def _counted(self, condition: Predicate, unit: Fraction) -> Question:
        rows = self.policy.public_rows
        if condition is TRUE and rows is not None:
            raise BadQuery(f"the number of rows is public in this account: {rows}; nothing needs to be spent")
        query = Query(Function.COUNT, None, condition)
        if not sensitivity(query, self.policy):
            raise BadQuery("by the policy nobody can change this number, so it is public; nothing needs to be spent")
        return Question(query, unit, self.text)

    def _sum(self, column: Column, condition: Predicate, unit: Fraction) -> Question:
        # Missing values add nothing: saying so in the condition makes both spellings one query.
        condition = self.conditions.diagrams.both(condition, self.conditions.present(column))
        return Question(Query(Function.SUM, column.name, condition), column.step * unit, self.text)

    def _summed(self, argument: exp.Expr, aggregate: str) -> Column:
        if not isinstance(argument, exp.Column):
            raise UnsupportedQuery(f"{aggregate} of an expression", f"ask {aggregate}(column)")
        column = column_named(argument, self.policy.columns)
        if not column.numeric:
            raise BadQuery(f"column {column.name} is {column.kind.value}, not a number: {aggregate} needs numbers")
        if column.low is None:
            raise BadQuery(f"column {column.name} has no bounds, so it cannot be summed; add bounds to the policy")
        return column

    def _average(self, argument: exp.Expr, condition: Predicate) -> Question:
        rows = self.policy.public_rows
        if rows is None:
            raise UnsupportedQuery("AVG where the number of rows is not public", "ask for the SUM and the COUNT")
        if condition is not TRUE:
            raise UnsupportedQuery("AVG with WHERE", "its number of rows is not public: ask for the SUM and the COUNT")
        if isinstance(argument, exp.Column) and column_named(argument, self.policy.columns).numeric:
            column = self._summed(argument, "AVG")
            self._refuse_missing({column.name})
            return self._sum(column, TRUE, Fraction(1, rows))
        predicate = self.conditions.predicate(argument)
        self._refuse_missing(self.conditions.columns_in(argument))
        if predicate in (TRUE, FALSE):
            raise BadQuery(f"by the policy this condition holds for {'all' if predicate is TRUE else 'no'} rows")
        return self._counted(predicate, Fraction(1, rows))

    def _refuse_missing(self, names: set[str]) -> None:
        for name in sorted(names):
            if self.policy.columns[name].nullable:
                raise UnsupportedQuery(
                    f"AVG over the nullable column {name}", "its number of values is not public: ask for SUM and COUNT"
                )
