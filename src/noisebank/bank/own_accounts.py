"""Decides which accounts of a ledger are this bank's own.

A ledger on a chain is open to everybody. A data commitment is public there, so anybody can copy it into an account of
their own, with another budget, and name the bank's curator in it. Nobody can open an account in the owner's name. So
the vault saves who opens an account before the ledger has it, and only accounts opened by that owner count.
"""

from __future__ import annotations

from typing import Any

from noisebank.core.errors import Tampered
from noisebank.ledger.books import Books
from noisebank.ledger.chain import Chain
from noisebank.ledger.protocol import AccountState, Role
from noisebank.vault.vault import Vault

OPENED_BY = "opened_by"


def opened_by(ledger: Chain) -> dict[str, Any]:
    """Returns the entry that the vault saves, with everything else, for an account that is about to be opened."""
    return {OPENED_BY: [ledger.address(Role.OWNER), ledger.address(Role.CURATOR)]}


def opened_as(books: Books, account: bytes) -> list[str]:
    """Returns who opened an account, and the curator that they named. Roles may change later; this does not."""
    first = books.changes(account)[0].event.arguments
    return [str(first["owner"]), str(first["curator"])]


def own_row(ledger: Chain, vault: Vault, state: AccountState) -> dict[str, Any] | None:
    """Returns what the vault has saved for an account that this bank has opened; None for accounts of others."""
    row = vault.opening(state.data)
    if row is None or not ledger.shared:
        return row
    if OPENED_BY in row:
        return row if row[OPENED_BY] == opened_as(ledger.books, state.account) else None
    return row if _is_likely_ours(ledger, vault, state) else None


def _is_likely_ours(ledger: Chain, vault: Vault, state: AccountState) -> bool:
    """Whether an account is this bank's, for rows of older vaults, which do not say who opened it: decided by the keys
    on this machine and by what was sent and sealed. `Tampered` if that leaves two accounts for one row."""
    rivals = [rival for rival in ledger.books.accounts() if rival.data == state.data]
    if len(rivals) == 1:
        return state.curator == ledger.address(Role.CURATOR) or _has_answers(ledger, vault, state)
    used = [rival for rival in rivals if _has_answers(ledger, vault, rival)]
    owned = [rival for rival in rivals if ledger.has_key(Role.OWNER) and rival.owner == ledger.address(Role.OWNER)]
    ours = used or owned
    if len(ours) != 1:
        raise Tampered(
            f"{len(rivals)} accounts on the chain have the data commitment of one of this bank's; nothing here says "
            "which is its own: open the bank once with the owner's key (--owner-key)"
        )
    return ours[0].account == state.account


def _has_answers(ledger: Chain, vault: Vault, state: AccountState) -> bool:
    """Whether this bank has charged the account: its outbox has claims on it, or its vault has sealed answers of it."""
    return state.account in ledger.charged_accounts() or any(
        account == state.account for account, _ in vault.sealed_ids()
    )
