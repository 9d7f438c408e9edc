"""Answers that are paid for already: `RecallSteps` reads them again, and finds the best precision that is free."""

from __future__ import annotations

from noisebank.account.answers import Answer
from noisebank.account.cube import CubeSteps
from noisebank.core.asks import OWNER
from noisebank.core.records import Case
from noisebank.core.units import ZERO_PRECISION, Precision, floor_to_ladder
from noisebank.planning.pricing import AccuracyTarget, PrecisionTarget
from noisebank.queries.query import Question


class RecallSteps(CubeSteps):
    """Reads the vault and the books. Nothing here spends or records anything."""

    def recall(self, id: bytes) -> Answer | None:
        """Returns a published answer again; None if there is none of this version. Nothing is spent or recorded."""
        reservation, request = self.ledger.find_reservation(self.id, id), self.vault.find_request(id)
        if reservation is None or request is None or not reservation.is_finished:
            return None
        recorded = self._find_recorded(reservation) if reservation.case is Case.REPEAT else reservation
        if recorded.version != self.state.version:
            return None  # from an earlier version of the table: its unit came from another policy
        return self._make_answer(reservation, self._read_sealed(recorded.id), self.question(request))

    def best_free(self, question: Question, target: Precision, analyst: str) -> Precision:
        """Returns the best precision that costs the account nothing and that the analyst's view has room for.

        Never less than the target. Between two recorded precisions the answer is blurred, as always.
        """
        records = self._find_records(question.query)
        best = records[-1].precision if records else ZERO_PRECISION
        if best <= target:
            return target
        if analyst == OWNER:
            return best
        view = self.view(analyst)
        delivered = self.ledger.books.delivered_precision(
            self.id, self.analyst(analyst), self.secrets.salted_query(question.query)
        )
        room = delivered + Precision(max(0, view.limit.units - view.used.units))
        return max(target, min(best, floor_to_ladder(room)))

    def bettered(self, question: Question, accuracy: AccuracyTarget, key: str | None, analyst: str) -> AccuracyTarget:
        """Returns the best accuracy that is free. A retry gets what its key got before, also if better is free now."""
        target = self.price(question, accuracy)
        before = None if key is None else self.vault.find_request_by_key(self.id, analyst, key)
        if before is not None and before.body.get("wanted", 0) >= target.units:
            better = Precision(before.body["wanted"])
        else:
            better = self.best_free(question, target, analyst)
        return accuracy if better == target else PrecisionTarget(better)
