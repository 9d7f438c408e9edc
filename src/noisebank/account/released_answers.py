"""`ReleasedAnswers` turns published reservations and sealed answers into `Answer`s, and reads published ones again."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import sqrt

from noisebank.account.answers import Answer, GroupedAnswer, add_groups
from noisebank.account.context import AccountContext
from noisebank.core.charges import Inference
from noisebank.core.errors import AnswerLost
from noisebank.core.estimates import standard_deviation
from noisebank.core.receipts import Receipt
from noisebank.core.records import Case
from noisebank.core.units import Precision
from noisebank.ledger.protocol import Reservation
from noisebank.queries.groups import group_labels, group_order
from noisebank.queries.query import Question
from noisebank.vault.settlement import find_recorded
from noisebank.vault.vault import SealedAnswer


class ReleasedAnswers:
    """The published answers of one account. Nothing here spends or records anything."""

    def __init__(self, context: AccountContext) -> None:
        self._context = context

    def make_answer(self, reservation: Reservation, sealed: SealedAnswer, question: Question) -> Answer:
        """Returns the answer to a published reservation; a repeated one has the receipt of the recorded one."""
        context, query = self._context, question.query
        values, stddev = self._convert_values(sealed, question, reservation.target)
        answer = Answer(
            value=float(values[0]),
            stddev=stddev,
            case=Case.REPEAT if "again" in sealed.body else reservation.case,  # the ledger says INFER
            cost=reservation.cost if reservation.cube else reservation.fresh_precision,
            remaining=context.ledger.get_account(context.id).remaining_budget,
            target=reservation.target,
            sql=question.sql,
            exact=values[0],
            receipt=self._find_receipt(reservation, sealed),
        )
        if query.by:
            places = group_order(query, context.policy)
            values = tuple(values[place] for place in places)
            stddevs = _list_stddevs(sealed, question)
            answer = add_groups(
                answer,
                query.by,
                group_labels(query, context.policy),
                values,
                tuple(stddevs[place] for place in places) if stddevs else (),
            )
        return self._add_inference(answer, reservation, sealed, question) if reservation.cube else answer

    def find_published(self, id: bytes) -> Answer | None:
        """Returns a published answer again; None if there is none of this version."""
        context = self._context
        reservation, request = context.ledger.find_reservation(context.id, id), context.vault.find_request(id)
        if reservation is None or request is None or not reservation.is_finished:
            return None
        recorded = find_recorded(context.ledger, reservation)
        if recorded.version != context.state.version:
            return None  # from an earlier version of the table: its unit came from another policy
        sealed = context.vault.find_answer(recorded.id)
        if sealed is None:
            raise AnswerLost(f"the vault has lost the answer {recorded.id.hex()[:12]} that this one builds on")
        return self.make_answer(reservation, sealed, context.question_of(request))

    def _add_inference(
        self, answer: Answer, reservation: Reservation, sealed: SealedAnswer, question: Question
    ) -> Answer:
        """Adds what an answer from a cube was inferred from."""
        context = self._context
        cube_query = context.cubes.find_cube_query(question.query)
        if cube_query is None:
            return answer
        request = context.vault.find_request(reservation.id)
        alone = Precision(request.body["wanted"]) if request else reservation.target
        count, looked = sealed.body["measurements"], sealed.body["first_look"]
        answer = replace(answer, target=alone, inferred=Inference(cube_query.cube.columns, count, looked, alone))
        if isinstance(answer, GroupedAnswer) and "running" in sealed.body:
            variances = (Fraction(variance) * question.unit**2 for variance in sealed.body["running"])
            return replace(answer, running_stddevs=tuple(sqrt(variance) for variance in variances))
        return answer

    def _convert_values(
        self, sealed: SealedAnswer, question: Question, target: Precision
    ) -> tuple[tuple[Fraction, ...], float]:
        """Returns the released numbers in the question's unit, and the noise's standard deviation."""
        values = tuple(value.exact * question.unit for value in sealed.values)
        if question.offset:
            values = tuple(value + question.offset for value in values)
        if "variances" in sealed.body:
            largest = max(Fraction(variance) for variance in sealed.body["variances"])
            return values, sqrt(largest * question.unit**2)
        sensitivity = self._context.sensitivity_of(question.query)
        return values, standard_deviation(sensitivity, question.unit, target)

    def _find_receipt(self, reservation: Reservation, sealed: SealedAnswer) -> Receipt:
        ledger = self._context.ledger
        published = ledger.find_reservation(self._context.id, sealed.id) or reservation
        block = published.published_block
        assert block is not None, "only published answers are shown"
        return Receipt(
            account=self._context.id,
            id=sealed.id,
            answer=sealed.body,
            salt=sealed.salt,
            chain_id=ledger.chain_id,
            contract=ledger.contract,
            block=block,
            block_digest=ledger.block_digest(block),
        )


def _list_stddevs(sealed: SealedAnswer, question: Question) -> tuple[float, ...]:
    """Returns the standard deviations that an answer from a cube was sealed with; none for other answers."""
    return tuple(sqrt(Fraction(variance) * question.unit**2) for variance in sealed.body.get("variances", ()))
