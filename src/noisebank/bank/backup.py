"""`make_backup`: backs up a bank that is in use. docs/how-to/several-gateways.md says what a backup can bring back.

The order of the copies matters. A reservation is in the journal before its answer is in the vault, and the answer is in
the vault before the journal shows it as published. So the journal is copied first: whatever it shows as published is in
the vault that is copied after it. Answers that were reserved after the journal's copy are deleted from the vault's
copy, and the backup is the bank as it was at the moment of its journal. The other way round, answers published in
between would be missing: lost for ever.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from noisebank.bank.backup_checks import check_vault, merge_wal, open_vault_copy, read_journal_file, replay_journal
from noisebank.bank.backup_copy import copy_database, copy_vault, run_statement
from noisebank.bank.backup_folder import LOCK, copy_file, move_into_place, stage_folder
from noisebank.bank.folder import ACCESS, JOURNAL, KEYS, LEDGER, OUTBOX, VAULT, load_sealing_key
from noisebank.bank.manifest import MANIFEST_FILE as MANIFEST
from noisebank.bank.manifest import Manifest, digest_file, write_manifest
from noisebank.core.errors import BadBank
from noisebank.ledger.chain_config import read_chain_config, write_chain_config
from noisebank.vault.location import is_on_postgres, open_postgres_vault


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was made and checked."""

    folder: Path
    manifest: Manifest
    manifest_digest: str
    """SHA-256 of the manifest: kept elsewhere, it identifies this backup."""


def make_backup(folder: Path, target: Path, with_keys: bool = False) -> Backup:
    """Copies the bank in `folder` to the new folder `target`, which appears when all of it is on disk and checked.

    The bank may be in use, by another process as well; nobody is blocked. Keys, and the address of a chain's node,
    which may hold one, are copied only `with_keys`. Of a vault on PostgreSQL the rows are copied, never the address.
    """
    on_chain = (folder / LEDGER).is_file()
    if not on_chain and not (folder / JOURNAL).is_file():
        raise BadBank(f"{folder} is no bank")
    if target.exists():
        raise BadBank(f"{target} exists already; a backup gets a folder of its own")
    key = load_sealing_key(folder)
    facts: dict[str, Any] = {
        "made": int(time.time()),
        "keys": with_keys,
        "vault": "postgresql" if is_on_postgres(folder) else "file",
    }
    with stage_folder(target) as staging:
        if on_chain:
            # The chain is not copied and does not go back. The vault first: whatever it has sealed is in the outbox
            # that is copied after it, and can be sent again should the chain forget it.
            _copy_vault(folder, staging / VAULT)
            facts |= _copy_chain(folder, staging, with_keys)
        else:
            copy_database(folder / JOURNAL, staging / JOURNAL)
            _copy_vault(folder, staging / VAULT)
            facts |= _align_vault(staging)
        if (folder / ACCESS).is_file():
            copy_database(folder / ACCESS, staging / ACCESS)
            for table in ("sessions", "nonces"):  # sign-ins are not restored
                run_statement(staging / ACCESS, f"DELETE FROM {table} WHERE true", [()])
        if with_keys:
            for path in sorted((folder / KEYS).glob("*.key")):
                copy_file(path, staging / KEYS / path.name)
        manifest = write_manifest(staging, facts, key)
        move_into_place(staging, target)
        (target / LOCK).unlink()
    return Backup(target, manifest, digest_file(target / MANIFEST))


def _copy_vault(folder: Path, target: Path) -> None:
    if not is_on_postgres(folder):
        if not (folder / VAULT).is_file():
            raise BadBank(f"{folder} has no vault")
        copy_database(folder / VAULT, target)
        return
    vault = open_postgres_vault(folder)
    try:
        copy_vault(vault, target)
    finally:
        vault.close()


def _copy_chain(folder: Path, staging: Path, with_keys: bool) -> dict[str, Any]:
    where = read_chain_config(folder / LEDGER)
    write_chain_config(staging / LEDGER, where if with_keys else replace(where, url=""))
    if (folder / OUTBOX).is_file():
        copy_database(folder / OUTBOX, staging / OUTBOX)
    with open_vault_copy(staging / VAULT) as vault:
        answers = len(vault.sealed_ids())
    return {"ledger": {"kind": "chain", "chain_id": where.chain_id, "contract": where.contract}, "answers": answers}


def _align_vault(staging: Path) -> dict[str, Any]:
    """Deletes answers from the vault's copy that the journal's copy does not know, and checks one against the other.
    Returns the facts of the ledger for the manifest."""
    history = replay_journal(read_journal_file(staging / JOURNAL))
    merge_wal(staging / JOURNAL)
    with open_vault_copy(staging / VAULT) as vault:
        later = check_vault(history, vault).unknown_ids
    run_statement(staging / VAULT, "DELETE FROM answers WHERE id = ?", ((id,) for id in later))
    with open_vault_copy(staging / VAULT) as vault:
        checked = check_vault(history, vault)
    head = history.replay.head
    ledger = {
        "kind": "journal",
        "name": history.genesis.digest.hex(),
        "block": head.number,
        "head": head.digest.hex(),
        "time": history.replay.time,
    }
    return {"ledger": ledger, "answers": checked.answer_count, "recomputed": checked.recomputed_count}
