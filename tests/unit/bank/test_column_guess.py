"""Guesses of types: by shares of a sample, so that one row changes nothing away from a threshold."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisebank.bank import column_guess
from noisebank.bank.column_guess import guess_column
from noisebank.engines.column_profile import MAX_DECIMALS, ColumnProfile
from noisebank.policy.model import Kind

VALUES = 1000
COUNTS = [field.name for field in fields(ColumnProfile) if field.type == "int" and field.name != "values"]
SHARES = sorted(
    {value for name, value in vars(column_guess).items() if name.startswith(("MIN_", "MAX_")) and value < 1}
)


def numbers(**counts: object) -> ColumnProfile:
    """Whole numbers of many sizes, in texts."""
    whole = ColumnProfile("x", "VARCHAR", False, VALUES, 300, VALUES, VALUES, (VALUES,) * (MAX_DECIMALS + 1))
    return replace(whole, **counts)


def texts(**counts: object) -> ColumnProfile:
    return replace(ColumnProfile("x", "VARCHAR", False, VALUES, 12), **counts)


def decimals(*within: int) -> dict[str, object]:
    return {"whole_numbers": within[0], "within_decimals": within}


@pytest.mark.parametrize(
    ("profile", "kind", "step"),
    [
        (numbers(), Kind.INTEGER, ""),
        (numbers(numbers=501, whole_numbers=501), Kind.INTEGER, ""),
        (numbers(**decimals(100, 300, 999, 1000, 1000)), Kind.NUMBER, "0.01"),
        (numbers(**decimals(100, 990, 1000, 1000, 1000)), Kind.NUMBER, "0.1"),
        (numbers(**decimals(100, 110, 120, 130, 140)), Kind.NUMBER, ""),
        (numbers(distinct=1000), Kind.INTEGER, ""),
        (numbers(values=50, distinct=50, numbers=50, whole_numbers=50, counting=49), Kind.INTEGER, ""),
        (numbers(falses=950, trues=5), Kind.INTEGER, ""),
        (numbers(falses=998, trues=2), Kind.INTEGER, ""),
        (numbers(falses=600, trues=400), Kind.BOOLEAN, ""),
        (texts(falses=600, trues=395), Kind.BOOLEAN, ""),
        (texts(falses=500), Kind.TEXT, ""),
        (texts(), Kind.TEXT, ""),
        (texts(numbers=400), Kind.TEXT, ""),
        (texts(long_texts=1000), Kind.TEXT, ""),
        (texts(dates=1000), Kind.TEXT, ""),
        (texts(zero_led=100, numbers=1000), Kind.TEXT, ""),
        (texts(distinct=500, dates=900, iso_dates=900), Kind.DATE, ""),
        (texts(distinct=500, dates=990, iso_dates=990, timed_dates=600), Kind.TIMESTAMP, ""),
        (ColumnProfile("x", "TIMESTAMP WITH TIME ZONE", False, VALUES, VALUES), Kind.TIMESTAMP, ""),
        (ColumnProfile("x", "DATE", False, VALUES, VALUES), Kind.DATE, ""),
        (ColumnProfile("x", "BOOLEAN", False), Kind.BOOLEAN, ""),
        (ColumnProfile("x", "DECIMAL(9,2)", True), Kind.NUMBER, "0.01"),
        (ColumnProfile("x", "DOUBLE", True), Kind.NUMBER, ""),
        (ColumnProfile("x", "HUGEINT", True), Kind.INTEGER, ""),
        (ColumnProfile("x", "VARCHAR", False, 3, 3), Kind.TEXT, ""),
    ],
)
def test_declared(profile: ColumnProfile, kind: Kind, step: str) -> None:
    guess = guess_column(profile, has_rows=True)
    assert (guess.kind, guess.step, guess.omitted) == (kind, step, "")


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (numbers(distinct=1000, counting=999), column_guess.IS_IDENTIFIER),
        (numbers(distinct=1000, long_numbers=1000), column_guess.IS_IDENTIFIER),
        (numbers(name="patient_id", distinct=300), column_guess.IS_IDENTIFIER),
        (numbers(name="id", values=3, distinct=3, numbers=3, whole_numbers=3), column_guess.IS_IDENTIFIER),
        (texts(distinct=950), column_guess.IS_IDENTIFIER),
        (texts(distinct=500), column_guess.IS_MANY_VALUED),
        (texts(distinct=500, name="personId"), column_guess.IS_IDENTIFIER),
        (texts(distinct=500, long_texts=600), column_guess.IS_FREE_TEXT),
        (texts(distinct=950, long_texts=600), column_guess.IS_FREE_TEXT),
        (texts(values=3, distinct=3, long_texts=3), column_guess.IS_FREE_TEXT),
        (texts(distinct=500, dates=900), column_guess.IS_DATE),
        (ColumnProfile("x", "TIME", False, VALUES, VALUES), column_guess.IS_DATE),
        (ColumnProfile("x", "TIME", False), column_guess.IS_DATE),
        (ColumnProfile("x", "INTERVAL", False), column_guess.IS_DATE),
        (texts(numbers=400, formatted_numbers=600), column_guess.IS_FORMATTED),
        (texts(numbers=900, formatted_numbers=100), column_guess.IS_FORMATTED),
        (texts(values=0), column_guess.IS_EMPTY),
        (ColumnProfile("x", "VARCHAR[]", False, VALUES, 3), column_guess.IS_NESTED),
        (ColumnProfile("x", "STRUCT(a INTEGER)", False, VALUES, 3), column_guess.IS_NESTED),
    ],
)
def test_left_out(profile: ColumnProfile, reason: str) -> None:
    assert guess_column(profile, has_rows=True).omitted == reason


def test_a_column_of_a_table_without_rows_is_not_left_out() -> None:
    guess = guess_column(texts(values=0), has_rows=False)
    assert guess.kind is None and not guess.omitted


@given(st.data())
def test_one_row_matters_at_a_threshold_only(data: st.DataObject) -> None:
    """One row moves every count by at most one."""
    total = data.draw(st.integers(500, 10_000))
    counts = {name: data.draw(st.integers(0, total), label=name) for name in COUNTS}
    decimal = tuple(data.draw(st.integers(0, total)) for _ in range(MAX_DECIMALS + 1))
    profile = ColumnProfile("x", "VARCHAR", False, total, within_decimals=decimal, **counts)
    moved = {name: min(max(0, count + data.draw(st.integers(-1, 1))), total) for name, count in counts.items()}
    neighbour = replace(profile, **moved)
    if guess_column(profile, True) == guess_column(neighbour, True):
        return
    sizes = {*counts.values(), *decimal, counts["trues"] + counts["falses"]}
    sizes.add(counts["formatted_numbers"] + counts["numbers"])
    bases = {total, counts["numbers"], neighbour.numbers}
    assert any(abs(size - share * base) <= 3 for size in sizes for share in SHARES for base in bases)
