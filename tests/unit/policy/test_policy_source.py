"""Where a policy says its table lies: files, databases, servers; and no password, ever."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noisebank.core.errors import BadPolicy
from noisebank.policy.file import parse_policy
from noisebank.policy.model import EngineKind, Source, Table, policy_from_json, source_from_json, source_to_json
from support.paths import ROOT

REST = """
name = "people"
neighbours = "add-remove"
row_cap = 10
[budget]
epsilon = 1
delta = 1e-6
[columns.age]
type = "integer"
"""
SERVER = "postgresql://reader@db.example:5433/survey?sslmode=verify-full"


def source_of(settings: str) -> Source:
    return parse_policy(settings + REST, Path("/tables")).source


def mistakes(settings: str) -> str:
    with pytest.raises(BadPolicy) as raised:
        source_of(settings)
    return str(raised.value)


@pytest.mark.parametrize(
    ("settings", "source"),
    [
        ('source = "a.csv"', Path("/tables/a.csv")),
        ('source = "a.csv"\nengine = "duckdb"', Path("/tables/a.csv")),
        ('source = "/else/a.parquet"', Path("/else/a.parquet")),
        ('source = "a.duckdb"\ntable = "t"', Table(EngineKind.DUCKDB, ("t",), Path("/tables/a.duckdb"))),
        ('source = "a.duckdb"\ntable = "s.t"', Table(EngineKind.DUCKDB, ("s", "t"), Path("/tables/a.duckdb"))),
        ('source = "postgresql"\ntable = "s.t"', Table(EngineKind.POSTGRESQL, ("s", "t"))),
        ('source = "postgresql"\ntable = \'"a.b"."c""d"\'', Table(EngineKind.POSTGRESQL, ("a.b", 'c"d'))),
        (f'source = "{SERVER}"\ntable = "t"', Table(EngineKind.POSTGRESQL, ("t",), address=SERVER)),
        (
            f'source = "{SERVER}"\ntable = "t"\nengine = "postgresql"',
            Table(EngineKind.POSTGRESQL, ("t",), address=SERVER),
        ),
        ('source = "a.csv"\nengine = "spark"', Table(EngineKind.SPARK, path=Path("/tables/a.csv"))),
        ('source = "folder"\nengine = "spark"', Table(EngineKind.SPARK, path=Path("/tables/folder"))),
        ('source = "spark"\ntable = "a.b.c"', Table(EngineKind.SPARK, ("a", "b", "c"))),
    ],
)
def test_sources(settings: str, source: Source) -> None:
    assert source_of(settings) == source
    assert source_from_json(source_to_json(source)) == source


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ('source = "a.csv"\nengine = "oracle"', "'oracle' is no engine"),
        ('source = "a.csv"\nengine = 7', "7 is no engine"),
        ('source = "a.csv"\ntable = "t"', "does not go with a file that is one table"),
        ('source = "a.duckdb"', "table: is missing"),
        ('source = "a.duckdb"\ntable = "a.b.c"', "is no table"),
        ('source = "a.duckdb"\ntable = "a..b"', "is no table"),
        ('source = "a.duckdb"\ntable = "a."', "is no table"),
        ('source = "postgresql"\ntable = \'"a\'', "is no table"),
        ('source = "postgresql"\ntable = "t"\nengine = "spark"', "does not go with a source in postgresql"),
        ('source = "a.csv"\nengine = "postgresql"', "is a file, which PostgreSQL does not read"),
        ('source = "postgresql+psycopg2://a/b"\ntable = "t"', "is no address"),
        ('source = "postgresql://a:port/b"\ntable = "t"', "is no address"),
        ('source = "postgresql://[a/b"\ntable = "t"', "is no address"),
        ('source = "host=a dbname=b"\ntable = "t"', "is no address"),
        ('source = "postgresql://a/b?options=-csearch_path%3Dx"\ntable = "t"', "a parameter that is not read"),
    ],
)
def test_mistakes(settings: str, says: str) -> None:
    assert says in mistakes(settings)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://reader:hunter2@inner.example/survey",
        "postgres://reader:hunter2@inner.example/survey",
        "POSTGRESQL://reader:hunter2@inner.example/survey",
        "postgresql://inner.example/survey?password=hunter2",
        "postgresql://inner.example/survey?user=a&PASSWORD=hunter2",
        "postgresql://inner.example/survey?sslpassword=hunter2",
        "host=inner.example password=hunter2",
        "password = hunter2",
        "postgresql://reader:@/hunter2",
        "postgresql://reader:hunter2@[/survey",
    ],
)
def test_a_password_is_refused_and_never_repeated(address: str) -> None:
    said = mistakes(f'source = "{address}"\ntable = "t"')
    assert "source" in said and "hunter2" not in said and "inner.example" not in said


def test_nobody_but_the_vault_learns_where_a_table_lies() -> None:
    policy = parse_policy(f'source = "{SERVER}"\ntable = "inner.t"\n{REST}', Path("/tables"))
    elsewhere = parse_policy(f'source = "a.csv"\n{REST}', Path("/tables"))
    assert policy.digest == elsewhere.digest
    assert "db.example" not in str(policy.to_json()) + str(policy.source)
    assert policy_from_json(policy.to_json(), source_from_json(source_to_json(policy.source))) == policy


@pytest.mark.parametrize(("engine", "keeper"), [("", EngineKind.DUCKDB), ('engine = "spark"\n', EngineKind.SPARK)])
def test_names_for_a_file_without_a_header(engine: str, keeper: EngineKind) -> None:
    """They are where the table lies: no part of what is public, and kept with the source."""
    settings = f'source = "a.csv"\n{engine}column_names = ["age", "Maria"]\n'
    policy = parse_policy(settings + REST, Path("/tables"))
    assert policy.source == Table(keeper, path=Path("/tables/a.csv"), column_names=("age", "Maria"))
    assert source_from_json(source_to_json(policy.source)) == policy.source
    assert "Maria" not in str(policy.to_json())
    assert policy.digest == parse_policy(f'source = "a.csv"\n{REST}', Path("/tables")).digest


@pytest.mark.parametrize(
    "settings",
    [
        'source = "a.parquet"',
        'source = "a.parquet"\nengine = "spark"',
        'source = "a.duckdb"\ntable = "t"',
        f'source = "{SERVER}"\ntable = "t"',
        'source = "spark"\ntable = "t"',
    ],
)
def test_tables_with_names_of_their_own_get_no_others(settings: str) -> None:
    assert "names of its own" in mistakes(f'{settings}\ncolumn_names = ["age"]\n')


def test_every_way_in_the_page_about_engines_is_one() -> None:
    rows = re.findall(
        r"^\|[^|]*\| (`source = [^|]*) \|", (ROOT / "docs" / "reference" / "engines.md").read_text(), re.MULTILINE
    )
    assert len(rows) == 8
    for row in rows:
        assert source_of("\n".join(re.findall(r"`([^`]*)`", row)))
