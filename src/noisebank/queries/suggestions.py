"""The nearest question that can be answered, for one that is refused: as SQL to paste.

A refused SELECT is taken apart: what is about the account's table and parses by itself stays, what does not is left out
or replaced (an undeclared key by the declared one with the most similar name, single numbers by their average,
COUNT(DISTINCT) by COUNT). Each candidate is parsed before it is named. Everything follows from the text and the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches

from sqlglot import exp

from noisebank.core.errors import Misuse
from noisebank.policy.model import Policy
from noisebank.queries.bins import round_width
from noisebank.queries.derived import strip_parens

MAX_LENGTH = 400
"""Of a suggestion, in characters: longer ones help nobody."""
Check = Callable[[str], object]
"""Raises `Misuse` for SQL that is not answered."""


def suggest_question(statement: exp.Select, policy: Policy, check: Check) -> str | None:
    """Returns a question like a refused one that can be answered; None if there is none."""
    spelled = _spell_names(statement, policy)
    respelled = [] if spelled == statement else [spelled]
    for candidate in (*respelled, *_Repair(spelled, policy, check).list_candidates()):
        sql = str(candidate.sql(dialect="duckdb"))
        if len(sql) <= MAX_LENGTH and _is_answered(sql, check):
            return sql
    return None


def _spell_names(statement: exp.Select, policy: Policy) -> exp.Select:
    """Returns a statement with the declared column, and the account's table, in place of names that are like them."""
    statement = statement.copy()
    known = {name.lower(): name for name in policy.columns}
    own = {each.alias.lower() for each in statement.find_all(exp.Alias, exp.CTE, exp.Subquery)}
    for column in statement.find_all(exp.Column):
        written = column.name.lower()
        alike = [name for name in known if name[:1] == written[:1]]  # people rarely miss the first letter
        close = get_close_matches(written, alike, 1, 0.7)
        if close and written not in known.keys() | own:
            name = known[close[0]]
            column.set("this", exp.to_identifier(name, quoted=not name.isidentifier()))
    for table in statement.find_all(exp.Table):
        name = table.name.lower()
        if name not in own and name != policy.name.lower() and get_close_matches(name, [policy.name.lower()], 1, 0.7):
            table.set("this", exp.to_identifier(policy.name, quoted=not policy.name.isidentifier()))
    return statement


def _is_answered(sql: str, check: Check) -> bool:
    try:
        check(sql)
    except Misuse:
        return False
    return True


class _Repair:
    """The parts of a refused SELECT that can be answered."""

    def __init__(self, statement: exp.Select, policy: Policy, check: Check) -> None:
        self.policy, self.check = policy, check
        self.outer = statement.copy()
        self.inner = _find_innermost(self.outer)
        self.is_nested = self.inner is not self.outer

    def list_candidates(self) -> Iterator[exp.Select]:
        """Yields SELECTs from the nearest to the plainest."""
        where, keys = self._repair_where(), self._repair_keys()
        items = [] if self.is_nested else self._repair_items(where, keys)
        counted = [_parse_node("COUNT(*)")]
        for results in (items, counted):
            if results:
                yield from self._build_with_clauses(results, where, keys)
        for kept_where, kept_keys in ((where, []), ([], keys), ([], [])):
            yield self._build(counted, kept_where, kept_keys)
        used = {each.name for each in self.outer.find_all(exp.Column)}
        for name, column in sorted(self.policy.columns.items(), key=lambda item: item[0] not in used):
            if column.keys or column.bins:
                yield self._build(counted, [], [exp.column(name, quoted=not name.isidentifier())])
            elif column.is_numeric and column.low is not None:
                yield self._build([exp.Avg(this=exp.column(name, quoted=not name.isidentifier()))], [], [])

    def _build_with_clauses(
        self, results: list[exp.Expr], where: list[exp.Expr], keys: list[exp.Expr]
    ) -> Iterator[exp.Select]:
        plain = self._build(results, where, keys)
        if not self.is_nested and self.outer.args.get("joins") is None:
            full = plain.copy()
            for name in ("having", "order", "limit", "offset"):
                if self.outer.args.get(name) is not None:
                    full.set(name, _unqualify(self.outer.args[name].copy()))
            yield full
        yield plain

    def _build(self, results: list[exp.Expr], where: list[exp.Expr], keys: list[exp.Expr]) -> exp.Select:
        name = self.policy.name
        select = exp.Select(expressions=[*(each.copy() for each in keys), *(each.copy() for each in results)])
        select.set("from_", exp.From(this=exp.to_table(name) if name.isidentifier() else exp.table_(name, quoted=True)))
        if where:
            select.set("where", exp.Where(this=exp.and_(*(each.copy() for each in where), copy=False)))
        if keys:
            bare = [
                exp.Literal.number(place + 1) if isinstance(each, exp.Alias) else each.copy()
                for place, each in enumerate(keys)
            ]
            select.set("group", exp.Group(expressions=bare))
        return select

    def _answers(self, select: exp.Select) -> bool:
        return _is_answered(str(select.sql(dialect="duckdb")), self.check)

    def _repair_where(self) -> list[exp.Expr]:
        """Returns the conditions that can be answered by themselves."""
        where = self.inner.args.get("where")
        if where is None:
            return []
        counted = [_parse_node("COUNT(*)")]
        conditions = []
        for part in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
            condition = self._replace_keys(_unqualify(part.copy()))
            if self._answers(self._build(counted, [condition], [])):
                conditions.append(condition)
        return conditions

    def _repair_keys(self) -> list[exp.Expr]:
        """Returns the keys that can be grouped by; a number without bins becomes one of its ranges."""
        group = self.inner.args.get("group")
        counted, keys = [_parse_node("COUNT(*)")], list[exp.Expr]()
        for node in [] if group is None else group.find_all(exp.Column, exp.Literal, exp.Case, exp.Func):
            if node.parent_select is not self.inner or not isinstance(node.parent, (exp.Group, exp.Cube, exp.Rollup)):
                continue
            key = self._selected_node(node)
            for candidate in (key, *self._list_ranges(key)):
                if candidate is not None and self._answers(self._build(counted, [], [candidate])):
                    keys.append(candidate)
                    break
        return keys

    def _selected_node(self, node: exp.Expr) -> exp.Expr:
        """Returns a key of GROUP BY, or what its position stands for."""
        if isinstance(node, exp.Literal) and node.is_int and 1 <= int(node.name) <= len(self.inner.expressions):
            node = self.inner.expressions[int(node.name) - 1].unalias()
        return _unqualify(node.copy())

    def _list_ranges(self, node: exp.Expr) -> Iterator[exp.Expr]:
        column = self.policy.columns.get(node.name) if isinstance(node, exp.Column) else None
        if column is not None and column.is_numeric and column.low is not None and not column.bins:
            low, high = (float(end * column.step) for end in column.bounds)
            width = f"{round_width((high - low) / 20):.12g}"
            name = column.name if column.name.isidentifier() else f'"{column.name}"'
            yield exp.alias_(_parse_node(f"FLOOR({name} / {width}) * {width}"), f"{column.name}_from")

    def _repair_items(self, where: list[exp.Expr], keys: list[exp.Expr]) -> list[exp.Expr]:
        """Returns the results that can be answered by themselves; of a single number its average."""
        items, written = list[exp.Expr](), {_unqualify(each.unalias().copy()) for each in keys}
        for node in self.outer.expressions:
            item = _count_all(_unqualify(node.copy()))
            bare = strip_parens(item.unalias())
            if (
                bare in written
                or isinstance(bare, exp.Star)
                or any(bare in list[exp.Expr](each.find_all(exp.Column)) for each in keys)
            ):
                continue
            if isinstance(bare, exp.Column):
                item = exp.Avg(this=bare.copy())
            for candidate in (item, *self._list_averages(bare)):
                if self._answers(self._build([candidate], where, keys)) or self._is_public(candidate, where, keys):
                    items += [] if candidate in items else [candidate]
                    break
        return items

    def _list_averages(self, node: exp.Expr) -> Iterator[exp.Expr]:
        """Yields the averages of the numbers that a node reads."""
        for each in node.find_all(exp.Column):
            column = self.policy.columns.get(each.name)
            if column is not None and column.is_numeric:
                yield exp.Avg(this=each.copy())

    def _is_public(self, item: exp.Expr, where: list[exp.Expr], keys: list[exp.Expr]) -> bool:
        """Whether an item is refused only because its number is public: beside others it is answered."""
        return not where and not keys and self.policy.public_rows is not None and item.sql().upper() == "COUNT(*)"

    def _replace_keys(self, condition: exp.Expr) -> exp.Expr:
        """Returns a condition with declared keys instead of others with similar names."""
        for literal in list(condition.find_all(exp.Literal)):
            parent = literal.parent
            column = (
                self.policy.columns.get(parent.this.name) if parent and isinstance(parent.this, exp.Column) else None
            )
            if column is None or not literal.is_string or not column.keys or literal.name in column.keys:
                continue
            names = {str(key).lower(): str(key) for key in column.keys}
            close = get_close_matches(literal.name.lower(), list(names), 1, 0.5)
            if close:
                literal.replace(exp.Literal.string(names[close[0]]))
        return condition


def _find_innermost(select: exp.Select) -> exp.Select:
    """Returns the SELECT that reads a table, below subqueries and CTEs."""
    for _ in range(8):
        from_ = select.args.get("from_")
        source = None if from_ is None else from_.this
        ctes = (
            {}
            if select.args.get("with_") is None
            else {c.alias.lower(): c.this for c in select.args["with_"].expressions}
        )
        inner = source.this if isinstance(source, exp.Subquery) else None
        if isinstance(source, exp.Table) and source.name.lower() in ctes:
            inner = ctes[source.name.lower()]
        if not isinstance(inner, exp.Select):
            return select
        select = inner
    return select


def _count_all(node: exp.Expr) -> exp.Expr:
    """Returns a node with COUNT(*) for COUNT(DISTINCT ...)."""

    def replace_distinct(each: exp.Expr) -> exp.Expr:
        distinct = isinstance(each, exp.Count) and isinstance(each.this, exp.Distinct)
        return exp.Count(this=exp.Star()) if distinct else each

    return node.transform(replace_distinct)


def _unqualify(node: exp.Expr) -> exp.Expr:
    for column in list(node.find_all(exp.Column)):
        column.set("table", None)
    return node


def _parse_node(sql: str) -> exp.Expr:
    return exp.maybe_parse(sql, dialect="duckdb")
