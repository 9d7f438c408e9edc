"""Local budgets on the ledger: a device or group enrols once (`enrol`); each round is charged before it is answered.

The unit is pure epsilon, which adds up over rounds. The account bounds what one member reveals in all rounds together.
It protects against a collector who asks too often, not against a device that reports without charging.

Whoever sends the orders may be hostile, so a device follows one rule: check the order against public rules, charge it,
only then read the record; after that nothing can fail in a way that depends on the record. `LocalAccount.answer_order`
is the only way to a report, and its types enforce the sequence: a `RoundOrder` is checked when it is made, a
`Reservation` is the charge, and the record is a function that is called last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

from noisebank.bank.folder import BankParts
from noisebank.bank.own_accounts import find_own_opening, opener_entry
from noisebank.core.digests import derive_salt, digest_tagged, keccak, make_commitment
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BadRequest, Tampered
from noisebank.core.records import Case
from noisebank.core.units import Exact, Precision, parse_exact
from noisebank.federated.ldp import ReportTerms, Schema
from noisebank.federated.ldp.moments import MAX_EPSILON, MIN_EPSILON
from noisebank.federated.ldp.reports import DEFAULT_LEVELS, plan_reports
from noisebank.ledger.chain import Ledger
from noisebank.ledger.protocol import OWNER_ANALYST, AccountOpening, AccountState, Claim, Reservation, Unit
from noisebank.vault.settlement import settle_one
from noisebank.vault.vault import SealedAnswer, Vault

LOCAL_CATEGORY = 64
"""The category byte of a local report on the ledger."""
MAX_NAME_LENGTH = 200
ENROLMENT_TURN = keccak(b"noisebank enrolments")
"""Id of the lock that enrolling takes: two gateways must not give one device two budgets."""
ReadRecord = Callable[[], Sequence[object]]
"""Returns a device's record, in the order of the schema's attributes. Called once, after the charge."""


@dataclass(frozen=True, slots=True)
class RoundOrder:
    """What a collector asks of a device in one round. Checked when it is made, from its own fields alone."""

    round: str
    schema: Schema
    epsilon: Fraction
    mechanism: str = "best"
    levels: int = DEFAULT_LEVELS

    def __post_init__(self) -> None:
        _check_text("round", self.round)
        if not isinstance(self.schema, Schema):
            raise BadRequest("schema", type(self.schema).__name__, "must be a schema")
        epsilon = _parse_epsilon(self.epsilon)
        if not Fraction(MIN_EPSILON) <= epsilon <= Fraction(MAX_EPSILON):
            raise BadRequest("epsilon", "of the order", f"must lie in [{MIN_EPSILON:g}, {MAX_EPSILON:g}]")
        object.__setattr__(self, "epsilon", epsilon)
        plan_reports(self.schema, self.report_terms)  # refuses here what no report can be made for

    @property
    def cost(self) -> Precision:
        """Cost in pure epsilon: never less than what the report reveals."""
        return Precision.ceil(self.epsilon)

    @property
    def report_terms(self) -> ReportTerms:
        """Terms of the report: its epsilon is never more than what is charged."""
        return ReportTerms(float_below(self.epsilon), self.mechanism, self.levels)

    @property
    def digest(self) -> bytes:
        """Digest of all fields: tells two orders of one round apart."""
        method = {"schema": self.schema.digest.hex(), "mechanism": self.mechanism, "levels": self.levels}
        return digest_tagged("local order 1", {**method, "round": self.round, "epsilon": str(self.epsilon)})


def draw_report(order: RoundOrder, reservation: Reservation, read_record: ReadRecord) -> bytes:
    """Return one report on the record that `read_record` returns. Nothing before this reads the record.

    Requires: the reservation is on the ledger. Guarantees: returns a report, whatever the record is and whatever
    reading it raises. An unreadable record is reported like one in which everything is missing: the collector sees the
    same kind of report, and the owner finds out by `local check`, which nobody else sees.
    """
    if reservation.target < order.cost:
        raise Tampered(f"round {order.round} was charged {reservation.target}, less than its report gives away")
    plan = plan_reports(order.schema, order.report_terms)
    try:
        values = list(read_record())
    except Exception:  # the owner's code may raise anything; a visible failure would be an answer that nobody paid for
        values = []
    return plan.draw_report(values).encode(order.schema)


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What the vault stores for a device or group."""

    name: str
    secret: bytes
    data: bytes


class LocalAccount:
    """One device's or group's budget of pure epsilon. Safe for many threads."""

    def __init__(self, id: bytes, enrolment: Enrolment, ledger: Ledger, vault: Vault, entropy: Entropy) -> None:
        self.id, self.enrolment = id, enrolment
        self._ledger, self._vault, self._entropy = ledger, vault, entropy

    @property
    def name(self) -> str:
        """The name that its owner gave it."""
        return self.enrolment.name

    @property
    def state(self) -> AccountState:
        """Budget and spend, in epsilon."""
        return self._ledger.get_account(self.id)

    def charge_round(self, round: str, epsilon: Exact) -> Reservation:
        """Charge a round once; a second call for the same round is free and returns the same reservation.

        A round has one epsilon. A second report with another one would be a second sample, which the difference
        between the two would not pay for.
        """
        units = Precision.ceil(_parse_epsilon(epsilon))
        with self._take_turn():
            return self._charge_round(_check_text("round", round), units)

    def make_report(
        self, round: str, record: Mapping[str, object], schema: Schema, epsilon: Exact, mechanism: str = "best",
        levels: int = DEFAULT_LEVELS,
    ) -> bytes:  # fmt: skip
        """Return one round's report on one record: charged first, sealed before it leaves, the same bits every time."""
        order = RoundOrder(round, schema, _parse_epsilon(epsilon), mechanism, levels)
        return self.answer_order(order, lambda: schema.encode_record(record))

    def answer_order(self, order: RoundOrder, read_record: ReadRecord) -> bytes:
        """Return the report on an order: charged, drawn, sealed, published. The same order again gives the same bits.

        Errors depend on the order, the books and the disk alone: `read_record` is called after the charge, and neither
        what it returns nor what it raises changes anything but the noisy bits of the report.
        """
        with self._take_turn():
            reservation = self._charge_round(order.round, order.cost)  # spent from here on
            sealed = settle_one(
                reservation,
                self._vault,
                self._ledger,
                draw=lambda: self._make_answer(reservation, draw_report(order, reservation, read_record), order),
            )
            if not _matches_order(sealed, order):
                raise BadRequest(
                    "order", "another one", f"round {order.round} was reported for another order or schema"
                )
        return bytes.fromhex(sealed.body["report"])

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        """Run one round at a time, over all gateways, with the ledger read up to what others did before."""
        with self._vault.acquire_locks([self.id]):
            self._ledger.refresh()
            yield

    def _charge_round(self, round: str, cost: Precision) -> Reservation:
        query = make_commitment(derive_salt(self.enrolment.secret, "round", round.encode()), keccak(round.encode()))
        id = digest_tagged("local round 1", {"account": self.id.hex(), "round": query.hex()})
        reservation = self._ledger.find_reservation(self.id, id)
        if reservation is None:
            (reservation,) = self._ledger.reserve(Claim(self.id, id, query, OWNER_ANALYST, LOCAL_CATEGORY, cost, cost))
            if reservation.case is not Case.FIRST:
                raise Tampered(f"round {round} was charged under another id")
        charged = reservation.target
        if charged != cost:
            raise BadRequest("epsilon", cost, f"round {round} was charged {charged}; a round has one epsilon")
        return reservation

    def _make_answer(self, reservation: Reservation, report: bytes, order: RoundOrder) -> SealedAnswer:
        body = {
            "account": self.id.hex(),
            "id": reservation.id.hex(),
            "wanted": reservation.target.units,
            "value": [0, 0],  # a report is no point of a bridge
            "report": report.hex(),
            "schema": order.schema.fingerprint.hex(),
            "order": order.digest.hex(),
        }
        return SealedAnswer(reservation.id, self.id, reservation.query, body, self._entropy.token())


def enrol(rooms: BankParts, name: str, epsilon: Exact, raise_delay: int = 86_400) -> LocalAccount:
    """Open a budget of pure epsilon for a device or group: the vault's row first, then the ledger's account."""
    budget = Precision.floor(_parse_epsilon(epsilon))
    _check_text("name", name)
    with rooms.vault.acquire_locks([ENROLMENT_TURN]):
        rooms.ledger.refresh()
        if any(account.name == name for account in list_enrolled(rooms)):
            raise BadRequest("name", name, "is enrolled already; a device has one budget")
        secret, salt = rooms.entropy.token(), rooms.entropy.token()
        data = make_commitment(salt, keccak(name.encode()))
        row = opener_entry(rooms.ledger) | {"local": name, "secret": secret.hex(), "data_salt": salt.hex()}
        rooms.vault.save_opening(data, row)
        policy = digest_tagged("local policy 1", {"unit": "pure epsilon", "a round has": "one epsilon"})
        id = rooms.ledger.open_account(AccountOpening(budget, policy, data, raise_delay, Unit.EPSILON))
    return LocalAccount(id, Enrolment(name, secret, data), rooms.ledger, rooms.vault, rooms.entropy)


def list_enrolled(rooms: BankParts) -> tuple[LocalAccount, ...]:
    """Return the accounts of all devices and groups of this bank."""
    accounts = []
    for state in rooms.ledger.books.list_accounts():
        row = find_own_opening(rooms.ledger, rooms.vault, state)
        if row is not None and "local" in row and state.unit is Unit.EPSILON:
            enrolment = Enrolment(row["local"], bytes.fromhex(row["secret"]), state.data_commitment)
            accounts.append(LocalAccount(state.account, enrolment, rooms.ledger, rooms.vault, rooms.entropy))
    return tuple(accounts)


def local_account(rooms: BankParts, name: str) -> LocalAccount:
    """Return the account of a device or group by its name; `BadRequest` if it is not enrolled."""
    accounts = {account.name: account for account in list_enrolled(rooms)}
    if name not in accounts:
        names = ", ".join(sorted(accounts)) or "nobody yet"
        raise BadRequest("name", name, f"is not enrolled; this bank has {names}")
    return accounts[name]


def _parse_epsilon(epsilon: Exact) -> Fraction:
    value = parse_exact(epsilon, "epsilon")
    if value <= 0:
        raise BadRequest("epsilon", epsilon, "must be positive")
    return value


def float_below(value: Fraction) -> float:
    """Return the largest float that is not above the rational, so that a report never reveals more than is charged."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, 0.0)


def _matches_order(sealed: SealedAnswer, order: RoundOrder) -> bool:
    """Whether the report was made for this order. Reports of earlier versions record only their schema."""
    if "order" in sealed.body:
        return bool(sealed.body["order"] == order.digest.hex())
    return bool(sealed.body["schema"] == order.schema.fingerprint.hex())


def _check_text(parameter: str, text: str) -> str:
    if not isinstance(text, str) or not 0 < len(text) <= MAX_NAME_LENGTH or not text.isprintable():
        raise BadRequest(parameter, ascii(text)[:40], f"must have 1 to {MAX_NAME_LENGTH} printable characters")
    return text
