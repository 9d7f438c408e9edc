"""Answers about disjoint people add up, whoever wrote the file; and the files by which they once did not."""

from __future__ import annotations

import csv
import math
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from conformance.additive import PLANTS, Tally, Trial, compare, run, switched_on
from conformance.server import Server
from conformance.stores import Store
from conformance.tables import policy_of
from conformance.writers import WRITERS, Rows, by_csv, by_pyarrow
from noisebank import read_policy
from noisebank.engines import duckdb_connection
from support.banks import memory_rooms, write_people
from support.internals import (
    BadTable,
    Column,
    EngineKind,
    Kind,
    Source,
    Table,
    count_csv_rows,
    make_engine,
    open_account,
    parse_question,
    read_header,
)

X = Column("x", Kind.NUMBER, Fraction(1), 0, 100, nullable=True)
A = Column("a", Kind.TEXT, keys=("negative", "positive"), nullable=True)
TYPES = {"x": "double", "y": "real", "n": "bigint", "m": "integer", "a": "text", "c": "text", "b": "boolean",
         "d": "date", "who": "text"}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_answers_add_up(name: str) -> None:
    found = run(range(12), 6, (name,))
    assert found.wrong == []
    assert found.checks > 70


@pytest.mark.parametrize(("plant", "name"), [
    ("filters pushed into scans", "pyarrow"),
    ("statistics of files believed", "pyarrow"),
    ("statistics of files believed", "polars"),
    ("casts pushed into CSV", "Python's csv"),
    ("a conversion that fails for NaN", "pyarrow"),
    ("any line end ends a row", "Python's csv"),
])  # fmt: skip
def test_what_was_so_once_is_caught(plant: str, name: str) -> None:
    assert plant in PLANTS
    assert run(range(60), 6, (name,), plant).wrong


def test_answers_add_up_in_postgres(postgres: Server, tmp_path: Path) -> None:
    store = Store("postgresql", tmp_path, postgres)

    def write(path: Path, rows: Rows, random: Random) -> Source:
        return store.put(TYPES, rows)

    tally = Tally()
    for seed in range(8):
        compare(tally, Trial(seed), "PostgreSQL", write, tmp_path, 6)
    assert tally.wrong == []
    assert tally.checks > 40


@pytest.mark.extras
@pytest.mark.parametrize("name", ["pyarrow", "polars", "Python's csv", "Spark"])
def test_answers_add_up_in_spark(small_spark: None, tmp_path: Path, name: str) -> None:
    def write(path: Path, rows: Rows, random: Random) -> Source:
        made = (by_csv if name == "Python's csv" else WRITERS.get(name, by_pyarrow))(path, rows, random)
        assert isinstance(made, Path)
        if name == "Spark":
            from support.internals import _make_session

            frame = _make_session().read.parquet(str(made))
            made = path.with_suffix(".spark")
            writer = frame.write.option("parquet.block.size", random.choice([64, 1 << 20])).mode("overwrite")
            writer.option("parquet.enable.dictionary", random.choice(["true", "false"])).parquet(str(made))
        return Table(EngineKind.SPARK, path=made)

    tally = Tally()
    for seed in range(3):
        compare(tally, Trial(seed, text=name == "Python's csv"), name, write, tmp_path, 3)
    assert tally.wrong == []


# -- the files by which one person once turned everybody's answer -----------------------------------


def asked(source: Source, sql: str, *columns: Column) -> int:
    policy = policy_of(list(columns), source=source, row_cap=100_000, unit="row")
    return make_engine(policy, read_header(source), "k").statistic(parse_question(sql, policy).query)


def parquet(path: Path, rows: dict[str, list[Any]], **options: Any) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(rows), path, **options)
    return path


def numbers(path: Path, last: float) -> Path:
    return parquet(path, {"x": [math.nan] * 400 + [float(place % 40) for place in range(599)] + [last]})


@pytest.mark.parametrize(
    ("sql", "most"),
    [
        ("SELECT COUNT(*) FROM t WHERE x > 42", 1),
        ("SELECT COUNT(*) FROM t WHERE x IS NULL", 1),
        ("SELECT SUM(x) FROM t WHERE x > 20", 100),
        ("SELECT SUM(x) FROM t", 100),
        ("SELECT SUM(x * x) FROM t WHERE NOT x > 42", 10_000),
    ],
)
def test_nan_in_parquet(tmp_path: Path, sql: str, most: int) -> None:
    found = [asked(numbers(tmp_path / f"{last}.parquet", last), sql, X) for last in (39.0, 45.0)]
    assert abs(found[0] - found[1]) <= most


def test_a_column_that_one_person_has(tmp_path: Path) -> None:
    nobody = parquet(tmp_path / "0.parquet", {"x": [math.nan] * 1_000})
    one = parquet(tmp_path / "1.parquet", {"x": [math.nan] * 1_000 + [3.0]})
    for sql in ("SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE x > 2", "SELECT COUNT(x) FROM t"):
        assert asked(nobody, sql, X) == 0
        assert asked(one, sql, X) == (1 if "COUNT" in sql else 3)


def test_one_text_without_a_dictionary(tmp_path: Path) -> None:
    texts = ["negative"] * 950 + [None] * 50
    for more in ([], ["positive"]):
        path = parquet(tmp_path / f"{len(more)}.parquet", {"a": texts + more}, use_dictionary=False)
        assert asked(path, "SELECT COUNT(*) FROM t WHERE a IS NULL", A) == 50


def test_carriage_returns_in_a_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["x", "note"])
        writer.writerows([[number, "well"] for number in range(100)])
        file.write("1,hello" + "\r120" * 1000 + "\n")
    policy = policy_of([X], source=path, row_cap=100_000, unit="row")
    with pytest.raises(BadTable, match=r"t\.csv, line 102: a carriage return outside of quotes") as refused:
        make_engine(policy, read_header(path), "k").inspect()
    assert "hello" not in str(refused.value) and "120" not in str(refused.value)


def test_such_a_file_gets_no_account(tmp_path: Path) -> None:
    policy = write_people(tmp_path, 5, neighbours="add-remove")
    with (tmp_path / "people.csv").open("a", newline="") as file:
        file.write("40,100,true,hello" + "\r120" * 50 + ",1\n")
    rooms = memory_rooms()
    with pytest.raises(BadTable, match="line 7: a carriage return"):
        open_account(rooms, read_policy(policy))
    assert rooms.ledger.books.list_accounts() == ()


@pytest.mark.extras
def test_nan_in_parquet_with_spark(small_spark: None, tmp_path: Path) -> None:
    for last in ([], [3.0]):
        path = parquet(tmp_path / f"{len(last)}.parquet", {"x": [math.nan] * 1_000 + last})
        assert asked(Table(EngineKind.SPARK, path=path), "SELECT COUNT(*) FROM t WHERE x IS NULL", X) == 1_000


# -- the connection and the lines ------------------------------------------------------------------


def test_only_the_allowed_optimisers_are_on() -> None:
    with duckdb_connection.open_connection() as connection:
        known = {name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
        (off,) = connection.execute("SELECT current_setting('disabled_optimizers')").fetchone() or ("",)
    assert {"filter_pushdown", "statistics_propagation", "type_pushdown", "row_group_pruner"} <= set(off.split(","))
    assert known - set(off.split(",")) == set(duckdb_connection.ALLOWED_OPTIMIZERS)


@pytest.mark.parametrize("optimiser", ["filter_pushdown", "statistics_propagation"])
def test_a_duckdb_that_believes_statistics_is_refused(optimiser: str) -> None:
    check = duckdb_connection.check_version.__wrapped__
    check()
    with switched_on(optimiser), pytest.raises(BadTable, match="cannot be trusted with NaN"):
        check()


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"x,y\n1,2\n3,4\n", 2), (b"x,y\r\n1,2\r\n3,4", 2), (b"\xef\xbb\xbf\"x\",y\n1,2\n", 1), (b"x,y\n", 0), (b"", 0),
        (b'x,y\n1,"a\rb\n""c"\n', 1), (b"x,y\n\n1,2\n\n", 1), (b'x,y\n"",""\n""\n,\n', 3), (b"x,y\n1,a\x00\x85\n", 1),
        (b'x,y\n1,"' + b"z\r" * 900_000 + b'"\n2,3', 2),
    ],
)  # fmt: skip
def test_lines_of_a_csv_file(tmp_path: Path, content: bytes, rows: int) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    assert count_csv_rows(path, header=True, blank_rows=False) == rows


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"x,y\n1,2\r3,4\n", 2), (b"x,y\r\n1,2\n3,4\r\n", 2), (b"x,y\r\n1,2\r3\r\n", 2), (b"x,y\n1,2\r\n", 2),
        (b"x,y\r1,2\r", 1), (b'x,y\n1,2\n3,"4\n5,6\n', 3), (b'x,y\n1,a"b\n', 2), (b'x,y\n1,"a"b\n', 2),
        (b'x,y\n1, "a\n2",3\n', 2), (b"x,y\n1,2\n3,4\r", 3), (b"x,y\n1," + b"z" * 7_000_000 + b"\n", 2),
    ],
)  # fmt: skip
def test_other_lines_are_refused_without_their_values(tmp_path: Path, content: bytes, line: int) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(BadTable, match=rf"^t\.csv, line {line}: "):
        count_csv_rows(path, header=True, blank_rows=False)
