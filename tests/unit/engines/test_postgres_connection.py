"""A table's connection to PostgreSQL, on a made-up server: opened late, replaced once, closed. 0.3 seconds."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from noisebank.core.errors import BadTable
from noisebank.engines import postgres_engine
from noisebank.engines.postgres_engine import ADDRESS_VARIABLE, CLIENT_VARIABLES, postgres_header
from noisebank.policy.model import EngineKind, Table

SOURCE = Table(EngineKind.POSTGRESQL, ("public", "people"), address="postgresql://reader@secret-host/db")


class Connection:
    """Answers what a test says; an error breaks it."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.broken, self.closed, self.sent = list(answers), False, False, list[str]()

    def execute(self, sql: bytes, binary: bool) -> SimpleNamespace:
        assert binary
        self.sent.append(sql.decode())
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            self.broken = isinstance(answer, psycopg.OperationalError)
            raise answer
        return SimpleNamespace(fetchall=lambda: answer)

    def close(self) -> None:
        self.closed = True


MEMBERS, COLUMNS = [(4711, "r", False)], [("age", "int4"), ("town", "text")]


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """The connections to come; those that were made are taken from the front."""
    coming: list[Connection] = []
    monkeypatch.setattr(postgres_engine, "connect", lambda address, settings: coming.pop(0))
    return coming


def test_the_header_is_metadata_and_the_connection_ends_with_its_owner(servers: list[Connection]) -> None:
    connection = Connection(MEMBERS, COLUMNS)
    servers.append(connection)
    assert postgres_header(SOURCE) == ("age", "town")
    assert '"public"."people"' in connection.sent[0] and "4711" in connection.sent[1]
    gc.collect()
    assert connection.closed


def test_a_connection_that_died_is_replaced_once(servers: list[Connection]) -> None:
    first, second = Connection(MEMBERS, psycopg.OperationalError("gone")), Connection(COLUMNS)
    servers += [first, second]
    assert postgres_header(SOURCE) == ("age", "town") and first.closed
    lost = psycopg.OperationalError("secret-host gone")
    servers[:] = [Connection(MEMBERS, lost), Connection(lost), Connection(COLUMNS)]
    with pytest.raises(BadTable, match=r"cannot be read by PostgreSQL \(OperationalError\)") as told:
        postgres_header(SOURCE)
    assert "secret" not in str(told.value) and len(servers) == 1


def test_a_first_connection_that_fails_is_not_tried_twice(servers: list[Connection]) -> None:
    servers += [Connection(psycopg.OperationalError("gone")), Connection(MEMBERS, COLUMNS)]
    with pytest.raises(BadTable, match="cannot be read"):
        postgres_header(SOURCE)
    assert len(servers) == 1


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "has no table"), ([(1, "v", False)], "is a view"), ([(1, "f", False)], "foreign table"),
        ([(1, "x", False)], "is no table"), ([(1, "r", True)], "does not count changes"),
        ([(1, "p", False), (2, "f", False)], "foreign table"),
    ],
)  # fmt: skip
def test_tables_whose_changes_cannot_be_seen_are_refused(
    servers: list[Connection], members: list[Any], message: str
) -> None:
    servers.append(Connection(members))
    with pytest.raises(BadTable, match=message):
        postgres_header(SOURCE)


@pytest.mark.parametrize("kind", ["r", "p", "m"])
def test_tables_with_parts_and_materialised_views_are_read(servers: list[Connection], kind: str) -> None:
    servers.append(Connection([(1, kind, False), (2, "r", False)], COLUMNS))
    assert postgres_header(SOURCE) == ("age", "town")


def test_somebody_must_say_where_the_server_is(servers: list[Connection], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ADDRESS_VARIABLE, *CLIENT_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    unknown = Table(EngineKind.POSTGRESQL, ("people",), address="")
    with pytest.raises(BadTable, match=ADDRESS_VARIABLE):
        postgres_header(unknown)
    monkeypatch.setenv(CLIENT_VARIABLES[0], "host")
    connection = Connection(MEMBERS, COLUMNS)
    servers.append(connection)
    assert postgres_header(unknown) == ("age", "town") and '"public"."people"' in connection.sent[0]
