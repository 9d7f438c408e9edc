"""Writes a SELECT over CTEs or a subquery as one SELECT from the account's table.

A subquery may filter, rename and compute row expressions: its columns are put where they are used, and its WHERE is
joined with the outer one. One that aggregates may be filtered, ordered and computed with: its aggregates are put where
their names are used, and the outer WHERE is a HAVING. Used by `queries.selects`.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from noisebank.core.errors import BadQuery, UnsupportedQuery

MAX_DEPTH = 8
"""Of CTEs and subqueries in each other."""
MAX_TERMS_WRITTEN = 20_000
"""Terms that are copied on the way: thirty short CTEs, each of which uses the one before twice, are a billion."""
OUTER_CLAUSES = ("expressions", "from_", "with_", "where", "group", "having", "order", "limit", "offset")
INNER_CLAUSES = ("expressions", "from_", "with_", "where", "group", "having")
AFTER_GROUPING = ("order", "limit", "offset")


def inline_subqueries(statement: exp.Select) -> exp.Select:
    """Returns a SELECT without CTEs and subqueries in FROM; the statement itself if there are none."""
    source = _find_source(statement)
    if statement.args.get("with_") is None and not isinstance(source, exp.Subquery):
        return statement
    return _inline(_Growth(), statement.copy(), {}, 0)


class _Growth:
    """Counts the terms that are copied for one statement."""

    def __init__(self) -> None:
        self._written = 0

    def add(self, terms: int) -> None:
        """Refuses a statement that grows beyond all use before it has grown."""
        self._written += terms
        if self._written > MAX_TERMS_WRITTEN:
            raise UnsupportedQuery(
                "a statement this long, written without its subqueries", "use each of them less often"
            )


def _inline(growth: _Growth, select: exp.Select, outer: Mapping[str, exp.Select], depth: int) -> exp.Select:
    if depth > MAX_DEPTH:
        raise UnsupportedQuery(f"more than {MAX_DEPTH} subqueries in each other", "write fewer")
    known = dict(outer)
    with_ = select.args.get("with_")
    if with_ is not None:
        if with_.args.get("recursive"):
            raise UnsupportedQuery("WITH RECURSIVE", "ask one SELECT from the table")
        for cte in with_.expressions:
            known[cte.alias.lower()] = _inline(growth, _inner_select(cte), known, depth + 1)
        select.set("with_", None)
    source = _find_source(select)
    _refuse_scalars(select, source, known)
    if isinstance(source, exp.Table) and source.name.lower() in known and not source.args.get("db"):
        growth.add(_count_terms(known[source.name.lower()]))
        inner, alias = known[source.name.lower()].copy(), source.alias_or_name
    elif isinstance(source, exp.Subquery):
        inner, alias = _inline(growth, _inner_select(source), known, depth + 1), source.alias
    else:
        return select
    _refuse_joins(select)
    return _merge(select, inner, _OuterColumns(inner, alias, growth))


def _refuse_scalars(select: exp.Select, source: exp.Expr | None, known: Mapping[str, exp.Select]) -> None:
    """Refuses a number of a subquery beside results over a CTE or another subquery: it has names of its own."""
    names = {table.name.lower() for node in select.expressions for table in node.find_all(exp.Table)}
    is_inlined = isinstance(source, exp.Subquery) or (isinstance(source, exp.Table) and source.name.lower() in known)
    if names & set(known) or (names and is_inlined):
        raise UnsupportedQuery("a subquery among results over WITH or another subquery", "ask both of the table itself")


def _count_terms(node: exp.Expr) -> int:
    return sum(1 for _ in node.walk())


def _find_source(select: exp.Select) -> exp.Expr | None:
    from_ = select.args.get("from_")
    return None if from_ is None else from_.this


def _inner_select(node: exp.CTE | exp.Subquery) -> exp.Select:
    inner = node.this
    if not isinstance(inner, exp.Select):
        raise UnsupportedQuery(f"{inner.key.upper()} in a subquery", "a subquery is one SELECT")
    alias = node.args.get("alias")
    names = alias.args.get("columns") if alias is not None else None
    inner = inner.copy()
    if inner.args.get("from_") is None:
        raise UnsupportedQuery("a subquery without FROM", "ask one SELECT from the table")
    if names:
        if len(names) != len(inner.expressions) or any(isinstance(each, exp.Star) for each in inner.expressions):
            raise BadQuery("a subquery has as many column names as columns")
        renamed = [exp.alias_(each.unalias(), name.name) for each, name in zip(inner.expressions, names, strict=True)]
        inner.set("expressions", renamed)
    return inner


def _refuse_joins(select: exp.Select) -> None:
    if select.args.get("joins"):
        raise UnsupportedQuery("JOIN", "ask one table; a table of public facts goes into CASE or into your own tool")


def _merge(outer: exp.Select, inner: exp.Select, columns: _OuterColumns) -> exp.Select:
    """Returns the outer SELECT over what the inner one reads."""
    for node in list(outer.expressions):  # results keep their names as they are written
        if not isinstance(node, (exp.Alias, exp.Star)) and not _is_qualified_star(node):
            name = node.name if isinstance(node, exp.Column) else node.sql(dialect="duckdb")
            node.replace(exp.alias_(node.copy(), name, quoted=True))
    if _is_aggregated(inner):
        return _merge_aggregated(outer, inner, columns)
    _refuse_clauses(outer, OUTER_CLAUSES)
    _refuse_clauses(inner, (*INNER_CLAUSES, "order"))  # the order of rows is lost in the outer SELECT
    if inner.args.get("limit") or inner.args.get("offset"):
        raise UnsupportedQuery("LIMIT on rows", "which rows it leaves is decided by single rows: leave it out")
    merged = outer.copy()
    columns.replace_in(merged)
    merged.set("from_", inner.args["from_"].copy())
    conditions = [each.args["where"].this for each in (inner, merged) if each.args.get("where")]
    if conditions:
        merged.set("where", exp.Where(this=exp.and_(*(each.copy() for each in conditions), copy=False)))
    return merged


def _merge_aggregated(outer: exp.Select, inner: exp.Select, columns: _OuterColumns) -> exp.Select:
    """Returns the inner SELECT with the outer one's results, conditions and order."""
    if _is_aggregated(outer):
        group = inner.args.get("group")
        named = (
            [_name_position(each, inner).sql(dialect="duckdb") for each in group.expressions] if group else ["value"]
        )
        keys = ", ".join(named)
        raise UnsupportedQuery(
            f"an aggregate of one number for each {keys}"[:200],
            "aggregates are about the table's rows, and not about what was computed for each person or group",
        )
    _refuse_clauses(outer, OUTER_CLAUSES)
    _refuse_clauses(inner, (*INNER_CLAUSES, *AFTER_GROUPING))
    cut = inner.args.get("limit") or inner.args.get("offset")
    acts_after = any(outer.args.get(name) for name in AFTER_GROUPING)
    if (cut and acts_after) or ((cut or inner.find(exp.Window)) and outer.args.get("where")):
        raise UnsupportedQuery("conditions on a subquery with LIMIT or OVER", "write one SELECT with HAVING and LIMIT")
    expanded = outer.copy()
    columns.expand_stars(expanded)
    columns.replace_in(expanded)
    merged = inner.copy()
    merged.set("expressions", [each.copy() for each in expanded.expressions])
    conditions = [each.this for each in (inner.args.get("having"), expanded.args.get("where")) if each is not None]
    if conditions:
        merged.set("having", exp.Having(this=exp.and_(*(each.copy() for each in conditions), copy=False)))
    for name in AFTER_GROUPING:
        if expanded.args.get(name) is not None:
            merged.set(name, expanded.args[name].copy())
    if inner.args.get("order") is not None and expanded.args.get("order") is None:
        merged.set("order", _name_order(inner, columns))
    return merged


def _name_position(node: exp.Expr, select: exp.Select) -> exp.Expr:
    """Returns what a position in GROUP BY stands for."""
    if isinstance(node, exp.Literal) and node.is_int and 1 <= int(node.name) <= len(select.expressions):
        selected: exp.Expr = select.expressions[int(node.name) - 1].unalias()
        return selected
    return node


def _name_order(inner: exp.Select, columns: _OuterColumns) -> exp.Order:
    """Returns the inner ORDER BY in terms of expressions: its aliases and positions may not be selected outside."""
    order: exp.Order = inner.args["order"].copy()
    for term in order.expressions:
        bare = term.this
        if isinstance(bare, exp.Literal) and bare.is_int and 1 <= int(bare.name) <= len(inner.expressions):
            term.set("this", inner.expressions[int(bare.name) - 1].unalias().copy())
        elif isinstance(bare, exp.Column) and not bare.table and bare.name.lower() in columns.expressions:
            term.set("this", columns.expressions[bare.name.lower()].copy())
    return order


class _OuterColumns:
    """The columns that a subquery gives to the SELECT around it."""

    def __init__(self, inner: exp.Select, alias: str, growth: _Growth) -> None:
        self.alias, self.inner, self._growth = alias.lower(), inner, growth
        self.passes_all = any(isinstance(each, exp.Star) for each in inner.expressions)
        self.expressions: dict[str, exp.Expr] = {}
        self.names: list[str] = []
        self._terms: dict[str, int] = {}
        for node in inner.expressions:
            if isinstance(node, exp.Star):
                if node.args.get("except_") or node.args.get("replace") or node.args.get("rename"):
                    raise UnsupportedQuery("* EXCLUDE, REPLACE or RENAME", "name the columns")
            else:
                name = node.alias_or_name or node.sql(dialect="duckdb")
                self.names.append(name)
                self.expressions[name.lower()] = _unqualify(node.unalias().copy(), inner)
                self._terms[name.lower()] = _count_terms(node)
        for clause in ("where", "group", "having", "order"):
            if inner.args.get(clause) is not None:
                inner.set(clause, _unqualify(inner.args[clause], inner))
        source = _find_source(inner)
        if isinstance(source, exp.Table):
            source.set("alias", None)

    def expand_stars(self, outer: exp.Select) -> None:
        """Writes the subquery's columns for * in the outer SELECT."""
        nodes: list[exp.Expr] = []
        for node in outer.expressions:
            self._growth.add(len(self.names))
            named = [exp.alias_(exp.column(name, quoted=True), name, quoted=True) for name in self.names]
            nodes += named if isinstance(node, exp.Star) or _is_qualified_star(node) else [node]
        outer.set("expressions", nodes)

    def replace_in(self, outer: exp.Select) -> None:
        """Writes the subquery's expressions for its columns."""
        aliases = {node.alias.lower() for node in outer.expressions if isinstance(node, exp.Alias)}
        for clause in ("expressions", "where", "group", "having", "order"):
            nodes = outer.args.get(clause)
            for root in nodes if isinstance(nodes, list) else [nodes] if nodes is not None else []:
                for column in list(root.find_all(exp.Column)):
                    in_order = clause == "order" and column.name.lower() in aliases
                    if not in_order or column.table:
                        column.replace(self._resolve(column))

    def _resolve(self, column: exp.Column) -> exp.Expr:
        if column.table.lower() not in ("", self.alias):
            raise BadQuery(f"{column.sql(dialect='duckdb')} is no column of {self.alias or 'the subquery'}")
        expression = self.expressions.get(column.name.lower())
        if expression is not None:
            self._growth.add(self._terms[column.name.lower()])
            plain = isinstance(expression, (exp.Column, exp.Literal))
            return expression.copy() if plain else exp.paren(expression.copy())
        if not self.passes_all:
            known = ", ".join(self.expressions)
            raise BadQuery(f"there is no column {column.name} in the subquery; there are {known}")
        return exp.column(column.this.copy())


def _is_qualified_star(node: exp.Expr) -> bool:
    """Whether a node is table.*."""
    return isinstance(node, exp.Column) and isinstance(node.this, exp.Star)


def _unqualify(node: exp.Expr, select: exp.Select) -> exp.Expr:
    """Returns a node without the table's name before its columns."""
    source = _find_source(select)
    name = source.alias_or_name.lower() if source is not None else ""
    for column in list(node.find_all(exp.Column)):
        if column.table.lower() == name and not column.args.get("db"):
            column.set("table", None)
    return node


def _is_aggregated(select: exp.Select) -> bool:
    """Whether a SELECT has groups or aggregates: its rows are not those of the table."""
    if select.args.get("group") or select.args.get("having") or select.args.get("distinct"):
        return True
    return any(_has_aggregate(node) for node in select.expressions)


def _has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate stands in a node that is no window function's own: SUM(SUM(x)) OVER () has one, SUM(n) OVER
    () has none."""
    return any(not isinstance(each.parent, exp.Window) for each in node.find_all(exp.AggFunc))


def _refuse_clauses(select: exp.Select, allowed: tuple[str, ...]) -> None:
    for key, value in select.args.items():
        if value and key not in allowed:
            raise UnsupportedQuery(f"{key.rstrip('_').upper()} around or in a subquery", "write one SELECT")
