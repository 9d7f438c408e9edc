"""A PostgreSQL server that keeps what it says it keeps, and empty vaults of both kinds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chain.gateway import deployed, fund
from conformance.server import Server, binaries, running_server
from contract.node import node_or_skip
from noisebank import Bank, create_bank
from support.internals import Key, PostgresVault, SqliteVault, Vault, create_postgres_vault
from vault.town import DATABASE, Town

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
        create_postgres_vault(address, "a name")

        def another() -> Vault:
            opened.append(PostgresVault(address, "a name"))
            return opened[-1]

    yield another
    for vault in opened:
        vault.close()


@pytest.fixture(scope="session")
def town(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    server.execute(f"CREATE DATABASE {DATABASE}")
    base = tmp_path_factory.mktemp("town")
    with node_or_skip() as node:
        create_bank(base / "bank", where=deployed(node), vault=server.address("postgres", DATABASE))
        fund(node, *(Key.load(base / "bank" / "keys" / f"{role}.key") for role in ("curator", "owner")))
        yield Town(server, node, base / "bank", base / "tables")


@pytest.fixture
def pair(town: Town) -> Iterator[tuple[Bank, Bank]]:
    """Two gateways in one process: they share no memory besides what tests hold, and it is quicker."""
    with town.bank() as one, town.bank() as two:
        yield one, two
