"""Writes a subquery that is one number of the same table, beside other aggregates, as one of them.

`SELECT COUNT(*) * 1.0 / (SELECT COUNT(*) FROM t) FROM t WHERE x` is `SELECT COUNT(*) FILTER (WHERE x) * 1.0 / COUNT(*)
FROM t`: the condition of each SELECT becomes the FILTER of its own aggregates. Used by `queries.selects`.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from noisebank.core.errors import UnsupportedQuery

ALLOWED = ("expressions", "from_", "where")
FILTERED = ("having", "order")
"""Other clauses of the outer SELECT that aggregates stand in."""


def inline_scalars(select: exp.Select) -> exp.Select:
    """Returns a SELECT without such subqueries; itself if it has none."""
    if not any(node.find(exp.Subquery) for node in select.expressions):
        return select
    written = select.copy()
    if written.args.get("group") is not None:
        advice = "ask for both and divide, or for the share of a total: COUNT(*) / SUM(COUNT(*)) OVER ()"
        raise UnsupportedQuery("a subquery beside groups", advice)
    subqueries = [each for node in written.expressions for each in node.find_all(exp.Subquery)]
    if written.args.get("from_") is None and isinstance(subqueries[0].this, exp.Select):  # SELECT (SELECT ...) / ...
        written.set("from_", _copy_source(subqueries[0].this))
    if any(not _is_scalar(each, written) for each in subqueries):
        return select  # refused where subqueries are
    outer = written.args.get("where")
    clauses = [clause for name in FILTERED if (clause := written.args.get(name)) is not None]
    for node in (*written.expressions, *clauses):
        for aggregate in list(_list_aggregates(node)):
            _add_filter(aggregate, outer)
    written.set("where", None)
    for subquery in subqueries:
        inner = subquery.this
        for aggregate in list(_list_aggregates(inner.expressions[0])):
            _add_filter(aggregate, inner.args.get("where"))
        subquery.replace(exp.paren(inner.expressions[0].unalias().copy()))
    return written


def _copy_source(select: exp.Select) -> exp.From | None:
    """Returns the FROM of a SELECT without its alias."""
    from_ = select.args.get("from_")
    copy = None if from_ is None else from_.copy()
    if copy is not None and isinstance(copy.this, exp.Table):
        copy.this.set("alias", None)
    return copy


def _is_scalar(subquery: exp.Subquery, outer: exp.Select) -> bool:
    """Whether a subquery is one aggregate of the same table."""
    inner = subquery.this
    if not isinstance(inner, exp.Select) or len(inner.expressions) != 1 or inner.find(exp.Subquery):
        return False
    if any(value for key, value in inner.args.items() if key not in ALLOWED):
        return False
    tables = [each.args["from_"].this for each in (inner, outer) if each.args.get("from_") is not None]
    same = len(tables) == 2 and all(map(_is_plain_table, tables))
    if not same or tables[0].name.lower() != tables[1].name.lower():
        return False
    own = {tables[0].alias_or_name.lower(), ""}
    if any(column.table.lower() not in own for column in inner.find_all(exp.Column)):
        return False
    for column in inner.find_all(exp.Column):
        column.set("table", None)
    return any(_list_aggregates(inner.expressions[0]))


def _is_plain_table(node: exp.Expr) -> bool:
    """Whether a node of FROM is a table as it stands: of no other schema, and no sample."""
    return isinstance(node, exp.Table) and not any(
        value for key, value in node.args.items() if key not in ("this", "alias")
    )


def _list_aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yields the aggregates of a node with the FILTER or order that belongs to them, but not those of subqueries."""
    if isinstance(node, exp.Subquery):
        return
    if isinstance(node, (exp.Filter, exp.WithinGroup, exp.AggFunc)):
        yield node
        return
    for child in node.iter_expressions():
        yield from _list_aggregates(child)


def _add_filter(aggregate: exp.Expr, where: exp.Where | None) -> None:
    if where is None:
        return
    condition, filtered = where.this.copy(), aggregate.copy()
    if isinstance(filtered, exp.Filter):
        condition = exp.and_(condition, filtered.expression.this.copy(), copy=False)
        filtered = filtered.this.copy()
    aggregate.replace(exp.Filter(this=filtered, expression=exp.Where(this=condition)))
