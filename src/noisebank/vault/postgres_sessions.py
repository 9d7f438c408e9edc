"""`SessionPool`: a pool of connections to a vault's PostgreSQL server, and advisory locks held by them.

A lock belongs to a session. Whatever a thread does while it holds a lock goes through that very session, so a thread
whose session is gone, and its lock with it, can write nothing more.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noisebank.core.digests import keccak
from noisebank.core.errors import BadBank, OutcomeUnknown, VaultUnreachable
from noisebank.core.locks import NamedLocks
from noisebank.core.postgres import connect, explain_failure, is_installed

if TYPE_CHECKING:
    import psycopg

MAX_SESSIONS = 32
"""Sessions of one process. Each holds locks from before a reservation until its answer is published."""
LOCK_SECONDS = 600
"""Seconds to wait for a lock: reservation and publication may each take minutes to become final on a slow chain."""
SETTINGS = {
    "synchronous_commit": "on",  # durable on return, whatever the server's default is
    "default_transaction_isolation": "read committed",  # the loser of a race reads what the winner wrote
    "default_transaction_read_only": "off",
    "search_path": "noisebank, pg_catalog",
    "client_encoding": "UTF8",
    "statement_timeout": "0",
    "idle_session_timeout": "0",  # a session sleeps while its thread waits for the chain
    "lock_timeout": f"{LOCK_SECONDS}s",
    "client_connection_check_interval": "5s",  # a client that died while waiting for a lock leaves the queue
    "tcp_keepalives_idle": "10",  # a machine that fell off the network releases its locks within half a minute
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
}
RETRY_ADVICE = "Nothing is shown that is not sealed, and what was charged stays charged: ask again with the same key"


@dataclass(slots=True)
class Loan:
    """A session borrowed by one thread; None before its first statement."""

    session: psycopg.Connection[Any] | None


class SessionPool:
    """A pool of sessions. Thread-safe."""

    def __init__(self, address: str) -> None:
        if not is_installed():
            raise BadBank("a vault on PostgreSQL needs psycopg: pip install 'noisebank[postgres]'")
        self._address = address
        self._idle: list[psycopg.Connection[Any]] = []
        self._slots = threading.BoundedSemaphore(MAX_SESSIONS)
        self._lock = threading.Lock()
        self._thread_locks = NamedLocks()
        self._of_thread = threading.local()
        self._is_closed = False

    def fetch_rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Runs one statement; returns its rows. The statement must be one that may run twice: if an idle session, which
        holds no lock, has died meanwhile, it is sent again."""
        held = getattr(self._of_thread, "session", None)
        if held is not None:
            with _hide_messages():
                return _fetch_all(held, sql, values)
        with self._borrow_session() as loan:
            return self._run_first(loan, sql, values)[1]

    def fetch_under_lock(self, sql: str, values: Sequence[object]) -> list[Any]:
        """The same for what only the holder of a lock may write."""
        if getattr(self._of_thread, "session", None) is None:
            raise RuntimeError("only whoever has a query's turn may seal its answers")
        return self.fetch_rows(sql, values)

    @contextmanager
    def acquire_locks(self, names: Sequence[bytes]) -> Iterator[None]:
        """Takes one lock per name, first among the threads here, then among all processes: so no thread occupies a
        session while it waits for another thread of this process."""
        if getattr(self._of_thread, "session", None) is not None:
            raise RuntimeError("a turn inside of a turn")
        numbers = sorted({int.from_bytes(keccak(b"noisebank turn\n", name)[:8], "big", signed=True) for name in names})
        with self._thread_locks(names), self._borrow_session() as loan:
            session, _ = self._run_first(loan, "SELECT 1", ())
            with _hide_messages():
                for number in numbers:  # the same order everywhere, so that there is no deadlock
                    _fetch_all(session, "SELECT pg_advisory_lock(%s)", (number,))
            self._of_thread.session = session
            try:
                yield
            finally:
                self._of_thread.session = None
                self._release_locks(session)

    @staticmethod
    def _release_locks(session: psycopg.Connection[Any]) -> None:
        """Releases a session's locks, or closes the session, which releases them as well."""
        import psycopg

        try:
            session.execute("SELECT pg_advisory_unlock_all()")
        except psycopg.Error:
            session.close()

    @contextmanager
    def transaction(self, kind: str) -> Iterator[psycopg.Connection[Any]]:
        """Yields a session with one transaction for several statements; `kind` are options of BEGIN."""
        with self._borrow_session() as loan:
            session, _ = self._run_first(loan, f"BEGIN {kind}", ())
            with _hide_messages():
                try:
                    yield session
                    session.execute("COMMIT")
                except BaseException:
                    session.close()
                    raise

    def close(self) -> None:
        """Closes all idle sessions, and lends no more."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    # -- parts ---------------------------------------------------------------------------------

    @contextmanager
    def _borrow_session(self) -> Iterator[Loan]:
        """Lends an idle session, or a slot for a new one; takes it back afterwards if it still works."""
        with self._slots:
            with self._lock:
                if self._is_closed:
                    raise BadBank("this bank is closed")
                loan = Loan(self._idle.pop() if self._idle else None)
            try:
                yield loan
            finally:
                self._return_session(loan)

    def _return_session(self, loan: Loan) -> None:
        from psycopg.pq import TransactionStatus

        if loan.session is None or loan.session.closed:
            return
        with self._lock:
            if not self._is_closed and loan.session.info.transaction_status is TransactionStatus.IDLE:
                self._idle.append(loan.session)
                return
        loan.session.close()

    def _run_first(self, loan: Loan, sql: str, values: Sequence[object]) -> tuple[psycopg.Connection[Any], list[Any]]:
        """Runs the first statement of a loan; returns session and rows. A session that died while idle is replaced,
        once."""
        import psycopg

        with _hide_messages():
            if loan.session is not None:
                try:
                    return loan.session, _fetch_all(loan.session, sql, values)
                except (psycopg.OperationalError, psycopg.InterfaceError):
                    if not loan.session.closed:
                        raise
                with self._lock:  # most likely the other idle ones have died, too
                    idle, self._idle = self._idle, []
                for session in idle:
                    session.close()
            loan.session = connect(self._address, SETTINGS)
            return loan.session, _fetch_all(loan.session, sql, values)


def _fetch_all(session: psycopg.Connection[Any], sql: str, values: Sequence[object]) -> list[Any]:
    cursor = session.execute(sql.encode(), values or None)
    return cursor.fetchall() if cursor.description is not None else []


@contextmanager
def _hide_messages() -> Iterator[None]:
    """Translates psycopg's errors to ours. Only their kind is told: messages have hosts, names and values in them."""
    import psycopg

    try:
        yield
    except psycopg.errors.LockNotAvailable:
        raise OutcomeUnknown(
            f"another gateway has been busy with the same question for {LOCK_SECONDS} s: ask again with the same key"
        ) from None
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise VaultUnreachable(
            f"the vault's database cannot be reached: {explain_failure(error)}. {RETRY_ADVICE}"
        ) from None
    except psycopg.errors.UndefinedObject:
        raise BadBank("a vault needs PostgreSQL 14 or newer") from None
    except psycopg.Error as error:
        raise BadBank(f"the vault's database refuses a statement ({type(error).__name__})") from None
