"""Drafts: from names and types alone, and valid policies as they are."""

from __future__ import annotations

import csv
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.bank.policy_draft import draft_policy
from noisebank.core.errors import BadPolicy, BadTable, Misuse
from noisebank.policy.file import parse_policy
from noisebank.policy.model import Kind, Policy
from noisebank.queries.derived import check_named_queries

SECRET = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=5, max_size=12)
values = st.one_of(st.integers(10**6, 10**9).map(str), SECRET, st.floats(1e3, 1e9).map(lambda x: f"{x:.5f}"))


def table(folder: Path, header: list[str], rows: list[list[str]], name: str = "people.csv") -> Path:
    path = folder / name
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def parsed(text: str, folder: Path) -> Policy:
    return parse_policy(text, folder)


@settings(max_examples=40)
@given(rows=st.lists(st.lists(values, min_size=3, max_size=3), min_size=1, max_size=6))
def test_a_draft_holds_no_value_of_the_table(tmp_path_factory, rows):
    """Not a byte of it depends on the rows: the strongest form of "no value"."""
    folder = tmp_path_factory.mktemp("drafts", numbered=True)
    header = ["age", "home town", "income"]
    empty = draft_policy(table(folder, header, []))
    assert draft_policy(table(folder, header, rows)) == empty


@settings(max_examples=5)
@given(numbers=st.lists(st.integers(-(10**9), 10**9), max_size=6), words=st.lists(SECRET, max_size=6))
def test_a_parquet_draft_depends_on_names_and_types_only(tmp_path_factory, numbers, words):
    folder = tmp_path_factory.mktemp("drafts", numbered=True)
    drafts = []
    for name, rows in (("a", list(zip(numbers, words, strict=False))), ("b", [])):
        path = folder / name / "t.parquet"
        path.parent.mkdir()
        with duckdb.connect() as connection:
            connection.execute("CREATE TABLE t (n BIGINT, w VARCHAR)")
            if rows:
                connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
            connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
        drafts.append(draft_policy(path))
    assert drafts[0] == drafts[1]


def test_a_draft_is_a_valid_policy(tmp_path: Path) -> None:
    path = table(tmp_path, ["age", "home town", "Größe", "unit", "a.b", "with'quote", "x-y"], [["1"] * 7])
    policy = parsed(draft_policy(path), tmp_path)
    assert policy.source == path.resolve() and policy.name == "people"
    assert list(policy.columns) == ["age", "home town", "Größe", "unit", "a.b", "with'quote", "x-y"]
    check_named_queries(policy)


def test_a_draft_that_is_filled_in(tmp_path: Path) -> None:
    text = draft_policy(table(tmp_path, ["age", "town"], [["30", "north"]]))
    text = text.replace('keys = ["FILL", "IN"]', 'keys = ["north", "south"]').replace(
        "row_cap = 1000000", "row_cap = 50"
    )
    age = '[columns.age]\ntype = "integer"\nbounds = [0, 120]\nbins = [40]\n'
    start, end = text.index("[columns.age]"), text.index("[columns.town]")
    text = text[:start] + age + text[end:]
    text = text.replace("# over_60", "over_60")
    policy = parsed(text, tmp_path)
    assert policy.columns["age"].bounds == (0, 120) and policy.row_cap == 50
    assert policy.columns["town"].keys == ("north", "south")
    assert policy.queries == {"over_60": "SELECT COUNT(*) FROM people WHERE age > 60"}
    check_named_queries(policy)


def test_types_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    types = {
        "i": "INTEGER",
        "big": "BIGINT",
        "u": "UTINYINT",
        "d": "DOUBLE",
        "m": "DECIMAL(9, 2)",
        "f": "FLOAT",
        "b": "BOOLEAN",
        "w": "VARCHAR",
        "day": "DATE",
        "blob": "BLOB",
        "list": "INTEGER[]",
        "inside": "STRUCT(a INTEGER)",
        "kind": "ENUM('secret', 'hidden')",
    }
    columns = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in types.items())
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {columns}) TO '{path}' (FORMAT parquet)")
    text = draft_policy(path)
    found = parsed(text, tmp_path).columns
    kinds = {
        "i": Kind.INTEGER,
        "big": Kind.INTEGER,
        "u": Kind.INTEGER,
        "d": Kind.NUMBER,
        "m": Kind.NUMBER,
        "f": Kind.NUMBER,
        "b": Kind.BOOLEAN,
    }
    assert {name: column.kind for name, column in found.items()} == {name: kinds.get(name, Kind.TEXT) for name in types}
    assert "secret" not in text and "hidden" not in text


def test_a_csv_file_has_no_types(tmp_path: Path) -> None:
    policy = parsed(draft_policy(table(tmp_path, ["a", "b"], [["1", "true"]])), tmp_path)
    assert {column.kind for column in policy.columns.values()} == {Kind.TEXT}


@pytest.mark.parametrize(
    "header",
    [["a\nb"], ["a\x07b"], ["a\x1b[31m"], ["tab\there"], ['quo"te'], ["back\\slash"], ["a]b"], ["# a"], ["= 1"]],
)
def test_strange_names_of_columns_make_valid_drafts_or_are_refused_by_name(tmp_path: Path, header: list[str]) -> None:
    """What is written must be TOML, whatever it says; a name that no policy may have can be refused when it is read."""
    path = table(tmp_path, [*header, "plain"], [["1", "2"]])
    try:
        text = draft_policy(path)
    except BadTable:
        return
    try:
        assert list(parsed(text, tmp_path).columns) == [*header, "plain"]
    except BadPolicy as error:
        assert all(mistake.where.startswith("columns.") for mistake in error.mistakes), error


@pytest.mark.parametrize("header", [["a", "a"], ["a", "A"], ["", "b"], ["x" * 64, "b"]])
def test_names_that_no_policy_may_have(tmp_path: Path, header: list[str]) -> None:
    path = table(tmp_path, header, [["1", "2"]])
    try:
        text = draft_policy(path)
    except BadTable:
        return
    with pytest.raises(BadPolicy) as caught:
        parsed(text, tmp_path)
    assert all(mistake.where.startswith("columns") for mistake in caught.value.mistakes), caught.value


@pytest.mark.parametrize(
    "name", ['we"ird.csv', "back\\slash.csv", "new\nline.csv", "ünï.csv", "a b.csv", "{0}.csv", "7.csv", "a.b.csv"]
)
def test_strange_names_of_files(tmp_path: Path, name: str) -> None:
    path = table(tmp_path, ["a"], [["1"]], name)
    policy = parsed(draft_policy(path), tmp_path)
    assert policy.source == path.resolve()
    check_named_queries(policy)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01", b"\n"])
def test_files_without_a_header_are_no_tables(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(Misuse):
        parsed(draft_policy(path), tmp_path)


def test_files_that_are_not_there_or_not_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("secret,words\n1,2\n")
    for path in (tmp_path / "nowhere.csv", tmp_path, tmp_path / "t.parquet"):
        with pytest.raises(BadTable) as caught:
            draft_policy(path)
        assert "secret" not in str(caught.value)


def test_named_queries_are_checked_all_at_once(tmp_path: Path) -> None:
    text = draft_policy(table(tmp_path, ["a"], [["x"]]))
    good = 'good = "SELECT MODE(a) FROM people"\n'
    good += "also = \"SELECT a, COUNT(*) AS n, AVG(a = 'FILL') AS s FROM people GROUP BY a\"\n"
    check_named_queries(parsed(text + good, tmp_path))
    bad = 'one = "SELECT MAX(a) FROM people"\ntwo = "SELECT COUNT(*) FROM others"\nthree = "nonsense"\n'
    with pytest.raises(BadPolicy) as caught:
        check_named_queries(parsed(text + good + bad, tmp_path))
    assert sorted(mistake.where for mistake in caught.value.mistakes) == ["queries.one", "queries.three", "queries.two"]
    assert {mistake.line for mistake in caught.value.mistakes} == {0}  # a parsed policy knows no lines
