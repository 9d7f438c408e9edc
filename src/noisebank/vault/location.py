"""Creates and opens a bank's vault: a file in its folder, or a PostgreSQL database whose address a file holds."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from noisebank.core.durability import write_once
from noisebank.core.errors import BadBank, BadRequest
from noisebank.vault.postgres_vault import PostgresVault, make_postgres_vault
from noisebank.vault.sqlite_vault import SqliteVault
from noisebank.vault.vault import Vault

FILE, PLACE = "vault.sqlite", "vault.json"
"""The vault itself, or the file that says where its database is: a bank's folder has one of the two."""
FORMAT = "noisebank vault place 1"
VARIABLE = "NOISEBANK_VAULT"
"""The address of the database. Overrides the file: an address often holds a password."""
ADDRESS = re.compile(r"postgres(ql)?://\S+")


def make_vault(folder: Path, address: str | None, name: str) -> None:
    """Creates an empty vault for a bank, or joins the one that a database holds already.

    An address from the environment is used and written nowhere; `address` is written to a file that only its owner
    may read.
    """
    from_environment = os.environ.get(VARIABLE)
    if address is None and from_environment is None:
        SqliteVault(folder / FILE).close()
        return
    known = make_postgres_vault(checked(address or from_environment or ""), name)
    write_once(folder / PLACE, json.dumps({"format": FORMAT, "name": known, "address": address}, indent=1) + "\n")


def open_vault(folder: Path) -> Vault:
    """Opens the vault of the bank in a folder."""
    if on_postgres(folder):
        return open_postgres_vault(folder)
    if not (folder / FILE).is_file():  # with a new one, every account could be opened a second time
        raise BadBank(f"{folder} has no vault; put {FILE} back, from the newest backup that there is")
    return SqliteVault(folder / FILE)


def open_postgres_vault(folder: Path) -> PostgresVault:
    """Opens the vault of a bank that has it on PostgreSQL."""
    try:
        if (folder / PLACE).stat().st_mode & 0o077:
            raise BadBank(f"{folder / PLACE} may be read by others: chmod 600 it, and change the password in it")
        fields = json.loads((folder / PLACE).read_text())
        if fields["format"] != FORMAT or not isinstance(fields["name"], str):
            raise ValueError("another format")
        address = os.environ.get(VARIABLE) or fields["address"]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise BadBank(f"{folder / PLACE} does not say where the vault is") from None
    if not address:
        raise BadBank(f"nobody says where the vault's database is: set {VARIABLE}, as when the bank was made")
    return PostgresVault(checked(address), fields["name"])


def on_postgres(folder: Path) -> bool:
    """Whether a bank has its vault on PostgreSQL."""
    return (folder / PLACE).is_file()


def checked(address: str) -> str:
    """Returns the address of a PostgreSQL server; `BadRequest`, which does not quote it, if it is malformed."""
    if not ADDRESS.fullmatch(address):
        raise BadRequest("vault", "(not shown)", "write postgresql://user@host/database")
    return address
