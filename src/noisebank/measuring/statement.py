"""A query as one SQL statement that returns one exact integer (DuckDB's dialect)."""

from __future__ import annotations

from fractions import Fraction

from noisebank.policy import Column, Kind, Policy
from noisebank.queries.predicates import FALSE, TRUE, Predicate
from noisebank.queries.query import Function, Query
from noisebank.queries.sensitivity import saturation
from noisebank.queries.values import Values


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string."""
    return "'" + text.replace("'", "''") + "'"


def statement(query: Query, policy: Policy, table: str, row_key: str) -> str:
    """SELECT one HUGEINT: the statistic in steps, saturated.

    `table` is a table expression; `row_key` decides which rows of a person count when a policy
    caps them, and is secret so that nobody can arrange to be counted.
    """
    summed = query.column if query.function is Function.SUM else None
    needed = sorted(query.where.columns() | ({summed} if summed else set()))
    columns = [policy.columns[name] for name in needed]
    steps = ", ".join(f"{step_of(column)} AS {quoted(column.name)}" for column in columns) or "1 AS one"
    value = quoted(summed) if summed else "1"
    limit = saturation(query, policy)
    condition = "" if query.where is TRUE else f" WHERE {condition_of(query.where)}"
    return (
        f"SELECT greatest(least(coalesce(sum({value}), 0), {limit}), -{limit})::HUGEINT "
        f"FROM (SELECT {steps} FROM {_counted_rows(policy, table, row_key)}){condition}"
    )


def step_of(column: Column) -> str:
    """A row's value as an integer of the column's domain; NULL only where missing is allowed."""
    name = quoted(column.name)
    if column.kind is Kind.TEXT:
        arms = " ".join(f"WHEN {literal(key)} THEN {place}" for place, key in enumerate(column.keys))
        missing = "NULL" if column.nullable else str(len(column.keys))
        return (
            f"CASE WHEN {name} IS NULL THEN {missing} ELSE CASE {name}::VARCHAR {arms} ELSE {len(column.keys)} END END"
        )
    if column.kind is Kind.BOOLEAN:
        missing = "NULL" if column.nullable else "0"
        return f"CASE TRY_CAST({name} AS BOOLEAN) WHEN TRUE THEN 1 WHEN FALSE THEN 0 ELSE {missing} END"
    low, high = column.bounds
    number = f"TRY_CAST({name} AS DOUBLE)"
    missing = "NULL" if column.nullable else str(low)
    # Comparisons with the bounds come first: infinities and huge numbers never reach the rounding.
    return (
        f"CASE WHEN {number} IS NULL OR isnan({number}) THEN {missing} "
        f"WHEN {number} <= {_double(low * column.step)} THEN {low} "
        f"WHEN {number} >= {_double(high * column.step)} THEN {high} "
        f"ELSE least(greatest(round({number} * {_double(Fraction(column.step.denominator))} "
        f"/ {_double(Fraction(column.step.numerator))})::BIGINT, {low}), {high}) END"
    )


def condition_of(predicate: Predicate) -> str:
    """The rows for which the diagram ends in TRUE."""
    if predicate is TRUE:
        return "TRUE"
    paths = []
    for values, child in predicate.branches:
        if child is FALSE:
            continue
        test = _among(quoted(predicate.column), values)
        paths.append(test if child is TRUE else f"({test} AND {condition_of(child)})")
    return "(" + " OR ".join(paths) + ")"


def _among(name: str, values: Values) -> str:
    tests = [f"{name} = {a}" if a == b else f"{name} BETWEEN {a} AND {b}" for a, b in values.runs]
    if values.null:
        tests.append(f"{name} IS NULL")
    return "(" + " OR ".join(tests) + ")"


def _counted_rows(policy: Policy, table: str, row_key: str) -> str:
    """The table, or at most `max_rows` rows of each person, chosen by a keyed hash of the row."""
    if policy.unit == "row":
        return table
    person = quoted(policy.unit)
    # Each text with its length before it: different rows never look the same, so no tie depends on row order.
    texts = (f"{quoted(name)}::VARCHAR" for name in sorted(policy.columns))
    row = ", ".join(f"coalesce(length({text}) || ':' || {text}, '-')" for text in texts)
    order = f"md5(concat({literal(row_key)}, {row}))"
    return (
        f"(SELECT * FROM {table} WHERE {person} IS NOT NULL "
        f"QUALIFY row_number() OVER (PARTITION BY {person}::VARCHAR ORDER BY {order}) <= {policy.max_rows})"
    )


def _double(value: Fraction) -> str:
    return f"{float(value)!r}::DOUBLE"
