"""A query as one SQL statement that returns one exact integer (DuckDB's dialect)."""

from __future__ import annotations

from fractions import Fraction

from noisebank.policy import Column, Kind, Policy
from noisebank.queries.groups import parts_of
from noisebank.queries.predicates import FALSE, TRUE, Predicate
from noisebank.queries.query import Function, Part, Query
from noisebank.queries.sensitivity import saturation
from noisebank.queries.values import Values


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string."""
    return "'" + text.replace("'", "''") + "'"


def statement(query: Query, policy: Policy, table: str, row_key: str) -> str:
    """SELECT one HUGEINT: the statistic in steps, saturated. Grouped: the groups' numbers before it, one row a group.

    `table` is a table expression; `row_key` decides which rows of a person count when a policy
    caps them, and is secret so that nobody can arrange to be counted. Groups without rows are
    missing from the result: who reads it fills them with 0.
    """
    columns = [policy.columns[name] for name in sorted(query.columns())]
    steps = ", ".join(f"{step_of(column)} AS {quoted(column.name)}" for column in columns) or "1 AS one"
    limit = saturation(query, policy)
    value, condition = _added(query)
    total = f"greatest(least(coalesce(sum({value}), 0), {limit}), -{limit})::HUGEINT"
    rows = f"FROM (SELECT {steps} FROM {_counted_rows(policy, table, row_key)})"
    if not query.by:
        return f"SELECT {total} {rows}{_where(condition)}"
    keys = [_group_of(policy.columns[name]) for name in query.by]
    inside = [f"{key} IS NOT NULL" for key in keys]
    names = ", ".join(str(place) for place in range(1, len(keys) + 1))
    return f"SELECT {', '.join(keys)}, {total} {rows}{_where(condition, *inside)} GROUP BY {names}"


def _added(query: Query) -> tuple[str, str]:
    """What a row adds, and which rows are read at all."""
    if query.simple:
        return _value(query.parts[0]), "" if query.where is TRUE else condition_of(query.where)
    terms = []
    for part in query.parts:
        arms = " ".join(f"WHEN {condition_of(where)} THEN {weight}" for weight, where in part.weights)
        terms.append(f"(CASE {arms} ELSE 0 END)::HUGEINT * coalesce({_value(part)}, 0)")
    return " + ".join(terms), ""


def _value(part: Part) -> str:
    if part.column is None:
        return "1"
    name = quoted(part.column)
    return f"{name}::HUGEINT * {name}" if part.function is Function.SQUARES else name


def _where(*conditions: str) -> str:
    found = " AND ".join(condition for condition in conditions if condition)
    return f" WHERE {found}" if found else ""


def _group_of(column: Column) -> str:
    """The number of the group that a row's value lies in; NULL if in none."""
    arms = []
    for place, values in enumerate(parts_of(column)):
        arms.append(f"WHEN {_among(quoted(column.name), values)} THEN {place}")
    return f"CASE {' '.join(arms)} END"


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
