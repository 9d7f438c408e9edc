"""Parses SQL text into canonical questions, with sqlglot. Unsupported constructs are refused by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import Dialect, Token, TokenType, exp
from sqlglot.errors import SqlglotError

from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.policy.model import Policy
from noisebank.queries.aggregates import AggregateParser
from noisebank.queries.conditions import ConditionParser, find_column
from noisebank.queries.group_keys import GroupKey, parse_group_key
from noisebank.queries.groups import check_groups
from noisebank.queries.predicates import FALSE, TRUE
from noisebank.queries.query import Function, Query, Question
from noisebank.queries.sensitivity import sensitivity_squared
from noisebank.queries.spellings import SCHEMAS, rewrite_spellings
from noisebank.queries.weights import build_query

DUCKDB = Dialect.get_or_raise("duckdb")
MIN_COEFFICIENT, MAX_COEFFICIENT = Fraction(1, 10**60), Fraction(10**60)
"""The range of coefficients and constants: beyond it, results would not fit a float."""
MAX_SQL_LENGTH = 20_000
"""In characters. Longer texts are machine-made and would only slow the parser down."""
MAX_NESTING, MAX_TERMS = 24, 200
"""Nested brackets and NOTs, and AND, OR, + and - in a row. Counted, so that what is answered never depends on how
much stack the caller left."""
OPENING_TOKENS = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
CLOSING_TOKENS = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
UNARY_TOKENS = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)
BINARY_TOKENS = (TokenType.AND, TokenType.OR, TokenType.DASH, TokenType.PLUS, TokenType.STAR, TokenType.SLASH)

PLAIN_FORM = "ask SELECT aggregate FROM table [WHERE condition] [GROUP BY columns]"
REFUSED_CLAUSES = {
    "with_": "WITH", "joins": "JOIN", "laterals": "LATERAL", "having": "HAVING",
    "qualify": "QUALIFY", "windows": "WINDOW", "distinct": "DISTINCT", "order": "ORDER BY", "sort": "SORT BY",
    "limit": "LIMIT", "offset": "OFFSET", "sample": "SAMPLE", "pivots": "PIVOT", "into": "INTO", "locks": "FOR UPDATE",
    "match": "MATCH_RECOGNIZE", "connect": "CONNECT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY",
    "prewhere": "PREWHERE", "settings": "SETTINGS", "format": "FORMAT", "hint": "hint", "kind": "SELECT AS",
}  # fmt: skip


def parse_question(sql: str, policy: Policy, select: exp.Select | None = None) -> Question:
    """Returns the question that `sql` asks of the policy's table; `select` is the result of `parse_select`, if known.

    Guarantees: equivalent spellings give equal queries; raises before anything is planned or charged.
    """
    text = sql.strip()  # as it was written: a line break ends a comment, spaces in a text count
    try:
        if select is None:
            select = parse_statement(text)
            check_plain_select(select, policy)
            if select.find(exp.Window):
                raise UnsupportedQuery("OVER", "this is no plain question")
        return _QuestionBuilder(policy, text).build_question(select)
    except RecursionError:
        raise BadQuery("this SQL is nested too deeply") from None


def parse_statement(text: str) -> exp.Select:
    """Returns the syntax tree of one SELECT."""
    if len(text) > MAX_SQL_LENGTH:
        raise BadQuery(f"this SQL has {len(text)} characters; at most {MAX_SQL_LENGTH} are read")
    if re.search("[\x00\ud800-\udfff]", text):  # it could be written into no file, and sent to no engine
        raise BadQuery("this SQL has a NUL, or half of a character (a surrogate): write plain Unicode")
    tokens = _tokenize_sql(text)
    _refuse_nesting(tokens)
    try:
        return rewrite_spellings(_parse_statement(text, tokens))
    except RecursionError:
        raise BadQuery("this SQL is nested too deeply") from None


def find_first_select(text: str) -> exp.Select | None:
    """Returns the first SELECT of a UNION and its like; None if a text is none."""
    try:
        node: exp.Expr | None = DUCKDB.parser().parse(_tokenize_sql(text), text)[0]
    except (BadQuery, SqlglotError, RecursionError):
        return None
    while isinstance(node, (exp.SetOperation, exp.Subquery, exp.Paren)):
        node = node.this
    return node if isinstance(node, exp.Select) else None


def check_plain_select(select: exp.Select, policy: Policy) -> None:
    """Raises unless a SELECT reads the policy's table and has no clause but WHERE and GROUP BY."""
    nodes = tuple(select.walk())
    _refuse_clauses(select, nodes)
    _check_table(select, nodes, policy)


def list_tables(text: str) -> tuple[str, ...]:
    """Returns the names that follow FROM in a text: tables, and what EXTRACT takes a part of. None if it is no SQL."""
    if len(text) > MAX_SQL_LENGTH:
        return ()
    try:
        tokens = _tokenize_sql(text)
    except BadQuery:
        return ()
    places = [place + 1 for place, token in enumerate(tokens[:-1]) if token.token_type is TokenType.FROM]
    return tuple(dict.fromkeys(_read_table_name(tokens[place : place + 3]) for place in places))


def _read_table_name(tokens: list[Token]) -> str:
    """Returns the name of a table in lower case, without the schema that databases put tables into."""
    names = [token.text.lower() for token in tokens]
    has_schema = len(names) == 3 and names[1] == "." and names[0] in SCHEMAS
    return names[2] if has_schema else names[0]


def _tokenize_sql(text: str) -> list[Token]:
    try:
        return _move_top(DUCKDB.tokenize(text))
    except SqlglotError as error:
        raise _syntax_error(error) from None


def _move_top(tokens: list[Token]) -> list[Token]:
    """Writes SELECT TOP n as LIMIT n: the parser's dialect has the latter only."""
    texts = [token.text.upper() for token in tokens[:5]]
    if texts[:2] != ["SELECT", "TOP"] or len(tokens) < 4:
        return tokens
    size = 3 if texts[2:3] == ["("] and texts[4:5] == [")"] else 1
    count = tokens[3 if size == 3 else 2]
    if count.token_type is not TokenType.NUMBER:
        return tokens
    rest = tokens[2 + size :]
    last = len(rest) - (1 if rest and rest[-1].token_type is TokenType.SEMICOLON else 0)
    limit = Token(TokenType.LIMIT, "LIMIT", count.line, count.col, count.start, count.end)
    return [tokens[0], *rest[:last], limit, count, *rest[last:]]


def _refuse_nesting(tokens: list[Token]) -> None:
    """Counts nesting before the parser runs, which recurses once per level."""
    depth = terms = signs = 0
    for token in tokens:
        depth += (token.token_type in OPENING_TOKENS) - (token.token_type in CLOSING_TOKENS)
        signs = signs + 1 if token.token_type in UNARY_TOKENS else 0
        terms += token.token_type in BINARY_TOKENS
        if depth + signs > MAX_NESTING or terms > MAX_TERMS:
            raise BadQuery(f"this SQL is nested too deeply: {MAX_NESTING} levels and {MAX_TERMS} terms are read")


def _parse_statement(text: str, tokens: list[Token]) -> exp.Select:
    try:
        statements = DUCKDB.parser().parse(tokens, text)
    except SqlglotError as error:
        raise _syntax_error(error) from None
    nonempty = [statement for statement in statements if statement is not None]
    if len(nonempty) != 1:
        raise BadQuery("ask exactly one SELECT statement")
    statement = nonempty[0]
    if isinstance(statement, exp.SetOperation):
        raise UnsupportedQuery(statement.key.upper(), "ask each SELECT by itself, or all of them as a list of requests")
    if isinstance(statement, exp.Condition):
        raise BadQuery(f"this is no SELECT statement: {text[:60]}")
    if not isinstance(statement, exp.Select):
        raise UnsupportedQuery(statement.key.upper(), "only SELECT is answered; data is never changed")
    return statement


def _syntax_error(error: SqlglotError) -> BadQuery:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split("\n")[0]
    plain = re.sub(r" but got <Token [^>]*>", "", plain)
    plain = re.sub(r"Required keyword: '\w+' missing for <class '[\w.]*\.(\w+)'>", r"something is missing in \1", plain)
    return BadQuery(f"this is not SQL: {plain}")


def _refuse_clauses(select: exp.Select, nodes: Sequence[exp.Expr]) -> None:
    for key, value in select.args.items():
        if value and key not in ("expressions", "from_", "where", "group"):
            name = REFUSED_CLAUSES.get(key, key.upper())
            raise UnsupportedQuery(name, PLAIN_FORM)
    if any(isinstance(node, (exp.Subquery, exp.Select)) for node in nodes if node is not select):
        raise UnsupportedQuery("a subquery", PLAIN_FORM)


def _check_table(select: exp.Select, nodes: Sequence[exp.Expr], policy: Policy) -> None:
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
    for column in nodes:
        if not isinstance(column, exp.Column):
            continue
        if column.args.get("db") or column.table.lower() not in ("", table.alias_or_name.lower()):
            raise BadQuery(f"{column.sql(dialect='duckdb')} is no column of {table.alias_or_name}")


def refuse_public_rows(policy: Policy) -> BadQuery:
    """Returns the refusal of a question about nothing but the number of rows."""
    text = f"the number of rows is public in this account: {policy.public_rows}; nothing needs to be spent"
    return BadQuery.with_answer(text)


class _QuestionBuilder:
    """Builds the canonical question of one SELECT."""

    def __init__(self, policy: Policy, text: str) -> None:
        self.policy, self.text = policy, text
        self.conditions = ConditionParser(policy.columns)

    def build_question(self, select: exp.Select) -> Question:
        where = select.args.get("where")
        condition = self.conditions.parse_condition(where.this) if where else TRUE
        if condition is FALSE:
            raise BadQuery.with_answer("by the policy no row can meet this condition, so the answer is 0")
        self.conditions.look_within(condition)
        keys = self._parse_group_by(select)
        by = tuple(key.column for key in keys)
        written = {node.unnest() for node in select.args["group"].expressions} if keys else set()
        results = [node for node in select.expressions if not self._is_group_key(node, by, written)]
        if len(results) != 1:
            raise UnsupportedQuery("more than one result", "ask for one aggregate at a time")
        combination = AggregateParser(self.policy, self.conditions, condition, bool(by)).parse_expression(
            results[0].unalias()
        )
        query, factor = build_query(self.conditions.builder, combination.integer_terms, by)
        labels = {key.column: key.labels for key in keys if key.labels is not None}
        query = replace(query, labels=labels) if labels else query
        unit = combination.common_unit * factor
        if not MIN_COEFFICIENT < abs(unit) < MAX_COEFFICIENT or abs(combination.constant) >= MAX_COEFFICIENT:
            raise BadQuery("a coefficient or constant is of no ordinary size")
        if not sensitivity_squared(query, self.policy):
            self._refuse_public(query)
        return Question(query, unit, self.text, combination.constant)

    def _parse_group_by(self, select: exp.Select) -> list[GroupKey]:
        """Returns the keys of GROUP BY, in alphabetical order: the order does not change the query."""
        group = select.args.get("group")
        if group is None:
            return []
        if any(value for key, value in group.args.items() if key != "expressions"):
            raise UnsupportedQuery("GROUP BY ALL, CUBE, ROLLUP or GROUPING SETS", "name the columns: GROUP BY a, b")
        keys = [parse_group_key(node, self.conditions) for node in group.expressions]
        check_groups(tuple(key.column for key in keys), self.policy)
        return sorted(keys, key=lambda key: key.column)

    def _is_group_key(self, node: exp.Expr, by: tuple[str, ...], written: set[exp.Expr]) -> bool:
        """Whether a selected node is a key of GROUP BY. Selecting them is optional: all are always returned."""
        bare = node.unalias().unnest()
        if bare in written:
            return True
        if not isinstance(bare, exp.Column):
            return False
        name = find_column(bare, self.policy.columns).name
        if name not in by:
            raise UnsupportedQuery(f"SELECT {name}", "single values are never shown; ask for an aggregate")
        return True

    def _refuse_public(self, query: Query) -> None:
        rows = self.policy.public_rows
        if rows is not None and query.is_simple and query.function is Function.COUNT:
            raise refuse_public_rows(self.policy)
        raise BadQuery.with_answer(
            "by the policy nobody can change this number, so it is public; nothing needs to be spent"
        )
