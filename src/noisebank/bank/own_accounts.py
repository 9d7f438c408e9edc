"""Which accounts of a ledger are this bank's own.

A ledger on a chain is open to everybody. A data commitment is public there, so anybody can copy it into an account of
their own, with another budget, and name the bank's curator in it. Nobody can open an account in the owner's name, so
the vault keeps who opens an account before the ledger has it, and only what was opened by them counts.
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
    """What the vault keeps, with everything else, of an account that is about to be opened."""
    return {OPENED_BY: [ledger.address(Role.OWNER), ledger.address(Role.CURATOR)]}


def opened_as(books: Books, account: bytes) -> list[str]:
    """Who opened an account, and the curator that they named: roles may change hands later, this does not."""
    first = books.changes(account)[0].event.arguments
    return [str(first["owner"]), str(first["curator"])]


def own_row(ledger: Chain, vault: Vault, state: AccountState) -> dict[str, Any] | None:
    """What the vault keeps for an account that this bank has opened; None for everybody else's."""
    kept = vault.opening(state.data)
    if kept is None or not ledger.shared:
        return kept
    if OPENED_BY in kept:
        return kept if kept[OPENED_BY] == opened_as(ledger.books, state.account) else None
    return kept if _is_likely_ours(ledger, vault, state) else None


def _is_likely_ours(ledger: Chain, vault: Vault, state: AccountState) -> bool:
    """For rows of vaults of an earlier version, which do not say who opened the account: by the keys that are here and
    by what was sent and sealed. `Tampered` if that leaves two accounts for one row."""
    rivals = [each for each in ledger.books.accounts() if each.data == state.data]
    if len(rivals) == 1:
        return state.curator == ledger.address(Role.CURATOR) or _has_answers(ledger, vault, state)
    used = [each for each in rivals if _has_answers(ledger, vault, each)]
    owned = [each for each in rivals if ledger.has_key(Role.OWNER) and each.owner == ledger.address(Role.OWNER)]
    found = used or owned
    if len(found) != 1:
        raise Tampered(
            f"{len(rivals)} accounts on the chain have the data commitment of one of this bank's; nothing here says "
            "which is its own: open the bank once with the owner's key (--owner-key)"
        )
    return found[0].account == state.account


def _has_answers(ledger: Chain, vault: Vault, state: AccountState) -> bool:
    """Whether this bank has charged the account: it is in the outbox, or the vault has sealed answers of it."""
    return state.account in ledger.charged_accounts() or any(
        account == state.account for account, _ in vault.sealed_ids()
    )
