"""Recovery: finishes what a crash interrupted, in the ledger's order, before anything new is asked."""

from __future__ import annotations

import time
from dataclasses import dataclass

from noisebank.account.account import Account
from noisebank.core.errors import BadTable, NoisebankError, OutcomeUnknown, TableChanged, Tampered, VaultUnreachable
from noisebank.core.records import Case
from noisebank.ledger.chain import Ledger
from noisebank.vault.vault import Vault

MAX_ATTEMPTS = 4
"""To find on a chain what the vault has sealed; then its absence is a contradiction."""


@dataclass(frozen=True, slots=True)
class RecoveryCounts:
    """How many reservations of one account recovery has finished, or could not finish."""

    finished: int = 0
    """Measured or published now."""
    waiting: int = 0
    """Not finished: the table cannot be read now, or another gateway works on it. Asking again finishes them."""
    unknown: int = 0
    """Reserved, but this vault does not have the request: spent, finished if its key comes again."""
    lost: int = 0
    """Published, but missing from this vault, or perhaps returned after the backup that the vault comes from was made:
    never measured again."""


def check_history(ledger: Ledger, vault: Vault) -> None:
    """Refuses a journal that is older than the vault: going on from it would spend the budget twice.

    What is sealed was final on the ledger before, so the ledger is read after the vault. Waits for a node that lags.
    """
    sealed = vault.sealed_ids()
    for attempt in range(MAX_ATTEMPTS if ledger.is_shared else 1):
        time.sleep(attempt)
        ledger.refresh()
        sealed = tuple(ids for ids in sealed if ledger.find_reservation(*ids) is None)
        if not sealed:
            return
    raise Tampered(
        f"the journal is older than the vault: it does not know the sealed answer {sealed[0][1].hex()[:12]}. "
        "Put the newest journal back; going on from this one would spend the same budget twice"
    )


def recover_account(account: Account) -> RecoveryCounts:
    """Completes every reservation that can be completed, and buys missing first looks.

    Raises `Tampered` if the vault holds another answer than the published one: whatever reuses it
    would be wrong, too.
    """
    finished = waiting = unknown = lost = 0
    unpublished = []
    version = account.state.version
    reservations = account.ledger.list_reservations(
        account.id
    )  # before the vault: what is published there is sealed here
    answers = {sealed.id: (sealed.digest, sealed.query) for sealed in account.vault.list_answers(account.id)}
    for reservation in reservations:
        if reservation.case is Case.REPEAT:
            continue  # its answer is that of the recorded reservation
        sealed = answers.get(reservation.id)
        if reservation.answer_digest is None:
            if sealed is None and reservation.id in account.vault.lost_ids:
                account.lost_queries.add(reservation.query)
                lost += 1
            elif reservation.version == version:  # of an earlier version the table is gone: spent, never answered
                unpublished.append(reservation)
        elif sealed is None:
            account.lost_queries.add(reservation.query)
            lost += 1
        elif sealed != (reservation.answer_digest, reservation.query):
            raise Tampered(f"the vault's answer {reservation.id.hex()[:12]} is not the one on the ledger")
    for reservation in unpublished:
        request = account.vault.find_request(reservation.id)
        if request is None:
            unknown += 1
            continue
        try:
            account.finish(reservation, account.question(request))
            finished += 1
        except VaultUnreachable:
            raise
        except (TableChanged, BadTable, OutcomeUnknown):
            waiting += 1
        except NoisebankError:
            unknown += 1
    try:
        finished += account.look_at_opening()  # a crash may have come between opening and first look
    except VaultUnreachable:
        raise
    except NoisebankError:
        waiting += 1
    return RecoveryCounts(finished, waiting, unknown, lost)
