"""Writes a query as one SQL statement that returns exact integers; a `Dialect` fills in what engines differ in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from types import MappingProxyType

from noisebank.core.errors import UnsupportedQuery
from noisebank.engines.dialect import DUCKDB, Dialect, Stored
from noisebank.engines.fields import Field, askable, fields_of, gapless
from noisebank.policy.model import MAX_ROWS, Policy
from noisebank.queries.predicates import FALSE, TRUE, Predicate
from noisebank.queries.query import Function, Part, Query
from noisebank.queries.sensitivity import row_range, saturation

MOST = 2**126
"""No sum of `MAX_ROWS` rows may reach it: the narrowest engine adds up in 38 decimal digits."""
Fields = Mapping[str, Field]
UNKNOWN: Mapping[str, Stored] = MappingProxyType({})


def quoted(name: str) -> str:
    """Returns an identifier in DuckDB's quotes."""
    return DUCKDB.quoted(name)


def literal(text: str) -> str:
    """Returns a text literal of DuckDB."""
    return DUCKDB.literal(text)


def statement(
    query: Query,
    policy: Policy,
    table: str,
    row_key: str,
    dialect: Dialect = DUCKDB,
    stored: Mapping[str, Stored] = UNKNOWN,
) -> str:
    """Returns SQL for one wide integer: the statistic in steps, saturated. Grouped: one row per group, its keys first.

    `table` is a table expression; `stored` says how it stores its columns; `row_key` decides which
    rows of a person count when a policy caps them, and is secret so that nobody can arrange to be
    counted. Groups without rows are missing from the result: the caller fills them with 0.
    """
    check_size(query, policy)
    fields = _fields(query.columns(), policy, dialect, stored)
    rows = f"FROM {counted_rows(policy, table, row_key, fields, dialect, stored)}"
    added, condition = _added(query, fields, dialect)
    total = _saturated(added, query, policy, dialect)
    if not query.by:
        return f"SELECT {total} {rows}{_where(condition)}"
    keys = [fields[name].grouped() for name in query.by]
    inside = [fields[name].in_groups() for name in query.by]
    positions = ", ".join(str(number) for number in range(1, len(keys) + 1))
    return f"SELECT {', '.join(keys)}, {total} {rows}{_where(condition, *inside)} GROUP BY {positions}"


def counts_statement(
    queries: Sequence[Query],
    policy: Policy,
    table: str,
    row_key: str,
    dialect: Dialect = DUCKDB,
    stored: Mapping[str, Stored] = UNKNOWN,
) -> str:
    """Returns SQL for one row with several plain counts: one scan, and one query plan, for all of them.

    DuckDB takes longer to plan than to read a small table, so the text is kept short. Counts are not saturated: the
    caller must do that. Missing values are filled in first, once, unless the values choose a person's rows.
    """
    for query in queries:
        check_size(query, policy)
    fields = _fields(frozenset().union(*(query.columns() for query in queries)), policy, dialect, stored)
    if policy.unit == "row":
        fields = {name: gapless(field) for name, field in fields.items()}
    totals = [
        "count(*)" if query.where is TRUE else f"count_if({condition_of(query.where, fields)})" for query in queries
    ]
    return f"SELECT {', '.join(totals)} FROM {counted_rows(policy, table, row_key, fields, dialect, stored)}"


def plain_count(query: Query) -> bool:
    """Whether the query counts the rows for which a predicate holds, each once, without groups."""
    return query.simple and query.function is Function.COUNT and query.parts[0].weights[0][0] == 1 and not query.by


def check_size(query: Query, policy: Policy) -> None:
    """Refuses, by the policy alone, a query whose total could overflow the integers of an engine."""
    low, high = row_range(query, policy)
    if max(abs(low), abs(high)) * MAX_ROWS >= MOST:
        raise UnsupportedQuery("numbers this large", "use narrower bounds, a larger step or smaller coefficients")


def _fields(names: frozenset[str], policy: Policy, dialect: Dialect, stored: Mapping[str, Stored]) -> dict[str, Field]:
    """Returns the fields that a statement reads: these, and all that tell rows apart if the policy caps rows."""
    if policy.unit != "row":
        names |= {name for name, column in policy.columns.items() if askable(column)}
    return fields_of(policy, names, dialect, stored)


def _saturated(total: str, query: Query, policy: Policy, dialect: Dialect) -> str:
    limit = saturation(query, policy)
    return f"greatest(least({total}, {dialect.wide(str(limit))}), {dialect.wide(str(-limit))})"


def condition_of(predicate: Predicate, fields: Fields) -> str:
    """Returns the predicate as an SQL condition."""
    if predicate is TRUE:
        return "TRUE"
    paths = []
    for values, child in predicate.branches:
        if child is FALSE:
            continue
        test = fields[predicate.column].among(values)
        paths.append(test if child is TRUE else f"({test} AND {condition_of(child, fields)})")
    return "(" + " OR ".join(paths) + ")"


def _added(query: Query, fields: Fields, dialect: Dialect) -> tuple[str, str]:
    """Returns SQL for the total over all rows, and for the condition of the rows to read; empty for all."""
    part = query.parts[0]
    if query.simple and part.weights[0][0] == 1:
        condition = "" if query.where is TRUE else condition_of(query.where, fields)
        return plain(part, fields, dialect), condition
    if len(query.parts) == 1 and part.function is Function.COUNT and _fits(part):
        return _summed(dialect.summand(_weight(part, fields)), dialect), ""
    terms = []
    for part in query.parts:
        weight = dialect.wide(_weight(part, fields))
        value = dialect.wide(f"coalesce({_value(part, fields, dialect)}, 0)")
        terms.append(weight if part.function is Function.COUNT else f"{weight} * {value}")
    return _summed(" + ".join(terms), dialect), ""


def plain(part: Part, fields: Fields, dialect: Dialect) -> str:
    """Returns SQL for a count or a sum without weights: the most frequent kind, so it must cost least."""
    if part.column is None:
        return dialect.wide("count(*)")
    field = fields[part.column]
    if part.function is Function.SUM and field.whole and dialect.quick_filters:
        return field.total()
    return _summed(dialect.summand(_value(part, fields, dialect)), dialect)


def _weight(part: Part, fields: Fields) -> str:
    arms = " ".join(f"WHEN {condition_of(where, fields)} THEN {weight}" for weight, where in part.weights)
    return f"CASE {arms} ELSE 0 END"


def _fits(part: Part) -> bool:
    """Whether all weights fit 63 bits."""
    return all(abs(weight) < 2**62 for weight, _ in part.weights)


def _summed(value: str, dialect: Dialect) -> str:
    return dialect.wide(f"coalesce(sum({value}), 0)")


def _value(part: Part, fields: Fields, dialect: Dialect) -> str:
    """Returns SQL for the value of a row, in at most 64 bits: steps have 32 at most."""
    if part.column is None:
        return "1"
    step = fields[part.column].step()
    return f"{dialect.long(step)} * {dialect.long(step)}" if part.function is Function.SQUARES else step


def _where(*conditions: str) -> str:
    joined = " AND ".join(condition for condition in conditions if condition)
    return f" WHERE {joined}" if joined else ""


def counted_rows(
    policy: Policy, table: str, row_key: str, fields: Fields, dialect: Dialect, stored: Mapping[str, Stored]
) -> str:
    """Returns SQL for the table, or for at most `max_rows` rows per person, chosen by a keyed hash of person and steps.

    Rows of a person with the same steps count alike in every query, so it does not matter which of them is chosen; all
    others have different hashes. So neither the order of rows nor how an engine stores them matters.
    """
    read = [f"{field.read} AS {field.name}" for field in fields.values()]
    costly = any(
        field.column.numeric and field.stored not in (Stored.INTEGER, Stored.FLOAT) for field in fields.values()
    )
    fence = dialect.fence if costly else ""
    if policy.unit == "row":
        return f"(SELECT {', '.join(read)} FROM {table} AS t{fence}) AS t" if read else f"{table} AS t"
    person = _person(policy.unit, dialect, stored.get(policy.unit, Stored.OTHER))
    inner = f"(SELECT {', '.join([*read, f'{person} AS who'])} FROM {table} AS t{fence}) AS t"
    texts = [dialect.literal(row_key), dialect.framed("who"), *(field.spelled() for field in fields.values())]
    names = ", ".join([*(field.name for field in fields.values())] or ["1 AS one"])
    order = dialect.md5(dialect.joined(texts))
    ranked = (
        f"(SELECT {names}, row_number() OVER (PARTITION BY who ORDER BY {order}) AS place "
        f"FROM {inner} WHERE who IS NOT NULL) AS t"
    )
    return f"(SELECT * FROM {ranked} WHERE place <= {policy.max_rows}) AS t"


def _person(unit: str, dialect: Dialect, stored: Stored) -> str:
    """Returns SQL for a row's person as a text; NULL if nobody. Some writers store a missing number as NaN: if that
    were a person, all rows without an id would be theirs, and one more of them would decide which other row counts."""
    raw = dialect.raw(unit)
    text = dialect.text(raw, stored)
    if stored is Stored.FLOAT:
        return f"CASE WHEN {raw} <= {dialect.double(inf)} THEN {text} END"
    return f"nullif({text}, 'NaN')" if stored is Stored.DECIMAL else text
