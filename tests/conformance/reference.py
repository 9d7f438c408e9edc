"""What every engine must answer, in plain Python, written from docs/reference/engines.md and docs/reference/policy.md.

Nothing here comes from the code under test but the policy's own words (columns, bounds, keys).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from hashlib import md5
from itertools import pairwise, product
from typing import Any

from noisebank import Policy
from support.internals import Column, Kind

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.ASCII | re.IGNORECASE)
BLANKS = " \t\n\v\f\r"
Row = dict[str, Any]
Steps = dict[str, int | None]


# -- one value -------------------------------------------------------------------------------------


def number_of(value: Any) -> float | None:
    """A stored value as a double; None if missing, unreadable or NaN."""
    if isinstance(value, str):
        bare = value.strip(BLANKS)
        if not NUMBER.fullmatch(bare):
            return None
        value = float(bare)
    elif isinstance(value, Decimal | int):
        try:
            value = float(value)
        except OverflowError:
            value = math.copysign(math.inf, value)
    return None if value is None or math.isnan(value) else value


def truth_of(value: Any) -> bool | None:
    """A stored value as a truth value."""
    if isinstance(value, str):
        if value.lower() in ("true", "t", "yes", "y", "1"):
            return True
        return False if value.lower() in ("false", "f", "no", "n", "0") else None
    return None if value is None else bool(value)


def text_of(value: Any) -> str | None:
    """A stored value as a text; floats are spelled by each engine in its own way, so they are not here."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    assert isinstance(value, int)
    return str(value)


def step_of(column: Column, value: Any) -> int | None:
    """The value as a step, as the place of its key (one more for none of them), as 0 or 1; None if missing."""
    if column.kind is Kind.TEXT:
        text = text_of(value)
        if text is None:
            return None if column.nullable else len(column.keys)
        return column.keys.index(text) if text in column.keys else len(column.keys)
    if column.keys:  # codes: the nearest whole number, if it is one of them
        number = number_of(value)
        if number is None:
            return None if column.nullable else len(column.keys)
        code = int(Decimal(number).quantize(Decimal(1), ROUND_HALF_UP)) if abs(number) < 2**40 else None
        return column.keys.index(code) if code in column.keys else len(column.keys)
    if column.kind is Kind.BOOLEAN:
        truth = truth_of(value)
        return int(truth) if truth is not None else None if column.nullable else 0
    low, high = column.bounds
    number = number_of(value)
    if number is None:
        return None if column.nullable else low
    scaled = number * float(column.step.denominator) / float(column.step.numerator)
    if scaled <= low:
        return low
    if scaled >= high:
        return high
    return int(Decimal(scaled).quantize(Decimal(1), ROUND_HALF_UP))


# -- conditions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Condition:
    """A condition as SQL and as a function of a row's steps: True, False or None (unknown)."""

    sql: str
    holds: Callable[[Steps], bool | None]


def both(a: Condition, b: Condition) -> Condition:
    def holds(row: Steps) -> bool | None:
        found = {a.holds(row), b.holds(row)}
        return False if False in found else None if None in found else True

    return Condition(f"({a.sql} AND {b.sql})", holds)


def negated(a: Condition) -> Condition:
    def holds(row: Steps) -> bool | None:
        found = a.holds(row)
        return None if found is None else not found

    return Condition(f"NOT ({a.sql})", holds)


def either(a: Condition, b: Condition) -> Condition:
    """By De Morgan; written as OR."""
    return Condition(f"({a.sql} OR {b.sql})", negated(both(negated(a), negated(b))).holds)


# -- whole tables ----------------------------------------------------------------------------------


def counted(policy: Policy, rows: list[Row], row_key: str) -> list[Steps]:
    """The rows that count, as steps: all that have one of the keys in every complete column, or of those, for each
    person, the ones with the smallest keyed hashes."""
    steps = [{name: step_of(column, row[name]) for name, column in _askable(policy).items()} for row in rows]
    complete = {name: len(column.keys) for name, column in policy.columns.items() if column.complete}
    known = [all(found[name] != none for name, none in complete.items()) for found in steps]
    rows, steps = [[part for part, keep in zip(whole, known, strict=True) if keep] for whole in (rows, steps)]
    if policy.unit == "row":
        return steps
    people: dict[str, list[tuple[str, Steps]]] = {}
    for row, found in zip(rows, steps, strict=True):
        person = text_of(row[policy.unit])
        if person is None:
            continue
        people.setdefault(person, []).append((_hash(policy, row_key, person, found), found))
    chosen: list[Steps] = []
    for owned in people.values():
        chosen += [found for _, found in sorted(owned, key=lambda pair: pair[0])[: policy.max_rows]]
    return chosen


def _hash(policy: Policy, row_key: str, person: str, steps: Steps) -> str:
    text = f"{row_key}{len(person)}:{person}"
    for name, column in sorted(_askable(policy).items()):
        step = steps[name]
        if step is None:
            text += "-,"
        elif column.kind is Kind.TEXT:
            key = str(column.keys[step]) if step < len(column.keys) else ""
            text += f"{len(key)}:{key}," if step < len(column.keys) else "?,"
        elif column.keys:
            text += f"{column.keys[step]}," if step < len(column.keys) else "?,"
        else:
            text += f"{step},"
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def _askable(policy: Policy) -> dict[str, Column]:
    return {
        name: column
        for name, column in policy.columns.items()
        if column.kind is Kind.BOOLEAN or column.keys or column.low is not None
    }


def groups_of(column: Column) -> list[tuple[int, int]]:
    """First and last step of each group."""
    if column.keys:
        return [(place, place) for place in range(len(column.keys))]
    if column.kind is Kind.BOOLEAN:
        return [(0, 0), (1, 1)]
    low, high = column.bounds
    edges = [low, *(edge for edge in column.bins if edge > low), high + 1]
    return [(start, stop - 1) for start, stop in pairwise(edges)]


def answers(
    policy: Policy,
    rows: list[Row],
    row_key: str,
    added: Callable[[Steps], int],
    most: int,
    by: tuple[str, ...] = (),
) -> list[int]:
    """What rows add up to, saturated at the row cap times `most`; for each group where there are any."""
    found = counted(policy, rows, row_key)
    limit = policy.row_cap * most
    totals = []
    for group in product(*(groups_of(policy.columns[name]) for name in by)):
        inside = [
            row
            for row in found
            if all(
                (step := row[name]) is not None and low <= step <= high
                for name, (low, high) in zip(by, group, strict=True)
            )
        ]
        totals.append(max(-limit, min(limit, sum(map(added, inside)))))
    return totals
