"""The steps of the one path, without cubes: `PlainSteps`, one method per step.

`Account.answers` calls them in order. `CubeSteps` overrides what is different for questions that a cube can answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from typing import Any

from noisebank.account.answers import Answer, Receipt, add_groups, convert_to_unit, standard_deviation
from noisebank.account.draws import DrawCounter
from noisebank.account.requests import RequestBuilder
from noisebank.core.asks import OWNER
from noisebank.core.caches import cache_results, deep_size
from noisebank.core.entropy import Entropy
from noisebank.core.errors import AnswerLost, BadRequest, BadTable, PriceMoved, TableChanged, Tampered
from noisebank.core.records import BridgePoint, Case, Record
from noisebank.core.units import ZERO_PRECISION, GridValue, Precision
from noisebank.engines.engine import Engine
from noisebank.engines.mechanism import measure
from noisebank.ledger.chain import Ledger
from noisebank.ledger.protocol import OWNER_ANALYST, AccountState, Claim, Reservation, Seal, View
from noisebank.planning.pricing import AccuracyTarget, compute_target
from noisebank.planning.reuse import Plan, bridge_law, plan_reuse, refine_answer
from noisebank.policy.model import Column, Policy
from noisebank.privacy.noise import draw_value, fresh_variance, noise_scale
from noisebank.queries.derived import parse_select_items
from noisebank.queries.groups import group_count, group_labels
from noisebank.queries.query import Query, Question
from noisebank.queries.sensitivity import l2_sensitivity
from noisebank.queries.sql import parse_question
from noisebank.runtime.strands import Held
from noisebank.runtime.turns import Turns
from noisebank.vault.secrets import AccountSecrets
from noisebank.vault.vault import Request, SealedAnswer, Vault, to_points

CACHE_BYTES = 4 << 20
"""Of each of an account's caches."""


class PlainSteps:
    """One account's steps. Each says what it needs and what it guarantees; `Account` says the order."""

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
    ) -> None:
        self.id, self.policy, self.secrets, self._identity = id, policy, secrets, identity
        self.engine, self.ledger, self.vault, self._entropy = engine, ledger, vault, entropy
        self.draws = DrawCounter(id, ledger, vault)
        self._request_builder = RequestBuilder(id, secrets.version)
        self._request_turns = Turns()
        # The same text under the same policy is the same question, so parsing can be cached.
        self._parse_items_cached = cache_results(CACHE_BYTES, size_of)(
            lambda text: parse_select_items(text, self.policy)
        )
        self._parse_cached = cache_results(CACHE_BYTES, size_of)(lambda text: parse_question(text, self.policy))
        self._sensitivity_cached = cache_results(CACHE_BYTES, size_of)(lambda query: l2_sensitivity(query, self.policy))
        self._compute_target_cached = cache_results(CACHE_BYTES, size_of)(self._compute_target)
        # An answer that matched the ledger's digest once stays that answer: no later read of the vault can give another
        # one that may be returned. A vault that was altered is detected when the answer is read anew.
        self._read_published_cached = cache_results(CACHE_BYTES, size_of)(self._read_published)
        self._convert_values_cached = cache_results(CACHE_BYTES, size_of)(self._convert_values)
        self._build_receipt_cached = cache_results(CACHE_BYTES, size_of)(self._build_receipt)
        self.lost_queries: set[bytes] = set()
        """Salted digests of queries with a published answer that the vault has lost; recovery fills it."""

    @property
    def name(self) -> str:
        """The policy's name: the table in FROM."""
        return self.policy.name

    @property
    def state(self) -> AccountState:
        """Budget and spend, as the contract holds them."""
        return self.ledger.get_account(self.id)

    def complete(self, reservation: Reservation, question: Question) -> SealedAnswer:
        """Brings a reservation to a published answer; recovery calls it after a crash.

        Reserved only: nobody saw a lost sample, so measure now. Sealed: publish the same bits.
        Published but not in the vault: lost for ever, never measured again.
        """
        if reservation.case is Case.REPEAT:  # it has no answer of its own: the recorded one, same bits
            reservation = self._find_recorded(reservation)
        if reservation.answer_digest is not None:
            read = (
                self._read_published if question.query.by else self._read_published_cached
            )  # grouped answers are too large to cache
            return read(reservation.id, reservation.answer_digest)
        sealed = self.vault.find_answer(reservation.id)
        if sealed is None:
            if reservation.id in self.vault.lost_ids:
                raise AnswerLost(
                    f"the answer {reservation.id.hex()[:12]} may have been shown after the backup was made"
                )
            if reservation.fresh_precision:
                self.draws.check_paid(reservation)
            contents = self._make_answer_body(reservation, question)
            sealed = self._seal_answer(reservation, question, contents)  # a retry now reads; it never draws again
        self.ledger.publish(self.id, Seal(reservation.id, sealed.digest))  # from here on it may be returned
        return sealed

    def _read_published(self, id: bytes, digest: bytes) -> SealedAnswer:
        """Returns the vault's answer; its digest must be the one on the ledger."""
        sealed = self.vault.find_answer(id)
        if sealed is None:
            raise AnswerLost(f"the answer {id.hex()[:12]} was published, but the vault has lost it")
        if sealed.digest != digest:
            raise Tampered(f"the vault's answer {id.hex()[:12]} is not the one on the ledger")
        return sealed

    # -- the steps -----------------------------------------------------------------------------

    def parse(self, sql: str) -> Question:
        """Parses SQL, or the name of one of the policy's queries, to a canonical question."""
        return self._parse_cached(self.named(sql))

    def question(self, request: Request) -> Question:
        """Returns the question of a saved request."""
        return self.parse(request.body["sql"])

    def named(self, sql: str) -> str:
        """Returns the SQL behind the name of one of the policy's queries, or the SQL itself."""
        if not isinstance(sql, str):
            raise BadRequest("sql", type(sql).__name__, "must be text")
        return self.policy.queries.get(sql.strip(), sql)

    def price(self, question: Question, accuracy: AccuracyTarget) -> Precision:
        """Returns the target precision that an accuracy needs."""
        return self._compute_target_cached(question, accuracy)

    def _compute_target(self, question: Question, accuracy: AccuracyTarget) -> Precision:
        sensitivity = self._sensitivity_of(question.query)
        return compute_target(accuracy, sensitivity if question.unit == 1 else sensitivity * abs(question.unit))

    def plan(self, question: Question, target: Precision, plainly: bool = False) -> Plan:
        """Decides case and price. Finishes what the answer builds on; checks the table's identity if it measures."""
        records = self._find_records(question.query)
        planned = plan_reuse(target, records)
        if (
            planned.case is Case.REPEAT
            and planned.reused_record is not None
            and self._is_published(planned.reused_record.id)
        ):
            return planned  # published: there is nothing to finish, draw or measure
        self._check_noise(question.query, planned)
        known = self.vault.list_released(self.id, self.secrets.salted_query(question.query))
        if planned.fresh_precision or not known or known[-1][0] < target:
            for record in records:
                self._finish_earlier(record)
        if planned.reused_record is not None and planned.case is Case.REFINE:
            self._read_sealed(planned.reused_record.id)
        if planned.fresh_precision:
            self._check_identity()
        return planned

    def _save_requests(
        self,
        questions: Sequence[tuple[Question, AccuracyTarget]],
        targets: Sequence[Precision],
        key: str | None,
        analyst: str,
    ) -> list[Request]:
        """Saves the requests before anything is charged. Their ids name the reservations."""
        requests = self._request_builder.build_requests(
            questions, targets, self._entropy.token(16).hex() if key is None else key, analyst
        )
        for request in requests:
            self.vault.save_request(request)
        return requests[-len(questions) :]

    def costs(self, plans: Sequence[tuple[Question, Plan]]) -> tuple[Precision, ...]:
        """Returns what each part of a group would cost now, decided one after the other."""
        return self.ledger.books.price_claims(
            [
                self._make_claim(bytes(32), OWNER_ANALYST, question, planned, ZERO_PRECISION)
                for question, planned in plans
            ]
        )

    def _make_claim(self, id: bytes, analyst: bytes, question: Question, planned: Plan, max_cost: Precision) -> Claim:
        query, runs = question.query, planned.charges
        target = planned.target if planned.claimed_precision is None else planned.claimed_precision
        return Claim(
            self.id,
            id,
            self.secrets.salted_query(query),
            analyst,
            query.category,
            target,
            max_cost,
            planned.cube_number,
            runs,
        )

    def _find_reservations(self, requests: Sequence[Request]) -> list[Reservation] | None:
        """Returns the reservations of a group; None if there are none yet: the contract takes all or nothing."""
        entries = [self.ledger.find_reservation(self.id, request.id) for request in requests]
        reservations = [entry for entry in entries if entry is not None]
        if reservations and len(reservations) < len(entries):
            raise Tampered("the ledger has reserved a part of a group")
        return reservations or None

    def _reserve_plans(
        self,
        requests: Sequence[Request],
        questions: Sequence[tuple[Question, AccuracyTarget]],
        plans: Sequence[Plan],
        max_cost: Precision | None,
    ) -> list[Reservation]:
        """Reserves a group in one transaction. Each part may cost what was planned; a single one up to `max_cost`."""
        measured = [
            question.query for (question, _), part in zip(questions, plans, strict=True) if part.fresh_precision
        ]
        self.draws.check_next(measured, self.policy)
        claims = [
            self._make_claim(request.id, self.analyst(request.analyst), question, part, ZERO_PRECISION)
            for request, (question, _), part in zip(requests, questions, plans, strict=True)
        ]
        costs = self.ledger.books.price_claims(claims)
        if max_cost is not None and len(plans) > 1 and sum(costs, ZERO_PRECISION) > max_cost:
            raise PriceMoved(max_cost)
        limited = []
        for claim, part, cost in zip(claims, plans, costs, strict=True):
            highest = cost if part.cube_number else part.target
            claimed = cost if max_cost is None or len(plans) > 1 else min(max_cost, highest)
            limited.append(replace(claim, max_cost=claimed) if claimed else claim)
        return list(self.ledger.reserve(*limited))

    def _make_answer_body(self, reservation: Reservation, question: Question) -> dict[str, Any]:
        """Returns what is sealed of an answer besides what the ledger has."""
        pairs = [[value.numerator, value.shift] for value in self._obtain_values(reservation, question)]
        return {"values": pairs} if question.query.by else {"value": pairs[0]}

    def _obtain_values(self, reservation: Reservation, question: Question) -> tuple[GridValue, ...]:
        """Returns the answer in steps, one number or one per group, by the case that the contract decided."""
        sensitivity = self._sensitivity_of(question.query)
        if reservation.fresh_precision:
            measured = self._measure_values(reservation, question, sensitivity)
            if reservation.case is Case.FIRST:
                return measured
            assert reservation.reused_id is not None
            earlier = self._read_sealed(reservation.reused_id)
            precision = earlier.point.precision
            best = (BridgePoint(precision, value) for value in earlier.values)
            return tuple(
                refine_answer(reservation.target, fresh, old) for fresh, old in zip(measured, best, strict=True)
            )
        known = self.vault.list_released(self.id, reservation.query)
        for precision, values in known:
            if precision == reservation.target:
                return values  # same bits
        if not known or known[-1][0] < reservation.target:
            raise AnswerLost("the vault has lost the answer that this one would reuse")
        if reservation.query in self.lost_queries:  # beside the lost one, a new draw would be a second sample
            raise AnswerLost("the vault has lost an answer to this query: only what it still holds can be repeated")
        bridges = (to_points(known, group) for group in range(group_count(question.query, self.policy)))
        return tuple(
            draw_value(bridge_law(reservation.target, sensitivity, points), self._entropy) for points in bridges
        )

    def _measure_values(
        self, reservation: Reservation, question: Question, sensitivity: Fraction
    ) -> tuple[GridValue, ...]:
        try:
            self._check_identity()
            measured = measure(self.engine, question.query, sensitivity, reservation, self._entropy)
            self._check_identity()  # a table that changed under the scan is not the one we opened
        except BadTable as error:  # most likely a lost connection; nothing was drawn, so nothing is lost
            raise BadTable(f"{error}. This answer is paid for: ask again when the table can be read") from None
        return measured

    def _seal_answer(self, reservation: Reservation, question: Question, contents: dict[str, Any]) -> SealedAnswer:
        body = {
            "account": self.id.hex(),
            "id": reservation.id.hex(),
            "query": reservation.query.hex(),
            "case": reservation.case.name,
            "wanted": reservation.target.units,
            "fresh": reservation.fresh_precision.units,
            "sensitivity": str(self._sensitivity_of(question.query)),
            "unit": str(question.unit),
        }
        sealed = SealedAnswer(reservation.id, self.id, reservation.query, body | contents, self._entropy.token())
        winner = self.vault.seal(sealed)
        if winner.salt != sealed.salt:
            self._drop_sample()
        return winner

    def _drop_sample(self) -> None:
        """Called when another sample was sealed for this reservation before ours: forget ours."""

    def _make_answer(self, reservation: Reservation, sealed: SealedAnswer, question: Question) -> Answer:
        convert = self._convert_values if question.query.by else self._convert_values_cached
        values, value, stddev = convert(sealed, question, reservation.target)
        answer = Answer(
            value=value,
            stddev=stddev,
            case=reservation.case,
            cost=reservation.cost if reservation.cube else reservation.fresh_precision,
            remaining=self.state.remaining_budget,
            target=reservation.target,
            sql=question.sql,
            exact=values[0],
            receipt=self._find_receipt(reservation, sealed),
        )
        if not question.query.by:
            return answer
        return add_groups(answer, question.query.by, group_labels(question.query, self.policy), values)

    def _convert_values(
        self, sealed: SealedAnswer, question: Question, target: Precision
    ) -> tuple[tuple[Fraction, ...], float, float]:
        """Returns the released numbers in the question's unit, the first one as a float, and the standard deviation."""
        values = tuple(convert_to_unit(value, question.unit, question.offset) for value in sealed.values)
        if "variances" in sealed.body:
            largest = max(Fraction(variance) for variance in sealed.body["variances"])
            return values, float(values[0]), sqrt(largest * question.unit**2)
        sensitivity = self._sensitivity_of(question.query)
        return values, float(values[0]), standard_deviation(sensitivity, question.unit, target)

    def _find_receipt(self, reservation: Reservation, sealed: SealedAnswer) -> Receipt:
        """Returns the receipt of the published answer: a repeated one has the receipt of the recorded one."""
        published = self.ledger.find_reservation(self.id, sealed.id) or reservation
        block = published.published_block
        assert block is not None, "only published answers are shown"
        build = self._build_receipt if "values" in sealed.body else self._build_receipt_cached
        return build(sealed, block, self.ledger.block_digest(block))

    def _build_receipt(self, sealed: SealedAnswer, block: int, block_digest: bytes) -> Receipt:
        return Receipt(
            account=self.id,
            id=sealed.id,
            answer=sealed.body,
            salt=sealed.salt,
            chain_id=self.ledger.chain_id,
            contract=self.ledger.contract,
            block=block,
            block_digest=block_digest,
        )

    # -- what the steps share ------------------------------------------------------------------

    def _hold_turns(self, queries: Sequence[Query], requests: Sequence[Request] = ()) -> AbstractContextManager[object]:
        """Takes the turns of all queries of a group, over all gateways, then reads what others did before.

        The turns of the requests are taken first: one may arrive twice at once, and only the first reserves.
        """
        held = self._request_turns([bytes((request.id[0], request.id[1] & 15)) for request in requests])  # 4,096 locks
        if queries or self.ledger.is_shared or self.vault.is_shared:
            return self._hold_all_turns(held, queries)
        try:  # nobody else writes the books, and nothing is drawn: there is nobody to wait for
            self._catch_up(queries)
        except BaseException:
            held.release()
            raise
        return held

    @contextmanager
    def _hold_all_turns(self, request_turns: Held, queries: Sequence[Query]) -> Iterator[None]:
        with (
            request_turns,
            self.vault.acquire_locks([self.id + name for query in queries for name in self._turn_names(query)]),
        ):
            self._catch_up(queries)
            yield

    def _catch_up(self, queries: Sequence[Query]) -> None:
        """Reads what other gateways have made final, before anything is planned from it."""
        self.ledger.refresh()
        if self.state.version != self.secrets.version:
            raise TableChanged(f"another version of the table {self.name} has been opened: take the account anew")

    def finish(self, reservation: Reservation, question: Question) -> None:
        """Completes an interrupted reservation, in its query's turn; another gateway may have done so meanwhile."""
        with self._hold_turns([question.query]):
            self.complete(self.ledger.find_reservation(self.id, reservation.id) or reservation, question)

    def _contended_queries(
        self, questions: Sequence[tuple[Question, AccuracyTarget]], targets: Sequence[Precision]
    ) -> list[Query]:
        """Returns the queries whose turns must be taken: none if all answers are recorded and published, since the
        contract finds the same records and says REPEAT, and nothing is drawn."""
        queries = [question.query for question, _ in questions]
        if all(self._is_repeat(query, target) for query, target in zip(queries, targets, strict=True)):
            return []
        return queries

    def _is_repeat(self, query: Query, target: Precision) -> bool:
        """Whether there is a published answer of exactly this precision."""
        equal = next((record for record in self._find_records(query) if record.precision == target), None)
        return equal is not None and self._is_published(equal.id)

    def _is_published(self, id: bytes) -> bool:
        """Whether an answer is published."""
        reservation = self.ledger.find_reservation(self.id, id)
        return reservation is not None and reservation.is_finished

    def _turn_names(self, query: Query) -> list[bytes]:
        """Returns the names of a query's turns. One at a time: concurrent blurs of the same answers average out."""
        return [query.digest]

    def _find_records(self, query: Query) -> tuple[Record, ...]:
        return self.ledger.list_records(self.id, self.secrets.salted_query(query))

    def _sensitivity_of(self, query: Query) -> Fraction:
        return self._sensitivity_cached(query)

    def view(self, analyst: str) -> View:
        """Returns what an analyst may learn, and has learned. The owner may learn all that the account spends."""
        if analyst == OWNER:
            return View(self.state.budget, self.state.spent)
        return self.ledger.get_view(self.id, self.analyst(analyst))

    def analyst(self, name: str) -> bytes:
        """Returns the ledger's name of an analyst: salted, or the owner's for local use."""
        return OWNER_ANALYST if name == OWNER else self.secrets.salted_analyst(name)

    def _find_recorded(self, repeat: Reservation) -> Reservation:
        """Returns the paid reservation whose answer is repeated."""
        recorded = self.ledger.find_reservation(self.id, repeat.reused_id) if repeat.reused_id else None
        if recorded is None:
            raise Tampered(f"the ledger repeats {repeat.id.hex()[:12]} from nothing")
        return recorded

    def _read_sealed(self, id: bytes) -> SealedAnswer:
        sealed = self.vault.find_answer(id)
        if sealed is None:
            raise AnswerLost(f"the vault has lost the answer {id.hex()[:12]} that this one builds on")
        return sealed

    def _finish_earlier(self, record: Record) -> None:
        """Finishes a paid record whose answer was never published, before anything builds on it."""
        reservation, request = self.ledger.find_reservation(self.id, record.id), self.vault.find_request(record.id)
        if reservation is not None and reservation.answer_digest is None and request is not None:
            self.complete(reservation, self.question(request))

    def _check_noise(self, query: Query, planned: Plan) -> None:
        """Refuses noise that 64 bits cannot hold, before it is paid for."""
        sensitivity = self._sensitivity_of(query)
        for precision in (planned.target, planned.fresh_precision):
            if precision:
                _check_scale(sensitivity, precision)

    def _check_identity(self) -> None:
        if self.engine.identity() != self._identity:  # not quoted: the size of a file tells neighbours apart
            raise TableChanged(f"the table of {self.name} changed since this account was opened: open its next version")


def size_of(key: object, value: object) -> int:
    """Returns the bytes of a cache's entry, without the policy and its columns, which are kept anyway."""
    return deep_size((key, value), (Policy, Column))


@lru_cache(maxsize=1_024)
def _check_scale(sensitivity: Fraction, precision: Precision) -> None:
    noise_scale(fresh_variance(sensitivity * sensitivity, precision))
