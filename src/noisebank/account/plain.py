"""The steps of the one path, each a method: what `path.Account` walks in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from typing import Any

from noisebank.account.answers import Answer, Receipt, grouped, released, standard_deviation
from noisebank.account.cube_measurement import runs_of
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
"""Local use of the command line is this analyst; the limit is the budget."""
KEPT_BYTES = 4 << 20
"""For texts, for queries, for answers of an account that are kept as they were read: for each kind of them."""


class Steps:
    """One account's steps. Each says what it needs and what it guarantees; `path.Account` says the order."""

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
        # The same text under the same policy is the same question: what is asked often is read once.
        self._read = remembering(KEPT_BYTES, size_of)(lambda text: items(text, self.policy))
        self._parsed = remembering(KEPT_BYTES, size_of)(lambda text: parse(text, self.policy))
        self._moved = remembering(KEPT_BYTES, size_of)(lambda query: sensitivity(query, self.policy))
        self._priced = remembering(KEPT_BYTES, size_of)(self._price)
        # What the ledger's digest was compared with once is that answer for ever: no later look at the vault can find
        # another one that may be shown. Whoever alters the vault is found out when the answer is read again.
        self._shown = remembering(KEPT_BYTES, size_of)(self._published)
        self._told = remembering(KEPT_BYTES, size_of)(self._in_unit)
        self._proven = remembering(KEPT_BYTES, size_of)(self._proof)
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

    def complete(self, reservation: Reservation, question: Question) -> Sealed:
        """From a reservation to a published answer; also what recovery calls after a crash.

        Reserved only: nobody saw a lost sample, so measure now. Sealed: publish the same bits.
        Published but not in the vault: lost for ever, never measured again.
        """
        if reservation.case is Case.REPEAT:  # nothing of its own: the recorded answer, same bits
            reservation = self._recorded(reservation)
        if reservation.answer is not None:
            look = self._published if question.query.by else self._shown  # of many groups, none are kept
            return look(reservation.id, reservation.answer)
        sealed = self.vault.answer(reservation.id)
        if sealed is None:
            if reservation.id in self.vault.lost:
                raise AnswerLost(
                    f"the answer {reservation.id.hex()[:12]} may have been shown after the backup was made"
                )
            if reservation.fresh:
                self.draws.check_paid(reservation)
            found = self._found(reservation, question)
            sealed = self._seal(reservation, question, found)  # a retry now reads; it never draws again
        self.ledger.publish(self.id, Seal(reservation.id, sealed.digest))  # from here on it may be shown
        return sealed

    def _published(self, id: bytes, answer: bytes) -> Sealed:
        """The vault's answer whose digest the ledger shows, and no other."""
        sealed = self.vault.answer(id)
        if sealed is None:
            raise AnswerLost(f"the answer {id.hex()[:12]} was published, but the vault has lost it")
        if sealed.digest != answer:
            raise Tampered(f"the vault's answer {id.hex()[:12]} is not the one on the ledger")
        return sealed

    # -- the steps -----------------------------------------------------------------------------

    def parse(self, sql: str) -> Question:
        """SQL, or the name of one of the policy's queries, to a canonical question."""
        return self._parsed(self.named(sql))

    def question(self, request: Request) -> Question:
        """What a request asks."""
        return self.parse(request.body["sql"])

    def named(self, sql: str) -> str:
        """The SQL behind the name of one of the policy's queries, or the SQL itself."""
        if not isinstance(sql, str):
            raise BadRequest("sql", type(sql).__name__, "must be text")
        return self.policy.queries.get(sql.strip(), sql)

    def price(self, question: Question, wished: Wish) -> Precision:
        """A wish to a target precision."""
        return self._priced(question, wished)

    def _price(self, question: Question, wished: Wish) -> Precision:
        moves = self._sensitivity(question.query)
        return price(wished, moves if question.unit == 1 else moves * abs(question.unit))

    def plan(self, question: Question, wanted: Precision, plainly: bool = False) -> Plan:
        """Case and price. What the answer builds on must be sealed first; metadata is compared."""
        records = self._records(question.query)
        planned = plan(wanted, records)
        if planned.case is Case.REPEAT and planned.reused is not None and self._finished(planned.reused.id):
            return planned  # it is published: there is nothing to finish, draw or measure
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
        """Keeps the requests before anything is charged. Their ids name the reservations."""
        requests = self._asking.requests(asked, wanted, self._entropy.token(16).hex() if key is None else key, analyst)
        for request in requests:
            self.vault.save_request(request)
        return requests[-len(asked) :]

    def costs(self, asked: Sequence[tuple[Question, Plan]]) -> tuple[Precision, ...]:
        """What each part of a group would cost now, decided one after the other."""
        return self.ledger.books.costs(
            [self._claim(bytes(32), THE_OWNER, question, planned, NOTHING) for question, planned in asked]
        )

    def _claim(self, id: bytes, analyst: bytes, question: Question, planned: Plan, limit: Precision) -> Claim:
        query, runs = question.query, runs_of(planned.charges)
        wanted = planned.wanted if planned.claimed is None else planned.claimed
        return Claim(self.id, id, self.secrets.query(query), analyst, query.about, wanted, limit, planned.cube, runs)

    def _reserved(self, requests: Sequence[Request]) -> list[Reservation] | None:
        """The reservations of a group; None if there are none yet: the contract takes all or nothing."""
        found = [self.ledger.reservation(self.id, request.id) for request in requests]
        known = [reservation for reservation in found if reservation is not None]
        if known and len(known) < len(found):
            raise Tampered("the ledger has reserved a part of a group")
        return known or None

    def _reserve(
        self,
        requests: Sequence[Request],
        asked: Sequence[tuple[Question, Wish]],
        planned: Sequence[Plan],
        agreed: Precision | None,
    ) -> list[Reservation]:
        """One transaction for all of it. Each part may cost what was planned, one alone up to what was agreed."""
        fresh = [question.query for (question, _), each in zip(asked, planned, strict=True) if each.fresh]
        self.draws.check_next(fresh, self.policy)
        claims = [
            self._claim(request.id, self.analyst(request.analyst), question, each, NOTHING)
            for request, (question, _), each in zip(requests, asked, planned, strict=True)
        ]
        costs = self.ledger.books.costs(claims)
        if agreed is not None and len(planned) > 1 and sum(costs, NOTHING) > agreed:
            raise PriceMoved(agreed)
        limited = []
        for claim, each, cost in zip(claims, planned, costs, strict=True):
            most = cost if each.cube else each.wanted
            limit = cost if agreed is None or len(planned) > 1 else min(agreed, most)
            limited.append(replace(claim, limit=limit) if limit else claim)
        return list(self.ledger.reserve(*limited))

    def _found(self, reservation: Reservation, question: Question) -> dict[str, Any]:
        """What is sealed of an answer besides what the ledger says."""
        written = [[value.numerator, value.shift] for value in self._obtain(reservation, question)]
        return {"values": written} if question.query.by else {"value": written[0]}

    def _obtain(self, reservation: Reservation, question: Question) -> tuple[GridValue, ...]:
        """The answer in steps, one number or one a group, by the case that the contract decided."""
        moves = self._sensitivity(question.query)
        if reservation.fresh:
            measured = self._measure(reservation, question, moves)
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
        return tuple(draw(bridge(reservation.wanted, moves, points), self._entropy) for points in bridges)

    def _measure(self, reservation: Reservation, question: Question, moves: Fraction) -> tuple[GridValue, ...]:
        try:
            self._check_identity()
            measured = measure(self.engine, question.query, moves, reservation, self._entropy)
            self._check_identity()  # a table that changed under the scan is not the one we opened
        except BadTable as error:  # a lost connection, most likely; nothing was drawn, so nothing is lost
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
        kept = self.vault.seal(sealed)
        if kept.salt != sealed.salt:
            self._discarded()
        return kept

    def _discarded(self) -> None:
        """Somebody sealed another sample for this reservation before: ours was never there."""

    def _answer(self, reservation: Reservation, sealed: Sealed, question: Question) -> Answer:
        tell = self._in_unit if question.query.by else self._told
        values, value, stddev = tell(sealed, question, reservation.wanted)
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
        """The released numbers in the asker's unit, the first of them as a float, and the standard deviation."""
        values = tuple(released(value, question.unit, question.offset) for value in sealed.values)
        if "variances" in sealed.body:
            largest = max(Fraction(variance) for variance in sealed.body["variances"])
            return values, float(values[0]), sqrt(largest * question.unit**2)
        moves = self._sensitivity(question.query)
        return values, float(values[0]), standard_deviation(moves, question.unit, wanted)

    def _receipt(self, reservation: Reservation, sealed: Sealed) -> Receipt:
        """Of the published answer: a repeated one has the receipt of the recorded one."""
        published = self.ledger.reservation(self.id, sealed.id) or reservation
        block = published.published_in
        assert block is not None, "only published answers are shown"
        prove = self._proof if "values" in sealed.body else self._proven
        return prove(sealed, block, self.ledger.block_digest(block))

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

    # -- what the steps stand on ---------------------------------------------------------------

    def _turns(self, queries: Sequence[Query], requests: Sequence[Request] = ()) -> AbstractContextManager[object]:
        """The turns of all queries of a group, over all gateways; then what others did before is known here.

        Before them the turns of the requests: the same one may come twice at once, and only the first reserves.
        """
        once = self._requested([bytes((request.id[0], request.id[1] & 15)) for request in requests])  # 4,096 locks
        if queries or self.ledger.shared or self.vault.shared:
            return self._in_turn(once, queries)
        try:  # nobody else writes the books, and nothing is drawn: there is nobody to wait for
            self._catch_up(queries)
        except BaseException:
            once.release()
            raise
        return once

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
        """Completes a reservation that was interrupted, in its turn; another gateway may have done so meanwhile."""
        with self._turns([question.query]):
            self.complete(self.ledger.reservation(self.id, reservation.id) or reservation, question)

    def _contended(self, asked: Sequence[tuple[Question, Wish]], wanted: Sequence[Precision]) -> list[Query]:
        """The queries whose turns must be taken: none if all answers are recorded and published, since the contract
        finds the same records and says REPEAT, and nothing is drawn."""
        queries = [question.query for question, _ in asked]
        if all(self._repeats(query, units) for query, units in zip(queries, wanted, strict=True)):
            return []
        return queries

    def _repeats(self, query: Query, wanted: Precision) -> bool:
        """Whether there is a published answer of exactly this precision."""
        equal = next((record for record in self._records(query) if record.precision == wanted), None)
        return equal is not None and self._finished(equal.id)

    def _finished(self, id: bytes) -> bool:
        """Whether an answer is published."""
        found = self.ledger.reservation(self.id, id)
        return found is not None and found.finished

    def _turns_of(self, query: Query) -> list[bytes]:
        """One at a time per query: concurrent blurs from the same neighbours would average out."""
        return [query.digest]

    def _records(self, query: Query) -> tuple[Record, ...]:
        return self.ledger.records(self.id, self.secrets.query(query))

    def _sensitivity(self, query: Query) -> Fraction:
        return self._moved(query)

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
            self.complete(reservation, self.question(request))

    def _check_noise(self, query: Query, planned: Plan) -> None:
        """Noise that 64 bits cannot hold is refused before it is paid for."""
        moves = self._sensitivity(query)
        for precision in (planned.wanted, planned.fresh):
            if precision:
                _check_scale(moves, precision)

    def _check_identity(self) -> None:
        if self.engine.identity() != self._identity:  # not quoted: the size of a file tells neighbours apart
            raise TableChanged(f"the table of {self.name} changed since this account was opened: open its next version")


def size_of(key: object, value: object) -> int:
    """Bytes of what is kept of a question; the policy and its columns are there anyway."""
    return deep_size((key, value), (Policy, Column))


@lru_cache(maxsize=1_024)
def _check_scale(moves: Fraction, precision: Precision) -> None:
    noise_scale(fresh_variance(moves * moves, precision))
