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

from noisebank.bank.backup_checks import Checked, check, vault_in
from noisebank.bank.backup_copy import change, copy_database, rows_of, write_journal
from noisebank.bank.backup_folder import beside, copy_file, finish, room_for
from noisebank.bank.backup_journals import newest_journal
from noisebank.bank.bank import ACCESS, JOURNAL, KEYS, LEDGER, VAULT, lock_bank
from noisebank.bank.manifest import Manifest, check_bytes, check_names, read_manifest
from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import BadBank, BadLedger, BadRequest, Tampered
from noisebank.ledger.anchors import find_anchors
from noisebank.ledger.chain_config import Where, read_where, write_where
from noisebank.ledger.node import Node
from noisebank.vault.location import VARIABLE, make_vault, open_postgres_vault
from noisebank.verifier.comparison import Compared, History
from noisebank.verifier.on_chain import OnChain
from noisebank.verifier.verification import JournalHistory

OURS = re.compile(r"journal\.sqlite|access\.sqlite|vault\.sqlite|outbox\.sqlite|ledger\.json|keys/[a-z-]+\.key")
"""Files that a backup may have; a manifest with any other is refused."""
IN_A_FILE = "file"


@dataclass(frozen=True, slots=True)
class Asked:
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
class Restored:
    """What was restored, and what was not."""

    folder: Path
    manifest: Manifest
    checked: Checked
    newest: int
    head: str
    journal: str
    """Where the journal came from."""
    never_measured: int
    """Reservations without an answer. Somebody may have seen one after the backup, so they are given up."""
    compared_with: tuple[str, ...]
    keys: bool
    moved_aside: Path | None
    warnings: tuple[str, ...]


def restore(source: Path, folder: Path, asked: Asked | None = None) -> Restored:
    """Restores the backup in `source` as the bank in `folder`, which appears when everything is checked.

    `Tampered` if a byte of the backup was changed, if its journal does not replay, if its vault contradicts it, or if
    evidence that the caller holds from outside is not in it. Until the last step nothing in `folder` is touched.
    """
    asked = asked or Asked()
    manifest = read_manifest(source)
    check_names(source, manifest)
    if any(not OURS.fullmatch(name) for name in manifest.files):
        raise Tampered("the backup names files that no bank has")
    with _taken(folder, asked.replace) as old, room_for(folder) as staging:
        for name in manifest.files:
            copy_file(source / name, staging / name)
        check_bytes(staging, manifest)
        (staging / KEYS).mkdir(mode=0o700, exist_ok=True)
        restore_books = _from_chain if manifest.on_chain else _from_journal
        done = restore_books(staging, manifest, asked, old)
        done = replace(done, folder=folder, keys=_with_keys(staging, old))
        done = _with_access(staging, old, done)
        _move_vault(staging, manifest, asked)
        if old is not None:
            aside = _free(folder)
            done = replace(done, moved_aside=aside)
            folder.rename(aside)
        finish(staging, folder)
    if not done.keys:
        what = "put curator.key (and sealer.key, if there is one) into its folder keys, or set NOISEBANK_CURATOR_KEY"
        done = replace(done, warnings=(*done.warnings, f"No keys were restored: {what}."))
    return done


# -- the two kinds of ledger ----------------------------------------------------------------------


def _from_journal(room: Path, manifest: Manifest, asked: Asked, old: Path | None) -> Restored:
    """Restores the newest journal that there is, and the backup's vault."""
    newest = newest_journal(room / JOURNAL, old, asked.journal)
    history, warnings = newest.history, list(newest.warnings)
    if manifest.signer != history.genesis.sealer:
        raise Tampered("the backup was not signed by the key that seals its journal")
    compared = _compared(history, asked)
    if asked.anchors is not None:
        node = Node(asked.anchors)
        anchors = find_anchors(node, history.genesis.digest, history.genesis.sealer, asked.anchor_contract)
        compared.anchors(anchors, f"chain {node.chain_id()}", history)
    with vault_in(room / VAULT) as vault:
        checked = check(history, vault)
    if checked.unknown:
        raise Tampered(f"the backup's vault is newer than its journal: {len(checked.unknown)} answers without a charge")
    # Whichever journal this is, a bank may have gone on from it and shown answers to these, with other noise: the bank
    # that was copied or exported, or one that an earlier restore has made.
    given_up = checked.unfinished
    change(room / VAULT, "INSERT OR IGNORE INTO lost VALUES (?)", ((id,) for id in given_up))
    if newest.newer:
        (room / JOURNAL).unlink()
        write_journal(room / JOURNAL, newest.lines)
    if not newest.replaced and not (newest.newer and asked.head == history.replay.head.digest.hex()):
        ended = datetime.fromtimestamp(history.replay.time, UTC)
        warnings.append(
            f"The books end with block {history.newest} of {ended:%Y-%m-%d %H:%M} UTC. What was answered after "
            "that is not in them: its budget can be spent a second time. If a newer journal exists anywhere, give it "
            "with --journal; compare with a pinned head (--head) or anchors (--anchors); otherwise lower the budget by "
            "what may have been spent since"
        )
    if checked.lost:
        warnings.append(
            f"{len(checked.lost)} answers were published after the vault was copied. They are lost and will never "
            "be measured again: their budget stays spent"
        )
    if given_up:
        warnings.append(
            f"{len(given_up)} reservations have no answer in these books. They may have been answered since, so they "
            "are given up: never measured, their budget stays spent"
        )
    return _restored(manifest, checked, history, compared, newest.origin, len(given_up), warnings)


def _from_chain(room: Path, manifest: Manifest, asked: Asked, old: Path | None) -> Restored:
    """Restores a vault beside a chain. The chain does not go back: answers that it shows as published and that the
    vault does not have are lost."""
    if asked.journal is not None or asked.anchors is not None:
        raise BadRequest("journal", "given", "this bank's ledger is on a chain: only --head can be compared")
    where = _where(room, asked, old)
    chain = OnChain(where.url, where.contract)
    if chain.chain_id != where.chain_id:
        raise BadLedger(f"the node is on chain {chain.chain_id}, not on chain {where.chain_id}")
    chain.read(where.created)
    compared = _compared(chain, asked)
    with vault_in(room / VAULT) as vault:
        checked = check(chain, vault)
    if checked.unknown:
        raise Tampered(
            "the chain does not know a sealed answer of this backup: it is another chain, or was rolled back"
        )
    curators = {
        change.event.arguments.get("curator")
        for state in chain.books.accounts()
        for change in chain.books.changes(state.account)
    }
    if checked.accounts and manifest.signer not in curators:
        raise Tampered("the backup was not signed by a curator of this ledger")
    warnings = []
    if checked.lost:
        warnings.append(
            f"{len(checked.lost)} answers were published after this copy was made. They are lost and will never be "
            "measured again: their budget stays spent"
        )
    return _restored(manifest, checked, chain, compared, f"contract {where.contract}", 0, warnings)


# -- parts ------------------------------------------------------------------------------------------


@contextmanager
def _taken(folder: Path, replace: bool) -> Iterator[Path | None]:
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


def _compared(history: History, asked: Asked) -> Compared:
    compared = Compared()
    if asked.head is not None:
        compared.head(asked.head, history)
    return compared


def _restored(
    manifest: Manifest,
    checked: Checked,
    history: JournalHistory | OnChain,
    compared: Compared,
    origin: str,
    given_up: int,
    warnings: list[str],
) -> Restored:
    head = (history.replay.head if isinstance(history, JournalHistory) else history.head).digest.hex()
    held = tuple(compared.with_what)
    return Restored(
        Path(), manifest, checked, history.newest, head, origin, given_up, held, False, None, tuple(warnings)
    )


def _where(room: Path, asked: Asked, old: Path | None) -> Where:
    """Returns where the ledger is. The node's address comes from the options, the backup, or the replaced bank."""
    where = read_where(room / LEDGER)
    url = asked.rpc or where.url
    if not url and old is not None and (old / LEDGER).is_file():
        known = read_where(old / LEDGER)
        url = known.url if (known.chain_id, known.contract) == (where.chain_id, where.contract) else ""
    if not url:
        raise BadRequest("rpc", "nothing", "the node's address is not in the backup: say --rpc, or set NOISEBANK_RPC")
    if url != where.url:
        (room / LEDGER).unlink()
        where = replace(where, url=url)
        write_where(room / LEDGER, where)
    return where


def _with_keys(room: Path, old: Path | None) -> bool:
    """Uses the keys of the backup, or those of the bank that is replaced; returns whether there is a curator's key."""
    if not any((room / KEYS).iterdir()) and old is not None:
        for path in sorted((old / KEYS).glob("*.key")):
            copy_file(path, room / KEYS / path.name)
    return (room / KEYS / "curator.key").is_file()


def _with_access(room: Path, old: Path | None, done: Restored) -> Restored:
    """Keeps the API keys and people of the bank that is replaced: some may have been revoked after the copy."""
    if old is not None and (old / ACCESS).is_file():
        (room / ACCESS).unlink(missing_ok=True)
        copy_database(old / ACCESS, room / ACCESS)
    elif (room / ACCESS).is_file():
        what = (
            "API keys revoked and people disabled after this copy was made may come in again: see `noisebank key list`"
        )
        return replace(done, warnings=(*done.warnings, what))
    return done


def _move_vault(room: Path, manifest: Manifest, asked: Asked) -> None:
    """Moves the vault into a database, if it came from one or the options name one. Comes last, since only an empty
    database can be filled."""
    target = asked.vault or (IN_A_FILE if manifest.facts["vault"] == "file" else os.environ.get(VARIABLE))
    if target is None:
        choices = f"say which empty one with --vault or {VARIABLE}, or --vault {IN_A_FILE}"
        what = f"this vault was in a database: {choices}"
        raise BadRequest("vault", "nothing", what)
    if target == IN_A_FILE:
        return
    make_vault(room, asked.vault, SystemEntropy().token().hex())
    vault = open_postgres_vault(room)
    try:
        vault.fill(dict(rows_of(room / VAULT)))
    finally:
        vault.close()
    (room / VAULT).unlink()


def _free(folder: Path) -> Path:
    """Returns an unused name beside the folder: there may be two restores within one second."""
    now, number = int(time.time()), 0
    while (aside := beside(folder, f"replaced-{now}" + (f"-{number}" if number else ""))).exists():
        number += 1
    return aside
