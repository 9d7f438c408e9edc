"""Writes a query as one SQL statement that returns exact integers; a `Dialect` fills in what engines differ in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from types import MappingProxyType

from noisebank.core.errors import UnsupportedQuery
from noisebank.engines.computed import add_computed, wrap_computed
from noisebank.engines.dialect import DUCKDB, Dialect, StorageType
from noisebank.engines.fields import Field, fill_missing, is_queryable, make_fields, read_rows
from noisebank.policy.model import MAX_ROWS, Policy
from noisebank.queries.computed import is_computed, source_columns
from noisebank.queries.predicates import FALSE, TRUE, Predicate
from noisebank.queries.query import Function, Query, QueryPart
from noisebank.queries.sensitivity import row_range, saturation_limit

MAX_TOTAL = 2**126
"""No sum of `MAX_ROWS` rows may reach it: the narrowest engine adds up in 38 decimal digits."""
Fields = Mapping[str, Field]
UNKNOWN_TYPES: Mapping[str, StorageType] = MappingProxyType({})


def quote_name(name: str) -> str:
    """Returns an identifier in DuckDB's quotes."""
    return DUCKDB.quote_name(name)


def quote_text(text: str) -> str:
    """Returns a text literal of DuckDB."""
    return DUCKDB.quote_text(text)


def query_statement(
    query: Query,
    policy: Policy,
    table: str,
    row_key: str,
    dialect: Dialect = DUCKDB,
    storage_types: Mapping[str, StorageType] = UNKNOWN_TYPES,
) -> str:
    """Returns SQL for one wide integer: the statistic in steps, saturated. Grouped: one row per group, its keys first.

    `table` is a table expression; `storage_types` says how it stores its columns; `row_key` decides which
    rows of a person count when a policy caps them, and is secret so that nobody can arrange to be
    counted. Groups without rows are missing from the result: the caller fills them with 0.
    """
    check_total_size(query, policy)
    fields = _statement_fields(query.column_names(), policy, dialect, storage_types)
    counted = counted_rows(policy, table, row_key, fields, dialect, storage_types)
    fields = add_computed(fields, _computed_names([query]), policy.columns, dialect, predicate_sql)
    rows = f"FROM {wrap_computed(counted, fields)}"
    added, condition = _total_and_condition(query, fields, dialect)
    total = _saturate_total(added, query, policy, dialect)
    if not query.by:
        return f"SELECT {total} {rows}{_where_sql(condition)}"
    keys = [fields[name].group_sql() for name in query.by]
    inside = [fields[name].in_groups_test() for name in query.by]
    positions = ", ".join(str(number) for number in range(1, len(keys) + 1))
    return f"SELECT {', '.join(keys)}, {total} {rows}{_where_sql(condition, *inside)} GROUP BY {positions}"


def counts_statement(
    queries: Sequence[Query],
    policy: Policy,
    table: str,
    row_key: str,
    dialect: Dialect = DUCKDB,
    storage_types: Mapping[str, StorageType] = UNKNOWN_TYPES,
) -> str:
    """Returns SQL for one row with several plain counts: one scan, and one query plan, for all of them.

    DuckDB takes longer to plan than to read a small table, so the text is kept short. Counts are not saturated: the
    caller must do that. Missing values are filled in first, once, unless the values choose a person's rows.
    """
    for query in queries:
        check_total_size(query, policy)
    fields = _statement_fields(
        frozenset().union(*(query.column_names() for query in queries)), policy, dialect, storage_types
    )
    if policy.unit == "row":
        fields = {name: fill_missing(field) for name, field in fields.items()}
    counted = counted_rows(policy, table, row_key, fields, dialect, storage_types)
    fields = add_computed(fields, _computed_names(queries), policy.columns, dialect, predicate_sql)
    totals = [
        "count(*)" if query.where is TRUE else f"count_if({predicate_sql(query.where, fields)})" for query in queries
    ]
    return f"SELECT {', '.join(totals)} FROM {wrap_computed(counted, fields)}"


def is_plain_count(query: Query) -> bool:
    """Whether the query counts the rows for which a predicate holds, each once, without groups."""
    return query.is_simple and query.function is Function.COUNT and query.parts[0].weights[0][0] == 1 and not query.by


def check_total_size(query: Query, policy: Policy) -> None:
    """Refuses, by the policy alone, a query whose total could overflow the integers of an engine."""
    low, high = row_range(query, policy)
    if max(abs(low), abs(high)) * MAX_ROWS >= MAX_TOTAL:
        raise UnsupportedQuery("numbers this large", "use narrower bounds, a larger step or smaller coefficients")


def _statement_fields(
    names: frozenset[str], policy: Policy, dialect: Dialect, storage_types: Mapping[str, StorageType]
) -> dict[str, Field]:
    """Returns the declared fields that a statement reads: those that these columns are computed from, those that decide
    which rows count, and all that tell rows apart if the policy caps rows."""
    names = frozenset().union(*map(source_columns, names)) | set(policy.complete_columns)
    if policy.unit != "row":
        names |= {name for name, column in policy.columns.items() if is_queryable(column)}
    return make_fields(policy, names, dialect, storage_types)


def _computed_names(queries: Sequence[Query]) -> set[str]:
    return {name for query in queries for name in query.column_names() if is_computed(name)}


def _saturate_total(total: str, query: Query, policy: Policy, dialect: Dialect) -> str:
    limit = saturation_limit(query, policy)
    return f"greatest(least({total}, {dialect.cast_wide(str(limit))}), {dialect.cast_wide(str(-limit))})"


def predicate_sql(predicate: Predicate, fields: Fields) -> str:
    """Returns the predicate as an SQL condition."""
    if predicate is TRUE:
        return "TRUE"
    paths = []
    for values, child in predicate.branches:
        if child is FALSE:
            continue
        test = fields[predicate.column].values_test(values)
        paths.append(test if child is TRUE else f"({test} AND {predicate_sql(child, fields)})")
    return "(" + " OR ".join(paths) + ")"


def _total_and_condition(query: Query, fields: Fields, dialect: Dialect) -> tuple[str, str]:
    """Returns SQL for the total over all rows, and for the condition of the rows to read; empty for all."""
    part = query.parts[0]
    if query.is_simple and part.weights[0][0] == 1:
        condition = "" if query.where is TRUE else predicate_sql(query.where, fields)
        return unweighted_total(part, fields, dialect), condition
    if len(query.parts) == 1 and part.function is Function.COUNT and _fits_long(part):
        return _sum_sql(dialect.cast_summand(_weight_sql(part, fields)), dialect), ""
    terms = []
    for part in query.parts:
        weight = dialect.cast_wide(_weight_sql(part, fields))
        value = dialect.cast_wide(f"coalesce({_value_sql(part, fields, dialect)}, 0)")
        terms.append(weight if part.function is Function.COUNT else f"{weight} * {value}")
    return _sum_sql(" + ".join(terms), dialect), ""


def unweighted_total(part: QueryPart, fields: Fields, dialect: Dialect) -> str:
    """Returns SQL for a count or a sum without weights: the most frequent kind, so it must cost least."""
    if part.column is None:
        return dialect.cast_wide("count(*)")
    field = fields[part.column]
    if part.function is Function.SUM and field.is_whole and dialect.quick_filters:
        return field.total_sql()
    return _sum_sql(dialect.cast_summand(_value_sql(part, fields, dialect)), dialect)


def _weight_sql(part: QueryPart, fields: Fields) -> str:
    arms = " ".join(f"WHEN {predicate_sql(where, fields)} THEN {weight}" for weight, where in part.weights)
    return f"CASE {arms} ELSE 0 END"


def _fits_long(part: QueryPart) -> bool:
    """Whether all weights fit 63 bits."""
    return all(abs(weight) < 2**62 for weight, _ in part.weights)


def _sum_sql(value: str, dialect: Dialect) -> str:
    return dialect.cast_wide(f"coalesce(sum({value}), 0)")


def _value_sql(part: QueryPart, fields: Fields, dialect: Dialect) -> str:
    """Returns SQL for the value of a row, in at most 64 bits: steps have 32 at most."""
    if part.column is None:
        return "1"
    step = fields[part.column].step_sql()
    return f"{dialect.cast_long(step)} * {dialect.cast_long(step)}" if part.function is Function.SQUARES else step


def _where_sql(*conditions: str) -> str:
    joined = " AND ".join(condition for condition in conditions if condition)
    return f" WHERE {joined}" if joined else ""


def counted_rows(
    policy: Policy, table: str, row_key: str, fields: Fields, dialect: Dialect, storage_types: Mapping[str, StorageType]
) -> str:
    """Returns SQL for the table, or for at most `max_rows` rows per person, chosen by a keyed hash of person and steps.

    Rows with a value that is no key of a complete column count nowhere: they are gone before anything is chosen.
    Rows of a person with the same steps count alike in every query, so it does not matter which of them is chosen; all
    others have different hashes. So neither the order of rows nor how an engine stores them matters.
    """
    costly = any(
        (field.is_number or field.column.is_date) and field.storage_type not in (StorageType.INTEGER, StorageType.FLOAT)
        for field in fields.values()
    )
    fence = dialect.optimizer_fence if costly else ""
    counted = [fields[name].counted_test for name in policy.complete_columns]
    if policy.unit == "row":
        rows = read_rows(fields, table, fence=fence)
        return f"(SELECT * FROM {rows}{_where_sql(*counted)}) AS t" if counted else rows
    person = _person_sql(policy.unit, dialect, storage_types.get(policy.unit, StorageType.OTHER))
    inner = read_rows(fields, table, {"who": person}, fence)
    texts = [
        dialect.quote_text(row_key),
        dialect.frame_text("who"),
        *(field.step_text_sql() for field in fields.values()),
    ]
    names = ", ".join([*(field.name for field in fields.values())] or ["1 AS one"])
    order = dialect.md5_hex(dialect.concat_texts(texts))
    ranked = (
        f"(SELECT {names}, row_number() OVER (PARTITION BY who ORDER BY {order}) AS place "
        f"FROM {inner}{_where_sql('who IS NOT NULL', *counted)}) AS t"
    )
    return f"(SELECT * FROM {ranked} WHERE place <= {policy.max_rows}) AS t"


def _person_sql(unit: str, dialect: Dialect, storage_type: StorageType) -> str:
    """Returns SQL for a row's person as a text; NULL if nobody. Some writers store a missing number as NaN: if that
    were a person, all rows without an id would be theirs, and one more of them would decide which other row counts."""
    raw = dialect.column_sql(unit)
    text = dialect.cast_text(raw, storage_type)
    if storage_type is StorageType.FLOAT:
        return f"CASE WHEN {raw} <= {dialect.double_literal(inf)} THEN {text} END"
    return f"nullif({text}, 'NaN')" if storage_type is StorageType.DECIMAL else text
