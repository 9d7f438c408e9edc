"""Recovery: finishes what a crash interrupted, in the ledger's order, before anything new is asked."""

from __future__ import annotations

from dataclasses import dataclass

from noisebank.account.account import Account
from noisebank.account.completion import require_completed
from noisebank.account.context import AccountContext
from noisebank.account.pipeline import hold_queries
from noisebank.core.errors import BadTable, NoisebankError, OutcomeUnknown, TableChanged, Tampered, VaultUnreachable
from noisebank.core.records import Case
from noisebank.ledger.protocol import Reservation
from noisebank.queries.query import Question


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


def recover_account(account: Account) -> RecoveryCounts:
    """Completes every reservation that can be completed.

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
                account.context.lost_queries.add(reservation.query)
                lost += 1
            elif reservation.version == version:  # of an earlier version the table is gone: spent, never answered
                unpublished.append(reservation)
        elif sealed is None:
            account.context.lost_queries.add(reservation.query)
            lost += 1
        elif sealed != (reservation.answer_digest, reservation.query):
            raise Tampered(f"the vault's answer {reservation.id.hex()[:12]} is not the one on the ledger")
    for reservation in unpublished:
        request = account.vault.find_request(reservation.id)
        if request is None:
            unknown += 1
            continue
        try:
            finish_reservation(account.context, reservation, account.context.question_of(request))
            finished += 1
        except VaultUnreachable:
            raise
        except (TableChanged, BadTable, OutcomeUnknown):
            waiting += 1
        except NoisebankError:
            unknown += 1
    return RecoveryCounts(finished, waiting, unknown, lost)


def finish_reservation(context: AccountContext, reservation: Reservation, question: Question) -> None:
    """Completes an interrupted reservation, under its query's lock; another gateway may have done so meanwhile."""
    with hold_queries(context, [question.query]):
        latest = context.ledger.find_reservation(context.id, reservation.id) or reservation
        require_completed(context, [(latest, question)])
