"""`settle`: brings reservations to published answers, from wherever a crash left them.

It is the only caller of `Vault.seal_many` and `Ledger.publish_many`, for accounts, devices and learning alike; recovery
calls it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from noisebank.core.errors import AnswerLost, NoisebankError, Tampered
from noisebank.core.records import Case
from noisebank.ledger.chain import Ledger
from noisebank.ledger.protocol import Reservation, Seal
from noisebank.vault.vault import SealedAnswer, Vault

Settled = SealedAnswer | NoisebankError
"""Of one reservation: its published answer, or why it has none yet."""
Draw = Callable[[Sequence[Reservation]], Sequence[Settled]]
"""Makes the answers to reservations that are paid for and have none: measures, infers or blurs, and adds the noise."""


def settle(reservations: Sequence[Reservation], vault: Vault, ledger: Ledger, draw: Draw) -> list[Settled]:
    """Brings each reservation to its published answer; one that cannot be finished never affects another.

    Requires: reservations of one account, on the ledger, no REPEAT among them; the caller holds their queries' locks,
    and none builds on another one.
    Guarantees: at most one sample per reservation is ever sealed, and nothing is returned that is not sealed and
    published. Reserved only: nobody saw a lost sample, so `draw` makes one. Sealed: the same bits are published.
    Published but not in the vault, or perhaps shown by a vault that was lost: `AnswerLost`, never drawn again.
    """
    outcomes = {reservation.id: _find_answer(reservation, vault) for reservation in reservations}
    unsealed = [reservation for reservation in reservations if outcomes[reservation.id] is None]
    if unsealed:
        drawn = dict(zip((reservation.id for reservation in unsealed), draw(unsealed), strict=True))
        outcomes |= drawn
        fresh = [answer for answer in drawn.values() if isinstance(answer, SealedAnswer)]
        # A retry now reads; it never draws again.
        outcomes |= {sealed.id: sealed for sealed in (vault.seal_many(fresh) if fresh else ())}
    unpublished = [
        Seal(sealed.id, sealed.digest)
        for reservation in reservations
        if reservation.answer_digest is None and isinstance(sealed := outcomes[reservation.id], SealedAnswer)
    ]
    if unpublished:  # from here on they may be returned
        refusals = ledger.publish_many(reservations[0].account, unpublished)
        outcomes |= {seal.id: error for seal, error in zip(unpublished, refusals, strict=True) if error is not None}
    return [_require_outcome(outcomes[reservation.id]) for reservation in reservations]


def settle_one(
    reservation: Reservation, vault: Vault, ledger: Ledger, draw: Callable[[], SealedAnswer]
) -> SealedAnswer:
    """Settles a single reservation; raises the error if it cannot be finished."""
    (outcome,) = settle([reservation], vault, ledger, lambda _: [draw()])
    if isinstance(outcome, NoisebankError):
        raise outcome
    return outcome


def read_published(vault: Vault, id: bytes, digest: bytes) -> SealedAnswer:
    """Returns the vault's answer to a published reservation; its digest must be the one on the ledger."""
    sealed = vault.find_answer(id)
    if sealed is None:
        raise AnswerLost(f"the answer {id.hex()[:12]} was published, but the vault has lost it")
    if sealed.digest != digest:
        raise Tampered(f"the vault's answer {id.hex()[:12]} is not the one on the ledger")
    return sealed


def find_recorded(ledger: Ledger, reservation: Reservation) -> Reservation:
    """Returns the paid reservation whose answer this one has: itself, or for a REPEAT the recorded one."""
    if reservation.case is not Case.REPEAT:
        return reservation
    recorded = ledger.find_reservation(reservation.account, reservation.reused_id) if reservation.reused_id else None
    if recorded is None:
        raise Tampered(f"the ledger repeats {reservation.id.hex()[:12]} from nothing")
    return recorded


def _find_answer(reservation: Reservation, vault: Vault) -> Settled | None:
    """Returns the sealed answer, or why it is lost; None if it can still be drawn."""
    try:
        if reservation.answer_digest is not None:
            return read_published(vault, reservation.id, reservation.answer_digest)
        sealed = vault.find_answer(reservation.id)
    except NoisebankError as error:
        return error
    if sealed is None and reservation.id in vault.lost_ids:
        return AnswerLost(f"the answer {reservation.id.hex()[:12]} may have been shown after the backup was made")
    return sealed


def _require_outcome(outcome: Settled | None) -> Settled:
    assert outcome is not None, "draw gives an answer or an error for each reservation"
    return outcome
