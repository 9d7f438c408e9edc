"""DuckDB over real files: quoting, odd files, odd names, and nothing but integers and kinds of errors out."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import duckdb
import pytest

from noisebank.core.errors import BadPolicy, BadTable, NoisebankError
from noisebank.engines.duckdb_engine import DuckDBEngine, duckdb_header
from noisebank.engines.statement import quote_name, quote_text
from noisebank.policy.file import read_policy
from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.queries.sql import parse_question
from support.banks import write_people

X = Column("x", Kind.NUMBER, Fraction(1), 0, 10, nullable=True)
TOWN = Column("town", Kind.TEXT, keys=("north", "south"), nullable=True)
FLAG = Column("flag", Kind.BOOLEAN, nullable=True)

Table = Callable[..., DuckDBEngine]


def policy_of(source: Path, *columns: Column, **facts: object) -> Policy:
    return Policy(
        **{  # type: ignore[arg-type]
            "name": "t",
            "source": source,
            "neighbours": Neighbours.ADD_REMOVE,
            "row_cap": 1_000,
            "columns": MappingProxyType({column.name: column for column in columns}),
            "epsilon": Fraction(1),
            "delta": Fraction(1, 10**6),
            **facts,
        }
    )


def ask(engine: DuckDBEngine, sql: str) -> int:
    return engine.statistic(parse_question(sql, engine._policy).query)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    def make(
        content: str | bytes, *columns: Column, name: str = "t.csv", key: str = "k", **facts: object
    ) -> DuckDBEngine:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return DuckDBEngine(policy_of(path, *(columns or (X, TOWN)), **facts), duckdb_header(path), key)

    return make


# -- CSV files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "rows", "north", "total"),
    [
        ("x,town\n1,north\n2,north\n", 2, 2, 3),
        ("x,town\r\n1,north\r\n2,north\r\n", 2, 2, 3),
        ("x,town\n1,north\n2,north", 2, 2, 3),
        (b"\xef\xbb\xbfx,town\n1,north\n2,north\n", 2, 2, 3),
        ('"x","town"\n"1","north"\n2,north\n', 2, 2, 3),
        ("x , town\n1,north\n2,north\n", 2, 2, 3),
        ('note,x,town\n"a, ""b""",1,north\n"two\nlines",2,north\n', 2, 2, 3),
        ("x,town\n1\n2,north\n", 2, 1, 3),
        ("x,town\n1,north,too,many\n2,north\n", 2, 2, 3),
        ("x,town\n\n1,north\n\n2,north\n\n", 2, 2, 3),
        ("x,town\n", 0, 0, 0),
        ("town,x\nnorth,7\nsouth,\n,3\n", 3, 1, 10),
        ("x,town\n#1,north\n2,north\n", 2, 2, 2),
        ("x,town\n1,'north'\n2,north\n", 2, 1, 3),
        ("x,town\n1, north\n2,NORTH\n", 2, 0, 3),
        ("x,town\n1,nor\x00th\n2,north\n", 2, 1, 3),
    ],
    ids=["plain", "crlf", "no last line break", "bom", "quoted", "spaces in the header", "quotes and lines",
         "short row", "long row", "empty lines", "header only", "missing", "hash", "apostrophes", "spellings", "nul"],
)  # fmt: skip
def test_files_as_they_come(table: Table, content: str | bytes, rows: int, north: int, total: int) -> None:
    engine = table(content)
    assert ask(engine, "SELECT COUNT(*) FROM t") == rows
    assert ask(engine, "SELECT COUNT(*) FROM t WHERE town = 'north'") == north
    assert ask(engine, "SELECT SUM(x) FROM t") == total
    assert engine.inspect().rows == rows


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3), ("3.4", 3), ("3.6", 4), ("-5", 0), ("11", 10), ("1e400", 10), ("-1e400", 0), ("inf", 10),
        ("-Infinity", 0), (" 7 ", 7), ("+5", 5), ("1e0", 1), ("9" * 400, 10), ("-" + "9" * 400, 0), ("1e-400", 0),
    ],
)  # fmt: skip
def test_numbers_are_clipped_and_rounded_in_the_engine(table: Table, text: str, value: int) -> None:
    engine = table(f"x,town\n{text},north\n")
    assert ask(engine, "SELECT SUM(x) FROM t") == value
    assert ask(engine, f"SELECT COUNT(*) FROM t WHERE x = {value}") == 1


@pytest.mark.parametrize("text", ["", "nan", "NaN", "word", "1x", "0x10", "--1", "∞", "٣", "1 2", "true", "$5"])
def test_what_is_no_number_is_missing_and_never_an_error(table: Table, text: str) -> None:
    """DuckDB 2.0 turns TRY_CAST over read_csv into a cast that fails (duckdb #23818): not here."""
    engine = table(f"x,town\n{text},north\n4,south\n")
    assert ask(engine, "SELECT SUM(x) FROM t") == 4
    assert ask(engine, "SELECT COUNT(x) FROM t") == 1
    assert ask(engine, "SELECT COUNT(*) FROM t WHERE x IS NULL") == 1
    assert engine.inspect().missing["x"] == 1


def test_missing_where_none_may_be_is_a_value_inside_the_bounds(table: Table) -> None:
    strict = Column("x", Kind.INTEGER, Fraction(1), 100, 110)
    engine = table("x,town,flag\nnan,,\n,,maybe\n105,north,true\n", strict, Column("town", Kind.TEXT, keys=("north",)),
                   Column("flag", Kind.BOOLEAN))  # fmt: skip
    assert ask(engine, "SELECT SUM(x) FROM t") == 100 + 100 + 105
    assert ask(engine, "SELECT COUNT(*) FROM t WHERE town = 'north'") == 1
    assert ask(engine, "SELECT COUNT(*) FROM t WHERE NOT flag") == 2
    assert engine.inspect().missing == {"x": 2, "town": 2, "flag": 2}


def test_sums_saturate(table: Table) -> None:
    engine = table("x,town\n" + "10,north\n" * 9, row_cap=4)
    assert ask(engine, "SELECT SUM(x) FROM t") == 40
    assert ask(engine, "SELECT COUNT(*) FROM t") == 4


def test_steps_of_a_hundredth(table: Table) -> None:
    cents = Column("x", Kind.NUMBER, Fraction(1, 100), -1_000, 1_000)
    engine = table("x\n0.01\n0.29\n1.005\n-3.333\n99\n", cents)
    assert ask(engine, "SELECT SUM(x) FROM t") in (1 + 29 + 100 - 333 + 1_000, 1 + 29 + 101 - 333 + 1_000)


@pytest.mark.parametrize("step", ["1e-350", "1e350"])
def test_steps_that_no_double_holds_are_refused_with_the_policy(tmp_path: Path, step: str) -> None:
    policy = write_people(tmp_path)
    odd = f'"number"\nstep = {step}\nbounds = [0, {step}]'
    policy.write_text(policy.read_text().replace('"integer"\nbounds = [0, 120]', odd))
    with pytest.raises(BadPolicy, match="step"):
        read_policy(policy)


def test_inspection_counts_what_will_be_clipped_or_is_no_key(table: Table) -> None:
    found = table("x,town\n11,north\n-1,east\n5,\n10,south\n").inspect()
    assert (found.rows, found.outside["x"], found.unkeyed["town"], found.missing["town"]) == (4, 2, 1, 1)


# -- people with several rows ----------------------------------------------------------------------

WHO = Column("who", Kind.TEXT)


def test_at_most_so_many_rows_of_a_person_count(table: Table) -> None:
    lines = "who,x,town\n" + "a,1,north\na,2,south\na,4,north\nb,8,north\n,9,north\n"
    engine = table(lines, WHO, X, TOWN, unit="who", max_rows=2)
    assert ask(engine, "SELECT COUNT(*) FROM t") == 3  # two of a, one of b, nobody without a name
    assert ask(engine, "SELECT SUM(x) FROM t") in {8 + 1 + 2, 8 + 1 + 4, 8 + 2 + 4}


def test_which_rows_count_depends_on_the_key_and_not_on_the_order(table: Table) -> None:
    rows = [f"a,{i},north" for i in range(8)]
    facts = {"unit": "who", "max_rows": 1}
    seen = set()
    for key in "abcdefgh":
        forth = table("who,x,town\n" + "\n".join(rows), WHO, X, TOWN, key=key, name="1.csv", **facts)
        back = table("who,x,town\n" + "\n".join(reversed(rows)), WHO, X, TOWN, key=key, name="2.csv", **facts)
        assert ask(forth, "SELECT SUM(x) FROM t") == ask(back, "SELECT SUM(x) FROM t")
        seen.add(ask(forth, "SELECT SUM(x) FROM t"))
    assert len(seen) > 2


def test_rows_that_look_alike_when_joined_are_told_apart(table: Table) -> None:
    """Texts may hold any separator: which row counts must not fall back to the order of the file."""
    a, b = Column("a", Kind.TEXT, keys=("x|", "x")), Column("b", Kind.TEXT, keys=("-", "|-"), nullable=True)
    for key in "abcdefgh":
        counts = {
            ask(
                table("who,a,b\n" + "\n".join(rows), WHO, a, b, name=name, key=key, unit="who", max_rows=1),
                "SELECT COUNT(*) FROM t WHERE a = 'x'",
            )
            for name, rows in (("1.csv", ["p,x|,-", "p,x,|-"]), ("2.csv", ["p,x,|-", "p,x|,-"]))
        }
        assert len(counts) == 1


# -- Parquet ---------------------------------------------------------------------------------------


def parquet(path: Path, select: str) -> None:
    duckdb.connect().execute(f"COPY ({select}) TO {quote_text(str(path))} (FORMAT parquet)")


def test_parquet_with_types_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet(
        path,
        "SELECT * FROM (VALUES (1::DECIMAL(9,2), 'north', true), (2.6, 'south', false), (99, NULL, NULL), "
        "(NULL, 'east', true)) v(x, town, flag)",
    )
    engine = DuckDBEngine(policy_of(path, X, TOWN, FLAG), duckdb_header(path), "k")
    assert duckdb_header(path) == ("x", "town", "flag")
    assert ask(engine, "SELECT SUM(x) FROM t") == 1 + 3 + 10
    assert ask(engine, "SELECT COUNT(*) FROM t WHERE flag") == 2
    assert ask(engine, "SELECT COUNT(*) FROM t WHERE town <> 'north'") == 2
    assert engine.inspect().missing == {"x": 1, "town": 1, "flag": 1}


def test_parquet_and_csv_give_the_same_integers(tmp_path: Path, table: Table) -> None:
    engine = table("x,town\n1,north\nnan,south\n1e400,\n2.5,east\nword,north\n")
    path = tmp_path / "t.parquet"
    parquet(path, f"SELECT * FROM {engine._table_sql()}")
    other = DuckDBEngine(policy_of(path, X, TOWN), duckdb_header(path), "k")
    for sql in ("SELECT SUM(x) FROM t", "SELECT COUNT(x) FROM t WHERE town = 'north'", "SELECT COUNT(*) FROM t"):
        assert ask(engine, sql) == ask(other, sql)


def test_special_doubles_in_parquet(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet(path, "SELECT unnest(['nan', 'inf', '-inf', '1e308', '-0.0']::DOUBLE[]) AS x, 'north' AS town")
    engine = DuckDBEngine(policy_of(path, X, TOWN), duckdb_header(path), "k")
    assert ask(engine, "SELECT SUM(x) FROM t") == 10 + 0 + 10 + 0
    assert ask(engine, "SELECT COUNT(x) FROM t") == 4


@pytest.mark.parametrize("kind", [Kind.NUMBER, Kind.TEXT])
def test_rows_whose_person_is_nan_belong_to_nobody(tmp_path: Path, kind: Kind) -> None:
    """Pandas stores a missing id so. As one person called NaN, who comes without an id would take another's place."""
    path = tmp_path / "t.parquet"
    facts = {"unit": "who", "max_rows": 1}
    people = "('1', 9), ('2', 9)"
    for key in "abcdefgh":
        for nobody in ("", ", ('nan', -9)", ", ('nan', -9), ('nan', 9)", ", (NULL, 9)"):
            parquet(path, f"SELECT who::DOUBLE AS who, x FROM (VALUES {people}{nobody}) v(who, x)")
            who, x = Column("who", kind, nullable=True), Column("x", Kind.INTEGER, low=-10, high=10)
            engine = DuckDBEngine(policy_of(path, who, x, **facts), duckdb_header(path), key)
            assert ask(engine, "SELECT SUM(x) FROM t") == 18


def test_a_file_that_only_claims_to_be_parquet(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_text("x,town\n1,north\n")
    with pytest.raises(BadTable, match="no Parquet file"):
        duckdb_header(path)


# -- names and paths -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a*.csv", "a?.csv", "a[1].csv", "dir*/t.csv"])
def test_glob_characters_are_refused(table: Table, name: str) -> None:
    with pytest.raises(BadTable, match="patterns"):
        table("x,town\n1,north\n", name=name)


@pytest.mark.parametrize(
    "name", ["it's.csv", "a b.csv", 'a"b.csv', "a;b.csv", "ünï.csv", "a\\b.csv", "{a,b}.csv", "a%20b.csv", "-- x.csv"]
)
def test_odd_paths(table: Table, name: str) -> None:
    assert ask(table("x,town\n4,north\n", name=name), "SELECT SUM(x) FROM t") == 4


@pytest.mark.parametrize("name", ["town=south/t.csv", "town=south/x=9/t.csv"])
def test_folder_names_are_no_columns(table: Table, name: str) -> None:
    """Hive partitioning would let the folder's name overrule the rows."""
    engine = table("x,town\n1,north\n2,north\n", name=name)
    assert ask(engine, "SELECT COUNT(*) FROM t WHERE town = 'north'") == 2
    assert ask(engine, "SELECT SUM(x) FROM t") == 3


def test_folder_names_are_no_columns_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "town=south" / "t.parquet"
    path.parent.mkdir()
    parquet(path, "SELECT 1 AS x, 'north' AS town")
    engine = DuckDBEngine(policy_of(path, X, TOWN), duckdb_header(path), "k")
    assert ask(engine, "SELECT COUNT(*) FROM t WHERE town = 'north'") == 1


@pytest.mark.parametrize(
    "name",
    ["größe", "年齢", "a b", "select", "x'); DROP TABLE t; --", "a,b", "x' : 'INTEGER'", "{x}", "--", "a.b", "rowid",
     "one", "it's", "filename", "x::INT", ";"],
)  # fmt: skip
def test_any_column_name_is_only_a_name(table: Table, name: str) -> None:
    header = f'"{name}",town'
    column = Column(name, Kind.INTEGER, Fraction(1), 0, 10)
    engine = table(f"{header}\n4,north\n5,south\n", column, TOWN)
    assert ask(engine, f"SELECT SUM({quote_name(name)}) FROM t WHERE town = 'north'") == 4
    assert ask(engine, f"SELECT COUNT(*) FROM t WHERE {quote_name(name)} = 5") == 1
    assert engine.inspect().rows == 2


@pytest.mark.parametrize(
    "key", ["it's", "x' OR '1' = '1", "'; DROP TABLE t; --", "a\\'b", "", "%", "ß", "a\nb", "NULL"]
)
def test_any_key_is_only_a_text(table: Table, key: str) -> None:
    town = Column("town", Kind.TEXT, keys=tuple(sorted({key, "north"})), nullable=True)
    field = '"' + key.replace('"', '""') + '"'
    engine = table(f"x,town\n1,{field}\n2,north\n4,other\n", X, town)
    expected = 0 if key == "" else 1  # an empty field is missing
    assert ask(engine, f"SELECT SUM(x) FROM t WHERE town = {quote_text(key)}") == expected
    assert ask(engine, "SELECT SUM(x) FROM t WHERE town = 'north'") == 2


def test_a_secret_row_key_is_only_a_text(table: Table) -> None:
    engine = table("who,x,town\na,1,north\n", WHO, X, TOWN, key="') OR ('1", unit="who", max_rows=1)
    assert ask(engine, "SELECT COUNT(*) FROM t") == 1


# -- errors ----------------------------------------------------------------------------------------


def test_missing_columns_are_named(table: Table) -> None:
    with pytest.raises(BadTable, match="no column town; it has 2 columns") as caught:
        table("x,city\n1,north\n")
    assert "city" not in str(caught.value)  # without a header it would be of somebody


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadTable, match="there is no file"):
        duckdb_header(tmp_path / "t.csv")
    with pytest.raises(BadTable, match="there is no file"):
        duckdb_header(tmp_path)


def test_a_file_that_goes_away(table: Table) -> None:
    engine = table("x,town\n1,north\n")
    engine._policy.source.unlink()
    for look in (engine.identity, lambda: ask(engine, "SELECT COUNT(*) FROM t")):
        with pytest.raises(BadTable):
            look()


@pytest.mark.parametrize(
    "content",
    [b"x,town\n4242,n\xff\xferth\n", b"x,town,town\n4242,a,b\n", b"x,town,Town\n4242,a,b\n", b"\xff\xfex\x00", b""],
    ids=["not utf-8", "a name twice", "a name in two cases", "utf-16", "empty"],
)
def test_what_cannot_be_read_is_an_error_without_values(table: Table, content: bytes) -> None:
    with pytest.raises(NoisebankError) as caught:
        table(content).inspect()
    assert isinstance(caught.value, BadTable)
    assert "4242" not in str(caught.value) and caught.value.__cause__ is None


def test_errors_of_the_engine_never_quote_values(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = table("x,town\n4242,north\n")
    monkeypatch.setattr("noisebank.engines.sql_engine.query_statement", lambda *_: "SELECT 'secret'::INTEGER")
    with pytest.raises(BadTable) as caught:
        ask(engine, "SELECT COUNT(*) FROM t")
    assert "secret" not in str(caught.value)
    assert str(caught.value) == "t.csv cannot be read by DuckDB (ConversionException)"


# -- identity --------------------------------------------------------------------------------------


def test_identity_and_fingerprint_change_with_the_file(table: Table) -> None:
    engine = table("x,town\n1,north\n")
    before = engine.identity(), engine.fingerprint(b"salt")
    assert before == (engine.identity(), engine.fingerprint(b"salt"))
    assert engine.fingerprint(b"other") != before[1]
    engine._policy.source.write_text("x,town\n2,north\n")
    assert engine.fingerprint(b"salt") != before[1]
    engine._policy.source.write_text("x,town\n22,north\n")
    assert engine.identity() != before[0]
