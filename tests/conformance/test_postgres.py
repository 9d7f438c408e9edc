"""PostgreSQL as owners meet it: a role that only reads, wrong addresses, lost connections, tables nobody can watch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from conformance.banks import account_over
from conformance.server import Server
from noisebank import Account
from noisebank.engines import postgres_engine
from support.internals import BadTable, EngineKind, RecoveryCounts, Table, TableChanged, read_header, recover_account
from support.paths import ROOT

ENGINES = ROOT / "docs" / "reference" / "engines.md"
PASSWORD = "choose a long one"
POLICY = """
name = "people"
neighbours = "add-remove"
row_cap = 1000
[budget]
epsilon = 8
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, 120]
"""
SQL = "SELECT COUNT(*) FROM people WHERE age > 40"


@pytest.fixture(scope="module")
def survey(server: Server) -> Iterator[Server]:
    """A database with a table, and the role of docs/reference/engines.md, made with the statements on that page."""
    found = re.search(r"```sql\n(CREATE ROLE.*?)```", ENGINES.read_text(), re.DOTALL)
    assert found is not None
    server.execute("CREATE DATABASE survey")
    server.execute(
        "CREATE TABLE people AS SELECT n::bigint AS age FROM generate_series(1, 90) n",
        "CREATE TABLE others AS SELECT 1 AS secret",
        "CREATE VIEW seen AS SELECT * FROM people",
        *filter(str.strip, found.group(1).split(";")),
        database="survey",
    )
    yield server
    server.execute("DROP DATABASE survey WITH (FORCE)", "DROP ROLE reader")


@pytest.fixture
def people(survey: Server, monkeypatch: pytest.MonkeyPatch) -> Table:
    """The table, reached as the docs say: address in the policy, password in the environment."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return Table(EngineKind.POSTGRESQL, ("people",), address=survey.address("reader", "survey"))


def test_a_bank_works_with_the_documented_role(people: Table, tmp_path: Path) -> None:
    account = account_over(people, POLICY, tmp_path)
    answer = account.ask(SQL, sigma="1")
    assert abs(answer.value - 50) < 8
    kept = account.vault.find_opening(account.state.data_commitment)
    assert kept is not None and PASSWORD not in str(kept)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO people VALUES (1)", "UPDATE people SET age = 1", "DELETE FROM people", "TRUNCATE people",
        "DROP TABLE people", "CREATE TABLE mine (x integer)", "CREATE TEMPORARY TABLE mine (x integer)",
        "SELECT * FROM others", "ALTER TABLE people ADD COLUMN x integer", "CREATE ROLE friend",
        "SELECT pg_stat_reset()", "COPY people TO PROGRAM 'cat'",
    ],
)  # fmt: skip
def test_the_documented_role_can_do_nothing_else(survey: Server, people: Table, statement: str) -> None:
    with psycopg.connect(people.address, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM people").fetchone() == (90,)
        connection.execute("SET default_transaction_read_only = off")  # anybody may: what counts is what is granted
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode())


def test_the_banks_own_connection_is_read_only_and_repeatable(people: Table) -> None:
    with postgres_engine._connect_server(people.address) as connection:
        for name, value in (("transaction_read_only", "on"), ("transaction_isolation", "repeatable read")):
            assert connection.execute(f"SHOW {name}".encode()).fetchone() == (value,)


SECRETS = (PASSWORD, "wrong-password", "reader", "nobody", "db.invalid", "nowhere", "noisebank-pg", "survey")


def bad_sources(server: Server) -> dict[str, Table]:
    def table(address: str, *parts: str) -> Table:
        return Table(EngineKind.POSTGRESQL, parts or ("people",), address=address)

    return {
        "host": table("postgresql://reader@db.invalid/survey"),
        "socket": table("postgresql://reader@/survey?host=%2Fnowhere"),
        "port": table("postgresql://reader@127.0.0.1:1/survey"),
        "role": table(server.address("nobody", "survey")),
        "database": table(server.address("reader", "nowhere")),
        "table": table(server.address("reader", "survey"), "missing"),
        "schema": table(server.address("reader", "survey"), "nowhere", "people"),
        "view": table(server.address("reader", "survey"), "seen"),
        "not granted": table(server.address("reader", "survey"), "others"),
    }


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("host", "cannot be reached"), ("socket", "cannot be reached: no connection"), ("port", "cannot be reached"),
        ("role", "does not know the role"), ("database", "the role or the database"), ("table", "no table"),
        ("schema", "no table"), ("view", "is a view"), ("not granted", "InsufficientPrivilege"),
    ],
)  # fmt: skip
def test_errors_are_clear_and_hold_no_secrets(
    survey: Server, people: Table, tmp_path: Path, wrong: str, says: str
) -> None:
    policy = POLICY.replace("columns.age", "columns.secret") if wrong == "not granted" else POLICY
    with pytest.raises(BadTable, match=says) as raised:
        account_over(bad_sources(survey)[wrong], policy, tmp_path)
    said = str(raised.value).replace('"nowhere"."people"', "")  # the owner's own words for the table
    assert not [secret for secret in SECRETS if secret in said], said


def test_a_wrong_password_is_not_repeated(people: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "wrong-password")
    with pytest.raises(BadTable, match="refuses the password") as raised:
        account_over(people, POLICY, tmp_path)
    assert not [secret for secret in SECRETS if secret in str(raised.value)]
    assert raised.value.__cause__ is None and raised.value.__suppress_context__


def test_nobody_says_where_the_server_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (postgres_engine.ADDRESS_VARIABLE, *postgres_engine.CLIENT_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BadTable, match="NOISEBANK_POSTGRES"):
        read_header(Table(EngineKind.POSTGRESQL, ("people",)))


def test_a_bank_without_psycopg_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_engine, "is_installed", lambda: False)
    with pytest.raises(BadTable, match=r"noisebank\[postgres\]"):
        read_header(Table(EngineKind.POSTGRESQL, ("people",)))


# -- tables that change ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "back"),
    [
        ("INSERT INTO people VALUES (500)", "DELETE FROM people WHERE age = 500"),
        ("UPDATE people SET age = 500 WHERE age = 50", "UPDATE people SET age = 50 WHERE age = 500"),
        ("ALTER TABLE people ADD COLUMN note text", "ALTER TABLE people DROP COLUMN note"),
    ],
    ids=["insert", "update", "new column"],
)  # fmt: skip
def test_a_changed_table_is_refused_before_anything_is_charged(
    survey: Server, people: Table, tmp_path: Path, change: str, back: str
) -> None:
    account = account_over(people, POLICY, tmp_path)
    survey.execute(change, database="survey")
    try:
        with pytest.raises(TableChanged, match="people changed since"):
            account.ask(SQL, sigma="1")
        assert account.state.spent.units == 0
    finally:
        survey.execute(back, database="survey")


def test_a_column_that_vanishes_is_refused_before_anything_is_charged(
    survey: Server, people: Table, tmp_path: Path
) -> None:
    account = account_over(people, POLICY, tmp_path)
    survey.execute("ALTER TABLE people RENAME COLUMN age TO years", database="survey")
    try:
        with pytest.raises(TableChanged):
            account.ask(SQL, sigma="1")
        with pytest.raises(BadTable, match="no column age"):
            account_over(people, POLICY, tmp_path)
        assert account.state.spent.units == 0
    finally:
        survey.execute("ALTER TABLE people RENAME COLUMN years TO age", database="survey")


# -- lost connections ------------------------------------------------------------------------------


def after_reserve(account: Account, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """`act` happens once, when the reservation is durable and the data not yet touched."""
    reserve = account.ledger.reserve_many
    done: list[Any] = []

    def reserved(*arguments: Any) -> Any:
        found = reserve(*arguments)
        if not done:
            done.append(act())
        return found

    monkeypatch.setattr(account.ledger, "reserve_many", reserved)


def test_a_connection_lost_after_reserve_is_made_anew(
    survey: Server, people: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = account_over(people, POLICY, tmp_path)
    after_reserve(account, survey.cut, monkeypatch)
    answer = account.ask(SQL, sigma="1", key="once")
    assert abs(answer.value - 50) < 8
    assert account.state.spent == answer.cost
    assert account.ask(SQL, sigma="1", key="once").exact == answer.exact


@pytest.mark.parametrize("how", ["recovery", "the same key", "another asker"])
def test_a_server_gone_after_reserve_is_paid_once_and_finished_later(
    survey: Server, people: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    account = account_over(people, POLICY, tmp_path)
    price = account.quote(SQL, sigma="1").cost
    after_reserve(account, survey.stop, monkeypatch)
    try:
        with pytest.raises(BadTable, match="This answer is paid for") as raised:
            account.ask(SQL, sigma="1", key="once")
        assert not [secret for secret in SECRETS if secret in str(raised.value)]
        assert account.state.spent == price
        assert recover_account(account) == RecoveryCounts(waiting=1)
    finally:
        survey.start()
    if how == "recovery":
        assert recover_account(account) == RecoveryCounts(finished=1)
    answer = account.ask(SQL, sigma="1", key="another" if how == "another asker" else "once")
    assert abs(answer.value - 50) < 8
    assert account.state.spent == price
    assert account.ask(SQL, sigma="1").exact == answer.exact
    assert account.state.spent == price
    assert recover_account(account) == RecoveryCounts()


@pytest.mark.parametrize("kind", ["float8", "numeric"])
def test_rows_whose_person_is_nan_belong_to_nobody(survey: Server, people: Table, tmp_path: Path, kind: str) -> None:
    """As one person called NaN, who comes without an id would take another's place."""
    survey.execute(
        f"CREATE TABLE visits AS SELECT v.who::{kind} AS who, age FROM (VALUES ('1', 30), ('2', 30), ('NaN', 90), "
        "('NaN', 60), (NULL, 60)) v(who, age)",
        "GRANT SELECT ON visits TO reader", database="survey",
    )  # fmt: skip
    try:
        unit = POLICY.replace("row_cap", 'unit = "who"\nmax_rows = 1\nrow_cap')
        policy = unit + '[columns.who]\ntype = "number"\nnullable = true\n'
        account = account_over(replace(people, name_parts=("visits",)), policy, tmp_path)
        assert account.engine.statistic(account.parse("SELECT SUM(age) FROM people").query) == 60
    finally:
        survey.execute("DROP TABLE visits", database="survey")
