"""A vault on PostgreSQL as owners meet it: wrong databases, lost connections, roles that may only add."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import psycopg
import pytest

from conformance.server import Server
from noisebank import create_bank
from noisebank.vault import postgres_sessions
from support.internals import (
    CONFIG_FILE,
    BadBank,
    BadRequest,
    OutcomeUnknown,
    PostgresVault,
    VaultUnreachable,
    create_postgres_vault,
    create_vault,
    open_vault,
)
from support.paths import ROOT
from support.patience import join_threads, patience, wait_until
from vault.test_vaults import QUERY, request, sealed

OPERATIONS = ROOT / "docs" / "how-to" / "several-gateways.md"


@pytest.fixture
def vault(database: str) -> PostgresVault:
    create_postgres_vault(database, "a name")
    return PostgresVault(database, "a name")


def test_who_has_lost_the_turn_cannot_seal(vault: PostgresVault, server: Server) -> None:
    """The seal goes through the session that holds the turn: a turn that somebody else may have now is no turn."""
    with vault.acquire_locks([QUERY]):
        server.cut()
        with pytest.raises(VaultUnreachable, match="ask again with the same key") as said:
            vault.seal(sealed(1, 10))
        assert str(server.folder) not in str(said.value) and said.value.__suppress_context__
    assert vault.find_answer(sealed(1, 0).id) is None  # the next session is a new one
    with pytest.raises(RuntimeError, match="turn"):
        vault.seal(sealed(1, 10))
    with vault.acquire_locks([QUERY]), pytest.raises(RuntimeError, match="inside"), vault.acquire_locks([b"another"]):
        pass
    vault.close()


def test_idle_sessions_that_died_are_replaced(vault: PostgresVault, server: Server) -> None:
    vault.save_request(request(1))
    server.cut()
    assert vault.find_request(request(1).id) == request(1)
    server.cut()
    with vault.acquire_locks([QUERY]):
        vault.seal(sealed(1, 10))
    server.stop()
    try:
        with pytest.raises(VaultUnreachable):
            vault.find_answer(sealed(1, 0).id)
        with pytest.raises(VaultUnreachable), vault.acquire_locks([QUERY]):
            raise AssertionError("nobody can have a turn")
    finally:
        server.start()
    assert vault.find_answer(sealed(1, 0).id) == sealed(1, 10)
    vault.close()
    with pytest.raises(BadBank, match="closed"):
        vault.find_answer(sealed(1, 0).id)


def test_two_processes_worth_of_vaults_take_turns(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two vault objects share no lock in memory: only the server's tells them apart."""
    monkeypatch.setitem(postgres_sessions.SETTINGS, "lock_timeout", "200ms")
    create_postgres_vault(database, "n")
    one, two = PostgresVault(database, "n"), PostgresVault(database, "n")
    with one.acquire_locks([b"x", b"y"]):
        with pytest.raises(OutcomeUnknown, match="another gateway"), two.acquire_locks([b"y"]):
            raise AssertionError("the turn was given twice")
        with two.acquire_locks([b"z"]):
            pass
    with two.acquire_locks([b"y"]):
        pass
    one.close()
    two.close()


def test_many_at_once_seal_one_answer(database: str) -> None:
    create_postgres_vault(database, "n")
    vaults = [PostgresVault(database, "n") for _ in range(4)]
    kept = []

    def race(place: int) -> None:
        with vaults[place].acquire_locks([bytes([place])]):  # a planted mistake: each has a turn of its own
            kept.append(vaults[place].seal(sealed(1, place, salt=bytes([place]) * 32)))

    threads = [threading.Thread(target=race, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience())
    assert len(kept) == 4 and len({found.digest for found in kept}) == 1
    for vault in vaults:
        assert vault.find_answer(sealed(1, 0).id) == kept[0]
        vault.close()


def test_more_threads_than_sessions(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_sessions, "MAX_SESSIONS", 2)
    create_postgres_vault(database, "n")
    vault = PostgresVault(database, "n")
    done = []

    def work(place: int) -> None:
        vault.save_request(request(place, key=f"{place}"))
        with vault.acquire_locks([bytes([place % 3])]):
            vault.seal(sealed(place, place, wanted=place))
        done.append(place)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(1, 13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience())
    assert sorted(done) == list(range(1, 13)) and len(vault.list_released(b"a" * 32, QUERY)) == 12
    vault.close()


def test_only_the_right_database_is_a_vault(database: str, tmp_path: Path, server: Server) -> None:
    with pytest.raises(BadBank, match="holds no vault"):
        PostgresVault(database, "n")
    assert create_postgres_vault(database, "n") == "n"
    assert create_postgres_vault(database, "another") == "n"  # joined, not made anew
    with pytest.raises(BadBank, match="another vault"):
        PostgresVault(database, "another")
    vault = PostgresVault(database, "n")
    vault.bind_ledger("5 0x00")
    vault.bind_ledger("5 0x00")
    with pytest.raises(BadBank, match="another ledger"):
        vault.bind_ledger("6 0x00")
    vault.close()
    server.execute("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
    try:
        with pytest.raises(BadBank, match="fsync"):  # the server reads it within a moment
            wait_until(lambda: create_postgres_vault(database, "n") != "n", "it is refused", poll=0.05)
    finally:
        server.execute("ALTER SYSTEM RESET fsync", "SELECT pg_reload_conf()")


def test_the_address_is_kept_for_the_banks_eyes_and_never_shown(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "correct-horse"
    wrong = f"postgresql://postgres:{secret}@127.0.0.1:9/nowhere?connect_timeout=1"
    for address in (wrong, f"mysql://{secret}", f"host={secret}", f"postgresql://x:{secret}@/?nonsense={secret}"):
        with pytest.raises((VaultUnreachable, BadRequest, BadBank)) as said:
            create_vault(tmp_path, address, "n")
        assert secret not in str(said.value) and said.value.__cause__ is None
    create_vault(tmp_path, database, "n")
    assert (tmp_path / CONFIG_FILE).stat().st_mode & 0o777 == 0o600
    (tmp_path / CONFIG_FILE).chmod(0o644)
    with pytest.raises(BadBank, match="chmod 600"):
        open_vault(tmp_path)
    (tmp_path / CONFIG_FILE).unlink()
    monkeypatch.setenv("NOISEBANK_VAULT", database)
    create_vault(tmp_path, None, "n")
    assert database not in (tmp_path / CONFIG_FILE).read_text()
    open_vault(tmp_path).close()
    monkeypatch.delenv("NOISEBANK_VAULT")
    with pytest.raises(BadBank, match="NOISEBANK_VAULT"):
        open_vault(tmp_path)


def test_an_embedded_ledger_may_have_its_vault_there_and_stays_alone(database: str, tmp_path: Path) -> None:
    from noisebank import open_bank
    from support.banks import write_people
    from support.internals import BankInUse

    policy = write_people(tmp_path / "table")
    with open_bank(create_bank(tmp_path / "bank", vault=database)) as bank:
        account = bank.open_account(policy)
        first = account.ask("SELECT COUNT(*) FROM people WHERE smoker", sigma="2", key="k")
        with pytest.raises(BankInUse):
            open_bank(tmp_path / "bank")
    with open_bank(tmp_path / "bank") as bank:
        assert bank.account().ask("SELECT COUNT(*) FROM people WHERE smoker", sigma="2", key="k").exact == first.exact
    with pytest.raises(BadBank, match="another ledger"):
        open_bank(create_bank(tmp_path / "second", vault=database))


def test_the_documented_role_can_only_add(database: str, server: Server, tmp_path: Path) -> None:
    found = re.search(r"```sql\n(CREATE ROLE.*?)```", OPERATIONS.read_text(), re.DOTALL)
    assert found is not None
    create_postgres_vault(database, "n")
    server.execute(*filter(str.strip, found.group(1).split(";")))
    try:
        address = server.address("gateway")
        vault = PostgresVault(address, "n")
        vault.bind_ledger("5 0x00")
        vault.save_opening(b"d" * 32, {"identity": "x"})
        vault.save_identity(b"d" * 32, "y", None)
        vault.save_analyst(b"a" * 32, b"m" * 32, "maria")
        vault.save_request(request(1))
        with vault.acquire_locks([QUERY]):
            vault.seal(sealed(1, 10))
        assert vault.find_answer(sealed(1, 0).id) is not None and vault.read_cube(vault.save_cube(b"cells")) == b"cells"
        vault.close()
        for statement in (
            "UPDATE answers SET body = ''", "DELETE FROM answers", "TRUNCATE answers", "DROP TABLE answers",
            "DELETE FROM requests", "UPDATE facts SET value = ''", "INSERT INTO lost VALUES ('x')",
        ):  # fmt: skip
            with (
                psycopg.connect(address, options="-c search_path=noisebank") as connection,
                pytest.raises(psycopg.errors.InsufficientPrivilege),
            ):
                connection.execute(statement.encode())
    finally:
        server.execute("DROP OWNED BY gateway", "DROP ROLE gateway")


def waiting_sessions(server: Server) -> int:
    with psycopg.connect(server.where) as connection:
        return connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()[0]


def test_a_session_whose_process_is_gone_gives_its_turn_back(database: str, server: Server) -> None:
    create_postgres_vault(database, "n")
    one, two = PostgresVault(database, "n"), PostgresVault(database, "n")
    got = threading.Event()

    def wait() -> None:
        with two.acquire_locks([QUERY]):
            got.set()

    thread = threading.Thread(target=wait)
    with one.acquire_locks([QUERY]):
        thread.start()
        wait_until(lambda: waiting_sessions(server), "it waits for its turn")
        assert not got.is_set()
        one._sessions._of_thread.session.close()  # what the kernel does for a killed process
        assert got.wait(patience())
        with pytest.raises(VaultUnreachable):
            one.seal(sealed(1, 10))
    join_threads([thread])
    one.close()
    two.close()


def test_without_psycopg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_sessions, "is_installed", lambda: False)
    with pytest.raises(BadBank, match=r"noisebank\[postgres\]"):
        PostgresVault("postgresql://nobody@nowhere/nothing", "n")
