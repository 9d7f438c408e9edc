"""The clauses of a SELECT that act on its released table: HAVING, ORDER BY, LIMIT, OFFSET, and sets of GROUP BY.

`split_clauses` takes them off; what stays is a plain SELECT, in which GROUP BY has expressions instead of positions
and aliases. Used by `queries.selects`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from sqlglot import exp

from noisebank.core.errors import BadQuery, UnsupportedQuery

MAX_GROUPING_SETS = 64
RELEASED_CLAUSES = ("having", "order", "limit", "offset")


@dataclass(frozen=True, slots=True)
class Clauses:
    """A SELECT without the clauses that act on the released table, and these."""

    plain: exp.Select
    having: exp.Expr | None
    order: tuple[exp.Ordered, ...]
    offset: int
    limit: int | None
    is_verbatim: bool
    """Whether the plain SELECT is the statement as it was written."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """The keys of GROUP BY, each once, and for CUBE, ROLLUP and GROUPING SETS the sets of their indices."""

    nodes: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...] = ()


def split_clauses(statement: exp.Select, column_names: Iterable[str]) -> Clauses:
    """Takes the clauses off that act on the released table, and resolves positions and aliases in GROUP BY.

    A declared column goes before an alias, as in SQL; in ORDER BY (`queries.result_parser`) it is the other way.
    """
    if not any(statement.args.get(name) for name in ("group", *RELEASED_CLAUSES)):
        return Clauses(statement, None, (), 0, None, is_verbatim=True)
    declared = {name.lower() for name in column_names}
    plain = statement.copy()
    having, order = plain.args.get("having"), plain.args.get("order")
    limit, offset = _parse_limit(plain.args.get("limit")), _parse_offset(plain)
    for name in RELEASED_CLAUSES:
        plain.set(name, None)
    if plain.args.get("group"):
        _resolve_group(plain, declared)
    condition = None if having is None else _replace_aliases(having.this, plain, declared)
    terms = () if order is None else tuple(_replace_order_aliases(term, plain, declared) for term in order.expressions)
    return Clauses(plain, condition, terms, offset, limit, plain == statement)


def parse_grouping(plain: exp.Select) -> Grouping:
    """Returns the keys of GROUP BY, and the sets of CUBE, ROLLUP and GROUPING SETS."""
    group = plain.args.get("group")
    if group is None:
        return Grouping(())
    nodes: list[exp.Expr] = []
    blocks = [_list_sets(element, nodes) for element in group.expressions]
    for name in ("cube", "rollup", "grouping_sets"):  # other spellings of the same
        blocks += [_list_sets(element, nodes) for element in group.args.get(name) or []]
    known = ("expressions", "cube", "rollup", "grouping_sets")
    if any(value for key, value in group.args.items() if key not in known):
        raise UnsupportedQuery("this form of GROUP BY", "name the columns: GROUP BY a, b")
    if all(len(block) == 1 for block in blocks):
        return Grouping(tuple(nodes))
    sets = [tuple(sorted(set().union(*choice))) for choice in product(*blocks)]
    if len(sets) > MAX_GROUPING_SETS:
        raise UnsupportedQuery(f"more than {MAX_GROUPING_SETS} grouping sets", "group by fewer keys")
    return Grouping(tuple(nodes), tuple(dict.fromkeys(sets)))


def _list_sets(element: exp.Expr, nodes: list[exp.Expr]) -> list[set[int]]:
    """Returns the sets of one element of GROUP BY, as indices of keys; adds new keys."""
    if isinstance(element, exp.GroupingSets):
        return [each for part in element.expressions for each in _list_sets(part, nodes)]
    if not isinstance(element, (exp.Cube, exp.Rollup)):
        return [_add_keys(element, nodes)]
    parts = [_add_keys(part, nodes) for part in element.expressions]
    if isinstance(element, exp.Rollup):
        return [set().union(*parts[:count]) for count in range(len(parts), -1, -1)]
    if 2 ** len(parts) > MAX_GROUPING_SETS:
        raise UnsupportedQuery(f"CUBE of {len(parts)} keys", "cube fewer keys")
    choices = product((True, False), repeat=len(parts))
    return [set().union(*(part for part, used in zip(parts, choice, strict=True) if used)) for choice in choices]


def _add_keys(element: exp.Expr, nodes: list[exp.Expr]) -> set[int]:
    """Returns the indices of the keys of one column, expression or tuple."""
    while isinstance(element, exp.Paren):
        element = element.this
    if isinstance(element, exp.Tuple):
        return set().union(*(_add_keys(each, nodes) for each in element.expressions))
    for index, node in enumerate(nodes):
        if node == element:
            return {index}
    nodes.append(element)
    return {len(nodes) - 1}


def _resolve_group(plain: exp.Select, declared: set[str]) -> None:
    """Writes expressions for positions, aliases and ALL in GROUP BY."""
    group = plain.args["group"]
    if group.args.get("all"):
        keys = [node.unalias().copy() for node in plain.expressions if not node.find(exp.AggFunc)]
        plain.set("group", exp.Group(expressions=keys) if keys else None)
        return
    for element in list(group.find_all(exp.Literal, exp.Column)):
        if isinstance(element.parent, (exp.Group, exp.Cube, exp.Rollup, exp.GroupingSets, exp.Tuple, exp.Paren)):
            target = _resolve_key(element, plain.expressions, declared)
            if target is not None:
                element.replace(target)


def _resolve_key(element: exp.Expr, selected: Sequence[exp.Expr], declared: set[str]) -> exp.Expr | None:
    """Returns what a position or an alias in GROUP BY stands for; None for a column."""
    if isinstance(element, exp.Column):
        return None if element.table or element.name.lower() in declared else _find_alias(element.name, selected)
    if element.is_string:
        return None
    position = int(element.name) if element.is_int else 0
    if not 1 <= position <= len(selected):
        raise BadQuery(f"GROUP BY {element.name}: there are {len(selected)} columns")
    node: exp.Expr = selected[position - 1].unalias().copy()
    if node.find(exp.AggFunc):
        raise BadQuery(f"GROUP BY {element.name} is an aggregate: group by keys")
    return node


def _find_alias(name: str, selected: Sequence[exp.Expr]) -> exp.Expr | None:
    """Returns what a name is an alias of, unless it is one of an aggregate."""
    for node in selected:
        if isinstance(node, exp.Alias) and node.alias.lower() == name.lower():
            return None if node.find(exp.AggFunc) else node.unalias().copy()
    return None


def _replace_aliases(condition: exp.Expr, plain: exp.Select, declared: set[str]) -> exp.Expr:
    """Returns HAVING with what the aliases in it stand for."""
    aliases = {node.alias.lower(): node.unalias() for node in plain.expressions if isinstance(node, exp.Alias)}
    aliases = {name: node for name, node in aliases.items() if name not in declared}

    def replace_column(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in aliases:
            return exp.paren(aliases[node.name.lower()].copy())
        return node

    return condition.copy().transform(replace_column)


def _replace_order_aliases(term: exp.Ordered, plain: exp.Select, declared: set[str]) -> exp.Ordered:
    """Returns a term of ORDER BY with what the aliases inside of its expression stand for."""
    if isinstance(term.this.unnest(), (exp.Column, exp.Literal, exp.Var)):
        return term  # a column of the table that is shown, or its position
    return exp.Ordered(**{**term.args, "this": _replace_aliases(term.this, plain, declared)})


def _parse_limit(node: exp.Expr | None) -> int | None:
    if node is None:
        return None
    options = node.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        raise UnsupportedQuery("FETCH with PERCENT or WITH TIES", "ask FETCH FIRST 5 ROWS ONLY, or LIMIT 5")
    if node.args.get("expressions"):
        raise UnsupportedQuery("LIMIT BY", "ask LIMIT 5")
    if isinstance(node, exp.Fetch):
        count = node.args.get("count")
        return 1 if count is None else _parse_count(count, "LIMIT")  # FETCH FIRST ROW ONLY
    return _parse_count(node.expression, "LIMIT")


def _parse_offset(plain: exp.Select) -> int:
    limit, offset = plain.args.get("limit"), plain.args.get("offset")
    node = offset.expression if offset is not None else limit.args.get("offset") if limit is not None else None
    return 0 if node is None else _parse_count(node, "OFFSET")


def _parse_count(node: exp.Expr | None, clause: str) -> int:
    if not isinstance(node, exp.Literal) or node.is_string or not node.is_int:
        text = "nothing" if node is None else node.sql(dialect="duckdb")[:40]
        raise UnsupportedQuery(f"{clause} {text}", f"{clause} takes a whole number of rows")
    return int(node.name)
