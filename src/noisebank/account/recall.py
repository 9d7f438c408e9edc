"""Answers that are paid for already: `RecallSteps` reads them again, and finds the best precision that is free."""

from __future__ import annotations

from noisebank.account.answers import Answer
from noisebank.account.cube import CubeSteps
from noisebank.account.plain import OWNER
from noisebank.core.records import Case
from noisebank.core.units import NOTHING, Precision, on_ladder
from noisebank.planning.pricing import PrecisionWish, Wish
from noisebank.queries.query import Question


class Recalling(CubeSteps):
    """Reads the vault and the books. Nothing here spends or records anything."""

    def recall(self, id: bytes) -> Answer | None:
        """Returns a published answer again; None if there is none of this version. Nothing is spent or recorded."""
        reservation, request = self.ledger.reservation(self.id, id), self.vault.request(id)
        if reservation is None or request is None or not reservation.finished:
            return None
        recorded = self._recorded(reservation) if reservation.case is Case.REPEAT else reservation
        if recorded.version != self.state.version:
            return None  # from an earlier version of the table: its unit came from another policy
        return self._answer(reservation, self._sealed(recorded.id), self.question(request))

    def best_free(self, question: Question, wanted: Precision, analyst: str) -> Precision:
        """Returns the best precision that costs the account nothing and that the analyst's view has room for.

        Never less than the target. Between two recorded precisions the answer is blurred, as always.
        """
        records = self._records(question.query)
        best = records[-1].precision if records else NOTHING
        if best <= wanted:
            return wanted
        if analyst == OWNER:
            return best
        view = self.view(analyst)
        delivered = self.ledger.books.delivered(self.id, self.analyst(analyst), self.secrets.query(question.query))
        room = delivered + Precision(max(0, view.limit.units - view.used.units))
        return max(wanted, min(best, on_ladder(room)))

    def bettered(self, question: Question, wished: Wish, key: str | None, analyst: str) -> Wish:
        """Returns the best accuracy that is free. A retry gets what its key got before, also if better is free now."""
        target = self.price(question, wished)
        before = None if key is None else self.vault.request_under(self.id, analyst, key)
        if before is not None and before.body.get("wanted", 0) >= target.units:
            better = Precision(before.body["wanted"])
        else:
            better = self.best_free(question, target, analyst)
        return wished if better == target else PrecisionWish(better)
