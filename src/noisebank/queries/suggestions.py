"""The nearest question that can be answered, for one that is refused: as SQL to paste.

A refused SELECT is taken apart: what is about the account's table and parses by itself stays, what does not is left out
or replaced (an undeclared key by the declared one with the most similar name, single numbers by their average,
COUNT(DISTINCT) by COUNT). Each candidate is parsed before it is named. Everything follows from the text and the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from itertools import chain

from sqlglot import exp

from noisebank.core.errors import Misuse
from noisebank.policy.model import Kind, Policy
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
    inner = _find_innermost(spelled)
    repairs = [_Repair(spelled, policy, check)]
    if inner is not spelled and inner.args.get("group") is not None:  # its groups, of which the outer one asks more
        repairs.insert(0, _Repair(inner, policy, check))
    near = (each for repair in repairs for each in repair.list_near())
    for candidate in chain(respelled, near, repairs[-1].list_plain()):
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
        self.where, self.keys = self._repair_where(), self._repair_keys()

    def list_near(self) -> Iterator[exp.Select]:
        """Yields SELECTs with what is asked for."""
        items = [] if self.is_nested else self._repair_items(self.where, self.keys)
        if items:
            yield from self._build_with_clauses(items, self.where, self.keys)
        elif not self.is_nested and self._find_extreme_date() is not None:
            month = exp.alias_(_parse_node(f"DATE_TRUNC('month', {self._find_extreme_date()})"), "month")
            yield self._build([_parse_node("COUNT(*)")], self.where, [*self.keys, month])

    def list_plain(self) -> Iterator[exp.Select]:
        """Yields SELECTs that count, from the nearest to the plainest."""
        counted = [_parse_node("COUNT(*)")]
        yield from self._build_with_clauses(counted, self.where, self.keys)
        for kept_where, kept_keys in ((self.where, []), ([], self.keys), ([], [])):
            yield self._build(counted, kept_where, kept_keys)
        used = {each.name for each in self.outer.find_all(exp.Column)}
        for name, column in sorted(self.policy.columns.items(), key=lambda item: item[0] not in used):
            node = exp.column(name, quoted=not name.isidentifier())
            if column.keys or column.bins:
                yield self._build(counted, [], [node])
            elif column.is_date and column.low is not None:
                yield self._build(
                    counted, [], [exp.alias_(_parse_node(f"DATE_TRUNC('year', {node.sql('duckdb')})"), "year")]
                )
            elif column.is_numeric and column.low is not None:
                yield self._build([exp.Avg(this=node)], [], [])

    def _find_extreme_date(self) -> str | None:
        """Returns the date of which the first or last one is asked for."""
        for node in self.outer.find_all(exp.Min, exp.Max):
            column = self.policy.columns.get(node.this.name) if isinstance(node.this, exp.Column) else None
            if column is not None and column.is_date:
                return str(exp.column(column.name, quoted=not column.name.isidentifier()).sql(dialect="duckdb"))
        return None

    def _build_with_clauses(
        self, results: list[exp.Expr], where: list[exp.Expr], keys: list[exp.Expr]
    ) -> Iterator[exp.Select]:
        plain = self._build(results, where, keys)
        group = self.outer.args.get("group")
        has_all = group is not None and len(keys) >= len(group.expressions)
        if not self.is_nested and self.outer.args.get("joins") is None and has_all:
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
            for candidate in (key, *self._list_ranges(key), *self._list_roundings(key)):
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

    def _list_roundings(self, node: exp.Expr) -> Iterator[exp.Expr]:
        """Yields a key with fewer values, and with a rounding that is the same in all engines."""
        if not node.find(exp.Column) or isinstance(node, exp.Column):
            return
        yield node.transform(lambda each: exp.Round(this=each.this) if isinstance(each, exp.Cast) else each)
        yield exp.Floor(this=node.copy())
        yield exp.Anonymous(this="CLAMP", expressions=[node.copy(), exp.Literal.number(0), exp.Literal.number(30)])

    def _repair_items(self, where: list[exp.Expr], keys: list[exp.Expr]) -> list[exp.Expr]:
        """Returns the results that can be answered by themselves; of a single number its average."""
        items, written = list[exp.Expr](), {_unqualify(each.unalias().copy()) for each in keys}
        for node in (each for written in self.outer.expressions for each in _split_ranks(written)):
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
            for candidate in (item, *_list_means(bare), *_list_parts(bare), *self._list_averages(bare)):
                if candidate.find(exp.Subquery):  # of other rows, or of another table
                    continue
                if self._answers(self._build([candidate], where, keys)) or self._is_public(candidate, where, keys):
                    items += [] if candidate.unalias() in [each.unalias() for each in items] else [candidate]
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

    def _list_ordered_keys(self, node: exp.Expr) -> exp.Expr:
        """Returns the declared keys for an order of texts."""
        holds = TEXT_ORDERS.get(type(node))
        if holds is None or not isinstance(node.this, exp.Column) or not isinstance(node.expression, exp.Literal):
            return node
        column = self.policy.columns.get(node.this.name)
        if column is None or column.kind is not Kind.TEXT or not column.keys:
            return node
        keys = [exp.Literal.string(key) for key in column.key_names if holds(key, node.expression.name)]
        return exp.In(this=node.this.copy(), expressions=keys) if keys else node

    def _replace_keys(self, condition: exp.Expr) -> exp.Expr:
        """Returns a condition with declared keys instead of others with similar names, and other small repairs."""
        condition = condition.transform(lambda each: each.this if isinstance(each, exp.AtTimeZone) else each)
        condition = condition.transform(self._list_ordered_keys).transform(_move_interval).transform(_overlap)
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


TEXT_ORDERS: dict[type[exp.Expr], Callable[[str, str], bool]] = {
    exp.GT: lambda key, text: key > text, exp.GTE: lambda key, text: key >= text,
    exp.LT: lambda key, text: key < text, exp.LTE: lambda key, text: key <= text,
}  # fmt: skip


def _split_ranks(node: exp.Expr) -> list[exp.Expr]:
    """Returns one quantile for each rank of PERCENTILE_CONT(ARRAY[...])."""
    array, within = node.find(exp.Array), node.find(exp.WithinGroup)
    quantile = node.find(exp.PercentileCont, exp.Quantile)
    if array is not None and within is None and quantile is not None:
        return [exp.Quantile(this=quantile.this.copy(), quantile=rank.copy()) for rank in array.expressions]
    if array is None or within is None or not isinstance(within.this, (exp.PercentileCont, exp.PercentileDisc)):
        return [node]
    column = within.expression.expressions[0].this
    return [exp.Quantile(this=column.copy(), quantile=rank.copy()) for rank in array.expressions]


def _list_parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yields the parts of a result that are numbers computed from aggregates, larger ones first."""
    for each in node.walk():
        if (
            each is not node
            and isinstance(each, exp.Condition)
            and (isinstance(each, exp.AggFunc) or each.find(exp.AggFunc))
        ):
            yield each.copy()


def _list_means(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yields what says nearly the same: of a truth value how often it holds, of a median the average, of an average of
    quotients the quotient of sums."""
    is_every = isinstance(node, exp.Anonymous) and str(node.this).lower() == "every" and len(node.expressions) == 1
    argument = node.expressions[0] if is_every else node.this if isinstance(node.this, exp.Expr) else None
    if argument is None:
        return
    if is_every or isinstance(node, (exp.LogicalOr, exp.LogicalAnd)):
        argument = argument.this if isinstance(argument, exp.Cast) else argument
        counted = exp.Count(this=exp.Star())
        yield exp.Filter(this=counted, expression=exp.Where(this=argument.copy()))
    elif isinstance(node, (exp.Median, exp.Quantile, exp.PercentileCont, exp.Min, exp.Max)):
        yield exp.Avg(this=argument.copy())
    elif isinstance(node, exp.Avg) and isinstance(argument.unnest(), exp.Div):
        top, bottom = argument.unnest().this, argument.unnest().expression
        yield exp.Div(this=exp.Sum(this=top.copy()), expression=exp.Sum(this=bottom.copy()))


def _overlap(node: exp.Expr) -> exp.Expr:
    """Returns (a, b) OVERLAPS (c, d) as a < d AND b > c, for periods that are longer than a moment."""
    sides = (
        [side.unnest().expressions for side in (node.this, node.expression)] if isinstance(node, exp.Overlaps) else []
    )
    if len(sides) != 2 or any(len(side) != 2 for side in sides):
        return node
    (start, end), (first, last) = sides
    before, after = exp.LT(this=start.copy(), expression=last.copy()), exp.GT(this=end.copy(), expression=first.copy())
    return exp.paren(exp.and_(before, after, copy=False), copy=False)


def _move_interval(node: exp.Expr) -> exp.Expr:
    """Returns born <= day - INTERVAL '65 years' for born + INTERVAL '65 years' <= day."""
    if not isinstance(node, (exp.GT, exp.GTE, exp.LT, exp.LTE)) or not isinstance(node.this, (exp.Add, exp.Sub)):
        return node
    column, interval = node.this.this, node.this.expression
    if not isinstance(column, exp.Column) or not isinstance(interval, exp.Interval):
        return node
    opposite = exp.Sub if isinstance(node.this, exp.Add) else exp.Add
    moved = opposite(this=node.expression.copy(), expression=interval.copy())
    return type(node)(this=column.copy(), expression=moved)


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
