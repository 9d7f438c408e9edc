"""Local budgets on the ledger: a device or a group enrols once, and every round that it answers is charged before.

The unit is pure epsilon, which adds up over rounds. The account bounds what any one member gives away in all rounds
together. It protects against a collector who asks too often, not against a device that reports off its books.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

from noisebank.digests import commitment, derived_salt, keccak, tagged
from noisebank.entropy import Entropy
from noisebank.errors import AnswerLost, BadRequest, Tampered
from noisebank.federated.local import Schema, Terms, collect
from noisebank.federated.local.reports import LEVELS, planned
from noisebank.ledger.chain import Chain
from noisebank.ledger.protocol import THE_OWNER, AccountState, Claim, Opening, Reservation, Seal, Unit
from noisebank.opening import Rooms
from noisebank.owning import opened_by, own_row
from noisebank.records import Case
from noisebank.units import Exact, Precision, exact
from noisebank.vault.vault import Sealed, Vault

ABOUT_LOCAL = 64
"""The public byte of a local report."""
NAME_LIMIT = 200


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
        value = _positive(epsilon)
        schema.read(record)  # what cannot be reported is refused before anything is charged
        planned(schema, Terms(below(value), mechanism, levels))
        with self._turn():
            reservation = self._spend(_text("round", round), Precision.ceil(value))
            sealed = self._vault.answer(reservation.id)
            if sealed is None:
                if reservation.answer is not None or reservation.id in self._vault.lost:
                    raise AnswerLost(f"the report of round {round} was published, but the vault has lost it")
                made = collect(record, schema, below(value), mechanism, levels).encode(schema)
                sealed = self._seal(reservation, made, schema)
            if reservation.answer is None:
                self._ledger.publish(self.id, Seal(reservation.id, sealed.digest))
            elif reservation.answer != sealed.digest:
                raise Tampered(f"the vault's report of round {round} is not the one on the ledger")
            if sealed.body["schema"] != schema.fingerprint.hex():
                raise BadRequest("schema", "another one", f"round {round} was reported under another schema")
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

    def _seal(self, reservation: Reservation, report: bytes, schema: Schema) -> Sealed:
        body = {
            "account": self.id.hex(),
            "id": reservation.id.hex(),
            "wanted": reservation.wanted.units,
            "value": [0, 0],  # a report is no point of a bridge
            "report": report.hex(),
            "schema": schema.fingerprint.hex(),
        }
        sealed = Sealed(reservation.id, self.id, reservation.query, body, self._entropy.token())
        return self._vault.seal(sealed)  # the first that was sealed for this round, whoever made it


def enrol(rooms: Rooms, name: str, epsilon: Exact, raise_delay: int = 86_400) -> LocalAccount:
    """Opens a budget of pure epsilon for a device or group. The vault's row first, then the ledger's account."""
    budget = Precision.floor(_positive(epsilon))
    if any(account.name == _text("name", name) for account in enrolled(rooms)):
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


def _text(parameter: str, text: str) -> str:
    if not isinstance(text, str) or not 0 < len(text) <= NAME_LIMIT or not text.isprintable():
        raise BadRequest(parameter, ascii(text)[:40], f"must have 1 to {NAME_LIMIT} printable characters")
    return text
