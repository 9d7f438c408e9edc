"""A PostgreSQL server whose owner, role and schemas are made to mislead: its answers are a plain table's.

Functions, operators, types and casts that shadow the server's; settings of role and database that change how SQL is
read; row-level security; columns that are computed; texts whose index compares by a language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from conformance.server import Server
from noisebank import Policy, read_policy
from support.internals import BadTable, EngineKind, Table, make_engine, parse_question, read_header

POLICY = """
name = "people"
source = "nowhere.csv"
neighbours = "add-remove"
row_cap = 1000
[budget]
epsilon = 8
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, 120]
nullable = true
[columns.income]
type = "number"
bounds = [0, 1000]
step = 0.01
nullable = true
[columns.town]
type = "text"
keys = ["a\\\\'b", "north", "Ä"]
nullable = true
[columns.day]
type = "date"
bounds = ["2020-01-01", "2030-12-31"]
nullable = true
[columns.seen]
type = "timestamp"
bounds = ["2020-01-01", "2030-12-31"]
nullable = true
[columns.smoker]
type = "boolean"
nullable = true
"""
ROWS = """
(30, 12.345, 'north', '2026-11-19', '2026-11-19 23:59:59.9', 'yes'), (NULL, NULL, NULL, NULL, NULL, NULL),
(-5, 'NaN', E'a\\\\\\'b', 'infinity', '-infinity', 'no'), (500, 99999, 'Ä', '0044-03-15 BC', '2024-02-29', 'x'),
(41, 0.005, 'NORTH', '2024-02-29', 'infinity', '1'), (42, -0.0, 'A', '2020-01-01', '2020-01-01', 'true')
"""
QUESTIONS = (
    "SELECT COUNT(*) FROM people",
    "SELECT SUM(age) FROM people WHERE age > 29 OR age IS NULL",
    "SELECT SUM(income) FROM people WHERE income >= 0.01",
    "SELECT SUM(ROUND(income) * GREATEST(age, 3)) FROM people",
    "SELECT COUNT(*) FROM people WHERE town IN ('a\\''b', 'Ä') OR town IS NULL",
    "SELECT town, COUNT(*) FROM people GROUP BY town",
    "SELECT COUNT(*) FROM people WHERE town LIKE '%o%'",
    "SELECT COUNT(*) FROM people WHERE day >= DATE '2024-02-29' AND EXTRACT(dow FROM day) < 5",
    "SELECT SUM(EXTRACT(hour FROM seen)) FROM people",
    "SELECT COUNT(*) FROM people WHERE smoker",
)
COLUMNS = "age {age}, income {income}, town text, day date, seen timestamp, smoker {truth}"
PLAIN = COLUMNS.format(age="bigint", income="double precision", truth="text")
EVIL_SCHEMA = (
    "CREATE FUNCTION public.trunc(double precision) RETURNS double precision LANGUAGE sql AS 'SELECT $1 * 7'",
    "CREATE FUNCTION public.abs(numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 7::numeric'",
    "CREATE FUNCTION public.btrim(text) RETURNS text LANGUAGE sql AS 'SELECT NULL::text'",
    "CREATE FUNCTION public.yes(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    "CREATE OPERATOR public.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = public.yes)",
    "CREATE FUNCTION public.count_all(anyelement) RETURNS bigint LANGUAGE sql AS 'SELECT 7::bigint'",
)
EVIL_SETTINGS = (
    "search_path = public, pg_catalog",
    "transform_null_equals = on",
    "standard_conforming_strings = off",
    "DateStyle = 'SQL, DMY'",
    "TimeZone = 'Asia/Kathmandu'",
    "IntervalStyle = 'sql_standard'",
    "bytea_output = 'escape'",
    "extra_float_digits = -15",
    "default_transaction_read_only = off",
    "default_transaction_isolation = 'read committed'",
    "lc_numeric = 'C'",
    "backslash_quote = on",
    "row_security = on",
    "constraint_exclusion = on",
    "quote_all_identifiers = on",
    "array_nulls = off",
    "enable_seqscan = off",
    "client_encoding = 'LATIN1'",
    "default_toast_compression = 'pglz'",
    "geqo_threshold = 2",
    "jit = off",  # else a plan without seqscan is compiled for seconds
)


@pytest.fixture(scope="module")
def evil(server: Server) -> Iterator[Server]:
    server.execute("CREATE DATABASE evil", "CREATE ROLE victim LOGIN")
    for setting in EVIL_SETTINGS:
        server.execute(f"ALTER ROLE victim SET {setting}", f"ALTER DATABASE evil SET {setting}")
    server.execute(
        f"CREATE TABLE plain ({PLAIN})",
        f"INSERT INTO plain VALUES {ROWS}",
        f"CREATE TABLE guarded ({PLAIN})",
        f"INSERT INTO guarded VALUES {ROWS}",
        "ALTER TABLE guarded ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY few ON guarded USING (age > 40)",
        "CREATE TABLE indexed (" + PLAIN.replace("town text", 'town text COLLATE "und-x-icu"') + ")",
        f"INSERT INTO indexed VALUES {ROWS}",
        "CREATE INDEX ON indexed (town)",
        "CREATE INDEX ON indexed (age) WHERE age > 0",
        f"CREATE TABLE parted ({PLAIN}) PARTITION BY RANGE (income)",
        "CREATE TABLE low PARTITION OF parted FOR VALUES FROM (MINVALUE) TO (50)",
        "CREATE TABLE high PARTITION OF parted FOR VALUES FROM (50) TO (MAXVALUE)",
        "CREATE TABLE rest PARTITION OF parted DEFAULT",
        f"INSERT INTO parted VALUES {ROWS}",
        "CREATE DOMAIN public.aged AS bigint CHECK (VALUE IS NULL OR VALUE > -10)",
        f"CREATE TABLE domains ({COLUMNS.format(age='public.aged', income='numeric', truth='varchar(9)')})",
        f"INSERT INTO domains VALUES {ROWS}",
        "CREATE FUNCTION public.bump() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.age := 0; RETURN NEW; END'",
        "CREATE TRIGGER bump BEFORE INSERT OR UPDATE ON plain FOR EACH ROW EXECUTE FUNCTION public.bump()",
        "CREATE TYPE public.float8 AS ENUM ('north', 'a')",
        f"CREATE TABLE shadowed ({PLAIN.replace('income double precision', 'income public.float8')})",
        "INSERT INTO shadowed VALUES (30, 'north', 'north', NULL, NULL, NULL), (31, NULL, NULL, NULL, NULL, NULL)",
        "CREATE VIEW seen AS SELECT * FROM plain",
        "CREATE MATERIALIZED VIEW kept AS SELECT * FROM plain",
        *EVIL_SCHEMA,
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO victim",
        database="evil",
    )
    yield server
    server.execute("DROP DATABASE evil WITH (FORCE)", "DROP ROLE victim")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    path = tmp_path_factory.mktemp("policy") / "people.toml"
    path.write_text(POLICY, encoding="utf-8")
    return read_policy(path)


def answers(server: Server, policy: Policy, role: str, table: str) -> list[object]:
    source = Table(EngineKind.POSTGRESQL, (table,), address=server.address(role, "evil"))
    engine = make_engine(replace(policy, source=source), read_header(source), "k")
    queries = [parse_question(sql, policy).query for sql in QUESTIONS]
    looked = engine.inspect()
    totals = [tuple(engine.statistics(query)) if query.by else engine.statistic(query) for query in queries]
    return [looked.rows, looked.missing, looked.outside, looked.unkeyed, *totals]


def test_what_the_plain_table_says(evil: Server, policy: Policy) -> None:
    found = answers(evil, policy, "victim", "plain")
    assert found[0] == 6 and found[4] == 6
    assert found[5] == 30 + 41 + 42 + 120


@pytest.mark.parametrize("table", ["indexed", "parted", "kept"])
def test_no_setting_index_partition_or_shadow_changes_an_answer(evil: Server, policy: Policy, table: str) -> None:
    assert answers(evil, policy, "victim", table) == answers(evil, policy, "postgres", "plain")


def test_domains_are_read_as_their_base_types(evil: Server, policy: Policy) -> None:
    assert answers(evil, policy, "victim", "domains")[0] == 6


def test_row_security_is_an_error_and_no_smaller_table(evil: Server, policy: Policy) -> None:
    with pytest.raises(BadTable):
        answers(evil, policy, "victim", "guarded")


def test_a_view_is_refused(evil: Server, policy: Policy) -> None:
    with pytest.raises(BadTable, match="is a view"):
        answers(evil, policy, "victim", "seen")


def test_a_type_that_is_only_called_like_the_servers_is_text(evil: Server, policy: Policy) -> None:
    """An enum called float8 was cast as if it were the server's: an error for everybody, at opening or later."""
    found = answers(evil, policy, "victim", "shadowed")
    assert found[0] == 2 and found[1]["income"] == 2
