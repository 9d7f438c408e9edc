"""The device as a party: local reports, LDP-FedSGD, and what Flower's client would send, against a hostile server."""

from __future__ import annotations

import json
import math
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np

from hostile.judging import Attack, Planted, Transcript
from noisebank import NoisebankError
from noisebank.federated import enrolment
from noisebank.federated.fedsgd import device as device_module
from noisebank.federated.ldp import ReportTerms
from noisebank.federated.ldp import schema as schema_module
from support.banks import memory_rooms
from support.internals import (
    MECHANISM_NAMES,
    MODEL,
    ORDER,
    BadRequest,
    BankParts,
    Category,
    Device,
    LocalAccount,
    Number,
    ReadRecord,
    RoundOrder,
    Schema,
    answer_order,
    enrol,
    plan_reports,
)

NAME = "device"
BUDGET = 10_000
ENROLMENTS, ROUNDS = 100, 500
"""Devices of one bank, rounds of one device: then new ones are made, since a long history is slow to look through."""
Record = Mapping[str, object]
TOWNS = tuple(f"town {place}" for place in range(8))
CLASSES = ["category", "buys", "no", "yes"]


class Banks:
    """Fresh devices, in banks without a disk."""

    def __init__(self) -> None:
        self.rooms: BankParts | None = None
        self.device: LocalAccount | None = None
        self.used = self.rounds = 0

    def enrol(self) -> tuple[BankParts, LocalAccount]:
        if self.rooms is None or self.used == ENROLMENTS:
            self.rooms, self.used = memory_rooms(), 0
        self.used += 1
        return self.rooms, enrol(self.rooms, f"device {self.used}", BUDGET)

    def new_round(self) -> tuple[LocalAccount, str]:
        """A round that nobody has asked for, of a device that may have answered others: quicker than a new device."""
        if self.device is None or self.rounds == ROUNDS:
            self.device, self.rounds = self.enrol()[1], 0
        self.rounds += 1
        return self.device, f"round {self.rounds}"


BANKS = Banks()


def charged(account: LocalAccount) -> Fraction:
    return account.state.spent.exact


def said(act: Callable[[], bytes]) -> tuple[Any, ...]:
    """What leaves the device: a report, a refusal with its words, or a crash with its words."""
    try:
        return ("report", act())
    except NoisebankError as error:
        return ("refused", type(error).__name__, str(error))
    except Exception as error:
        return ("crashed", type(error).__name__, str(error))


def asked(account: LocalAccount, record: Record, parts: Sequence[Any], **terms: Any) -> tuple[Any, ...]:
    """A round of local reports whose every field comes from the collector."""

    def act() -> bytes:
        schema = Schema(tuple(_attribute(part) for part in parts))
        given = {"round": "r", "epsilon": "1", "mechanism": "duchi", "levels": 1, **terms}
        return account.make_report(
            given["round"], record, schema, given["epsilon"], given["mechanism"], given["levels"]
        )

    return said(act)


def _attribute(part: Any) -> Number | Category:
    kind, name, *rest = part
    return Number(name, *rest) if kind == "number" else Category(name, tuple(rest))


class _Model:
    def __init__(self, arrays: list[Any]) -> None:
        self.arrays = arrays

    def to_numpy_ndarrays(self) -> list[Any]:
        return self.arrays


def ordered(rooms: BankParts, account: LocalAccount, record: Record, weights: Any, group: Any = 0, **task: Any) -> Any:
    """A message of a FedSGD server, and what Flower's client would reply to it."""
    given = {
        "name": "t", "model": "logistic", "epsilon": "1", "mechanism": "duchi", "levels": 1, "group": 1, "devices": 1,
        "rate": "1", "shrink": "0", "radius": "10", "tolerance": "0", "target": "buys", **task,
    }  # fmt: skip
    content: Any = {ORDER: {"task": json.dumps(given), "group": group}, MODEL: _Model([weights])}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        name, words = answer_order(lambda: Device(rooms, account, [record], BUDGET), content)
    return (name, *words.values())


# -- attacks that are known ------------------------------------------------------------------------


def _halving(records: tuple[Record, Record], reports: Callable[[Any, Any, Record, tuple[str, ...]], Any]) -> Any:
    """Binary search for the town by lists of one half of what is left and a town that nobody lives in."""

    def play(which: int) -> Transcript:
        (rooms, account), left, seen = BANKS.enrol(), TOWNS, []
        while len(left) > 1:
            half, rest = left[: len(left) // 2], left[len(left) // 2 :]
            answer = reports(rooms, account, records[which], (*half, "nowhere"))
            seen.append(answer[0])
            left = half if answer[0] == "report" else rest
        return Transcript((tuple(seen), left), charged(account))

    return play


def _one(records: tuple[Record, Record], act: Callable[[Any, Any, Record], Any]) -> Callable[[int], Transcript]:
    def play(which: int) -> Transcript:
        rooms, account = BANKS.enrol()
        return Transcript(act(rooms, account, records[which]), charged(account))

    return play


def _round_of(records: tuple[Record, Record], *questions: Mapping[str, Any], parts: Sequence[Any]) -> Any:
    """Questions under the name of one round that is new."""

    def play(which: int) -> Transcript:
        account, name = BANKS.new_round()
        before = charged(account)
        seen = tuple(asked(account, records[which], parts, **{"round": name, **terms}) for terms in questions)
        return Transcript(tuple(sorted(map(_unnamed, seen))), charged(account) - before)

    return play


def _unnamed(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without the words of a refusal: they name the round, which differs from play to play."""
    return answer[:2] if answer[0] == "refused" else answer


LIVES = ({"town": TOWNS[1], "buys": "yes"}, {"town": TOWNS[6], "buys": "yes"})
PATIENTS = ({"age": 50, "hiv": "no", "income": 300}, {"age": 50, "hiv": "yes", "income": 300})
ENDS = ({"age": 0}, {"age": 100})
AGE, TOWN = (("number", "age", 0, 100),), (("category", "town", "a", "b"),)
PATIENT = [["number", "age", "0", "100"], ["category", "hiv", "no", "yes"], ["number", "income", "0", "1000"]]
RETRIES: tuple[Mapping[str, Any], ...] = ({}, {"mechanism": "pm"}, {"epsilon": "2"}, *[{}] * 7)
"""One charge, many tries: the same order, and others under the same round."""

ATTACKS: Sequence[Attack] = (
    Attack("binary search by reports", _halving(LIVES, lambda rooms, account, record, towns: asked(
        account, record, [("category", "town", *towns)], round=f"r{len(towns)}", epsilon="0.001"))),
    Attack("binary search by orders", _halving(LIVES, lambda rooms, account, record, towns: ordered(
        rooms, account, record, np.zeros(len(towns)), name=f"t{len(towns)}", epsilon="0.001",
        attributes=[["category", "town", *towns], CLASSES]))),
    Attack("overflow", _one(PATIENTS, lambda rooms, account, record: ordered(
        rooms, account, record, np.array([0.0, -1.7e308, 1.7e308]), model="linear", target="income",
        attributes=PATIENT))),
    Attack("the steepest gradient", _one(({"age": 100, "buys": "no"}, {"age": 100, "buys": "yes"}),
        lambda rooms, account, record: ordered(rooms, account, record, np.array([7.0, 7.0]), epsilon="2",
        model="hinge", attributes=[["number", "age", "0", "100"], CLASSES]))),
    Attack("an integer of 401 digits", _round_of(({"age": 10**401}, {"age": 41}), {"epsilon": "0.001"}, parts=AGE)),
    Attack("both ends of a range", _round_of(ENDS, {}, parts=AGE), plays=10_000),
    Attack("listed or not", _round_of(({"town": "a"}, {"town": "x"}), {}, parts=TOWN), plays=10_000),
    Attack("the same round again and again", _round_of(ENDS, *RETRIES, parts=AGE), plays=10_000),
)  # fmt: skip


# -- every field of every message ------------------------------------------------------------------

TEXTS = ("", "t", "r", "town", "age", "a\nb", "\0", "\ud800", "x" * 3000, "learning t", "0x", None, 7, True, ["t"])
EPSILONS = ("0.001", "0.5", "1", "2", "20", "21", "0", "-1", "nan", "inf", "1e-400", "1e400", "1e-18", "1/3", "0.1",
            "", "x", "１", "1e1000000000", None, 1, 0.3, float("nan"), 10**400, True)  # fmt: skip
MECHANISMS = (*MECHANISM_NAMES, "no", "", None, 3, ["best"])
LEVELS = (1, 2, 1000, 1 << 15, (1 << 15) + 1, 1 << 16, 0, -1, True, 1.5, "1", None, 10**30)
BOUNDS = (0, 100, -1, 1, 50, 1e300, -1e300, 1.7e308, -1.7e308, 5e-324, 1e-300, -0.0, float("nan"), float("inf"),
          10**400, "0", "100", "1e400", "nan", None, True)  # fmt: skip
VALUES = (*TOWNS, "yes", "no", "41", "", "\ud800", "\0", "x" * 1001, None, 3, True)
HELD = (0, 41, 50, 100, 1e308, -5, 10**401, -(10**401), float("nan"), float("inf"), True, None, "41", "yes", "no",
        *TOWNS, "\ud800", "yes\0", ["yes"], {"a": 1}, Fraction(1, 3))  # fmt: skip
FIELDS = ("age", "town", "buys", "income")
NUMBERS = (0.0, 1.0, -1.0, 7.0, -7.0, 1e16, 1.7e308, -1.7e308, 5e-324, float("nan"), float("inf"), -0.0)


def _record(chance: random.Random) -> Record:
    return {name: chance.choice(HELD) for name in FIELDS if chance.random() < 0.85}


ODD = 0.03
"""Share of the fields that are strange: so that about a third of the messages are refused, the others answered."""


def _usually(chance: random.Random, usual: Any, odd: Sequence[Any]) -> Any:
    return usual if chance.random() >= ODD else chance.choice(odd)


def _part(chance: random.Random, field: str, texts: bool) -> list[Any]:
    name = _usually(chance, field, TEXTS)
    if chance.random() < 0.5:
        bounds = [_usually(chance, usual, BOUNDS) for usual in (0, 100)]
        return ["number", name, *([str(bound)[:500] for bound in bounds] if texts else bounds)]
    listed = chance.sample((*TOWNS, "yes", "no"), _usually(chance, chance.randint(2, 5), (0, 1)))
    return ["category", name, *(_usually(chance, value, VALUES) for value in listed)]


def _round(chance: random.Random) -> Callable[[BankParts, LocalAccount, Record], Any]:
    fields = chance.sample(FIELDS, _usually(chance, chance.randint(1, 4), (0,)))
    parts = [_part(chance, field, False) for field in fields]
    terms = {
        "round": _usually(chance, chance.choice("rst"), TEXTS),
        "epsilon": _usually(chance, "0.5", EPSILONS),
        "mechanism": _usually(chance, "best", MECHANISMS),
        "levels": _usually(chance, 10, LEVELS),
    }
    return lambda rooms, account, record: asked(account, record, parts, **terms)


def _order(chance: random.Random) -> Callable[[BankParts, LocalAccount, Record], Any]:
    kind = chance.choice(["linear", "logistic", "hinge"])
    target = ["number", "income", "0", "1000"] if kind == "linear" else CLASSES
    fields = chance.sample([field for field in FIELDS if field != target[1]], chance.randint(1, 3))
    parts = [_part(chance, field, True) for field in fields]
    dimension = 1 + sum(1 if part[0] == "number" else max(0, len(part) - 3) for part in parts)
    shape = _usually(chance, (dimension,), [(dimension + 1,), (dimension, 1), (), (0,)])
    reach = _usually(chance, NUMBERS[:3], [NUMBERS[:5], NUMBERS])
    weights: Any = np.array([chance.choice(reach) for _ in range(math.prod(shape))]).reshape(shape)
    if chance.random() < ODD:
        weights = chance.choice([weights.tolist(), weights.astype(complex), weights.astype(object), None, "w"])
    task: dict[str, Any] = {
        "model": _usually(chance, kind, ["tree", None]),
        "name": _usually(chance, chance.choice("ab"), TEXTS),
        "attributes": [*parts, target],
        "target": _usually(chance, target[1], TEXTS),
        "epsilon": _usually(chance, "0.5", [one for one in EPSILONS if one != 10**400]),
        "mechanism": _usually(chance, "best", MECHANISMS),
        "levels": _usually(chance, 10, LEVELS),
        "radius": _usually(chance, "10", [*EPSILONS[:19], "1e9", "1e-9", "1e10"]),
        "devices": _usually(chance, 4, LEVELS),
        **({"strange": 1} if chance.random() < ODD else {}),
    }
    group = _usually(chance, chance.randint(0, 3), [*LEVELS, 4])
    return lambda rooms, account, record: ordered(rooms, account, record, weights, group, **task)


def _shape(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    """What must be the same for all records. A report's terms are; its bits are noise, its length follows from them."""
    return ("report", answer[1][:16]) if answer[0] == "report" else answer


def play_random(chance: random.Random) -> str:
    """A conversation of up to four messages: two records must be refused, charged and answered alike."""
    first, second = _record(chance), _record(chance)
    messages = [chance.choice((_round, _order))(chance) for _ in range(chance.randint(1, 4))]
    (rooms, one), (same, other) = BANKS.enrol(), BANKS.enrol()
    for place, message in enumerate(messages):
        here, there = message(rooms, one, first), message(same, other, second)
        if here[0] == "crashed":
            return f"message {place} crashed a device: {here}"
        if _shape(here) != _shape(there) or charged(one) != charged(other):
            return f"message {place}: {_shape(here)} and {charged(one)}, or {_shape(there)} and {charged(other)}"
    return ""


# -- bugs on purpose: what once was there ----------------------------------------------------------


def _reading_first() -> AbstractContextManager[object]:
    """The record is read, and refused if it does not fit, before anything is charged."""
    answer = LocalAccount.answer_order

    def early(self: LocalAccount, order: RoundOrder, read: ReadRecord) -> bytes:
        values = read()
        if any(value is None or (isinstance(value, float) and math.isnan(value)) for value in values):
            raise BadRequest("record", "of this device", "does not fit the order")
        return answer(self, order, lambda: values)

    return patch.object(LocalAccount, "answer_order", early)


@contextmanager
def _strict_rows() -> Iterator[None]:
    """And a row of a gradient refuses a category that is not listed."""
    place = Category.index_of

    def strict(self: Category, value: object) -> int | None:
        found = place(self, value)
        if found is None:
            raise BadRequest(self.name, "the device's value", "is not listed")
        return found

    with _reading_first(), patch.object(Category, "index_of", strict):
        yield


@contextmanager
def _any_weights() -> Iterator[None]:
    """Weights are not measured, and the gradient is computed before the charge."""
    with _reading_first(), patch.object(device_module, "_check_weights", lambda task, weights: weights):
        yield


@contextmanager
def _unguarded() -> Iterator[None]:
    """A record's value is made a float as it is, and nothing stands between that and the caller."""

    def draw(order: RoundOrder, charge: object, read: ReadRecord) -> bytes:
        return plan_reports(order.schema, order.report_terms).draw_report(read()).encode(order.schema)

    with (
        patch.object(enrolment, "draw_report", draw),
        patch.object(schema_module, "read_number", lambda value: float(value)),
    ):
        yield


def _more_than_charged() -> AbstractContextManager[object]:
    """The report gives away 3 where 1 is charged."""
    return patch.object(
        RoundOrder,
        "report_terms",
        property(lambda self: ReportTerms(3 * float(self.epsilon), self.mechanism, self.levels)),
    )


def _fresh_noise() -> AbstractContextManager[object]:
    """A round that was answered is drawn again for whoever asks again."""
    answer = LocalAccount.answer_order

    def again(self: LocalAccount, order: RoundOrder, read: ReadRecord) -> bytes:
        answer(self, order, read)
        return plan_reports(order.schema, order.report_terms).draw_report(read()).encode(order.schema)

    return patch.object(LocalAccount, "answer_order", again)


PLANTED: Sequence[Planted] = (
    Planted("a report refuses what is not listed, before the charge", _reading_first, "binary search by reports"),
    Planted("a gradient refuses what is not listed, before the charge", _strict_rows, "binary search by orders"),
    Planted("weights of any size, the gradient before the charge", _any_weights, "overflow", 240),
    Planted("a long integer crashes the report", _unguarded, "an integer of 401 digits"),
    Planted("a third of the noise", _more_than_charged, "both ends of a range", 1_000),
    Planted("asked again, drawn again", _fresh_noise, "the same round again and again", 640),
)
