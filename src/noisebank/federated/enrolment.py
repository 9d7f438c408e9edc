"""Local budgets on the ledger: a device or a group enrols once, and every round that it answers is charged before.

The unit is pure epsilon, which adds up over rounds. The account bounds what any one member gives away in all rounds
together. It protects against a collector who asks too often, not against a device that reports off its books.

Whoever sends the orders may be hostile, so a device keeps one rule: check the order against public rules, charge it,
only then read the record; after that nothing can fail in a way that depends on the record. `LocalAccount.answer` is the
only door, and its types keep the order: a `RoundOrder` is checked when it is made, a `Reservation` is the charge, and
the record is a function that is called last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

from noisebank.bank.opening import Rooms
from noisebank.bank.own_accounts import opened_by, own_row
from noisebank.core.digests import commitment, derived_salt, keccak, tagged
from noisebank.core.entropy import Entropy
from noisebank.core.errors import AnswerLost, BadRequest, Tampered
from noisebank.core.records import Case
from noisebank.core.units import Exact, Precision, exact
from noisebank.federated.ldp import Schema, Terms
from noisebank.federated.ldp.moments import MAX_EPSILON, MIN_EPSILON
from noisebank.federated.ldp.reports import LEVELS, planned
from noisebank.ledger.chain import Chain
from noisebank.ledger.protocol import THE_OWNER, AccountState, Claim, Opening, Reservation, Seal, Unit
from noisebank.vault.vault import Sealed, Vault

ABOUT_LOCAL = 64
"""The public byte of a local report."""
NAME_LIMIT = 200
ENROLLING = keccak(b"noisebank enrolments")
"""The turn of whoever enrols: two gateways must not give one device two budgets."""
ReadRecord = Callable[[], Sequence[object]]
"""Reads a device's record, in the order of the schema's attributes. Called after the charge, once."""


@dataclass(frozen=True, slots=True)
class RoundOrder:
    """What a collector asks of a device in one round. One that exists has been checked, from itself alone."""

    round: str
    schema: Schema
    epsilon: Fraction
    mechanism: str = "best"
    levels: int = LEVELS

    def __post_init__(self) -> None:
        _text("round", self.round)
        if not isinstance(self.schema, Schema):
            raise BadRequest("schema", type(self.schema).__name__, "must be a schema")
        epsilon = _positive(self.epsilon)
        if not Fraction(MIN_EPSILON) <= epsilon <= Fraction(MAX_EPSILON):
            raise BadRequest("epsilon", "of the order", f"must lie in [{MIN_EPSILON:g}, {MAX_EPSILON:g}]")
        object.__setattr__(self, "epsilon", epsilon)
        planned(self.schema, self.terms)  # whatever no report can be made for is refused here

    @property
    def charge(self) -> Precision:
        """What it costs: never less than what the report gives away."""
        return Precision.ceil(self.epsilon)

    @property
    def terms(self) -> Terms:
        """What the report is made under: never more than is charged."""
        return Terms(below(self.epsilon), self.mechanism, self.levels)

    @property
    def digest(self) -> bytes:
        """Tells two orders of a round apart."""
        asked = {"schema": self.schema.digest.hex(), "mechanism": self.mechanism, "levels": self.levels}
        return tagged("local order 1", {**asked, "round": self.round, "epsilon": str(self.epsilon)})


def draw_report(order: RoundOrder, charge: Reservation, read: ReadRecord) -> bytes:
    """One report on what `read` returns. Reads the record; nothing before it does.

    Requires: the charge is on the ledger. Guarantees: returns a report, whatever the record is and whatever reading it
    does. A record that cannot be read is reported like one in which everything is missing: the collector sees the same
    kind of report, and its owner finds out by `local check`, which nobody else sees.
    """
    if charge.wanted < order.charge:
        raise Tampered(f"round {order.round} was charged {charge.wanted}, less than its report gives away")
    plan = planned(order.schema, order.terms)
    try:
        values = list(read())
    except Exception:  # an owner's own code may do anything; a failure would be an answer that nobody paid for
        values = []
    return plan.report(values).encode(order.schema)


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What the vault keeps for a device or group."""

    name: str
    secret: bytes
    data: bytes


class LocalAccount:
    """One device's or group's budget of pure epsilon. Safe for many threads."""

    def __init__(self, id: bytes, enrolment: Enrolment, ledger: Chain, vault: Vault, entropy: Entropy) -> None:
        self.id, self.enrolment = id, enrolment
        self._ledger, self._vault, self._entropy = ledger, vault, entropy

    @property
    def name(self) -> str:
        """How its owner calls it."""
        return self.enrolment.name

    @property
    def state(self) -> AccountState:
        """Budget and spend, in epsilon."""
        return self._ledger.account(self.id)

    def spend(self, round: str, epsilon: Exact) -> Reservation:
        """Charges a round, once: asking again for the same round is free and gives the same reservation.

        A round has one epsilon. A second report with another one would be a second sample, and the difference between
        the two would not pay for it.
        """
        units = Precision.ceil(_positive(epsilon))
        with self._turn():
            return self._spend(_text("round", round), units)

    def report(
        self, round: str, record: Mapping[str, object], schema: Schema, epsilon: Exact, mechanism: str = "best",
        levels: int = LEVELS,
    ) -> bytes:  # fmt: skip
        """One round's report on one record, charged first, sealed before it leaves; asked again: the same bits."""
        order = RoundOrder(round, schema, _positive(epsilon), mechanism, levels)
        return self.answer(order, lambda: schema.read(record))

    def answer(self, order: RoundOrder, read: ReadRecord) -> bytes:
        """The report on an order: charged, drawn, sealed, published. The same order again gives the same bits.

        Raises only for what the order, the books and the disk say: `read` is called after the charge, and neither what
        it returns nor what it raises changes anything but the noisy bits of the report.
        """
        with self._turn():
            reservation = self._spend(order.round, order.charge)  # spent from here on
            sealed = self._vault.answer(reservation.id)
            if sealed is None:
                if reservation.answer is not None or reservation.id in self._vault.lost:
                    raise AnswerLost(f"the report of round {order.round} was published, but the vault has lost it")
                sealed = self._seal(reservation, draw_report(order, reservation, read), order)
            if reservation.answer is None:
                self._ledger.publish(self.id, Seal(reservation.id, sealed.digest))
            elif reservation.answer != sealed.digest:
                raise Tampered(f"the vault's report of round {order.round} is not the one on the ledger")
            if not _answers(sealed, order):
                raise BadRequest(
                    "order", "another one", f"round {order.round} was reported for another order or schema"
                )
        return bytes.fromhex(sealed.body["report"])

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One round at a time, over all gateways; then what others did before is known here."""
        with self._vault.turns([self.id]):
            self._ledger.refresh()
            yield

    def _spend(self, round: str, wanted: Precision) -> Reservation:
        query = commitment(derived_salt(self.enrolment.secret, "round", round.encode()), keccak(round.encode()))
        id = tagged("local round 1", {"account": self.id.hex(), "round": query.hex()})
        found = self._ledger.reservation(self.id, id)
        if found is None:
            (found,) = self._ledger.reserve(Claim(self.id, id, query, THE_OWNER, ABOUT_LOCAL, wanted, wanted))
            if found.case is not Case.FIRST:
                raise Tampered(f"round {round} was charged under another id")
        if found.wanted != wanted:
            raise BadRequest("epsilon", wanted, f"round {round} was charged {found.wanted}; a round has one epsilon")
        return found

    def _seal(self, reservation: Reservation, report: bytes, order: RoundOrder) -> Sealed:
        body = {
            "account": self.id.hex(),
            "id": reservation.id.hex(),
            "wanted": reservation.wanted.units,
            "value": [0, 0],  # a report is no point of a bridge
            "report": report.hex(),
            "schema": order.schema.fingerprint.hex(),
            "order": order.digest.hex(),
        }
        sealed = Sealed(reservation.id, self.id, reservation.query, body, self._entropy.token())
        return self._vault.seal(sealed)  # the first that was sealed for this round, whoever made it


def enrol(rooms: Rooms, name: str, epsilon: Exact, raise_delay: int = 86_400) -> LocalAccount:
    """Opens a budget of pure epsilon for a device or group. The vault's row first, then the ledger's account."""
    budget = Precision.floor(_positive(epsilon))
    _text("name", name)
    with rooms.vault.turns([ENROLLING]):
        rooms.ledger.refresh()
        if any(account.name == name for account in enrolled(rooms)):
            raise BadRequest("name", name, "is enrolled already; a device has one budget")
        secret, salt = rooms.entropy.token(), rooms.entropy.token()
        data = commitment(salt, keccak(name.encode()))
        kept = opened_by(rooms.ledger) | {"local": name, "secret": secret.hex(), "data_salt": salt.hex()}
        rooms.vault.save_opening(data, kept)
        policy = tagged("local policy 1", {"unit": "pure epsilon", "a round has": "one epsilon"})
        id = rooms.ledger.open_account(Opening(budget, policy, data, raise_delay, Unit.EPSILON))
    return LocalAccount(id, Enrolment(name, secret, data), rooms.ledger, rooms.vault, rooms.entropy)


def enrolled(rooms: Rooms) -> tuple[LocalAccount, ...]:
    """All devices and groups of this bank."""
    found = []
    for state in rooms.ledger.books.accounts():
        kept = own_row(rooms.ledger, rooms.vault, state)
        if kept is not None and "local" in kept and state.unit is Unit.EPSILON:
            enrolment = Enrolment(kept["local"], bytes.fromhex(kept["secret"]), state.data)
            found.append(LocalAccount(state.account, enrolment, rooms.ledger, rooms.vault, rooms.entropy))
    return tuple(found)


def local_account(rooms: Rooms, name: str) -> LocalAccount:
    """One device or group by its name."""
    found = {account.name: account for account in enrolled(rooms)}
    if name not in found:
        raise BadRequest("name", name, f"is not enrolled; this bank has {', '.join(sorted(found)) or 'nobody yet'}")
    return found[name]


def _positive(epsilon: Exact) -> Fraction:
    value = exact(epsilon, "epsilon")
    if value <= 0:
        raise BadRequest("epsilon", epsilon, "must be positive")
    return value


def below(value: Fraction) -> float:
    """The largest float that is not above the rational, so that a mechanism never gives away more than is charged."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, 0.0)


def _answers(sealed: Sealed, order: RoundOrder) -> bool:
    """Whether the report was made for this order. Those of earlier versions name their schema only."""
    if "order" in sealed.body:
        return bool(sealed.body["order"] == order.digest.hex())
    return bool(sealed.body["schema"] == order.schema.fingerprint.hex())


def _text(parameter: str, text: str) -> str:
    if not isinstance(text, str) or not 0 < len(text) <= NAME_LIMIT or not text.isprintable():
        raise BadRequest(parameter, ascii(text)[:40], f"must have 1 to {NAME_LIMIT} printable characters")
    return text
