"""The pool of sessions, on a made-up server: what is used again, closed, or sent twice. The file takes 0.5 seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from noisebank.core.errors import BadBank, OutcomeUnknown, VaultUnreachable
from noisebank.vault import postgres_sessions
from noisebank.vault.postgres_sessions import SessionPool


class Session:
    """Notes what it is sent; does what a test says."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Sequence[object] | None]] = []
        self.closed, self.status, self.fails = False, TransactionStatus.IDLE, list[BaseException]()

    @property
    def info(self) -> SimpleNamespace:
        return SimpleNamespace(transaction_status=self.status)

    def execute(self, sql: bytes, values: Sequence[object] | None = None) -> SimpleNamespace:
        if self.fails:
            error = self.fails.pop(0)
            self.closed = isinstance(error, psycopg.OperationalError)
            raise error
        self.sent.append((sql if isinstance(sql, str) else sql.decode(), values))
        return SimpleNamespace(description=None if b"INSERT" in bytes(sql) else [1], fetchall=lambda: [("row",)])

    def close(self) -> None:
        self.closed = True


@dataclass
class Server:
    sessions: list[Session] = field(default_factory=list)

    def connect(self, address: str, settings: dict[str, str]) -> Session:
        assert address == "postgresql://x" and settings["synchronous_commit"] == "on"
        self.sessions.append(Session())
        return self.sessions[-1]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(postgres_sessions, "connect", made.connect)
    monkeypatch.setattr(Session, "execute", _encode(Session.execute))
    return made


def _encode(execute: Any) -> Any:
    return lambda self, sql, values=None: execute(self, sql.encode() if isinstance(sql, str) else sql, values)


def test_one_session_serves_one_statement_after_the_other(server: Server) -> None:
    pool = SessionPool("postgresql://x")
    assert pool.fetch_rows("SELECT %s", (7,)) == [("row",)] and pool.fetch_rows("INSERT") == []
    (session,) = server.sessions
    assert session.sent == [("SELECT %s", (7,)), ("INSERT", None)]
    pool.close()
    assert session.closed
    with pytest.raises(BadBank, match="is closed"):
        pool.fetch_rows("SELECT 1")


@pytest.mark.parametrize("status", [TransactionStatus.INTRANS, TransactionStatus.INERROR, TransactionStatus.UNKNOWN])
def test_a_session_in_the_middle_of_something_is_not_used_again(server: Server, status: TransactionStatus) -> None:
    pool = SessionPool("postgresql://x")
    pool.fetch_rows("SELECT 1")
    server.sessions[0].status = status
    pool.fetch_rows("SELECT 2")
    assert server.sessions[0].closed
    pool.fetch_rows("SELECT 3")
    assert [session.sent for session in server.sessions] == [
        [("SELECT 1", None), ("SELECT 2", None)], [("SELECT 3", None)],
    ]  # fmt: skip


def test_what_is_lent_while_the_pool_is_closed_is_closed_when_it_comes_back(server: Server) -> None:
    pool = SessionPool("postgresql://x")
    with pool.acquire_locks([b"a"]):
        pool.close()
        assert not server.sessions[0].closed
        pool.fetch_under_lock("SELECT 1", ())
    assert server.sessions[0].closed


def test_an_idle_session_that_died_is_replaced_once_and_with_it_the_others(server: Server) -> None:
    pool = SessionPool("postgresql://x")
    with pool.acquire_locks([b"a"]), _other_thread(pool):
        pass
    first, second = server.sessions
    second.fails = first.fails = [psycopg.OperationalError("gone")]
    assert pool.fetch_rows("SELECT 2") == [("row",)]
    assert (
        first.closed and second.closed and server.sessions[2].sent == [("SELECT 2", None)] and len(server.sessions) == 3
    )
    server.sessions[2].fails = [psycopg.OperationalError("gone")]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(VaultUnreachable, match="ask again with the same key"):
        patch.setattr(postgres_sessions, "connect", _refuse)
        pool.fetch_rows("SELECT 3")


def _refuse(address: str, settings: object) -> Session:
    raise psycopg.OperationalError("secret-host refuses")


def _other_thread(pool: SessionPool) -> Any:
    """A session of another thread at the same time."""
    from contextlib import contextmanager
    from threading import Thread

    @contextmanager
    def run() -> Any:
        thread = Thread(target=pool.fetch_rows, args=["SELECT 1"])
        thread.start()
        thread.join()
        yield

    return run()


def test_a_new_session_is_not_tried_twice(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(address: str, settings: object) -> Session:
        session = server.connect(address, {"synchronous_commit": "on"})
        session.fails = [psycopg.OperationalError("gone")]
        return session

    monkeypatch.setattr(postgres_sessions, "connect", connect)
    with pytest.raises(VaultUnreachable):
        SessionPool("postgresql://x").fetch_rows("SELECT 1")
    assert len(server.sessions) == 1


def test_whoever_holds_locks_goes_through_their_session(server: Server) -> None:
    pool = SessionPool("postgresql://x")
    with pytest.raises(RuntimeError, match="turn"):
        pool.fetch_under_lock("INSERT", ())
    with pool.acquire_locks([b"b", b"a", b"b"]):
        pool.fetch_under_lock("INSERT", (1,))
        pool.fetch_rows("SELECT 2")
        with pytest.raises(RuntimeError, match="a turn inside of a turn"), pool.acquire_locks([b"c"]):
            pass
    (session,) = server.sessions
    locks = [values for sql, values in session.sent if "pg_advisory_lock" in sql]
    assert len(locks) == 2 and locks == sorted(locks)  # type: ignore[type-var]
    assert [sql for sql, _ in session.sent if "lock" not in sql] == ["SELECT 1", "INSERT", "SELECT 2"]
    assert session.sent[-1][0] == "SELECT pg_advisory_unlock_all()" and not session.closed


def test_a_session_whose_locks_cannot_be_released_is_closed(server: Server) -> None:
    pool = SessionPool("postgresql://x")
    with pool.acquire_locks([b"a"]):
        server.sessions[0].fails = [psycopg.InterfaceError("odd")]
    assert server.sessions[0].closed
    with pool.acquire_locks([b"a"]):
        assert len(server.sessions) == 2


def test_a_transaction_is_committed_or_its_session_closed(server: Server) -> None:
    pool = SessionPool("postgresql://x")
    with pool.transaction("ISOLATION LEVEL SERIALIZABLE") as session:
        session.execute("INSERT")
    assert [sql for sql, _ in server.sessions[0].sent] == ["BEGIN ISOLATION LEVEL SERIALIZABLE", "INSERT", "COMMIT"]
    with pytest.raises(ZeroDivisionError), pool.transaction("READ ONLY"):
        raise ZeroDivisionError
    assert server.sessions[0].closed and server.sessions[0].sent[-1][0] == "BEGIN READ ONLY"


@pytest.mark.parametrize(
    ("error", "ours", "message"),
    [
        (psycopg.errors.LockNotAvailable("x"), OutcomeUnknown, "another gateway has been busy"),
        (psycopg.errors.UndefinedObject("x"), BadBank, "PostgreSQL 14 or newer"),
        (psycopg.errors.UniqueViolation("secret"), BadBank, r"refuses a statement \(UniqueViolation\)"),
        (psycopg.InterfaceError("secret"), VaultUnreachable, "cannot be reached"),
    ],
)
def test_errors_say_what_to_do_and_quote_nothing(
    server: Server, error: psycopg.Error, ours: type[Exception], message: str
) -> None:
    pool = SessionPool("postgresql://x")
    with pool.acquire_locks([b"a"]):
        server.sessions[0].fails = [error]
        with pytest.raises(ours, match=message) as told:
            pool.fetch_rows("SELECT 1")
    assert "secret" not in str(told.value)
