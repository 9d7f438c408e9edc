"""`PlainStrategy`: answers from a query's own records: first, repeated, refined or blurred."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from noisebank.account.context import AccountContext
from noisebank.account.strategies import Contents, PaidQuestion
from noisebank.core.errors import AnswerLost, BadTable, NoisebankError
from noisebank.core.records import BridgePoint, Case
from noisebank.core.units import GridValue, Precision
from noisebank.engines.mechanism import Measurement, measure
from noisebank.ledger.protocol import Reservation
from noisebank.planning.reuse import Plan, bridge_law, plan_reuse, refine_answer
from noisebank.planning.serving import ALONE, ChargeLimits
from noisebank.privacy.noise import draw_value, fresh_variance, noise_scale
from noisebank.queries.groups import group_count
from noisebank.queries.query import Question
from noisebank.vault.vault import SealedAnswer, to_points

Values = tuple[GridValue, ...]
"""An answer in steps: one number, or one per group."""


class PlainStrategy:
    """See `Strategy`. What the ledger has recorded for the query decides case and price."""

    def __init__(self, context: AccountContext) -> None:
        self._context = context

    def plan(self, question: Question, target: Precision, limits: ChargeLimits = ALONE) -> Plan:
        """See `Strategy`. Refuses noise that 64 bits cannot hold, before it is paid for."""
        context, query = self._context, question.query
        planned = plan_reuse(target, context.ledger.list_records(context.id, context.secrets.salted_query(query)))
        if planned.case is not Case.REPEAT:
            for precision in (planned.target, planned.fresh_precision):
                if precision:
                    _check_scale(context.sensitivity_of(query), precision)
        return planned

    def list_unfinished(self, question: Question, plan: Plan) -> list[PaidQuestion]:
        """See `Strategy`. Records of the query that were paid for and never published."""
        context, salted = self._context, self._context.secrets.salted_query(question.query)
        if not plan.fresh_precision:
            known = context.vault.list_released(context.id, salted)
            if known and known[-1][0] >= plan.target:
                return []
        unfinished = []
        for record in context.ledger.list_records(context.id, salted):
            reservation = context.ledger.find_reservation(context.id, record.id)
            if reservation is not None and reservation.answer_digest is None:
                request = context.vault.find_request(record.id)
                if request is not None:
                    unfinished.append((reservation, context.question_of(request)))
        return unfinished

    def check_reusable(self, plan: Plan) -> None:
        """See `Strategy`."""
        if plan.reused_record is not None and plan.case is Case.REFINE:
            self._read_earlier(plan.reused_record.id)

    def draw_contents(self, paid: Sequence[PaidQuestion]) -> list[Contents]:
        """See `Strategy`. All that must be measured is measured together."""
        fresh = [part for part in paid if part[0].fresh_precision]
        measured = dict(zip((reservation.id for reservation, _ in fresh), self._measure(fresh), strict=True))
        return [self._make_contents(reservation, question, measured) for reservation, question in paid]

    def _measure(self, fresh: Sequence[PaidQuestion]) -> Sequence[Values | NoisebankError]:
        if not fresh:
            return []
        context = self._context
        measurements = [
            Measurement(question.query, context.sensitivity_of(question.query), reservation)
            for reservation, question in fresh
        ]
        try:
            outcomes = measure(context.engine, measurements, context.entropy, context.check_identity)
        except BadTable as error:
            return [_say_paid(error)] * len(fresh)
        except NoisebankError as error:
            return [error] * len(fresh)
        return [_say_paid(outcome) if isinstance(outcome, BadTable) else outcome for outcome in outcomes]

    def _make_contents(
        self, reservation: Reservation, question: Question, measured: dict[bytes, Values | NoisebankError]
    ) -> Contents:
        try:
            values = self._obtain_values(reservation, question, measured.get(reservation.id))
        except NoisebankError as error:
            return error
        pairs = [[value.numerator, value.shift] for value in values]
        return {"values": pairs} if question.query.by else {"value": pairs[0]}

    def _obtain_values(
        self, reservation: Reservation, question: Question, measured: Values | NoisebankError | None
    ) -> Values:
        """Returns the answer in steps, by the case that the contract decided."""
        context, target = self._context, reservation.target
        if isinstance(measured, NoisebankError):
            raise measured
        if measured is not None:
            if reservation.case is Case.FIRST:
                return measured
            assert reservation.reused_id is not None
            earlier = self._read_earlier(reservation.reused_id)
            precision = earlier.point.precision
            best = (BridgePoint(precision, value) for value in earlier.values)
            return tuple(refine_answer(target, fresh, old) for fresh, old in zip(measured, best, strict=True))
        known = context.vault.list_released(context.id, reservation.query)
        for precision, values in known:
            if precision == target:
                return values  # same bits
        if not known or known[-1][0] < target:
            raise AnswerLost("the vault has lost the answer that this one would reuse")
        if reservation.query in context.lost_queries:  # beside the lost one, a new draw would be a second sample
            raise AnswerLost("the vault has lost an answer to this query: only what it still holds can be repeated")
        sensitivity = context.sensitivity_of(question.query)
        bridges = (to_points(known, group) for group in range(group_count(question.query, context.policy)))
        return tuple(draw_value(bridge_law(target, sensitivity, points), context.entropy) for points in bridges)

    def _read_earlier(self, id: bytes) -> SealedAnswer:
        sealed = self._context.vault.find_answer(id)
        if sealed is None:
            raise AnswerLost(f"the vault has lost the answer {id.hex()[:12]} that this one builds on")
        return sealed


def _say_paid(error: BadTable) -> BadTable:
    """Most likely a lost connection; nothing was drawn, so nothing is lost."""
    return BadTable(f"{error}. This answer is paid for: ask again when the table can be read")


@lru_cache(maxsize=1_024)
def _check_scale(sensitivity: Fraction, precision: Precision) -> None:
    noise_scale(fresh_variance(sensitivity * sensitivity, precision))
