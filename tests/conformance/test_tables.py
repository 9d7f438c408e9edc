"""Tables that change, vanish or lose a column, on every engine; and that the suite notices a wrong engine."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.stores import Store
from conformance.tables import policy_of
from conformance.test_conformance import Suite
from support.internals import (
    TRUE,
    BadTable,
    Column,
    DuckDBDialect,
    Field,
    Function,
    Kind,
    Query,
    Source,
    SqlEngine,
    StorageType,
    make_engine,
    read_header,
)

TYPES = {"age": "bigint", "town": "text"}
ROWS: list[dict[str, Any]] = [{"age": 30 + n, "town": "north" if n % 2 else "sécret"} for n in range(6)]
COLUMNS = [Column("age", Kind.INTEGER, low=0, high=120), Column("town", Kind.TEXT, keys=("north",))]
TOTAL = Query.from_predicate(Function.SUM, "age", TRUE)
SALT, OTHER_SALT = b"s" * 32, b"o" * 32


def engine_over(source: Source) -> SqlEngine:
    engine = make_engine(policy_of(COLUMNS, source=source), read_header(source), "k")
    assert isinstance(engine, SqlEngine)
    return engine


def test_a_table_that_stays_is_the_same_table(store: Store) -> None:
    source = store.put(TYPES, ROWS)
    one, other = engine_over(source), engine_over(source)
    assert one.identity() == one.identity() == other.identity()
    assert one.statistic(TOTAL) == sum(row["age"] for row in ROWS)
    assert one.identity() == other.identity()
    assert one.fingerprint(SALT) == other.fingerprint(SALT) != one.fingerprint(OTHER_SALT)


@pytest.mark.parametrize(
    "rows",
    [ROWS[:-1], [*ROWS, ROWS[0]], [{"age": 31, "town": "sécret"}, *ROWS[1:]], [{"age": 30, "town": None}, *ROWS[1:]]],
    ids=["fewer", "more", "changed", "missing"],
)
def test_a_table_that_changed_is_another_table(store: Store, rows: list[dict[str, Any]]) -> None:
    source = store.put(TYPES, ROWS)
    engine = engine_over(source)
    identity, fingerprint = engine.identity(), engine.fingerprint(SALT)
    store.replace(source, TYPES, rows)
    assert engine.identity() != identity
    assert engine_over(source).fingerprint(SALT) != fingerprint
    assert engine.statistic(TOTAL) == sum(row["age"] for row in rows)


def test_a_column_that_vanishes_is_named(store: Store) -> None:
    source = store.put(TYPES, ROWS)
    engine = engine_over(source)
    store.replace(source, {"town": "text"}, ROWS)
    if store.only_text:  # columns of a CSV are told by their places: the file's identity is what has changed
        with pytest.raises(BadTable, match=r"no column age|has 1 columns"):
            engine_over(source)
        return
    with pytest.raises(BadTable, match="no column age any more") as raised:
        engine.statistic(TOTAL)
    assert "sécret" not in str(raised.value)


def test_a_table_that_vanishes(store: Store) -> None:
    source = store.put(TYPES, ROWS)
    engine = engine_over(source)
    store.drop(source)
    for look in (engine.identity, lambda: engine.statistic(TOTAL), lambda: read_header(source)):
        with pytest.raises(BadTable) as raised:
            look()
        assert "sécret" not in str(raised.value)


# -- a suite that cannot fail is no suite ----------------------------------------------------------


def _cut_off(dialect: DuckDBDialect, double: str) -> str:
    return f"trunc({double})::BIGINT"


def _without_nan(field: Field) -> str:
    return f"{field.name} IS NULL"


def _first_comes(dialect: DuckDBDialect, text: str) -> str:
    return "'same'"


def _any_case(dialect: DuckDBDialect, expression: str, stored: StorageType) -> str:
    return f"lower({expression}::VARCHAR)"


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (DuckDBDialect, "round_double", _cut_off),
        (DuckDBDialect, "md5_hex", _first_comes),
        (DuckDBDialect, "cast_text", _any_case),
        (Field, "missing_test", property(_without_nan)),
        (Field, "in_groups_test", lambda field: "TRUE"),
    ],
    ids=["cuts instead of rounding", "chooses any rows", "ignores case", "takes NaN for a number", "groups everybody"],
)
def test_a_wrong_engine_is_noticed(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, wrong: Any
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises((AssertionError, BadTable)):
        for seed in range(30):
            Suite(Store("parquet", tmp_path, None), seed).run(6)
