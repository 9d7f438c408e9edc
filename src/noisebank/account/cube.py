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
from noisebank.account.cube_measurement import Cubes
from noisebank.account.cube_state import Known
from noisebank.account.plain import OWNER, Steps
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BudgetExhausted, Tampered, ViewExhausted
from noisebank.core.records import Case
from noisebank.core.units import Precision
from noisebank.engines.engine import Engine
from noisebank.ledger.chain import Chain
from noisebank.ledger.protocol import Reservation
from noisebank.planning.prefix import Prefix
from noisebank.planning.pricing import PrecisionWish, Wish
from noisebank.planning.reuse import Plan
from noisebank.planning.serving import Look, Served, look_at, named_look
from noisebank.policy.model import FirstLookAt, Policy
from noisebank.queries.query import Query, Question
from noisebank.vault.secrets import Secrets
from noisebank.vault.vault import Request, Sealed, Vault


class CubeSteps(Steps):
    """The plain steps, and what is different in a cube. A reservation's cube says which of the two it took."""

    def __init__(
        self,
        id: bytes,
        policy: Policy,
        secrets: Secrets,
        identity: str,
        engine: Engine,
        ledger: Chain,
        vault: Vault,
        entropy: Entropy,
        cubes: tuple[int, ...] = (),
    ) -> None:
        super().__init__(id, policy, secrets, identity, engine, ledger, vault, entropy)
        self._numbers = cubes
        self._unpublished: set[bytes] = set()
        self._learned: set[bytes] = set()
        self._learn()

    def complete(self, reservation: Reservation, question: Question) -> Sealed:
        """As in the plain steps. If it is interrupted, a sample that was drawn and not sealed is forgotten: nothing may
        be inferred from it, since finishing the reservation draws again."""
        try:
            sealed = super().complete(reservation, question)
        except BaseException:
            if reservation.cube:
                self._unpublished.add(reservation.id)
                self._learn()
            raise
        self._unpublished.discard(reservation.id)
        return sealed

    def plan(self, question: Question, wanted: Precision, plainly: bool = False) -> Plan:
        """Decides case and price, in a cube that can answer the question or by plain reuse."""
        cube_query = None if plainly else self.cubes.serving(question.query)
        if cube_query is None:
            return super().plan(question, wanted)
        self._publish_earlier()
        planned = self.planned_in(question, wanted)
        if planned.fresh:
            self._check_identity()
        return planned

    def _catch_up(self, queries: Sequence[Query]) -> None:
        """Reads the books, and learns what other gateways have sealed in the cubes whose turns are held."""
        super()._catch_up(queries)
        if self.ledger.shared and self.vault.shared:
            held = {
                self.cubes.number(cube_query)
                for query in queries
                if (cube_query := self.cubes.serving(query)) is not None
            }
            for reservation in self.ledger.reservations(self.id) if held else ():
                if reservation.cube in held and reservation.id not in self._learned:
                    self._take_in(reservation)

    def _take_in(self, reservation: Reservation) -> None:
        """Learns a sealed measurement of this version. If unpublished, it is published before anything builds on it."""
        if not reservation.fresh or reservation.version != self.secrets.version:
            return
        sealed, request = self.vault.answer(reservation.id), self.vault.request(reservation.id)
        if sealed is None or request is None:
            return
        question = self.question(request)
        cube_query = self.cubes.serving(question.query)
        if cube_query is not None:
            self.cubes.learned(cube_query, question.query, sealed.body)
            self._learned.add(reservation.id)
            if reservation.answer is None:
                self._unpublished.add(reservation.id)

    def _discarded(self) -> None:
        self._learn()  # without the sample that was drawn in vain

    def _publish_earlier(self) -> None:
        """Publishes what is sealed, before anything builds on it."""
        for id in tuple(self._unpublished):
            reservation, request = self.ledger.reservation(self.id, id), self.vault.request(id)
            if reservation is not None and request is not None and self.vault.answer(id) is not None:
                self.complete(reservation, self.question(request))

    def planned_in(self, question: Question, wanted: Precision) -> Plan:
        """Returns the plan of a question that a cube can answer. Opens no data."""
        cube_query = self.cubes.serving(question.query)
        assert cube_query is not None
        salted = self.secrets.query(question.query)
        return self.cubes.plan(cube_query, question.query, salted, wanted, self._sensitivity(question.query))

    def question(self, request: Request) -> Question:
        """Returns the question of a saved request: SQL, or a first look at a cube."""
        look = request.body.get("look")
        return super().question(request) if look is None else named_look(look, self.policy)

    def _found(self, reservation: Reservation, question: Question) -> dict[str, Any]:
        return self._infer(reservation, question) if reservation.cube else super()._found(reservation, question)

    def _answer(self, reservation: Reservation, sealed: Sealed, question: Question) -> Answer:
        answer = super()._answer(reservation, sealed, question)
        cube_query = self.cubes.serving(question.query) if reservation.cube else None
        if cube_query is None:
            return answer
        request = self.vault.request(reservation.id)
        alone = Precision(request.body["wanted"]) if request else reservation.wanted
        count, looked = sealed.body["measurements"], sealed.body["first_look"]
        answer = replace(answer, wanted=alone, inferred=Inference(cube_query.cube.columns, count, looked, alone))
        if isinstance(answer, GroupedAnswer) and "running" in sealed.body:
            variances = (Fraction(variance) * question.unit**2 for variance in sealed.body["running"])
            return replace(answer, running=tuple(sqrt(variance) for variance in variances))
        return answer

    def _repeats(self, query: Query, wanted: Precision) -> bool:
        """As in the plain steps; never in a cube, whose state changes with every answer."""
        return self.cubes.serving(query) is None and super()._repeats(query, wanted)

    def _turns_of(self, query: Query) -> list[bytes]:
        """Adds the cube's turn: what is known there decides what is paid."""
        cube_query = self.cubes.serving(query)
        return super()._turns_of(query) + ([] if cube_query is None else [b"cube %d" % cube_query.place])

    def _infer(self, reservation: Reservation, question: Question) -> dict[str, Any]:
        """Measures in a cube, if that was paid for, and infers the answer from all that is known there."""
        cube_query = self.cubes.serving(question.query)
        if cube_query is None or self.cubes.number(cube_query) != reservation.cube:
            raise Tampered("the ledger has charged another cube than the policy's")
        body: dict[str, Any] = {"cube": reservation.cube}
        if reservation.fresh:
            self._check_identity()
            self._learned.add(reservation.id)
            body |= self.cubes.measure(cube_query, question.query, reservation, self._entropy)
            self._check_identity()  # a table that changed under the scan is not the one we opened
        if isinstance(question.query, Look):
            return body
        request = self.vault.request(reservation.id)
        target = reservation.wanted if request is None else Precision(request.body["wanted"])
        return body | self.cubes.inferred(cube_query, question.query, target, self._sensitivity(question.query))

    def look_at_opening(self) -> int:
        """Buys the first looks that the policy wants before any question, if they are missing. Returns how many.

        One that was reserved before a crash is finished, not bought again. One that costs more than is left waits.
        """
        if self.policy.first_look_at is not FirstLookAt.OPENING:
            return 0
        bought = 0
        for look in self.cubes.looks():
            with self._turns([look]):
                cube_query = self.cubes.serving(look)
                first = None if cube_query is None else self.cubes.offer(cube_query)
                if cube_query is not None and first is not None and first.cost <= self.state.left:
                    self._check_identity()
                    self._look_first(cube_query, first, OWNER)
                    bought += self.cubes.offer(cube_query) is None
        return bought

    def _look_first(self, served: Served, first: Prefix, analyst: str) -> None:
        """Buys a first look: a request of its own, on the same path, before the question that needs it."""
        look = look_at(served.cube, served.total)
        question = Question(look, Fraction(1), look.text)
        number, runs = self.cubes.number(served), first.charges
        salted = self.secrets.query(look)
        records = self.ledger.records(self.id, salted, number, runs)
        if records:  # paid for already, at the budget of that time; a lost one is not bought again
            if salted not in self.lost:
                self._finish_earlier(records[0])
            return
        self.draws.check_next([look], self.policy)
        planned = Plan(Case.FIRST, first.precision, first.precision, None, number, first.charges)
        function, column = served.total
        description = {"over": list(served.cube.columns), "function": function.value, "column": column}
        accuracy = PrecisionWish(first.precision)
        key = f"first look {look.digest.hex()[:16]} / {self.secrets.version} / {first.precision.units}"
        request = self._asking.request(question, accuracy, first.precision, key, analyst, look=description)
        self.vault.save_request(request)
        (cost,) = self.costs([(question, planned)])
        (reservation,) = self.ledger.reserve(self._claim(request.id, self.analyst(analyst), question, planned, cost))
        self.complete(reservation, question)

    def _learn(self) -> None:
        """Rebuilds the cubes' state from all that was measured there and sealed, in the ledger's order."""
        self.cubes = Cubes(self.id, Known(self.policy, self.state.budget), self._numbers, self.ledger, self.engine)
        self._learned = set()
        for reservation in self.ledger.reservations(self.id):
            if reservation.cube:
                self._take_in(reservation)

    def _look_pays(self, question: Question, planned: Plan, at_most: Precision | None, analyst: str) -> bool:
        """Buys the first look that a plan proposes, if account and view have enough for it and for the question.

        Returns whether it was bought.
        """
        assert planned.first is not None
        cost = planned.first.cost + self.costs([(question, planned)])[0]
        view = self.view(analyst)
        if at_most is not None or cost > self.state.left or view.used + cost > view.limit:
            return False
        cube_query = self.cubes.serving(question.query)
        assert cube_query is not None
        if not self.draws.has_room(look_at(cube_query.cube, cube_query.total), self.policy):
            return False
        self._look_first(cube_query, planned.first, analyst)
        return True

    def _reserve(
        self,
        requests: Sequence[Request],
        asked: Sequence[tuple[Question, Wish]],
        planned: Sequence[Plan],
        agreed: Precision | None,
    ) -> list[Reservation]:
        """Reserves in the cubes; by plain reuse if a cube costs more than the analyst's view or the budget allows."""
        try:
            return super()._reserve(requests, asked, planned, agreed)
        except (ViewExhausted, BudgetExhausted):
            if not any(part.cube for part in planned):
                raise
        plain = [self.plan(question, part.wanted, True) for (question, _), part in zip(asked, planned, strict=True)]
        return super()._reserve(requests, asked, plain, agreed)
