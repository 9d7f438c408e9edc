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

from noisebank.account.answers import Answer, Receipt, grouped, released, standard_deviation
from noisebank.account.draws import Draws
from noisebank.account.requests import Asking
from noisebank.core.caches import deep_size, remembering
from noisebank.core.entropy import Entropy
from noisebank.core.errors import AnswerLost, BadRequest, BadTable, PriceMoved, TableChanged, Tampered
from noisebank.core.records import Case, Point, Record
from noisebank.core.units import NOTHING, GridValue, Precision
from noisebank.engines.engine import Engine
from noisebank.engines.mechanism import measure
from noisebank.ledger.chain import Chain
from noisebank.ledger.protocol import THE_OWNER, AccountState, Claim, Reservation, Seal, View
from noisebank.planning.pricing import Wish, price
from noisebank.planning.reuse import Plan, bridge, plan, refined
from noisebank.policy.model import Column, Policy
from noisebank.privacy.noise import draw, fresh_variance, noise_scale
from noisebank.queries.derived import items
from noisebank.queries.groups import group_count, group_labels
from noisebank.queries.query import Query, Question
from noisebank.queries.sensitivity import sensitivity
from noisebank.queries.sql import parse
from noisebank.runtime.strands import Held
from noisebank.runtime.turns import Turns
from noisebank.vault.secrets import Secrets
from noisebank.vault.vault import Request, Sealed, Vault, points_of

OWNER = "owner"
"""The analyst of local use, without a service; may learn all that the budget allows."""
KEPT_BYTES = 4 << 20
"""Of each of an account's caches."""


class Steps:
    """One account's steps. Each says what it needs and what it guarantees; `Account` says the order."""

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
    ) -> None:
        self.id, self.policy, self.secrets, self._identity = id, policy, secrets, identity
        self.engine, self.ledger, self.vault, self._entropy = engine, ledger, vault, entropy
        self.draws = Draws(id, ledger, vault)
        self._asking = Asking(id, secrets.version)
        self._requested = Turns()
        # The same text under the same policy is the same question, so parsing can be cached.
        self._read = remembering(KEPT_BYTES, size_of)(lambda text: items(text, self.policy))
        self._parsed = remembering(KEPT_BYTES, size_of)(lambda text: parse(text, self.policy))
        self._moved = remembering(KEPT_BYTES, size_of)(lambda query: sensitivity(query, self.policy))
        self._priced = remembering(KEPT_BYTES, size_of)(self._price)
        # An answer that matched the ledger's digest once stays that answer: no later read of the vault can give another
        # one that may be returned. A vault that was altered is detected when the answer is read anew.
        self._shown = remembering(KEPT_BYTES, size_of)(self._published)
        self._told = remembering(KEPT_BYTES, size_of)(self._in_unit)
        self._proven = remembering(KEPT_BYTES, size_of)(self._proof)
        self.lost: set[bytes] = set()
        """Salted digests of queries with a published answer that the vault has lost; recovery fills it."""

    @property
    def name(self) -> str:
        """The policy's name: the table in FROM."""
        return self.policy.name

    @property
    def state(self) -> AccountState:
        """Budget and spend, as the contract holds them."""
        return self.ledger.account(self.id)

    def complete(self, reservation: Reservation, question: Question) -> Sealed:
        """Brings a reservation to a published answer; recovery calls it after a crash.

        Reserved only: nobody saw a lost sample, so measure now. Sealed: publish the same bits.
        Published but not in the vault: lost for ever, never measured again.
        """
        if reservation.case is Case.REPEAT:  # it has no answer of its own: the recorded one, same bits
            reservation = self._recorded(reservation)
        if reservation.answer is not None:
            read = self._published if question.query.by else self._shown  # grouped answers are too large to cache
            return read(reservation.id, reservation.answer)
        sealed = self.vault.answer(reservation.id)
        if sealed is None:
            if reservation.id in self.vault.lost:
                raise AnswerLost(
                    f"the answer {reservation.id.hex()[:12]} may have been shown after the backup was made"
                )
            if reservation.fresh:
                self.draws.check_paid(reservation)
            contents = self._found(reservation, question)
            sealed = self._seal(reservation, question, contents)  # a retry now reads; it never draws again
        self.ledger.publish(self.id, Seal(reservation.id, sealed.digest))  # from here on it may be returned
        return sealed

    def _published(self, id: bytes, answer: bytes) -> Sealed:
        """Returns the vault's answer; its digest must be the one on the ledger."""
        sealed = self.vault.answer(id)
        if sealed is None:
            raise AnswerLost(f"the answer {id.hex()[:12]} was published, but the vault has lost it")
        if sealed.digest != answer:
            raise Tampered(f"the vault's answer {id.hex()[:12]} is not the one on the ledger")
        return sealed

    # -- the steps -----------------------------------------------------------------------------

    def parse(self, sql: str) -> Question:
        """Parses SQL, or the name of one of the policy's queries, to a canonical question."""
        return self._parsed(self.named(sql))

    def question(self, request: Request) -> Question:
        """Returns the question of a saved request."""
        return self.parse(request.body["sql"])

    def named(self, sql: str) -> str:
        """Returns the SQL behind the name of one of the policy's queries, or the SQL itself."""
        if not isinstance(sql, str):
            raise BadRequest("sql", type(sql).__name__, "must be text")
        return self.policy.queries.get(sql.strip(), sql)

    def price(self, question: Question, wished: Wish) -> Precision:
        """Returns the target precision that an accuracy needs."""
        return self._priced(question, wished)

    def _price(self, question: Question, wished: Wish) -> Precision:
        sensitivity = self._sensitivity(question.query)
        return price(wished, sensitivity if question.unit == 1 else sensitivity * abs(question.unit))

    def plan(self, question: Question, wanted: Precision, plainly: bool = False) -> Plan:
        """Decides case and price. Finishes what the answer builds on; checks the table's identity if it measures."""
        records = self._records(question.query)
        planned = plan(wanted, records)
        if planned.case is Case.REPEAT and planned.reused is not None and self._finished(planned.reused.id):
            return planned  # published: there is nothing to finish, draw or measure
        self._check_noise(question.query, planned)
        known = self.vault.released(self.id, self.secrets.query(question.query))
        if planned.fresh or not known or known[-1][0] < wanted:
            for record in records:
                self._finish_earlier(record)
        if planned.reused is not None and planned.case is Case.REFINE:
            self._sealed(planned.reused.id)
        if planned.fresh:
            self._check_identity()
        return planned

    def _remember(
        self, asked: Sequence[tuple[Question, Wish]], wanted: Sequence[Precision], key: str | None, analyst: str
    ) -> list[Request]:
        """Saves the requests before anything is charged. Their ids name the reservations."""
        requests = self._asking.requests(asked, wanted, self._entropy.token(16).hex() if key is None else key, analyst)
        for request in requests:
            self.vault.save_request(request)
        return requests[-len(asked) :]

    def costs(self, asked: Sequence[tuple[Question, Plan]]) -> tuple[Precision, ...]:
        """Returns what each part of a group would cost now, decided one after the other."""
        return self.ledger.books.costs(
            [self._claim(bytes(32), THE_OWNER, question, planned, NOTHING) for question, planned in asked]
        )

    def _claim(self, id: bytes, analyst: bytes, question: Question, planned: Plan, limit: Precision) -> Claim:
        query, runs = question.query, planned.charges
        target = planned.wanted if planned.claimed is None else planned.claimed
        return Claim(self.id, id, self.secrets.query(query), analyst, query.about, target, limit, planned.cube, runs)

    def _reserved(self, requests: Sequence[Request]) -> list[Reservation] | None:
        """Returns the reservations of a group; None if there are none yet: the contract takes all or nothing."""
        entries = [self.ledger.reservation(self.id, request.id) for request in requests]
        reservations = [entry for entry in entries if entry is not None]
        if reservations and len(reservations) < len(entries):
            raise Tampered("the ledger has reserved a part of a group")
        return reservations or None

    def _reserve(
        self,
        requests: Sequence[Request],
        asked: Sequence[tuple[Question, Wish]],
        planned: Sequence[Plan],
        agreed: Precision | None,
    ) -> list[Reservation]:
        """Reserves a group in one transaction. Each part may cost what was planned; a single one up to `max_cost`."""
        measured = [question.query for (question, _), part in zip(asked, planned, strict=True) if part.fresh]
        self.draws.check_next(measured, self.policy)
        claims = [
            self._claim(request.id, self.analyst(request.analyst), question, part, NOTHING)
            for request, (question, _), part in zip(requests, asked, planned, strict=True)
        ]
        costs = self.ledger.books.costs(claims)
        if agreed is not None and len(planned) > 1 and sum(costs, NOTHING) > agreed:
            raise PriceMoved(agreed)
        limited = []
        for claim, part, cost in zip(claims, planned, costs, strict=True):
            highest = cost if part.cube else part.wanted
            claimed = cost if agreed is None or len(planned) > 1 else min(agreed, highest)
            limited.append(replace(claim, limit=claimed) if claimed else claim)
        return list(self.ledger.reserve(*limited))

    def _found(self, reservation: Reservation, question: Question) -> dict[str, Any]:
        """Returns what is sealed of an answer besides what the ledger has."""
        pairs = [[value.numerator, value.shift] for value in self._obtain(reservation, question)]
        return {"values": pairs} if question.query.by else {"value": pairs[0]}

    def _obtain(self, reservation: Reservation, question: Question) -> tuple[GridValue, ...]:
        """Returns the answer in steps, one number or one per group, by the case that the contract decided."""
        sensitivity = self._sensitivity(question.query)
        if reservation.fresh:
            measured = self._measure(reservation, question, sensitivity)
            if reservation.case is Case.FIRST:
                return measured
            assert reservation.reused is not None
            earlier = self._sealed(reservation.reused)
            precision = earlier.point.precision
            best = (Point(precision, value) for value in earlier.values)
            return tuple(refined(reservation.wanted, fresh, old) for fresh, old in zip(measured, best, strict=True))
        known = self.vault.released(self.id, reservation.query)
        for precision, values in known:
            if precision == reservation.wanted:
                return values  # same bits
        if not known or known[-1][0] < reservation.wanted:
            raise AnswerLost("the vault has lost the answer that this one would reuse")
        if reservation.query in self.lost:  # beside the lost one, a new draw would be a second sample
            raise AnswerLost("the vault has lost an answer to this query: only what it still holds can be repeated")
        bridges = (points_of(known, group) for group in range(group_count(question.query, self.policy)))
        return tuple(draw(bridge(reservation.wanted, sensitivity, points), self._entropy) for points in bridges)

    def _measure(self, reservation: Reservation, question: Question, moves: Fraction) -> tuple[GridValue, ...]:
        try:
            self._check_identity()
            measured = measure(self.engine, question.query, moves, reservation, self._entropy)
            self._check_identity()  # a table that changed under the scan is not the one we opened
        except BadTable as error:  # most likely a lost connection; nothing was drawn, so nothing is lost
            raise BadTable(f"{error}. This answer is paid for: ask again when the table can be read") from None
        return measured

    def _seal(self, reservation: Reservation, question: Question, found: dict[str, Any]) -> Sealed:
        body = {
            "account": self.id.hex(),
            "id": reservation.id.hex(),
            "query": reservation.query.hex(),
            "case": reservation.case.name,
            "wanted": reservation.wanted.units,
            "fresh": reservation.fresh.units,
            "sensitivity": str(self._sensitivity(question.query)),
            "unit": str(question.unit),
        }
        sealed = Sealed(reservation.id, self.id, reservation.query, body | found, self._entropy.token())
        winner = self.vault.seal(sealed)
        if winner.salt != sealed.salt:
            self._discarded()
        return winner

    def _discarded(self) -> None:
        """Called when another sample was sealed for this reservation before ours: forget ours."""

    def _answer(self, reservation: Reservation, sealed: Sealed, question: Question) -> Answer:
        convert = self._in_unit if question.query.by else self._told
        values, value, stddev = convert(sealed, question, reservation.wanted)
        answer = Answer(
            value=value,
            stddev=stddev,
            case=reservation.case,
            cost=reservation.cost if reservation.cube else reservation.fresh,
            remaining=self.state.left,
            wanted=reservation.wanted,
            sql=question.sql,
            exact=values[0],
            receipt=self._receipt(reservation, sealed),
        )
        if not question.query.by:
            return answer
        return grouped(answer, question.query.by, group_labels(question.query, self.policy), values)

    def _in_unit(
        self, sealed: Sealed, question: Question, wanted: Precision
    ) -> tuple[tuple[Fraction, ...], float, float]:
        """Returns the released numbers in the question's unit, the first one as a float, and the standard deviation."""
        values = tuple(released(value, question.unit, question.offset) for value in sealed.values)
        if "variances" in sealed.body:
            largest = max(Fraction(variance) for variance in sealed.body["variances"])
            return values, float(values[0]), sqrt(largest * question.unit**2)
        sensitivity = self._sensitivity(question.query)
        return values, float(values[0]), standard_deviation(sensitivity, question.unit, wanted)

    def _receipt(self, reservation: Reservation, sealed: Sealed) -> Receipt:
        """Returns the receipt of the published answer: a repeated one has the receipt of the recorded one."""
        published = self.ledger.reservation(self.id, sealed.id) or reservation
        block = published.published_in
        assert block is not None, "only published answers are shown"
        build = self._proof if "values" in sealed.body else self._proven
        return build(sealed, block, self.ledger.block_digest(block))

    def _proof(self, sealed: Sealed, block: int, block_digest: bytes) -> Receipt:
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

    def _turns(self, queries: Sequence[Query], requests: Sequence[Request] = ()) -> AbstractContextManager[object]:
        """Takes the turns of all queries of a group, over all gateways, then reads what others did before.

        The turns of the requests are taken first: one may arrive twice at once, and only the first reserves.
        """
        held = self._requested([bytes((request.id[0], request.id[1] & 15)) for request in requests])  # 4,096 locks
        if queries or self.ledger.shared or self.vault.shared:
            return self._in_turn(held, queries)
        try:  # nobody else writes the books, and nothing is drawn: there is nobody to wait for
            self._catch_up(queries)
        except BaseException:
            held.release()
            raise
        return held

    @contextmanager
    def _in_turn(self, once: Held, queries: Sequence[Query]) -> Iterator[None]:
        with once, self.vault.turns([self.id + name for query in queries for name in self._turns_of(query)]):
            self._catch_up(queries)
            yield

    def _catch_up(self, queries: Sequence[Query]) -> None:
        """Reads what other gateways have made final, before anything is planned from it."""
        self.ledger.refresh()
        if self.state.version != self.secrets.version:
            raise TableChanged(f"another version of the table {self.name} has been opened: take the account anew")

    def finish(self, reservation: Reservation, question: Question) -> None:
        """Completes an interrupted reservation, in its query's turn; another gateway may have done so meanwhile."""
        with self._turns([question.query]):
            self.complete(self.ledger.reservation(self.id, reservation.id) or reservation, question)

    def _contended(self, asked: Sequence[tuple[Question, Wish]], wanted: Sequence[Precision]) -> list[Query]:
        """Returns the queries whose turns must be taken: none if all answers are recorded and published, since the
        contract finds the same records and says REPEAT, and nothing is drawn."""
        queries = [question.query for question, _ in asked]
        if all(self._repeats(query, target) for query, target in zip(queries, wanted, strict=True)):
            return []
        return queries

    def _repeats(self, query: Query, wanted: Precision) -> bool:
        """Whether there is a published answer of exactly this precision."""
        equal = next((record for record in self._records(query) if record.precision == wanted), None)
        return equal is not None and self._finished(equal.id)

    def _finished(self, id: bytes) -> bool:
        """Whether an answer is published."""
        reservation = self.ledger.reservation(self.id, id)
        return reservation is not None and reservation.finished

    def _turns_of(self, query: Query) -> list[bytes]:
        """Returns the names of a query's turns. One at a time: concurrent blurs of the same answers average out."""
        return [query.digest]

    def _records(self, query: Query) -> tuple[Record, ...]:
        return self.ledger.records(self.id, self.secrets.query(query))

    def _sensitivity(self, query: Query) -> Fraction:
        return self._moved(query)

    def view(self, analyst: str) -> View:
        """Returns what an analyst may learn, and has learned. The owner may learn all that the account spends."""
        if analyst == OWNER:
            return View(self.state.budget, self.state.spent)
        return self.ledger.view(self.id, self.analyst(analyst))

    def analyst(self, name: str) -> bytes:
        """Returns the ledger's name of an analyst: salted, or the owner's for local use."""
        return THE_OWNER if name == OWNER else self.secrets.analyst(name)

    def _recorded(self, repeat: Reservation) -> Reservation:
        """Returns the paid reservation whose answer is repeated."""
        recorded = self.ledger.reservation(self.id, repeat.reused) if repeat.reused else None
        if recorded is None:
            raise Tampered(f"the ledger repeats {repeat.id.hex()[:12]} from nothing")
        return recorded

    def _sealed(self, id: bytes) -> Sealed:
        sealed = self.vault.answer(id)
        if sealed is None:
            raise AnswerLost(f"the vault has lost the answer {id.hex()[:12]} that this one builds on")
        return sealed

    def _finish_earlier(self, record: Record) -> None:
        """Finishes a paid record whose answer was never published, before anything builds on it."""
        reservation, request = self.ledger.reservation(self.id, record.id), self.vault.request(record.id)
        if reservation is not None and reservation.answer is None and request is not None:
            self.complete(reservation, self.question(request))

    def _check_noise(self, query: Query, planned: Plan) -> None:
        """Refuses noise that 64 bits cannot hold, before it is paid for."""
        sensitivity = self._sensitivity(query)
        for precision in (planned.wanted, planned.fresh):
            if precision:
                _check_scale(sensitivity, precision)

    def _check_identity(self) -> None:
        if self.engine.identity() != self._identity:  # not quoted: the size of a file tells neighbours apart
            raise TableChanged(f"the table of {self.name} changed since this account was opened: open its next version")


def size_of(key: object, value: object) -> int:
    """Returns the bytes of a cache's entry, without the policy and its columns, which are kept anyway."""
    return deep_size((key, value), (Policy, Column))


@lru_cache(maxsize=1_024)
def _check_scale(moves: Fraction, precision: Precision) -> None:
    noise_scale(fresh_variance(moves * moves, precision))
