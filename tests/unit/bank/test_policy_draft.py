"""Drafts: types and steps of most values, nothing else of the rows; a person fills in the rest."""

from __future__ import annotations

import csv
from pathlib import Path
from random import Random

import duckdb
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.bank.policy_draft import draft_policy
from noisebank.core.errors import BadPolicy, BadRequest, BadTable, Misuse
from noisebank.policy.file import parse_policy
from noisebank.policy.model import Kind, Policy
from noisebank.queries.selects import check_named_queries
from support.drafts import fill_draft

ODD_VALUES = [
    "",
    "0.5",
    "-7",
    "1e300",
    "true",
    "x",
    "2020-01-31",
    "1,234",
    "0001",
    "NaN",
    "many words that say nothing at all",
]
ROWS = 150


def table(folder: Path, header: list[str], rows: list[list[str]], name: str = "people.csv") -> Path:
    path = folder / name
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def make_rows(seed: int) -> tuple[list[str], list[list[str]]]:
    """Rows of every kind: which values there are depends on the seed, of what kind they are does not."""
    random = Random(seed)
    first = random.randrange(10**6, 10**7)
    words = ["".join(random.choices("abcdefghijklmnop", k=7)) for _ in range(6)]
    columns = {
        "age": [str(random.randrange(first, first + 60)) for _ in range(ROWS)],
        "price": [f"{first + random.random() * 9:.2f}" for _ in range(ROWS)],
        "exact": [repr(first * random.random()) for _ in range(ROWS)],
        "smoker": [random.choice(["yes", "no"]) for _ in range(ROWS)],
        "town": [random.choice(words[:5]) for _ in range(ROWS)],
        "padded": [" " + random.choice(words[:5]) for _ in range(ROWS)],
        "number": [str(first + row) for row in range(ROWS)],
        "called": ["".join(random.choices("abcdefghijklmnop", k=9)) for _ in range(ROWS)],
        "notes": [" ".join(random.choices(words, k=9)) for _ in range(ROWS)],
        "day": [f"{random.randrange(1900, 2000)}-0{random.randrange(1, 9)}-17" for _ in range(ROWS)],
        "wave": [random.choice(["1987-03-15", "1988-03-15"]) for _ in range(ROWS)],
        "amount": [f"{random.randrange(1000, 999999):,}" for _ in range(ROWS)],
        "nothing": [""] * ROWS,
    }
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def parsed(text: str, folder: Path) -> Policy:
    return parse_policy(fill_draft(text), folder)


@settings(max_examples=4)
@given(seed=st.integers(0, 10**9))
def test_a_draft_tells_nothing_but_kinds(tmp_path_factory, seed):
    """Other values of the same kinds give the same draft, byte by byte: so none of them is in it."""
    folder = tmp_path_factory.mktemp("drafts", numbered=True)
    drafts = {draft_policy(table(folder, *make_rows(number))).text for number in (seed, seed + 1)}
    assert len(drafts) == 1


@pytest.mark.parametrize("odd", [*ODD_VALUES, None])
def test_one_odd_row_changes_nothing(tmp_path: Path, odd: str | None) -> None:
    """Nor does a row that is there twice (None), or one that is missing."""
    header, rows = make_rows(7)
    text = draft_policy(table(tmp_path, header, rows)).text
    rows[70] = rows[3] if odd is None else [odd] * (len(header) - 1) + [""]
    assert draft_policy(table(tmp_path, header, rows)).text == text
    if odd is None:
        del rows[70]
        assert draft_policy(table(tmp_path, header, rows)).text == text


def test_kinds_of_columns(tmp_path: Path) -> None:
    draft = draft_policy(table(tmp_path, *make_rows(1)))
    columns = parsed(draft.text, tmp_path).columns
    kinds = {
        "age": Kind.INTEGER,
        "price": Kind.NUMBER,
        "exact": Kind.NUMBER,
        "smoker": Kind.BOOLEAN,
        "town": Kind.TEXT,
        "padded": Kind.TEXT,
        "day": Kind.DATE,
        "wave": Kind.DATE,
    }
    assert {name: column.kind for name, column in columns.items()} == kinds
    assert draft.declared == tuple(kinds)
    assert draft.omitted == ("number", "called", "notes", "amount", "nothing")
    assert all(column.nullable for column in columns.values())
    assert "step = 0.01 " in draft.text and draft.text.count('step = "FILL IN"') == 1
    assert draft.text.count("begin or end with a space") == 1
    for name in draft.omitted:
        assert f"# {name} is left out: " in draft.text


def test_an_identifier_can_become_the_unit(tmp_path: Path) -> None:
    text = draft_policy(table(tmp_path, *make_rows(1))).text
    text = text.replace("# [columns.number]\n# type", "[columns.number]\ntype").replace("# max_rows", "max_rows")
    policy = parse_policy(fill_draft(text, unit='"number"'), tmp_path)
    assert policy.unit == "number" and policy.max_rows == 3


def test_marks_are_named_all_at_once_with_their_lines(tmp_path: Path) -> None:
    text = draft_policy(table(tmp_path, ["age", "town"], [["30", "north"]] * 30)).text
    marked = [number for number, line in enumerate(text.splitlines(), 1) if '= "FILL IN"' in line]
    with pytest.raises(BadPolicy) as caught:
        parse_policy(text + "broken = 5\n", tmp_path)
    mistakes = {mistake.line: mistake.where for mistake in caught.value.mistakes}
    assert [mistakes[line] for line in marked] == [
        "unit", "row_cap", "budget.epsilon", "budget.delta", "columns.age.bounds", "columns.town.keys"
    ]  # fmt: skip
    assert len(mistakes) == len(marked) + 1  # and what else is wrong
    old = fill_draft(text).replace("row_cap = 1000000", "row_cap = 1000000  # FILL IN: the most rows")
    with pytest.raises(BadPolicy, match="row_cap: says FILL IN"):
        parse_policy(old, tmp_path)


def test_every_row_of_a_big_table_may_be_in_the_sample(tmp_path: Path) -> None:
    """The first rows are all 0; what most of the rows are is told by those spread over the rest."""
    path = tmp_path / "t.parquet"
    number = "CASE WHEN i < 6000 THEN '0' ELSE 'x' || (i % 7) END"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {number} AS n FROM range(40000) t(i)) TO '{path}' (FORMAT parquet)")
    assert parsed(draft_policy(path).text, tmp_path).columns["n"].kind is Kind.INTEGER
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT CASE WHEN i < 4000 THEN '0' ELSE 'x' || (i % 7) END AS n FROM range(40000) t(i)) "
            f"TO '{path}' (FORMAT parquet)"
        )
    assert parsed(draft_policy(path).text, tmp_path).columns["n"].kind is Kind.TEXT


def test_tables_of_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "bank.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE SCHEMA s")
        connection.execute("CREATE TABLE s.people AS SELECT i * 7 % 80 AS age, i % 2 = 0 AS smoker FROM range(99) t(i)")
        connection.execute("CREATE VIEW seen AS FROM s.people")
    policy = parsed(draft_policy(path, table_name="s.people").text, tmp_path)
    assert policy.source.name_parts == ("s", "people") and policy.name == "people"
    assert [column.kind for column in policy.columns.values()] == [Kind.INTEGER, Kind.BOOLEAN]
    for name in ("people", "seen"):
        with pytest.raises(BadTable, match="no table"):
            draft_policy(path, table_name=name)
    with pytest.raises(BadRequest, match=r"--table NAME, one of s\.people$"):
        draft_policy(path)
    (tmp_path / "none.duckdb").write_bytes(b"this is no database")
    with pytest.raises(BadRequest, match="--table NAME"):
        draft_policy(tmp_path / "none.duckdb")
    with pytest.raises(BadRequest, match=r"\.duckdb"):
        draft_policy(table(tmp_path, ["a"], [["1"]]), table_name="people")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a;b\n1;2\n", "semicolons"),
        (b"a\tb\n1\t2\n", "tabs"),
        ("name,n\nMüller,1\n".encode("latin-1"), "UTF-8"),
        (b'a,b\n1,x"y\n', "line 2"),
        (b'a,b\n1,"x\n', "never closed"),
    ],
)
def test_messy_files_are_refused_with_a_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(BadTable, match=reason):
        draft_policy(path)


def test_messy_files_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeff"age","town"\r\n30,"no, rth"\r\n31\r\n32,x,extra\r\n'.encode())
    assert list(parsed(draft_policy(path).text, tmp_path).columns) == ["age", "town"]


def test_a_table_without_rows_has_columns_of_unknown_type(tmp_path: Path) -> None:
    draft = draft_policy(table(tmp_path, ["age", "town"], []))
    assert draft.declared == ("age", "town") and draft.text.count('type = "FILL IN"') == 2


def test_a_column_without_any_value_in_parquet_has_no_type(tmp_path: Path) -> None:
    """pandas writes such a column with the type of nothing."""
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"age": [1] * 30, "died": [None] * 30}), path)
    assert "# died is left out: the sample has no value of it" in draft_policy(path).text
    pyarrow.parquet.write_table(pyarrow.table({"age": [1] * 30, "died": [None] * 30}).slice(0, 0), path)
    assert "died" in draft_policy(path).declared


def test_few_whole_numbers_may_be_codes(tmp_path: Path) -> None:
    rows = [[str(row % 4), str(row % 90)] for row in range(200)]
    text = draft_policy(table(tmp_path, ["region", "age"], rows)).text
    assert text.count("# if these are codes and not amounts, write keys") == 1
    assert text.index("if these are codes") < text.index("[columns.region]") < text.index("[columns.age]")
    rows[7][0] = "999"
    assert draft_policy(table(tmp_path, ["region", "age"], rows)).text == text
    policy = parse_policy(fill_draft(text.replace('bounds = "FILL IN"', "keys = [0, 1, 2, 3]", 1)), tmp_path)
    assert policy.columns["region"].keys == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.csv", b"", "is empty"),
        ("t.xlsx", b"PK", 'a spreadsheet: save it as "CSV UTF-8"'),
        ("postgresql:", None, "export some rows of the table as CSV"),
    ],
)
def test_what_is_no_table_is_refused_with_the_way_to_one(
    tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    path = Path("postgresql://reader@db.example/people") if content is None else tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadTable, match=reason):
        draft_policy(path)


def test_dates_are_filled_in_as_dates(tmp_path: Path) -> None:
    text = draft_policy(table(tmp_path, ["day", "at"], [["2024-05-06", "2024-05-06 10:30:00"]] * 30)).text
    with pytest.raises(BadPolicy) as caught:
        parse_policy(text, tmp_path)
    rights = {mistake.where: mistake.right for mistake in caught.value.mistakes}
    for column in ("day", "at"):
        assert '"2030-12-31"' in rights[f"columns.{column}.bounds"]
    assert '"UTC"' in rights["columns.at.zone"]


def test_strange_names_make_a_valid_policy(tmp_path: Path) -> None:
    names = ["age", "home town", "Größe", "unit", "a.b", "with'quote", "x-y", "row_index"]
    path = table(tmp_path, names, [["1"] * 8])
    draft = draft_policy(path)
    policy = parsed(draft.text, tmp_path)
    assert policy.source == path.resolve() and policy.name == "people"
    assert list(policy.columns) == names
    assert '[columns."Größe"]' in draft.text
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
    columns_sql = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in types.items())
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {columns_sql}) TO '{path}' (FORMAT parquet)")
    draft = draft_policy(path)
    columns = parsed(draft.text, tmp_path).columns
    kinds = {
        "i": Kind.INTEGER,
        "big": Kind.INTEGER,
        "u": Kind.INTEGER,
        "d": Kind.NUMBER,
        "m": Kind.NUMBER,
        "f": Kind.NUMBER,
        "b": Kind.BOOLEAN,
        "w": Kind.TEXT,
        "day": Kind.DATE,
        "kind": Kind.TEXT,
    }
    assert {name: column.kind for name, column in columns.items()} == kinds
    assert set(draft.omitted) == {"blob", "list", "inside"}
    assert "secret" not in draft.text and "hidden" not in draft.text
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {columns_sql} LIMIT 0) TO '{path}' (FORMAT parquet)")
    assert "step = 0.01 " in draft_policy(path).text  # of DECIMAL(9, 2)


@pytest.mark.parametrize(
    "header",
    [["a\nb"], ["a\x07b"], ["a\x1b[31m"], ["tab\there"], ['quo"te'], ["back\\slash"], ["a]b"], ["# a"], ["= 1"]],
)
def test_strange_names_of_columns_make_valid_drafts_or_are_refused_by_name(tmp_path: Path, header: list[str]) -> None:
    """What is written must be TOML, whatever it says; a name that no policy may have can be refused when it is read."""
    path = table(tmp_path, [*header, "plain"], [["1", "2"]])
    try:
        text = draft_policy(path).text
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
        text = draft_policy(path).text
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
    policy = parsed(draft_policy(path).text, tmp_path)
    assert policy.source == path.resolve()
    assert policy.name == {"a b.csv": "a_b", "a.b.csv": "a_b", 'we"ird.csv': "we_ird"}.get(name, policy.name)
    check_named_queries(policy)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01", b"\n"])
def test_files_without_a_header_are_no_tables(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(Misuse):
        parsed(draft_policy(path).text, tmp_path)


def test_files_that_are_not_there_or_not_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("secret,words\n1,2\n")
    for path in (tmp_path / "nowhere.csv", tmp_path, tmp_path / "t.parquet"):
        with pytest.raises(BadTable) as caught:
            draft_policy(path)
        assert "secret" not in str(caught.value)


def test_named_queries_are_checked_all_at_once(tmp_path: Path) -> None:
    text = fill_draft(draft_policy(table(tmp_path, ["a"], [["x"]])).text)
    good = 'good = "SELECT MODE(a) FROM people"\n'
    good += "also = \"SELECT a, COUNT(*) AS n, AVG(a = 'north') AS s FROM people GROUP BY a\"\n"
    check_named_queries(parsed(text + good, tmp_path))
    bad = 'one = "SELECT MAX(a) FROM people"\ntwo = "SELECT COUNT(*) FROM others"\nthree = "nonsense"\n'
    with pytest.raises(BadPolicy) as caught:
        check_named_queries(parsed(text + good + bad, tmp_path))
    assert sorted(mistake.where for mistake in caught.value.mistakes) == ["queries.one", "queries.three", "queries.two"]
    assert {mistake.line for mistake in caught.value.mistakes} == {0}  # a parsed policy knows no lines
