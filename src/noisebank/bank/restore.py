"""`restore`: puts a backup back. Its files are verified, its journal is replayed, and its vault is checked against the
books before the folder appears under its name."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from noisebank.bank.backup_checks import VaultCheck, check_vault, open_vault_copy
from noisebank.bank.backup_copy import copy_database, read_tables, run_statement, write_journal
from noisebank.bank.backup_folder import copy_file, move_into_place, sibling_folder, stage_folder
from noisebank.bank.backup_journals import find_newest_journal
from noisebank.bank.folder import ACCESS, JOURNAL, KEYS, LEDGER, VAULT, lock_bank
from noisebank.bank.manifest import Manifest, check_bytes, check_names, read_manifest
from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import BadBank, BadLedger, BadRequest, Tampered
from noisebank.ledger.anchors import find_anchors
from noisebank.ledger.chain_config import ChainConfig, read_chain_config, write_chain_config
from noisebank.ledger.node import Node
from noisebank.vault.location import ADDRESS_VARIABLE, create_vault, open_postgres_vault
from noisebank.verifier.comparison import ComparableHistory, Comparison
from noisebank.verifier.on_chain import ChainHistory
from noisebank.verifier.verification import JournalHistory

BACKUP_FILES = re.compile(r"journal\.sqlite|access\.sqlite|vault\.sqlite|outbox\.sqlite|ledger\.json|keys/[a-z-]+\.key")
"""Files that a backup may have; a manifest with any other is refused."""
FILE_VAULT = "file"


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """How to restore a backup."""

    replace: bool = False
    """Replace a bank that the folder holds already: it is moved aside, never deleted."""
    journal: Path | None = None
    """An exported journal or a bundle that may be newer than the backup's."""
    head: str | None = None
    anchors: str | None = None
    anchor_contract: str | None = None
    vault: str | None = None
    """The address of an empty PostgreSQL database, or `file`."""
    rpc: str | None = None


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What was restored, and what was not."""

    folder: Path
    manifest: Manifest
    vault_check: VaultCheck
    newest_block: int
    head: str
    journal_origin: str
    """Where the journal came from."""
    given_up_count: int
    """Reservations without an answer. Somebody may have seen one after the backup, so they are given up."""
    compared_with: tuple[str, ...]
    has_keys: bool
    moved_aside: Path | None
    warnings: tuple[str, ...]


def restore(source: Path, folder: Path, options: RestoreOptions | None = None) -> RestoreResult:
    """Restores the backup in `source` as the bank in `folder`, which appears when everything is checked.

    `Tampered` if a byte of the backup was changed, if its journal does not replay, if its vault contradicts it, or if
    evidence that the caller holds from outside is not in it. Until the last step nothing in `folder` is touched.
    """
    options = options or RestoreOptions()
    manifest = read_manifest(source)
    check_names(source, manifest)
    if any(not BACKUP_FILES.fullmatch(name) for name in manifest.files):
        raise Tampered("the backup names files that no bank has")
    with _lock_replaced(folder, options.replace) as old, stage_folder(folder) as staging:
        for name in manifest.files:
            copy_file(source / name, staging / name)
        check_bytes(staging, manifest)
        (staging / KEYS).mkdir(mode=0o700, exist_ok=True)
        restore_books = _restore_chain if manifest.on_chain else _restore_journal
        done = restore_books(staging, manifest, options, old)
        done = replace(done, folder=folder, has_keys=_restore_keys(staging, old))
        done = _restore_access(staging, old, done)
        _move_vault(staging, manifest, options)
        if old is not None:
            aside = _unused_sibling(folder)
            done = replace(done, moved_aside=aside)
            folder.rename(aside)
        move_into_place(staging, folder)
    if not done.has_keys:
        what = "put curator.key (and sealer.key, if there is one) into its folder keys, or set NOISEBANK_CURATOR_KEY"
        done = replace(done, warnings=(*done.warnings, f"No keys were restored: {what}."))
    return done


# -- the two kinds of ledger ----------------------------------------------------------------------


def _restore_journal(staging: Path, manifest: Manifest, options: RestoreOptions, old: Path | None) -> RestoreResult:
    """Restores the newest journal that there is, and the backup's vault."""
    newest = find_newest_journal(staging / JOURNAL, old, options.journal)
    history, warnings = newest.history, list(newest.warnings)
    if manifest.signer != history.genesis.sealer:
        raise Tampered("the backup was not signed by the key that seals its journal")
    compared = _compare_head(history, options)
    if options.anchors is not None:
        node = Node(options.anchors)
        anchors = find_anchors(node, history.genesis.digest, history.genesis.sealer, options.anchor_contract)
        compared.compare_anchors(anchors, f"chain {node.chain_id()}", history)
    with open_vault_copy(staging / VAULT) as vault:
        checked = check_vault(history, vault)
    if checked.unknown_ids:
        raise Tampered(
            f"the backup's vault is newer than its journal: {len(checked.unknown_ids)} answers without a charge"
        )
    # Whichever journal this is, a bank may have gone on from it and shown answers to these, with other noise: the bank
    # that was copied or exported, or one that an earlier restore has made.
    given_up = checked.unfinished_ids
    run_statement(staging / VAULT, "INSERT OR IGNORE INTO lost VALUES (?)", ((id,) for id in given_up))
    if newest.is_newer:
        (staging / JOURNAL).unlink()
        write_journal(staging / JOURNAL, newest.lines)
    if not newest.is_replaced_banks and not (newest.is_newer and options.head == history.replay.head.digest.hex()):
        ended = datetime.fromtimestamp(history.replay.time, UTC)
        warnings.append(
            f"The books end with block {history.newest_block} of {ended:%Y-%m-%d %H:%M} UTC. What was answered after "
            "that is not in them: its budget can be spent a second time. If a newer journal exists anywhere, give it "
            "with --journal; compare with a pinned head (--head) or anchors (--anchors); otherwise lower the budget by "
            "what may have been spent since"
        )
    if checked.lost_ids:
        warnings.append(
            f"{len(checked.lost_ids)} answers were published after the vault was copied. They are lost and will never "
            "be measured again: their budget stays spent"
        )
    if given_up:
        warnings.append(
            f"{len(given_up)} reservations have no answer in these books. They may have been answered since, so they "
            "are given up: never measured, their budget stays spent"
        )
    return _make_result(manifest, checked, history, compared, newest.origin, len(given_up), warnings)


def _restore_chain(staging: Path, manifest: Manifest, options: RestoreOptions, old: Path | None) -> RestoreResult:
    """Restores a vault beside a chain. The chain does not go back: answers that it shows as published and that the
    vault does not have are lost."""
    if options.journal is not None or options.anchors is not None:
        raise BadRequest("journal", "given", "this bank's ledger is on a chain: only --head can be compared")
    where = _complete_config(staging, options, old)
    chain = ChainHistory(where.url, where.contract)
    if chain.chain_id != where.chain_id:
        raise BadLedger(f"the node is on chain {chain.chain_id}, not on chain {where.chain_id}")
    chain.read_logs(where.deployment_block)
    compared = _compare_head(chain, options)
    with open_vault_copy(staging / VAULT) as vault:
        checked = check_vault(chain, vault)
    if checked.unknown_ids:
        raise Tampered(
            "the chain does not know a sealed answer of this backup: it is another chain, or was rolled back"
        )
    curators = {
        change.event.arguments.get("curator")
        for state in chain.books.list_accounts()
        for change in chain.books.list_changes(state.account)
    }
    if checked.account_count and manifest.signer not in curators:
        raise Tampered("the backup was not signed by a curator of this ledger")
    warnings = []
    if checked.lost_ids:
        warnings.append(
            f"{len(checked.lost_ids)} answers were published after this copy was made. They are lost and will never be "
            "measured again: their budget stays spent"
        )
    return _make_result(manifest, checked, chain, compared, f"contract {where.contract}", 0, warnings)


# -- parts ------------------------------------------------------------------------------------------


@contextmanager
def _lock_replaced(folder: Path, replace: bool) -> Iterator[Path | None]:
    """Locks the bank that is in the folder already, so that nobody opens it meanwhile; None if there is none."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        yield None
        return
    if not folder.is_dir() or not ((folder / JOURNAL).exists() or (folder / LEDGER).exists()):
        raise BadBank(f"{folder} is not empty and no bank: choose another folder")
    if not replace:
        raise BadBank(
            f"{folder} holds a bank already. Going back to a copy forgets what was answered since. With --replace the "
            "bank there is moved aside, and its journal is used if it is the newer one"
        )
    handle = lock_bank(folder)
    try:
        yield folder
    finally:
        os.close(handle)


def _compare_head(history: ComparableHistory, options: RestoreOptions) -> Comparison:
    compared = Comparison()
    if options.head is not None:
        compared.compare_head(options.head, history)
    return compared


def _make_result(
    manifest: Manifest,
    vault_check: VaultCheck,
    history: JournalHistory | ChainHistory,
    compared: Comparison,
    origin: str,
    given_up: int,
    warnings: list[str],
) -> RestoreResult:
    head = (history.replay.head if isinstance(history, JournalHistory) else history.head).digest.hex()
    held = tuple(compared.compared_with)
    return RestoreResult(
        Path(), manifest, vault_check, history.newest_block, head, origin, given_up, held, False, None, tuple(warnings)
    )


def _complete_config(staging: Path, options: RestoreOptions, old: Path | None) -> ChainConfig:
    """Returns where the ledger is. The node's address comes from the options, the backup, or the replaced bank."""
    where = read_chain_config(staging / LEDGER)
    url = options.rpc or where.url
    if not url and old is not None and (old / LEDGER).is_file():
        known = read_chain_config(old / LEDGER)
        url = known.url if (known.chain_id, known.contract) == (where.chain_id, where.contract) else ""
    if not url:
        raise BadRequest("rpc", None, "the node's address is not in the backup: say --rpc, or set NOISEBANK_RPC")
    if url != where.url:
        (staging / LEDGER).unlink()
        where = replace(where, url=url)
        write_chain_config(staging / LEDGER, where)
    return where


def _restore_keys(staging: Path, old: Path | None) -> bool:
    """Uses the keys of the backup, or those of the bank that is replaced; returns whether there is a curator's key."""
    if not any((staging / KEYS).iterdir()) and old is not None:
        for path in sorted((old / KEYS).glob("*.key")):
            copy_file(path, staging / KEYS / path.name)
    return (staging / KEYS / "curator.key").is_file()


def _restore_access(staging: Path, old: Path | None, done: RestoreResult) -> RestoreResult:
    """Keeps the API keys and people of the bank that is replaced: some may have been revoked after the copy."""
    if old is not None and (old / ACCESS).is_file():
        (staging / ACCESS).unlink(missing_ok=True)
        copy_database(old / ACCESS, staging / ACCESS)
    elif (staging / ACCESS).is_file():
        what = (
            "API keys revoked and people disabled after this copy was made may come in again: see `noisebank key list`"
        )
        return replace(done, warnings=(*done.warnings, what))
    return done


def _move_vault(staging: Path, manifest: Manifest, options: RestoreOptions) -> None:
    """Moves the vault into a database, if it came from one or the options name one. Comes last, since only an empty
    database can be filled."""
    target = options.vault or (FILE_VAULT if manifest.facts["vault"] == "file" else os.environ.get(ADDRESS_VARIABLE))
    if target is None:
        choices = f"say which empty one with --vault or {ADDRESS_VARIABLE}, or --vault {FILE_VAULT}"
        what = f"this vault was in a database: {choices}"
        raise BadRequest("vault", None, what)
    if target == FILE_VAULT:
        return
    create_vault(staging, options.vault, SystemEntropy().token().hex())
    vault = open_postgres_vault(staging)
    try:
        vault.fill_tables(dict(read_tables(staging / VAULT)))
    finally:
        vault.close()
    (staging / VAULT).unlink()


def _unused_sibling(folder: Path) -> Path:
    """Returns an unused name beside the folder: there may be two restores within one second."""
    now, number = int(time.time()), 0
    while (aside := sibling_folder(folder, f"replaced-{now}" + (f"-{number}" if number else ""))).exists():
        number += 1
    return aside
