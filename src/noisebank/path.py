"""The one path: ask, parse, price, plan, reserve, measure, seal, publish, answer.

Nothing before `reserve` opens the data, nothing is shown before it is sealed and published. Each
line of `Account.answer` is one of these steps, in this order.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import Unpack, overload

from noisebank.answers import Answer, Quote, Receipt, released, standard_deviation
from noisebank.digests import tagged
from noisebank.entropy import Entropy
from noisebank.errors import AnswerLost, BadRequest, TableChanged, Tampered
from noisebank.ledger.chain import Chain
from noisebank.ledger.protocol import THE_OWNER, AccountState, Claim, Reservation, Seal, View
from noisebank.measuring.engine import Engine
from noisebank.measuring.mechanism import measure
from noisebank.planning.pricing import PrecisionWish, Wish, Wished, price, wish
from noisebank.planning.relative import Goal, goal_of
from noisebank.planning.reuse import Plan, bridge, plan, refined
from noisebank.policy import Policy
from noisebank.privacy.calibration import account_epsilon
from noisebank.privacy.noise import draw, fresh_variance, noise_scale
from noisebank.queries.query import Query, Question
from noisebank.queries.sensitivity import contribution_range, saturation, sensitivity
from noisebank.queries.sql import parse
from noisebank.records import Case, Record
from noisebank.refinement import Refinement, refine
from noisebank.salts import Secrets
from noisebank.units import MOST_PRECISION, Exact, GridValue, Precision, exact
from noisebank.vault.vault import Request, Sealed, Vault

OWNER = "owner"
"""Local use of the command line is this analyst; the limit is the budget."""
MAX_KEY = 200


class Account:
    """An open account: quotes cost nothing, answers walk the one path. Safe for many threads."""

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
        self._turns: dict[bytes, threading.Lock] = {}
        self.lost: set[bytes] = set()
        """Queries (salted) with a published answer that the vault has lost; recovery finds them."""

    @property
    def name(self) -> str:
        """The policy's name: the table in FROM."""
        return self.policy.name

    @property
    def state(self) -> AccountState:
        """Budget and spend, as the contract holds them."""
        return self.ledger.account(self.id)

    @overload
    def ask(
        self,
        sql: str,
        *,
        relative: None = None,
        at_most: Exact | None = None,
        key: str | None = None,
        analyst: str = OWNER,
        **wished: Unpack[Wished],
    ) -> Answer: ...

    @overload
    def ask(
        self,
        sql: str,
        *,
        relative: Exact,
        at_most: Exact | None = None,
        key: str | None = None,
        analyst: str = OWNER,
        **wished: Unpack[Wished],
    ) -> Refinement: ...

    def ask(
        self,
        sql: str,
        *,
        relative: Exact | None = None,
        at_most: Exact | None = None,
        key: str | None = None,
        analyst: str = OWNER,
        **wished: Unpack[Wished],
    ) -> Answer | Refinement:
        """Answers a question, SQL or the name of one of the policy's queries.

        Say how good the answer shall be in one way: `epsilon` and `delta`, or `within` a distance at
        a `confidence`, or `relative` to the true value, or `sigma`. `key` makes a retry safe: the
        same key gives the same answer, charged once. `at_most` is the most precision to spend.
        """
        limit = None if at_most is None else _amount(at_most)
        if relative is not None:
            return self._refine(sql, goal_of(relative, wished), limit, key, analyst)
        return self.answer(sql, wish(**wished), limit, key, analyst)

    def answer(
        self, sql: str, wished: Wish, at_most: Precision | None = None, key: str | None = None, analyst: str = OWNER
    ) -> Answer:
        """The one path, a line a step."""
        question = self.parse(sql)
        wanted = self.price(question, wished)
        request = self._remember(question, wished, wanted, key, analyst)  # a crash can be finished from here on
        with self._turn(question.query):
            reservation = self.ledger.reservation(self.id, request.id)
            if reservation is None:
                planned = self.plan(question, wanted)
                reservation = self._reserve(request, question, planned, at_most)  # spent, even if we crash
            sealed = self.complete(reservation, question)  # measured, sealed, published
        return self._answer(self.ledger.reservation(self.id, request.id) or reservation, sealed, question)

    def complete(self, reservation: Reservation, question: Question) -> Sealed:
        """From a reservation to a published answer; also what recovery calls after a crash.

        Reserved only: nobody saw a lost sample, so measure now. Sealed: publish the same bits.
        Published but not in the vault: lost for ever, never measured again.
        """
        if reservation.case is Case.REPEAT:  # nothing of its own: the recorded answer, same bits
            reservation = self._recorded(reservation)
        sealed = self.vault.answer(reservation.id)
        if sealed is None:
            if reservation.answer is not None:
                raise AnswerLost(f"the answer {reservation.id.hex()[:12]} was published, but the vault has lost it")
            value = self._obtain(reservation, question)
            sealed = self._seal(reservation, question, value)  # a retry now reads; it never draws again
        if reservation.answer is None:
            self.ledger.publish(self.id, Seal(reservation.id, sealed.digest))  # from here on it may be shown
        elif reservation.answer != sealed.digest:
            raise Tampered(f"the vault's answer {reservation.id.hex()[:12]} is not the one on the ledger")
        return sealed

    def quote(self, sql: str, **wished: Unpack[Wished]) -> Quote:
        """What an answer would cost now. Spends nothing, opens no data."""
        return self.quoted(self.parse(sql), wish(**wished))

    def quoted(self, question: Question, wished: Wish) -> Quote:
        """The quote for a question that is already parsed."""
        wanted = self.price(question, wished)
        planned = plan(wanted, self._records(question.query))
        self._check_noise(question.query, planned)
        state, moves = self.state, self._sensitivity(question.query)
        return Quote(
            sql=question.sql,
            case=planned.case,
            wanted=wanted,
            cost=planned.fresh,
            left=state.left,
            stddev=standard_deviation(moves, question.unit, wanted),
            reused_stddev=(
                standard_deviation(moves, question.unit, planned.reused.precision) if planned.reused else None
            ),
            epsilon_now=self.epsilon(state.spent),
            epsilon_after=self.epsilon(state.spent + planned.fresh),
        )

    def epsilon(self, spent: Precision) -> float:
        """What a spend means in epsilon, at the account's delta; rounded up."""
        return float(account_epsilon(spent, self.policy.delta))

    def _refine(self, sql: str, wanted: Goal, at_most: Precision | None, key: str | None, analyst: str) -> Refinement:
        """A relative request: several answers on the one path, each with a key made from this one."""
        question = self.parse(sql)
        key = self._entropy.token(16).hex() if key is None else key
        moves, (lowest, _) = self._sensitivity(question.query), contribution_range(question.query, self.policy)
        return refine(
            wanted,
            scale=moves * question.unit,
            largest=float(saturation(question.query, self.policy) / moves),
            nonnegative=lowest >= 0,
            ask_at=lambda precision, step: self.answer(
                sql,
                PrecisionWish(precision),
                key=f"{key} / {wanted.relative} {wanted.confidence} / {step}",
                analyst=analyst,
            ),
            cost_of=lambda precision: plan(precision, self._records(question.query)).fresh,
            cap=MOST_PRECISION if at_most is None else at_most,
            left=lambda: self.state.left,
        )

    # -- the steps -----------------------------------------------------------------------------

    def parse(self, sql: str) -> Question:
        """SQL, or the name of one of the policy's queries, to a canonical question."""
        if not isinstance(sql, str):
            raise BadRequest("sql", type(sql).__name__, "must be text")
        return parse(self.policy.queries.get(sql.strip(), sql), self.policy)

    def price(self, question: Question, wished: Wish) -> Precision:
        """A wish to a target precision."""
        return price(wished, self._sensitivity(question.query) * question.unit)

    def plan(self, question: Question, wanted: Precision) -> Plan:
        """Case and price. What the answer builds on must be sealed first; metadata is compared."""
        records = self._records(question.query)
        planned = plan(wanted, records)
        self._check_noise(question.query, planned)
        points = self.vault.points(self.id, self.secrets.query(question.query))
        if planned.fresh or not points or points[-1].precision < wanted:
            for record in records:
                self._finish_earlier(record)
        if planned.reused is not None and planned.case is Case.REFINE:
            self._sealed(planned.reused.id)
        if planned.fresh:
            self._check_identity()
        return planned

    def _remember(self, question: Question, wished: Wish, wanted: Precision, key: str | None, analyst: str) -> Request:
        """Keeps the request before anything is charged. Its id names the reservation."""
        key = self._entropy.token(16).hex() if key is None else key
        for parameter, text in (("key", key), ("analyst", analyst)):
            if not isinstance(text, str) or not 0 < len(text) <= MAX_KEY or not text.isprintable():
                raise BadRequest(parameter, ascii(text)[:40], f"must have 1 to {MAX_KEY} printable characters")
        core = {"query": question.query.digest.hex(), "unit": str(question.unit), "wanted": wanted.units}
        named = {"account": self.id.hex(), "analyst": analyst, "key": key, "request": core}
        body = {**core, "sql": question.sql, "asked": wished.plain()}
        request = Request(tagged("reservation 1", named), self.id, analyst, key, body)
        self.vault.save_request(request)
        return request

    def _reserve(self, request: Request, question: Question, planned: Plan, agreed: Precision | None) -> Reservation:
        limit = planned.fresh if agreed is None else min(agreed, planned.wanted)
        (reservation,) = self.ledger.reserve(
            Claim(
                account=self.id,
                id=request.id,
                query=self.secrets.query(question.query),
                analyst=self.analyst(request.analyst),
                about=question.query.about,
                wanted=planned.wanted,
                limit=limit,
            )
        )
        return reservation

    def _obtain(self, reservation: Reservation, question: Question) -> GridValue:
        """The answer in steps, by the case that the contract decided."""
        moves = self._sensitivity(question.query)
        if reservation.fresh:
            self._check_identity()
            measured = measure(self.engine, question.query, moves, reservation, self._entropy)
            self._check_identity()  # a table that changed under the scan is not the one we opened
            if reservation.case is Case.FIRST:
                return measured
            assert reservation.reused is not None
            return refined(reservation.wanted, measured, self._sealed(reservation.reused).point)
        points = self.vault.points(self.id, reservation.query)
        for point in points:
            if point.precision == reservation.wanted:
                return point.value  # same bits
        if not points or points[-1].precision < reservation.wanted:
            raise AnswerLost("the vault has lost the answer that this one would reuse")
        if reservation.query in self.lost:  # beside the lost one, a new draw would be a second sample
            raise AnswerLost("the vault has lost an answer to this query: only what it still holds can be repeated")
        return draw(bridge(reservation.wanted, moves, points), self._entropy)

    def _seal(self, reservation: Reservation, question: Question, value: GridValue) -> Sealed:
        body = {
            "account": self.id.hex(),
            "id": reservation.id.hex(),
            "query": reservation.query.hex(),
            "case": reservation.case.name,
            "wanted": reservation.wanted.units,
            "fresh": reservation.fresh.units,
            "sensitivity": str(self._sensitivity(question.query)),
            "unit": str(question.unit),
            "value": [value.numerator, value.shift],
        }
        sealed = Sealed(reservation.id, self.id, reservation.query, body, self._entropy.token())
        self.vault.seal(sealed)
        return sealed

    def _answer(self, reservation: Reservation, sealed: Sealed, question: Question) -> Answer:
        value = released(sealed.point.value, question.unit)
        return Answer(
            value=float(value),
            stddev=standard_deviation(self._sensitivity(question.query), question.unit, reservation.wanted),
            case=reservation.case,
            cost=reservation.fresh,
            remaining=self.state.left,
            wanted=reservation.wanted,
            sql=question.sql,
            exact=value,
            receipt=self._receipt(reservation, sealed),
        )

    def _receipt(self, reservation: Reservation, sealed: Sealed) -> Receipt:
        """Of the published answer: a repeated one has the receipt of the recorded one."""
        published = self.ledger.reservation(self.id, sealed.id) or reservation
        block = published.published_in
        assert block is not None, "only published answers are shown"
        return Receipt(
            account=self.id,
            id=sealed.id,
            answer=sealed.body,
            salt=sealed.salt,
            chain_id=self.ledger.chain_id,
            contract=self.ledger.contract,
            block=block,
            block_digest=self.ledger.block_digest(block),
        )

    # -- what the steps stand on ---------------------------------------------------------------

    def _turn(self, query: Query) -> AbstractContextManager[bool]:
        """One at a time per query: concurrent blurs from the same neighbours would average out."""
        return self._turns.setdefault(query.digest, threading.Lock())

    def _records(self, query: Query) -> tuple[Record, ...]:
        return self.ledger.records(self.id, self.secrets.query(query))

    def _sensitivity(self, query: Query) -> Fraction:
        return Fraction(sensitivity(query, self.policy))

    def view(self, analyst: str) -> View:
        """What an analyst may learn, and has learned. The owner may learn all that the account spends."""
        if analyst == OWNER:
            return View(self.state.budget, self.state.spent)
        return self.ledger.view(self.id, self.analyst(analyst))

    def analyst(self, name: str) -> bytes:
        """How the ledger knows somebody; local use is the owner's."""
        return THE_OWNER if name == OWNER else self.secrets.analyst(name)

    def _recorded(self, repeat: Reservation) -> Reservation:
        """The paid reservation whose answer is repeated."""
        found = self.ledger.reservation(self.id, repeat.reused) if repeat.reused else None
        if found is None:
            raise Tampered(f"the ledger repeats {repeat.id.hex()[:12]} from nothing")
        return found

    def _sealed(self, id: bytes) -> Sealed:
        sealed = self.vault.answer(id)
        if sealed is None:
            raise AnswerLost(f"the vault has lost the answer {id.hex()[:12]} that this one builds on")
        return sealed

    def _finish_earlier(self, record: Record) -> None:
        """A paid record whose answer was never published is finished before anything builds on it."""
        reservation, request = self.ledger.reservation(self.id, record.id), self.vault.request(record.id)
        if reservation is not None and reservation.answer is None and request is not None:
            self.complete(reservation, self.parse(request.body["sql"]))

    def _check_noise(self, query: Query, planned: Plan) -> None:
        """Noise that 64 bits cannot hold is refused before it is paid for."""
        moves = self._sensitivity(query)
        for precision in (planned.wanted, planned.fresh):
            if precision:
                noise_scale(fresh_variance(moves * moves, precision))

    def _check_identity(self) -> None:
        if self.engine.identity() != self._identity:  # not quoted: the size of a file tells neighbours apart
            raise TableChanged(f"the table {self.policy.source.name} changed since this account was opened")


def _amount(at_most: Exact) -> Precision:
    value = exact(at_most, "at_most")
    if value < 0:
        raise BadRequest("at_most", "less than nothing", "must not be negative")
    return Precision.floor(value)
