"""`InferredAnswers`: what a cube's free answers were, so that a question that is asked again gets the same bits.

The contract keeps no record of an answer that costs nothing, and the next estimate is another number as soon as the
cube knows more. So the vault's sealed answer is given again: it was released before, so nothing is learned from it.
"""

from __future__ import annotations

import threading
from typing import Any

from noisebank.core.units import Precision
from noisebank.ledger.protocol import Reservation
from noisebank.vault.vault import SealedAnswer, Vault

INFERRED_FIELDS = ("values", "variances", "measurements", "first_look", "running")
"""What of a sealed answer was inferred."""


class InferredAnswers:
    """The free answers of one version of an account, by salted query and target. Safe for many threads.

    An answer leaves its id here, beside the ledger's entry for it, and no more: what accuracy it was about is read from
    the vault when the same query comes again.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._unread: dict[bytes, list[bytes]] = {}
        """Ids by salted query, oldest first."""
        self._known: dict[tuple[bytes, Precision], bytes] = {}
        self._access = threading.Lock()

    def note(self, reservation: Reservation) -> None:
        """Notes a reservation that the contract calls INFER, whether its answer is sealed yet or not."""
        with self._access:
            self._unread.setdefault(reservation.query, []).append(reservation.id)

    def find(self, query: bytes, target: Precision) -> SealedAnswer | None:
        """Returns the sealed answer to a salted query at just this target; None if there is none.

        The latest one, should an edition before this one have sealed several.
        """
        with self._access:
            waiting = self._unread.pop(query, [])
            unsealed = []
            while waiting and (query, target) not in self._known:
                id = waiting.pop()
                request, sealed = self._vault.find_request(id), self._vault.find_answer(id)
                if request is None or sealed is None:
                    unsealed.append(id)
                elif "variances" in sealed.body:
                    self._known.setdefault((query, Precision(request.body["wanted"])), id)
            if waiting or unsealed:
                self._unread[query] = waiting + unsealed[::-1]
            id_known = self._known.get((query, target))
        return None if id_known is None else self._vault.find_answer(id_known)


def inferred_fields(sealed: SealedAnswer) -> dict[str, Any]:
    """Returns what is sealed of an answer that is given again."""
    body = {name: sealed.body[name] for name in INFERRED_FIELDS if name in sealed.body}
    return {**body, "again": sealed.body.get("again", sealed.id.hex())}
