"""`CubeStrategy`: answers inferred from all that is known about a cube; a measurement is charged to the cells it reads.

What is known of the cubes is in `CubePlanner`. Looks are bought by `cube_looks`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from noisebank.account.context import AccountContext
from noisebank.account.cube_planner import CubePlanner
from noisebank.account.cube_state import CubeState
from noisebank.account.inferred_answers import InferredAnswers, inferred_fields
from noisebank.account.strategies import Contents, PaidQuestion
from noisebank.core.errors import NoisebankError, Tampered
from noisebank.core.records import Case
from noisebank.core.units import Precision
from noisebank.ledger.protocol import Reservation
from noisebank.planning.reuse import Plan
from noisebank.planning.serving import ALONE, ChargeLimits, CubeQuery, LookQuery
from noisebank.queries.query import Query, Question
from noisebank.vault.vault import SealedAnswer


class CubeStrategy:
    """See `Strategy`. Whoever plans, pays or measures holds the cube's lock: what is known there decides the price."""

    def __init__(self, context: AccountContext, cube_numbers: tuple[int, ...]) -> None:
        self._context, self._cube_numbers = context, cube_numbers
        self._unpublished_ids: set[bytes] = set()
        self._learned_ids: set[bytes] = set()
        self.rebuild()

    def find_cube_query(self, query: Query) -> CubeQuery | None:
        """Returns the query over a cube's cells; None if no cube can answer it."""
        return self.planner.find_cube_query(query) if self._cube_numbers else None

    def plan(self, question: Question, target: Precision, limits: ChargeLimits = ALONE) -> Plan:
        """See `Strategy`."""
        context, query = self._context, question.query
        cube_query = self._require_cube_query(query)
        salted, sensitivity = context.secrets.salted_query(query), context.sensitivity_of(query)
        is_again = self._find_again(salted, target) is not None
        return self.planner.plan_query(cube_query, query, salted, target, sensitivity, limits, is_again)

    def list_unfinished(self, question: Question, plan: Plan) -> list[PaidQuestion]:
        """See `Strategy`. What is sealed in a cube is published before anything builds on it."""
        context, unfinished = self._context, []
        for id in tuple(self._unpublished_ids):
            reservation, request = context.ledger.find_reservation(context.id, id), context.vault.find_request(id)
            if reservation is not None and request is not None and context.vault.find_answer(id) is not None:
                unfinished.append((reservation, context.question_of(request)))
        return unfinished

    def check_reusable(self, plan: Plan) -> None:
        """See `Strategy`. What is lost here is not known: it is never built on."""

    def draw_contents(self, paid: Sequence[PaidQuestion]) -> list[Contents]:
        """See `Strategy`. One after the other: what is measured for one is known to the next."""
        contents: list[Contents] = []
        for reservation, question in paid:
            try:
                contents.append(self._infer_contents(reservation, question))
            except NoisebankError as error:
                contents.append(error)
        return contents

    def learn_from_others(self, queries: Collection[Query]) -> None:
        """Learns what other gateways have sealed in the cubes that can answer these queries."""
        held = {
            self.planner.cube_number(cube_query)
            for query in queries
            if (cube_query := self.find_cube_query(query)) is not None
        }
        for reservation in self._context.ledger.list_reservations(self._context.id) if held else ():
            if reservation.cube in held and reservation.id not in self._learned_ids:
                self._learn_sealed(reservation)

    def note_published(self, id: bytes) -> None:
        """Notes that a reservation's answer is published."""
        self._unpublished_ids.discard(id)

    def forget_sample(self, id: bytes) -> None:
        """Forgets a sample that was drawn and perhaps not sealed: nothing may be inferred from it, since finishing the
        reservation draws again."""
        self._unpublished_ids.add(id)
        self.rebuild()

    def rebuild(self) -> None:
        """Rebuilds the cubes' state from all that was measured there and sealed, in the ledger's order."""
        context = self._context
        state = CubeState(context.policy)
        self.planner = CubePlanner(context.id, state, self._cube_numbers, context.ledger, context.engine)
        self._learned_ids, self._inferred = set(), InferredAnswers(context.vault)
        for reservation in context.ledger.list_reservations(context.id):
            if reservation.cube:
                self._learn_sealed(reservation)

    def _learn_sealed(self, reservation: Reservation) -> None:
        """Learns a sealed measurement of this version. If unpublished, it is published before anything builds on it.
        Of a free answer it is kept that there is one."""
        context = self._context
        if reservation.version != context.secrets.version:
            return
        if reservation.case is Case.INFER:
            self._note_inferred(reservation)
        if not reservation.fresh_precision:
            return
        sealed, request = context.vault.find_answer(reservation.id), context.vault.find_request(reservation.id)
        if sealed is None or request is None:
            return
        question = context.question_of(request)
        cube_query = self.find_cube_query(question.query)
        if cube_query is not None:
            target, sensitivity = Precision(request.body["wanted"]), context.sensitivity_of(question.query)
            self.planner.learn_sealed(cube_query, question.query, reservation, target, sensitivity, sealed.body)
            self._learned_ids.add(reservation.id)
            if reservation.answer_digest is None:
                self._unpublished_ids.add(reservation.id)

    def _infer_contents(self, reservation: Reservation, question: Question) -> dict[str, Any]:
        """Measures in a cube, if that was paid for, and infers the answer from all that is known there."""
        context, query = self._context, question.query
        cube_query = self.find_cube_query(query)
        if cube_query is None or self.planner.cube_number(cube_query) != reservation.cube:
            raise Tampered("the ledger has charged another cube than the policy's")
        body: dict[str, Any] = {"cube": reservation.cube}
        request = context.vault.find_request(reservation.id)
        target = reservation.target if request is None else Precision(request.body["wanted"])
        sensitivity = context.sensitivity_of(query)
        if reservation.fresh_precision:
            context.check_identity()
            self._learned_ids.add(reservation.id)
            body |= self.planner.measure_query(cube_query, query, reservation, target, sensitivity, context.entropy)
            context.check_identity()  # a table that changed under the scan is not the one we opened
        if isinstance(query, LookQuery):
            return body
        again = None if reservation.fresh_precision else self._find_again(reservation.query, target)
        if again is not None:
            self.planner.note_asked(cube_query, target, sensitivity)
            return body | inferred_fields(again)
        if not reservation.fresh_precision:
            self._note_inferred(reservation)
        return body | self.planner.infer_body(cube_query, query, target, sensitivity)

    def _find_again(self, salted: bytes, target: Precision) -> SealedAnswer | None:
        """Returns what was sealed for the same query at the same target, measured or inferred; None if nothing was."""
        paid = self.planner.find_paid(salted, target)
        if paid is not None:
            return self._context.vault.find_answer(paid.id)
        return self._inferred.find(salted, target)

    def _note_inferred(self, reservation: Reservation) -> None:
        if reservation.id not in self._learned_ids:
            self._learned_ids.add(reservation.id)
            self._inferred.note(reservation)

    def _require_cube_query(self, query: Query) -> CubeQuery:
        cube_query = self.find_cube_query(query)
        assert cube_query is not None, "only questions that a cube can answer are planned in it"
        return cube_query
