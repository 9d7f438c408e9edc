"""A PostgreSQL server that keeps what it says it keeps, and empty vaults of both kinds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conformance.server import Server, binaries, running_server
from noisebank.vault.postgres_vault import PostgresVault, make_postgres_vault
from noisebank.vault.sqlite_vault import SqliteVault
from noisebank.vault.vault import Vault

Opens = Callable[[], Vault]
"""Opens the same vault once more."""


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    if binaries() is None:
        reason = "PostgreSQL is not installed"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    with running_server(fsync="on") as found:
        yield found


@pytest.fixture
def database(server: Server) -> str:
    """The address of a database without a vault."""
    server.execute("DROP SCHEMA IF EXISTS noisebank CASCADE")
    return server.address("postgres")


@pytest.fixture(params=["sqlite", "postgresql"])
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opens]:
    """Opens one and the same new vault as often as it is called."""
    opened: list[Vault] = []
    if request.param == "sqlite":

        def another() -> Vault:
            opened.append(SqliteVault(tmp_path / "vault.sqlite"))
            return opened[-1]

    else:
        address = request.getfixturevalue("database")
        make_postgres_vault(address, "a name")

        def another() -> Vault:
            opened.append(PostgresVault(address, "a name"))
            return opened[-1]

    yield another
    for vault in opened:
        vault.close()
