"""Where a bank's vault is: a file in its folder, or a PostgreSQL database and the file that says how to reach it."""

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
"""One of the two is in a bank's folder."""
FORMAT = "noisebank vault place 1"
VARIABLE = "NOISEBANK_VAULT"
"""The address of the database. Wins over the file: an address often holds a password."""
ADDRESS = re.compile(r"postgres(ql)?://\S+")


def make_vault(folder: Path, address: str | None, name: str) -> None:
    """Makes an empty vault for a bank, or joins the one that a database holds.

    An address from the environment is used and written nowhere; one that is given otherwise is kept in a file for
    the bank's eyes only.
    """
    given = os.environ.get(VARIABLE)
    if address is None and given is None:
        SqliteVault(folder / FILE).close()
        return
    known = make_postgres_vault(checked(address or given or ""), name)
    write_once(folder / PLACE, json.dumps({"format": FORMAT, "name": known, "address": address}, indent=1) + "\n")


def open_vault(folder: Path) -> Vault:
    """The vault of the bank in a folder."""
    if on_postgres(folder):
        return open_postgres_vault(folder)
    if not (folder / FILE).is_file():  # a new one would forget every account, and open them a second time
        raise BadBank(f"{folder} has no vault; put {FILE} back, from the newest backup that there is")
    return SqliteVault(folder / FILE)


def open_postgres_vault(folder: Path) -> PostgresVault:
    """The vault of a bank that has it on PostgreSQL."""
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
    """An address of a PostgreSQL server; what is wrong with it is said without quoting it."""
    if not ADDRESS.fullmatch(address):
        raise BadRequest("vault", "(not shown)", "write postgresql://user@host/database")
    return address
