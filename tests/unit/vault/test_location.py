"""Where a bank's vault is: a file in its folder, or a database, of which no server is needed here. 0.5 seconds."""

from __future__ import annotations

import json
from pathlib import Path
from stat import S_IMODE

import pytest

from noisebank.core.errors import BadBank, BadRequest
from noisebank.vault import location
from noisebank.vault.location import ADDRESS_VARIABLE, CONFIG_FILE, VAULT_FILE, create_vault, is_on_postgres, open_vault
from noisebank.vault.sqlite_vault import SqliteVault

ADDRESS, OTHER = "postgresql://bank@host/vault", "postgres://bank:secret@host/vault"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The addresses and names with which databases were asked."""
    calls: list[tuple[str, str]] = []

    def create(address: str, name: str) -> str:
        calls.append((address, name))
        return f"{name} of the database"

    monkeypatch.delenv(ADDRESS_VARIABLE, raising=False)
    monkeypatch.setattr(location, "create_postgres_vault", create)
    monkeypatch.setattr(location, "PostgresVault", lambda address, name: calls.append((address, name)))
    return calls


def test_without_an_address_it_is_a_file(tmp_path: Path, opened: list[tuple[str, str]]) -> None:
    create_vault(tmp_path, None, "b")
    vault = open_vault(tmp_path)
    assert isinstance(vault, SqliteVault) and not is_on_postgres(tmp_path) and opened == []
    vault.close()
    (tmp_path / VAULT_FILE).unlink()
    with pytest.raises(BadBank, match="has no vault"):
        open_vault(tmp_path)
    assert not (tmp_path / VAULT_FILE).exists()


def test_an_address_is_written_down_for_the_owner_alone(tmp_path: Path, opened: list[tuple[str, str]]) -> None:
    create_vault(tmp_path, ADDRESS, "b")
    config = tmp_path / CONFIG_FILE
    assert json.loads(config.read_text())["address"] == ADDRESS and S_IMODE(config.stat().st_mode) == 0o600
    open_vault(tmp_path)
    assert opened == [(ADDRESS, "b"), (ADDRESS, "b of the database")] and not (tmp_path / VAULT_FILE).exists()
    config.chmod(0o640)
    with pytest.raises(BadBank, match="may be read by others"):
        open_vault(tmp_path)


def test_an_address_of_the_environment_is_written_nowhere(
    tmp_path: Path, opened: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ADDRESS_VARIABLE, OTHER)
    create_vault(tmp_path, None, "b")
    assert "secret" not in (tmp_path / CONFIG_FILE).read_text() and not (tmp_path / VAULT_FILE).exists()
    open_vault(tmp_path)
    assert opened == [(OTHER, "b"), (OTHER, "b of the database")]
    monkeypatch.delenv(ADDRESS_VARIABLE)
    with pytest.raises(BadBank, match=f"set {ADDRESS_VARIABLE}"):
        open_vault(tmp_path)


def test_the_environment_overrides_the_file_when_it_is_opened(
    tmp_path: Path, opened: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    create_vault(tmp_path, ADDRESS, "b")
    monkeypatch.setenv(ADDRESS_VARIABLE, OTHER)
    open_vault(tmp_path)
    assert opened[-1][0] == OTHER


@pytest.mark.parametrize("address", ["mysql://host/x", "postgresql:/host/x", "postgres://ho st", "", "file.sqlite"])
def test_a_malformed_address_is_refused_without_being_quoted(
    tmp_path: Path, opened: list[tuple[str, str]], address: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        create_vault(tmp_path, address, "b")
    assert (address not in str(refused.value) or not address) and opened == [] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": "noisebank vault place 1", "name": 3, "address": "x"}']
)
def test_a_file_that_says_something_else_is_refused(
    tmp_path: Path, opened: list[tuple[str, str]], content: str
) -> None:
    (tmp_path / CONFIG_FILE).write_text(content)
    (tmp_path / CONFIG_FILE).chmod(0o600)
    with pytest.raises(BadBank, match="does not say where the vault is"):
        open_vault(tmp_path)
