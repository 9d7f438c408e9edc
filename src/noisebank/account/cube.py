"""The steps of the one path with cubes: `CubeSteps`.

A question that a cube can answer is planned, charged by cells and inferred there; all others take the plain steps.
What is known of the cubes is in `CubePlanner`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import Any

from noisebank.account.answers import Answer, GroupedAnswer, Inference
from noisebank.account.cube_measurement import CubePlanner
from noisebank.account.cube_state import CubeState
from noisebank.account.plain import PlainSteps
from noisebank.core.asks import OWNER
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BudgetExhausted, Tampered, ViewExhausted
from noisebank.core.records import Case
from noisebank.core.units import Precision
from noisebank.engines.engine import Engine
from noisebank.ledger.chain import Ledger
from noisebank.ledger.protocol import Reservation
from noisebank.planning.prefix import TreeMeasurement
from noisebank.planning.pricing import AccuracyTarget, PrecisionTarget
from noisebank.planning.reuse import Plan
from noisebank.planning.serving import CubeQuery, FirstLookQuery, make_first_look, parse_first_look
from noisebank.policy.model import FirstLookAt, Policy
from noisebank.queries.query import Query, Question
from noisebank.vault.secrets import AccountSecrets
from noisebank.vault.vault import Request, SealedAnswer, Vault


class CubeSteps(PlainSteps):
    """The plain steps, and what is different in a cube. A reservation's cube says which of the two it took."""

    def __init__(
        self,
        id: bytes,
        policy: Policy,
        secrets: AccountSecrets,
        identity: str,
        engine: Engine,
        ledger: Ledger,
        vault: Vault,
        entropy: Entropy,
        cubes: tuple[int, ...] = (),
    ) -> None:
        super().__init__(id, policy, secrets, identity, engine, ledger, vault, entropy)
        self._cube_numbers = cubes
        self._unpublished_ids: set[bytes] = set()
        self._learned_ids: set[bytes] = set()
        self._rebuild_cubes()

    def complete(self, reservation: Reservation, question: Question) -> SealedAnswer:
        """As in the plain steps. If it is interrupted, a sample that was drawn and not sealed is forgotten: nothing may
        be inferred from it, since finishing the reservation draws again."""
        try:
            sealed = super().complete(reservation, question)
        except BaseException:
            if reservation.cube:
                self._unpublished_ids.add(reservation.id)
                self._rebuild_cubes()
            raise
        self._unpublished_ids.discard(reservation.id)
        return sealed

    def plan(self, question: Question, target: Precision, plainly: bool = False) -> Plan:
        """Decides case and price, in a cube that can answer the question or by plain reuse."""
        cube_query = None if plainly else self.cubes.find_cube_query(question.query)
        if cube_query is None:
            return super().plan(question, target)
        self._publish_earlier()
        planned = self.planned_in(question, target)
        if planned.fresh_precision:
            self._check_identity()
        return planned

    def _catch_up(self, queries: Sequence[Query]) -> None:
        """Reads the books, and learns what other gateways have sealed in the cubes whose turns are held."""
        super()._catch_up(queries)
        if self.ledger.is_shared and self.vault.is_shared:
            held = {
                self.cubes.cube_number(cube_query)
                for query in queries
                if (cube_query := self.cubes.find_cube_query(query)) is not None
            }
            for reservation in self.ledger.list_reservations(self.id) if held else ():
                if reservation.cube in held and reservation.id not in self._learned_ids:
                    self._learn_sealed(reservation)

    def _learn_sealed(self, reservation: Reservation) -> None:
        """Learns a sealed measurement of this version. If unpublished, it is published before anything builds on it."""
        if not reservation.fresh_precision or reservation.version != self.secrets.version:
            return
        sealed, request = self.vault.find_answer(reservation.id), self.vault.find_request(reservation.id)
        if sealed is None or request is None:
            return
        question = self.question(request)
        cube_query = self.cubes.find_cube_query(question.query)
        if cube_query is not None:
            self.cubes.learn_sealed(cube_query, question.query, sealed.body)
            self._learned_ids.add(reservation.id)
            if reservation.answer_digest is None:
                self._unpublished_ids.add(reservation.id)

    def _drop_sample(self) -> None:
        self._rebuild_cubes()  # without the sample that was drawn in vain

    def _publish_earlier(self) -> None:
        """Publishes what is sealed, before anything builds on it."""
        for id in tuple(self._unpublished_ids):
            reservation, request = self.ledger.find_reservation(self.id, id), self.vault.find_request(id)
            if reservation is not None and request is not None and self.vault.find_answer(id) is not None:
                self.complete(reservation, self.question(request))

    def planned_in(self, question: Question, target: Precision) -> Plan:
        """Returns the plan of a question that a cube can answer. Opens no data."""
        cube_query = self.cubes.find_cube_query(question.query)
        assert cube_query is not None
        salted = self.secrets.salted_query(question.query)
        return self.cubes.plan_query(cube_query, question.query, salted, target, self._sensitivity_of(question.query))

    def question(self, request: Request) -> Question:
        """Returns the question of a saved request: SQL, or a first look at a cube."""
        look = request.body.get("look")
        return super().question(request) if look is None else parse_first_look(look, self.policy)

    def _make_answer_body(self, reservation: Reservation, question: Question) -> dict[str, Any]:
        return (
            self._infer_body(reservation, question)
            if reservation.cube
            else super()._make_answer_body(reservation, question)
        )

    def _make_answer(self, reservation: Reservation, sealed: SealedAnswer, question: Question) -> Answer:
        answer = super()._make_answer(reservation, sealed, question)
        cube_query = self.cubes.find_cube_query(question.query) if reservation.cube else None
        if cube_query is None:
            return answer
        request = self.vault.find_request(reservation.id)
        alone = Precision(request.body["wanted"]) if request else reservation.target
        count, looked = sealed.body["measurements"], sealed.body["first_look"]
        answer = replace(answer, target=alone, inferred=Inference(cube_query.cube.columns, count, looked, alone))
        if isinstance(answer, GroupedAnswer) and "running" in sealed.body:
            variances = (Fraction(variance) * question.unit**2 for variance in sealed.body["running"])
            return replace(answer, running_stddevs=tuple(sqrt(variance) for variance in variances))
        return answer

    def _is_repeat(self, query: Query, target: Precision) -> bool:
        """As in the plain steps; never in a cube, whose state changes with every answer."""
        return self.cubes.find_cube_query(query) is None and super()._is_repeat(query, target)

    def _turn_names(self, query: Query) -> list[bytes]:
        """Adds the cube's turn: what is known there decides what is paid."""
        cube_query = self.cubes.find_cube_query(query)
        return super()._turn_names(query) + ([] if cube_query is None else [b"cube %d" % cube_query.cube_index])

    def _infer_body(self, reservation: Reservation, question: Question) -> dict[str, Any]:
        """Measures in a cube, if that was paid for, and infers the answer from all that is known there."""
        cube_query = self.cubes.find_cube_query(question.query)
        if cube_query is None or self.cubes.cube_number(cube_query) != reservation.cube:
            raise Tampered("the ledger has charged another cube than the policy's")
        body: dict[str, Any] = {"cube": reservation.cube}
        if reservation.fresh_precision:
            self._check_identity()
            self._learned_ids.add(reservation.id)
            body |= self.cubes.measure_query(cube_query, question.query, reservation, self._entropy)
            self._check_identity()  # a table that changed under the scan is not the one we opened
        if isinstance(question.query, FirstLookQuery):
            return body
        request = self.vault.find_request(reservation.id)
        target = reservation.target if request is None else Precision(request.body["wanted"])
        return body | self.cubes.infer_body(cube_query, question.query, target, self._sensitivity_of(question.query))

    def look_at_opening(self) -> int:
        """Buys the first looks that the policy wants before any question, if they are missing. Returns how many.

        One that was reserved before a crash is finished, not bought again. One that costs more than is left waits.
        """
        if self.policy.first_look_at is not FirstLookAt.OPENING:
            return 0
        bought = 0
        for look in self.cubes.first_looks():
            with self._hold_turns([look]):
                cube_query = self.cubes.find_cube_query(look)
                first = None if cube_query is None else self.cubes.offered_look(cube_query)
                if cube_query is not None and first is not None and first.cost <= self.state.remaining_budget:
                    self._check_identity()
                    self._buy_first_look(cube_query, first, OWNER)
                    bought += self.cubes.offered_look(cube_query) is None
        return bought

    def _buy_first_look(self, cube_query: CubeQuery, first_look: TreeMeasurement, analyst: str) -> None:
        """Buys a first look: a request of its own, on the same path, before the question that needs it."""
        look = make_first_look(cube_query.cube, cube_query.statistic_key)
        question = Question(look, Fraction(1), look.description)
        number, runs = self.cubes.cube_number(cube_query), first_look.charges
        salted = self.secrets.salted_query(look)
        records = self.ledger.list_records(self.id, salted, number, runs)
        if records:  # paid for already, at the budget of that time; a lost one is not bought again
            if salted not in self.lost_queries:
                self._finish_earlier(records[0])
            return
        self.draws.check_next([look], self.policy)
        planned = Plan(Case.FIRST, first_look.precision, first_look.precision, None, number, first_look.charges)
        function, column = cube_query.statistic_key
        description = {"over": list(cube_query.cube.columns), "function": function.value, "column": column}
        accuracy = PrecisionTarget(first_look.precision)
        key = f"first look {look.digest.hex()[:16]} / {self.secrets.version} / {first_look.precision.units}"
        request = self._request_builder.build_request(
            question, accuracy, first_look.precision, key, analyst, look=description
        )
        self.vault.save_request(request)
        (cost,) = self.costs([(question, planned)])
        (reservation,) = self.ledger.reserve(
            self._make_claim(request.id, self.analyst(analyst), question, planned, cost)
        )
        self.complete(reservation, question)

    def _rebuild_cubes(self) -> None:
        """Rebuilds the cubes' state from all that was measured there and sealed, in the ledger's order."""
        self.cubes = CubePlanner(
            self.id, CubeState(self.policy, self.state.budget), self._cube_numbers, self.ledger, self.engine
        )
        self._learned_ids = set()
        for reservation in self.ledger.list_reservations(self.id):
            if reservation.cube:
                self._learn_sealed(reservation)

    def _buy_look_if_affordable(
        self, question: Question, planned: Plan, max_cost: Precision | None, analyst: str
    ) -> bool:
        """Buys the first look that a plan proposes, if account and view have enough for it and for the question.

        Returns whether it was bought.
        """
        assert planned.first_look is not None
        cost = planned.first_look.cost + self.costs([(question, planned)])[0]
        view = self.view(analyst)
        if max_cost is not None or cost > self.state.remaining_budget or view.used + cost > view.limit:
            return False
        cube_query = self.cubes.find_cube_query(question.query)
        assert cube_query is not None
        if not self.draws.has_room(make_first_look(cube_query.cube, cube_query.statistic_key), self.policy):
            return False
        self._buy_first_look(cube_query, planned.first_look, analyst)
        return True

    def _reserve_plans(
        self,
        requests: Sequence[Request],
        questions: Sequence[tuple[Question, AccuracyTarget]],
        plans: Sequence[Plan],
        max_cost: Precision | None,
    ) -> list[Reservation]:
        """Reserves in the cubes; by plain reuse if a cube costs more than the analyst's view or the budget allows."""
        try:
            return super()._reserve_plans(requests, questions, plans, max_cost)
        except (ViewExhausted, BudgetExhausted):
            if not any(part.cube_number for part in plans):
                raise
        plain = [self.plan(question, part.target, True) for (question, _), part in zip(questions, plans, strict=True)]
        return super()._reserve_plans(requests, questions, plain, max_cost)
