"""Checks a vault against the books by the rules of recovery, without opening the bank or its table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from noisebank.account.statement import collect_openings
from noisebank.bank.opening import parse_opening
from noisebank.bank.own_accounts import OPENED_BY, find_opener
from noisebank.core.errors import BadBank, NoisebankError, Tampered, kind_of
from noisebank.core.records import Case
from noisebank.ledger.journal import Journal
from noisebank.vault.sqlite_vault import SqliteVault
from noisebank.vault.vault import Vault
from noisebank.verifier.comparison import ComparableHistory
from noisebank.verifier.openings import check_openings
from noisebank.verifier.verification import JournalHistory


@dataclass(frozen=True, slots=True)
class VaultCheck:
    """Result of checking a vault against the books."""

    account_count: int
    """Accounts that both know."""
    answer_count: int
    """Sealed answers; the published ones have the digest that is on the ledger."""
    recomputed_count: int
    """Records whose question, sensitivity and price were recomputed from the policy and agree with the ledger."""
    lost_ids: tuple[bytes, ...]
    """Reservations whose answer is published and missing from the vault."""
    unfinished_ids: tuple[bytes, ...]
    """Reservations whose answer is neither sealed nor published."""
    unknown_ids: tuple[bytes, ...]
    """Reservations whose answer is sealed but which the books do not have: the books end earlier."""


def check_vault(history: ComparableHistory, vault: Vault) -> VaultCheck:
    """Compares every answer with the ledger and recomputes every record; `Tampered` at the first that disagrees."""
    books = history.books
    lost, unfinished, recomputed, accounts = [], [], 0, 0
    sealed_ids = vault.sealed_ids()
    ours = {account for account, _ in sealed_ids}
    for state in books.list_accounts():
        row = vault.find_opening(state.data_commitment)
        if row is not None and row.get(OPENED_BY, find_opener(books, state.account)) != find_opener(
            books, state.account
        ):
            row = None  # somebody else's account with a copy of our data commitment
        if row is None and state.account not in ours:
            continue  # another bank's on the same chain
        accounts += 1
        for reservation in books.list_reservations(state.account):
            if reservation.case is Case.REPEAT:
                continue
            sealed = vault.find_answer(reservation.id)
            if sealed is None and reservation.answer_digest is not None:
                lost.append(reservation.id)
            elif sealed is None and reservation.version == state.version:
                unfinished.append(reservation.id)
            elif sealed is not None and (
                sealed.query != reservation.query or reservation.answer_digest not in (None, sealed.digest)
            ):
                raise Tampered(f"the vault's answer {reservation.id.hex()[:12]} is not the one on the ledger")
        try:
            opening = None if row is None else parse_opening(row, state)
            if opening is not None:
                _, policy, secrets = opening
                fields = collect_openings(state, policy, secrets, books, vault)
                recomputed += check_openings(fields, books).opened_count
        except Tampered:
            raise
        except (NoisebankError, KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"the vault's records of the account {state.account.hex()[:12]} make no sense"
            raise Tampered(f"{what} ({kind_of(error)})") from None
    unknown = tuple(id for account, id in sealed_ids if books.find_reservation(account, id) is None)
    return VaultCheck(accounts, len(sealed_ids), recomputed, tuple(lost), tuple(unfinished), unknown)


def replay_journal(lines: Iterable[str]) -> JournalHistory:
    """Executes and recounts a journal block by block; `Tampered` at the first block that is wrong."""
    remaining = iter(lines)
    first = next(remaining, None)
    if first is None or not first.strip():
        raise BadBank("the journal is empty")
    history = JournalHistory(first)
    for line in remaining:
        history.add_line(line)
    return history


def read_journal_file(path: Path) -> list[str]:
    """Returns the lines of a journal's SQLite file."""
    journal = Journal(path)
    try:
        return list(journal.read_lines())
    finally:
        journal.close()


@contextmanager
def open_vault_copy(path: Path) -> Iterator[SqliteVault]:
    """Opens the vault in a copy that nobody else uses; afterwards the copy is one file again."""
    vault = SqliteVault(path)
    try:
        yield vault
    finally:
        vault.close()
    merge_wal(path)


def merge_wal(path: Path) -> None:
    """Merges a database's write-ahead log into it, so that it is a single file."""
    database = apsw.Connection(str(path))
    try:
        database.pragma("journal_mode", "DELETE")
    finally:
        database.close()
