"""Every refusal, every case and every event of the contract, one at a time, on the real bytecode."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import pytest

from contract.real import (
    CURATOR,
    DEPUTY,
    HEIR,
    OWNER,
    PLENTY,
    STRANGER,
    THE_OWNER,
    WHOLE,
    Real,
    Row,
    claim,
    contract_under_test,
    seal,
    word,
)  # fmt: skip
from contract.variants import SOURCES, variant
from support.internals import ZERO_ADDRESS, LedgerRefused

MAX_BUDGET, YEAR, WEEK = 2**96 - 1, 365 * 86400, 7 * 86400
MAX_WEIGHT = 2**64
FIRST, REPEAT, REFINE, BLUR, INFER = 1, 2, 4, 8, 16
ANALYST, OTHER, UNLIMITED = word(91), word(92), word(93)
"""Two with limits of 50, and one without."""
SMALL, LARGE = 1, 2
"""Cubes of 4 and 64 cells."""

Attempt = Callable[[Real, bytes], object]


@pytest.fixture
def real() -> Real:
    return Real()


@pytest.fixture
def account(real: Real) -> bytes:
    """Budget 100, a raise takes 10 seconds. Reservation 1 paid 40 for query 3, reservation 2 paid 10 in the small cube.
    ANALYST has used 10 of 50."""
    real.other = real.open(cubes=[4])  # type: ignore[attr-defined]
    account = real.open(budget=100, delay=10, cubes=[4, 64])
    for analyst in (ANALYST, OTHER):
        real.call(OWNER, "set_limit", account, analyst, 50)
    real.reserve(account, 1, 3, 40)
    real.reserve(account, 2, 5, 10, analyst=ANALYST, cube=SMALL, runs=[(1, 3, WHOLE)])
    return account


def everything(real: Real, account: bytes) -> list[object]:
    """All that one can see of the account, and of what the refusals below are about."""
    names = ("accounts", "desk", "money", "pending_raise", "pending_owner", "pending_curator")
    seen: list[object] = [real.view(name, account) for name in names]
    seen += [real.view("reservations", account, word(id)) for id in (1, 2, 50, 51)]
    seen += [real.view("view_of", account, analyst) for analyst in (ANALYST, OTHER, UNLIMITED, THE_OWNER)]
    seen += [real.view("balance_on", account, about) for about in (0, 1, 255, 256)]
    seen += [real.view("cells_of", account, cube) for cube in (0, 1, 2, 3, 255)]
    seen += [real.view("largest_cell", account, cube) for cube in (0, 1, 2, 3)]
    seen += [real.view("cell", account, cube, cell) for cube, cells in ((1, 4), (2, 8)) for cell in range(cells)]
    runs = [(0, ()), (1, ((1, 3, WHOLE),)), (1, ((0, 4, WHOLE),)), (2, ((0, 1, WHOLE),))]
    for query in (3, 4, 5):
        seen += [real.view("record", account, word(query), cube, own) for cube, own in runs]
    return [*seen, real.view("opened_by", OWNER)]


def opening(curator: str = CURATOR, unit: int = 1, budget: int = 5, delay: int = 0) -> Attempt:
    return lambda real, _: real.call(OWNER, "open_account", curator, unit, budget, word(1), word(2), delay)


def reserving(**changes: Any) -> Attempt:
    usual = {"id": 50, "query": 3, "wanted": 10}
    return lambda real, account: real.reserve(account, **{**usual, **changes})


def calling(sender: str, function: str, *arguments: Any) -> Attempt:
    return lambda real, account: real.call(sender, function, account, *arguments)


def waiting(seconds: int) -> Attempt:
    return lambda real, _: real.at(real.now + seconds)


def writing(**money: int) -> Attempt:
    return lambda real, account: real.write_money(account, **money)


def at_version(version: int) -> Attempt:
    return lambda real, account: real.write_version(account, version)


def on_another_account(attempt: Attempt) -> Attempt:
    return lambda real, _: attempt(real, real.other)  # type: ignore[attr-defined]


def on_no_account(attempt: Attempt) -> Attempt:
    return lambda real, _: attempt(real, word(12345))


# -- refused groups: by `reserve` as a revert, in a batch as an event ------------------------------


@dataclass(frozen=True)
class Group:
    """A group of claims that must be refused."""

    reason: str
    claims: Sequence[Row]
    runs: Sequence[Row] = ()
    before: Sequence[Attempt] = ()

    def __str__(self) -> str:
        return self.reason.replace(" ", "-")


def one(reason: str, *before: Attempt, runs: Sequence[Row] = (), **changes: Any) -> Group:
    usual: dict[str, Any] = {"id": 50, "query": 4, "wanted": 10, "runs": len(runs)}
    return Group(reason, (claim(**{**usual, **changes}),), tuple(runs), before)


def in_cube(reason: str, *runs: Row, cube: int = SMALL, **changes: Any) -> Group:
    return one(reason, cube=cube, runs=runs, **changes)


open_version = calling(OWNER, "open_version", word(70), word(71))
pause = calling(OWNER, "pause")

REFUSED_GROUPS: list[Group] = [
    one("paused", pause),
    one("paused", pause, query=3, wanted=40),
    one("paused", pause, cube=SMALL, wanted=0),
    one("id already used", id=1),
    one("id already used", id=1, query=3, wanted=40),
    one("id already used", open_version, id=1),
    one("id already used", calling(CURATOR, "publish", (seal(1),)), id=1),
    Group("id already used", (claim(50, 4, 1), claim(50, 6, 1))),
    one("too much wanted", wanted=MAX_BUDGET + 1),
    one("too much wanted", wanted=2**256 - 1),
    one("about is one byte", about=256),
    one("about is one byte", query=3, wanted=40, about=2**255),
    one("undeclared cube", cube=3, runs=((0, 1, WHOLE),)),
    one("undeclared cube", cube=256, runs=((0, 1, WHOLE),)),
    one("undeclared cube", cube=3, wanted=0),
    one("runs without a cube", runs=((0, 1, WHOLE),)),
    one("runs without a cube", wanted=0, cube=SMALL, runs=((0, 1, WHOLE),)),
    one("no runs", cube=SMALL),
    one("nothing wanted", wanted=0),
    one("price above limit", limit=9),
    one("price above limit", query=3, wanted=50, limit=9),
    in_cube("price above limit", (0, 2, WHOLE), limit=9),
    in_cube("price above limit", (3, 4, 3 * WHOLE), limit=19),
    in_cube("price above limit", (0, 1, WHOLE + 1), cube=LARGE, limit=10),
    one("budget exhausted", wanted=51),
    one("budget exhausted", query=3, wanted=91),
    one("budget exhausted", wanted=MAX_BUDGET),
    in_cube("budget exhausted", (0, 1, WHOLE), wanted=61),
    in_cube("budget exhausted", (1, 2, WHOLE), wanted=51),
    in_cube("budget exhausted", (63, 64, WHOLE), cube=LARGE, wanted=51),
    in_cube("budget exhausted", (0, 1, MAX_WEIGHT), wanted=MAX_BUDGET, limit=2**256 - 1),
    Group("budget exhausted", (claim(50, 4, 25), claim(51, 6, 26))),
    one("budget exhausted", calling(OWNER, "lower_budget", 50), wanted=1),
    one("budget exhausted", open_version, wanted=51),
    one("too many measurements", writing(measurements=2**20)),
    one("too many measurements", writing(measurements=2**20), query=3, wanted=41),
    one("too many measurements", writing(measurements=2**20), cube=SMALL, runs=((0, 1, WHOLE),)),
    in_cube("runs overlap", (0, 2, WHOLE), (1, 3, WHOLE)),
    in_cube("runs overlap", (2, 3, WHOLE), (0, 1, WHOLE)),
    in_cube("runs overlap", (0, 1, WHOLE), (0, 1, WHOLE)),
    in_cube("empty run", (1, 1, WHOLE)),
    in_cube("empty run", (0, 0, WHOLE)),
    in_cube("empty run", (2, 1, WHOLE)),
    in_cube("empty run", (0, 1, WHOLE), (1, 1, WHOLE)),
    in_cube("run out of range", (0, 5, WHOLE)),
    in_cube("run out of range", (4, 5, WHOLE)),
    in_cube("run out of range", (0, 65, WHOLE), cube=LARGE),
    in_cube("run out of range", (2**256 - 2, 2**256 - 1, WHOLE)),
    in_cube("weight out of range", (0, 1, 0)),
    in_cube("weight out of range", (0, 1, MAX_WEIGHT + 1)),
    in_cube("weight out of range", (0, 1, WHOLE), (1, 2, 2**256 - 1)),
    one("analyst without a limit", analyst=UNLIMITED),
    one("analyst without a limit", query=3, wanted=40, analyst=UNLIMITED),
    one("analyst without a limit", cube=SMALL, wanted=0, analyst=UNLIMITED),
    one("analyst without a limit", calling(OWNER, "set_limit", OTHER, 0), analyst=OTHER),
    one("view exhausted", calling(OWNER, "set_limit", OTHER, 9), analyst=OTHER),
    one("view exhausted", calling(OWNER, "set_limit", ANALYST, 49), query=3, wanted=40, analyst=ANALYST),
    one("view exhausted", calling(OWNER, "set_limit", OTHER, 9), cube=SMALL, wanted=0, analyst=OTHER),
    in_cube("view exhausted", (1, 3, WHOLE), query=5, wanted=51, analyst=ANALYST),
    Group("view exhausted", (claim(50, 4, 20, analyst=OTHER), claim(51, 3, 31, analyst=OTHER))),
    Group("runs missing", (claim(50, 4, 1, cube=SMALL, runs=1),)),
    Group("runs left over", (claim(50, 4, 1),), ((0, 1, WHOLE),)),
]  # fmt: skip
ABOUT_THE_CALL = {"runs missing", "runs left over"}
"""Here a batch is malformed as a whole, and refused as a whole."""


@pytest.mark.parametrize("group", REFUSED_GROUPS, ids=str)
def test_refused_group_says_why_and_changes_nothing(real: Real, account: bytes, group: Group):
    for step in group.before:
        step(real, account)
    before = everything(real, account)
    with pytest.raises(LedgerRefused) as refusal:
        real.call(CURATOR, "reserve", account, tuple(group.claims), tuple(group.runs))
    assert refusal.value.reason == f"ledger: {group.reason}"
    assert everything(real, account) == before


@pytest.mark.parametrize("group", REFUSED_GROUPS, ids=str)
def test_refused_group_of_a_batch_leaves_an_event_and_nothing_else(real: Real, account: bytes, group: Group):
    for step in group.before:
        step(real, account)
    before = everything(real, account)
    claims = tuple((*part[:-1], place == len(group.claims)) for place, part in enumerate(group.claims, 1))
    if group.reason in ABOUT_THE_CALL:
        with pytest.raises(LedgerRefused, match=f"ledger: {group.reason}"):
            real.call(CURATOR, "reserve_many", account, claims, tuple(group.runs))
    else:
        _, logged = real.call(CURATOR, "reserve_many", account, claims, tuple(group.runs))
        refused = {"account": account, "id": claims[0][0], "reason": f"ledger: {group.reason}"}
        assert logged == [("GroupRefused", refused)]
    assert everything(real, account) == before


# -- refused seals ---------------------------------------------------------------------------------

publish = calling(CURATOR, "publish", (seal(1),))

REFUSED_SEALS: list[tuple[str, Sequence[Row], Sequence[Attempt]]] = [
    ("no such reservation", (seal(50),), ()),
    ("no such reservation", (seal(1), seal(50)), ()),
    ("no such reservation", (seal(50),), (reserving(wanted=40),)),  # a REPEAT
    ("reservation burnt", (seal(1),), (open_version,)),
    ("reservation burnt", (seal(1),), (publish, open_version)),
    ("already published", (seal(1),), (publish,)),
    ("already published", (seal(1), seal(1)), ()),
    ("no answer", (seal(1, 0),), ()),
    ("no answer", (seal(1), seal(2, 0)), ()),
]


@pytest.mark.parametrize(("reason", "seals", "steps"), REFUSED_SEALS)
@pytest.mark.parametrize("batch", [False, True])
def test_refused_seals_say_why_and_change_nothing(
    real: Real, account: bytes, reason: str, seals: Sequence[Row], steps: Sequence[Attempt], batch: bool
):
    for step in steps:
        step(real, account)
    before = everything(real, account)
    seals = tuple((*part[:-1], place == len(seals)) for place, part in enumerate(seals, 1))
    if batch:
        _, logged = real.call(CURATOR, "publish_many", account, seals)
        refused = {"account": account, "id": seals[0][0], "reason": f"ledger: {reason}"}
        assert logged == [("GroupRefused", refused)]
    else:
        with pytest.raises(LedgerRefused, match=f"^ledger: {reason}$"):
            real.call(CURATOR, "publish", account, seals)
    assert everything(real, account) == before


# -- all other refusals ----------------------------------------------------------------------------

propose_raise = calling(OWNER, "propose_raise", 200)
finish_raise = calling(OWNER, "finish_raise")
propose_heir, accept_heir = calling(OWNER, "propose_owner", HEIR), calling(HEIR, "accept_owner")
propose_deputy, accept_deputy = calling(OWNER, "propose_curator", DEPUTY), calling(DEPUTY, "accept_curator")
add_cubes = [calling(OWNER, "add_cube", 1)] * 253

OWNERS_ONLY: list[tuple[Any, ...]] = [
    ("add_cube", 4),
    ("open_version", word(1), word(2)),
    ("set_limit", ANALYST, 60),
    ("pause",),
    ("resume",),
    ("lower_budget", 60),
    ("propose_raise", 200),
    ("finish_raise",),
    ("propose_owner", STRANGER),
    ("propose_curator", STRANGER),
]
CURATORS_ONLY: list[tuple[Any, ...]] = [
    ("reserve", (claim(50, 4, 1),), ()),
    ("reserve_many", (claim(50, 4, 1),), ()),
    ("publish", (seal(1),)),
    ("publish_many", (seal(1),)),
]

REFUSALS: list[tuple[str, list[Attempt]]] = [
    *(("not the owner", [calling(who, *call)]) for call in OWNERS_ONLY for who in (CURATOR, STRANGER)),
    *(("not the owner", [propose_heir, calling(HEIR, *call)]) for call in OWNERS_ONLY),
    *(("not the owner", [propose_heir, accept_heir, calling(OWNER, *call)]) for call in OWNERS_ONLY),
    *(("not the owner", [on_no_account(calling(OWNER, *call))]) for call in OWNERS_ONLY),
    ("not the owner", [pause, calling(CURATOR, "resume")]),
    ("not the owner", [propose_raise, waiting(10), calling(CURATOR, "finish_raise")]),
    *(("not the curator", [calling(who, *call)]) for call in CURATORS_ONLY for who in (OWNER, STRANGER)),
    *(("not the curator", [propose_deputy, calling(DEPUTY, *call)]) for call in CURATORS_ONLY),
    *(("not the curator", [propose_deputy, accept_deputy, calling(CURATOR, *call)]) for call in CURATORS_ONLY),
    *(("not the curator", [on_no_account(calling(CURATOR, *call))]) for call in CURATORS_ONLY),
    ("no curator", [opening(curator=ZERO_ADDRESS)]),
    ("no such unit", [opening(unit=0)]),
    ("no such unit", [opening(unit=3)]),
    ("budget of zero", [opening(budget=0)]),
    ("budget too large", [opening(budget=MAX_BUDGET + 1)]),
    ("budget too large", [opening(budget=2**256 - 1)]),
    ("budget too large", [calling(OWNER, "propose_raise", MAX_BUDGET + 1)]),
    ("delay too long", [opening(delay=YEAR + 1)]),
    *(
        ("cells not a power of two", [calling(OWNER, "add_cube", cells)])
        for cells in (0, 3, 5, 6, 7, 1023, 1025, 2**20 - 1, 2**20 + 1, 2**256 - 1)
    ),
    ("too many cells", [calling(OWNER, "add_cube", 2**21)]),
    ("too many cells", [calling(OWNER, "add_cube", 2**255)]),
    ("too many cubes", [*add_cubes, calling(OWNER, "add_cube", 1)]),
    ("too many versions", [at_version(2**32 - 1), open_version]),
    ("no analyst", [calling(OWNER, "set_limit", THE_OWNER, 60)]),
    ("limit too large", [calling(OWNER, "set_limit", ANALYST, MAX_BUDGET + 1)]),
    ("below what is used", [calling(OWNER, "set_limit", ANALYST, 9)]),
    ("below what is used", [calling(OWNER, "set_limit", ANALYST, 0)]),
    ("below what is used", [open_version, calling(OWNER, "set_limit", ANALYST, 9)]),
    ("nothing claimed", [calling(CURATOR, "reserve", (), ())]),
    ("runs missing", [calling(CURATOR, "reserve", (claim(50, 4, 1, cube=SMALL, runs=2),), ((0, 1, WHOLE),))]),
    ("runs missing", [calling(CURATOR, "reserve", (claim(50, 4, 1, cube=SMALL, runs=17),), ((0, 1, WHOLE),) * 16)]),
    ("runs missing", [calling(CURATOR, "reserve", (claim(50, 4, 1, cube=SMALL, runs=2**256 - 1),), ())]),
    ("runs missing", [calling(CURATOR, "reserve_many", (claim(50, 4, 1, cube=SMALL, runs=1),), ())]),
    ("runs left over", [calling(CURATOR, "reserve_many", (), ((0, 1, WHOLE),))]),
    ("group too large", [calling(CURATOR, "reserve_many", (claim(50, 4, 1, last=False),) * 17, ())]),
    ("group too large", [calling(CURATOR, "publish_many", (seal(1, last=False),) * 17)]),
    (
        "too many runs",
        [calling(CURATOR, "reserve_many", (claim(50, 4, 1, cube=SMALL, runs=17),), ((0, 1, WHOLE),) * 17)],
    ),
    (
        "too many runs",
        [
            calling(
                CURATOR,
                "reserve_many",
                (claim(50, 4, 1, cube=SMALL, runs=16, last=False), claim(51, 4, 1, cube=SMALL, runs=1)),
                ((0, 1, WHOLE),) * 17,
            )
        ],
    ),
    ("group without an end", [calling(CURATOR, "reserve_many", (claim(50, 4, 1), claim(51, 4, 2, last=False)), ())]),
    ("group without an end", [calling(CURATOR, "publish_many", (seal(1), seal(2, last=False)))]),
    ("nothing published", [calling(CURATOR, "publish", ())]),
    ("no such reservation", [on_another_account(calling(CURATOR, "publish", (seal(1),)))]),
    ("paused", [pause, pause]),
    ("paused", [pause, open_version, reserving()]),
    ("not paused", [calling(OWNER, "resume")]),
    ("not paused", [pause, calling(OWNER, "resume"), calling(OWNER, "resume")]),
    ("not lower", [calling(OWNER, "lower_budget", 100)]),
    ("not lower", [calling(OWNER, "lower_budget", 101)]),
    ("below what is spent", [calling(OWNER, "lower_budget", 49)]),
    ("below what is spent", [open_version, calling(OWNER, "lower_budget", 49)]),
    ("below what is spent", [calling(OWNER, "lower_budget", 0)]),
    ("not higher", [calling(OWNER, "propose_raise", 100)]),
    ("not higher", [calling(OWNER, "propose_raise", 99)]),
    ("no raise pending", [finish_raise]),
    ("no raise pending", [propose_raise, calling(OWNER, "lower_budget", 90), waiting(10), finish_raise]),
    ("no raise pending", [on_another_account(calling(OWNER, "lower_budget", 0)), on_another_account(finish_raise)]),
    ("no raise pending", [propose_raise, waiting(10), finish_raise, finish_raise]),
    ("no raise pending", [propose_raise, propose_heir, accept_heir, waiting(10), calling(HEIR, "finish_raise")]),
    ("no raise pending", [propose_raise, waiting(10), on_another_account(finish_raise)]),
    ("raise not ready", [propose_raise, waiting(9), finish_raise]),
    ("raise not ready", [propose_raise, waiting(9), propose_raise, waiting(1), finish_raise]),
    ("raise not ready", [propose_raise, pause, waiting(9), finish_raise]),
    ("raise expired", [propose_raise, waiting(10 + WEEK), finish_raise]),
    ("not proposed", [accept_heir]),
    ("not proposed", [accept_deputy]),
    ("not proposed", [propose_heir, calling(HEIR, "accept_curator")]),
    ("not proposed", [propose_deputy, calling(DEPUTY, "accept_owner")]),
    ("not proposed", [propose_heir, on_another_account(accept_heir)]),
    ("not proposed", [propose_heir, calling(OWNER, "propose_owner", ZERO_ADDRESS), accept_heir]),
    ("not proposed", [propose_deputy, calling(OWNER, "propose_curator", ZERO_ADDRESS), accept_deputy]),
    ("not proposed", [propose_deputy, propose_heir, accept_heir, accept_deputy]),
    ("not proposed", [propose_heir, accept_heir, accept_heir]),
    ("not proposed", [propose_deputy, accept_deputy, accept_deputy]),
]


@pytest.mark.parametrize(("reason", "steps"), REFUSALS)
def test_refusal_says_why_and_changes_nothing(real: Real, account: bytes, reason: str, steps: list[Attempt]):
    for step in steps[:-1]:
        step(real, account)
    before = everything(real, account)
    with pytest.raises(LedgerRefused) as refusal:
        steps[-1](real, account)
    assert refusal.value.reason == f"ledger: {reason}"
    assert everything(real, account) == before


def test_there_is_no_cell_outside_of_a_cube(real: Real, account: bytes):
    for cube, place in ((0, 0), (SMALL, 4), (LARGE, 64), (3, 0)):
        with pytest.raises(LedgerRefused, match=r"^ledger: no such cell$"):
            real.view("cell", account, cube, place)


def test_invariant_holds_a_lowering_that_forgot_to_look_at_the_spend():
    check = '    assert budget >= money.spent, "ledger: below what is spent"\n'
    real = Real(variant(("budget_ledger.vy", check, "")))
    account = real.open(budget=100)
    real.reserve(account, 1, 3, 40)
    with pytest.raises(LedgerRefused, match=r"^ledger: invariant$"):
        real.call(OWNER, "lower_budget", account, 39)
    real.call(OWNER, "lower_budget", account, 40)


def test_invariant_holds_a_charge_that_forgot_to_look_at_the_budget():
    check = '    assert after.spent <= after.budget, "ledger: budget exhausted"\n'
    real = Real(variant(("budget_ledger.vy", check, "")))
    account = real.open(budget=100)
    real.reserve(account, 1, 3, 100)
    with pytest.raises(LedgerRefused, match=r"^ledger: invariant$"):
        real.reserve(account, 2, 4, 1)


PROVOKED_ELSEWHERE = {"no such cell", "invariant"}


def test_every_reason_in_the_sources_is_provoked_here_and_fits_a_batch():
    sources = "".join(path.read_text() for path in SOURCES)
    reasons = set(re.findall(r'"(ledger: [^"]+)"', sources))
    provoked = {group.reason for group in REFUSED_GROUPS} | {reason for reason, *_ in [*REFUSED_SEALS, *REFUSALS]}
    assert reasons == {f"ledger: {reason}" for reason in provoked | PROVOKED_ELSEWHERE}
    assert {reason: len(reason) for reason in reasons if len(reason) > 32} == {}


# -- edges that must be allowed -------------------------------------------------------------------


ALLOWED: list[list[Attempt]] = [
    [opening(budget=1)],
    [opening(budget=MAX_BUDGET, delay=YEAR, unit=2)],
    [reserving(wanted=90)],
    [reserving(query=4, wanted=50, limit=50)],
    [reserving(wanted=40, limit=0)],
    [reserving(wanted=39, limit=0)],
    [reserving(about=255)],
    [reserving(about=0)],
    [reserving(query=4, analyst=ANALYST, wanted=40)],
    [calling(OWNER, "set_limit", ANALYST, 50), reserving(analyst=ANALYST, wanted=40)],
    [reserving(query=4, cube=SMALL, runs=[(0, 1, WHOLE)], wanted=60, limit=50)],
    [reserving(query=4, cube=SMALL, runs=[(0, 1, WHOLE)], wanted=10, limit=0)],
    [reserving(query=4, cube=SMALL, runs=[(0, 1, WHOLE), (1, 4, WHOLE)], wanted=50)],
    [reserving(query=4, cube=LARGE, runs=[(0, 64, 1)], wanted=50)],
    [reserving(query=4, cube=SMALL, wanted=0, limit=0)],
    [reserving(query=4, cube=LARGE, wanted=0, analyst=ANALYST)],
    [publish],
    [pause, publish],
    [pause, open_version],
    [pause, calling(OWNER, "lower_budget", 60)],
    [pause, calling(OWNER, "set_limit", ANALYST, 60)],
    [calling(OWNER, "lower_budget", 50)],
    [calling(OWNER, "lower_budget", 99)],
    [calling(OWNER, "propose_raise", 101)],
    [calling(OWNER, "propose_raise", MAX_BUDGET)],
    [calling(OWNER, "set_limit", ANALYST, 10), calling(OWNER, "set_limit", ANALYST, MAX_BUDGET)],
    [calling(OWNER, "add_cube", 1), calling(OWNER, "add_cube", 2**20)],
    [*add_cubes, reserving(query=4, cube=255, runs=[(0, 1, WHOLE)])],
    [at_version(2**32 - 2), open_version, reserving(query=4), calling(CURATOR, "publish", (seal(50),))],
    [calling(CURATOR, "reserve_many", (), ())],
    [calling(CURATOR, "publish_many", ())],
]  # fmt: skip


@pytest.mark.parametrize("steps", ALLOWED)
def test_edge_is_allowed(real: Real, account: bytes, steps: list[Attempt]):
    for step in steps:
        step(real, account)


def test_last_measurement_is_allowed_and_free_answers_flow_after_it(real: Real, account: bytes):
    real.write_money(account, measurements=2**20 - 1)
    assert real.reserve(account, 50, 3, 41) == (REFINE, 1, 1)
    assert real.reserve(account, 51, 3, 41) == (REPEAT, 0, 2)
    assert real.reserve(account, 52, 3, 5) == (BLUR, 0, 1)
    assert real.reserve(account, 53, 3, 0, cube=SMALL) == (INFER, 0, 0)
    with pytest.raises(LedgerRefused, match="too many measurements"):
        real.reserve(account, 54, 3, 42)


def test_free_answers_flow_when_nothing_is_left(real: Real, account: bytes):
    assert real.reserve(account, 50, 3, 90) == (REFINE, 50, 1)
    with pytest.raises(LedgerRefused, match="budget exhausted"):
        real.reserve(account, 51, 4, 1)
    assert real.reserve(account, 51, 3, 90, limit=0) == (REPEAT, 0, 2)
    assert real.reserve(account, 52, 3, 60, limit=0) == (BLUR, 0, 2)
    assert real.reserve(account, 53, 4, 10, cube=SMALL, runs=[(0, 1, WHOLE)], limit=0) == (FIRST, 10, 0)
    assert real.view("money", account) == (100, 100, 4)


@pytest.mark.parametrize("second", [10, 10 + WEEK - 1])
def test_raise_may_be_finished_from_its_first_to_its_last_second(real: Real, account: bytes, second: int):
    propose_raise(real, account)
    assert real.view("pending_raise", account) == (200, real.now + 10, real.now + 10 + WEEK)
    real.at(real.now + second)
    finish_raise(real, account)
    assert real.view("money", account) == (200, 50, 2)
    assert real.view("pending_raise", account) == (0, 0, 0)
    assert real.reserve(account, 50, 3, 190)[:2] == (REFINE, 150)


def test_hand_over_takes_two_steps_and_old_roles_end(real: Real, account: bytes):
    propose_heir(real, account)
    assert real.view("accounts", account)[0] == OWNER
    accept_heir(real, account)
    calling(HEIR, "propose_curator", DEPUTY)(real, account)
    assert (real.view("accounts", account)[0], real.view("desk", account)[0]) == (HEIR, CURATOR)
    accept_deputy(real, account)
    assert (real.view("accounts", account)[0], real.view("desk", account)) == (HEIR, (DEPUTY, 1, 2, False))
    assert real.view("pending_owner", account) == real.view("pending_curator", account) == (ZERO_ADDRESS,)
    assert real.reserve(account, 50, 3, 41, sender=DEPUTY) == (REFINE, 1, 1)
    calling(DEPUTY, "publish", (seal(1),))(real, account)


def test_pausing_stops_reserving_and_changes_nothing_else(real: Real, account: bytes):
    before = everything(real, account)
    pause(real, account)
    during = everything(real, account)
    assert during[1] == (CURATOR, 1, 2, True)
    assert [*during[:1], before[1], *during[2:]] == before
    calling(OWNER, "resume")(real, account)
    assert everything(real, account) == before


# -- reuse ----------------------------------------------------------------------------------------

TYPES = [1, 2, 3, 1, 2, 1, 3, 2, 2, 1, 2, 1, 3]
SIGMAS = ["1", "3", "2", "2.5", "2", "0.5", "2", "2.5", "1.5", "0.25", "1", "0.75", "1.5"]
CASES = [FIRST, FIRST, FIRST, BLUR, REFINE, REFINE, REPEAT, BLUR, REFINE, REFINE, REFINE, BLUR, REFINE]
REUSES = [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 2, 1]
"""Which record of the query."""
CUMULATIVE = [
    "1", "1.111111", "1.361111", "1.361111", "1.5", "4.5", "4.5", "4.5", "4.694444", "16.694444", "17.25", "17.25",
    "17.444444",
]  # fmt: skip
PAPER = ["1", "1", "1", "2C", "2B", "2B", "2A", "2C", "2B", "2B", "2B", "2C", "2B"]


@pytest.mark.parametrize("unit", [1, 2])
def test_table_2_of_the_paper(real: Real, unit: int):
    account = real.open(budget=26 * 10**18, unit=unit)
    named = {FIRST: "1", REPEAT: "2A", REFINE: "2B", BLUR: "2C"}
    cases, reuses, cumulative, naive = [], [], [], 0
    for number, (kind, sigma) in enumerate(zip(TYPES, SIGMAS, strict=True), 1):
        wanted = ceil(10**18 / Fraction(sigma) ** 2)
        case, _, reused = real.reserve(account, number, 100 + kind, wanted)
        cases.append(case)
        reuses.append(reused)
        cumulative.append(f"{real.view('money', account)[1] / 10**18:.6f}")  # type: ignore[operator]
        naive += wanted
    assert cases == CASES
    assert [named[case] for case in cases] == PAPER  # type: ignore[index]
    assert reuses == REUSES
    assert cumulative == [f"{float(text):.6f}" for text in CUMULATIVE]
    assert f"{naive / 10**18:.6f}" == "25.847778"


def test_every_wanted_value_finds_the_smallest_record_that_reaches_it(real: Real):
    account = real.open(budget=1000)
    precisions = [3 * n - n % 2 for n in range(1, 301)]
    for number, precision in enumerate(precisions, 1):
        real.reserve(account, number, 3, precision)
    assert real.view("record", account, word(3), 0, ()) == (300, precisions[-1])
    for wanted in range(1, precisions[-1] + 1):
        place = next(place for place, precision in enumerate(precisions) if precision >= wanted)
        case = REPEAT if precisions[place] == wanted else BLUR
        assert real.reserve(account, 10_000 + wanted, 3, wanted, limit=0) == (case, 0, place + 1)
    assert real.view("money", account) == (1000, precisions[-1], 300)


@pytest.mark.parametrize("count", [*range(1, 20), 31, 32, 33, 63, 64, 65])
@pytest.mark.parametrize("cube", [0, 1])
def test_search_is_right_for_any_number_of_records(real: Real, count: int, cube: int):
    account = real.open(budget=1000, cubes=[4])
    where: dict[str, Any] = {"cube": cube, "runs": [(1, 3, WHOLE)] if cube else []}
    for number in range(1, count + 1):
        real.reserve(account, number, 3, 2 * number, **where)
    for wanted in range(1, 2 * count + 1):
        case = BLUR if wanted % 2 else REPEAT
        assert real.reserve(account, 1000 + wanted, 3, wanted, **where) == (case, 0, (wanted + 1) // 2)


def test_records_of_one_query_or_account_say_nothing_about_another(real: Real, account: bytes):
    other = real.open(budget=100)
    assert real.reserve(account, 50, 4, 20) == (FIRST, 20, 0)
    assert real.reserve(other, 1, 3, 20) == (FIRST, 20, 0)
    assert real.view("money", account)[1] == 70
    assert real.view("money", other)[1] == 20


def test_records_are_those_of_a_cube_its_runs_and_their_weights(real: Real, account: bytes):
    asked = [(SMALL, [(0, 2, WHOLE)]), (LARGE, [(0, 2, WHOLE)]), (SMALL, [(0, 3, WHOLE)]), (SMALL, [(1, 2, WHOLE)])]
    asked += [(SMALL, [(0, 2, WHOLE - 1)]), (SMALL, [(0, 1, WHOLE), (1, 2, WHOLE)]), (0, [])]
    for id, (cube, runs) in enumerate(asked, 50):
        assert real.reserve(account, id, 7, 2, cube=cube, runs=runs) == (FIRST, 2, 0)
    for id, (cube, runs) in enumerate(asked, 70):
        assert real.reserve(account, id, 7, 2, cube=cube, runs=runs) == (REPEAT, 0, 1)
        assert real.view("record", account, word(7), cube, tuple(runs)) == (1, 2)


def test_repeat_leaves_no_id_and_any_other_case_does(real: Real, account: bytes):
    where: dict[str, Any] = {"cube": SMALL, "runs": [(1, 3, WHOLE)]}
    for _ in range(3):
        assert real.reserve(account, 50, 3, 40)[0] == REPEAT
        assert real.reserve(account, 50, 5, 10, **where)[0] == REPEAT
    assert real.view("reservations", account, word(50)) == (0,)
    assert real.reserve(account, 50, 3, 39)[0] == BLUR
    assert real.reserve(account, 51, 3, 41)[0] == REFINE
    assert real.reserve(account, 52, 4, 1)[0] == FIRST
    assert real.reserve(account, 53, 4, 0, cube=SMALL)[0] == INFER
    for id in (50, 51, 52, 53):
        assert real.view("reservations", account, word(id)) == (2,)
        real.publish(account, id)
        assert real.view("reservations", account, word(id)) == (3,)


def test_ids_belong_to_an_account(real: Real, account: bytes):
    other = real.open(budget=100)
    assert real.reserve(other, 1, 3, 20) == (FIRST, 20, 0)
    real.publish(other, 1)
    assert real.view("reservations", other, word(1)) == (3,)
    assert real.view("reservations", account, word(1)) == (2,)


# -- cubes ----------------------------------------------------------------------------------------


def test_disjoint_runs_cost_their_maximum_and_cubes_their_sum(real: Real):
    account = real.open(budget=1000, cubes=[4, 64])
    prices = []
    for id, (cube, runs, wanted) in enumerate(
        [
            (1, [(0, 2, WHOLE)], 10),  # cells 10 10 0 0
            (1, [(2, 4, WHOLE)], 8),  # cells 10 10 8 8
            (1, [(1, 3, WHOLE)], 5),  # cells 10 15 13 8
            (1, [(3, 4, WHOLE)], 7),  # cells 10 15 13 15
            (2, [(0, 64, WHOLE)], 6),
            (2, [(63, 64, WHOLE)], 1),
            (2, [(0, 1, WHOLE), (63, 64, 2 * WHOLE)], 3),
        ],
        1,
    ):
        before = real.view("money", account)[1]
        real.reserve(account, id, id, wanted, cube=cube, runs=runs)
        prices.append(real.view("money", account)[1] - before)  # type: ignore[operator]
    assert prices == [10, 0, 5, 0, 6, 1, 6]
    assert [real.view("cell", account, 1, cell)[0] for cell in range(4)] == [10, 15, 13, 15]
    assert [real.view("cell", account, 2, cell)[0] for cell in (0, 1, 62, 63)] == [9, 6, 6, 13]
    assert (real.view("largest_cell", account, 1), real.view("largest_cell", account, 2)) == ((15,), (13,))
    assert real.view("money", account) == (1000, 28, 7)


@pytest.mark.parametrize(
    ("weight", "charged"),
    [(1, 1), (WHOLE // 2, 5), (WHOLE // 2 + 1, 6), (WHOLE - 1, 10), (WHOLE, 10), (WHOLE + 1, 11), (4 * WHOLE, 40)],
)
def test_share_of_a_weight_is_rounded_up(real: Real, account: bytes, weight: int, charged: int):
    assert real.reserve(account, 50, 4, 10, cube=LARGE, runs=[(7, 9, weight)]) == (FIRST, 10, 0)
    assert [real.view("cell", account, LARGE, cell)[0] for cell in (6, 7, 8, 9)] == [0, charged, charged, 0]


def test_largest_weight_counts_in_full(real: Real):
    account = real.open(budget=2**34, cubes=[2])
    with pytest.raises(LedgerRefused, match="budget exhausted"):
        real.reserve(account, 1, 3, 5, cube=1, runs=[(0, 1, MAX_WEIGHT)])
    real.reserve(account, 1, 3, 4, cube=1, runs=[(0, 1, MAX_WEIGHT)])
    assert real.view("largest_cell", account, 1) == (2**34,)


def test_refining_in_a_cube_charges_the_difference_to_the_same_cells(real: Real, account: bytes):
    assert real.reserve(account, 50, 5, 16, cube=SMALL, runs=[(1, 3, WHOLE)]) == (REFINE, 6, 1)
    assert [real.view("cell", account, SMALL, cell)[0] for cell in range(4)] == [0, 16, 16, 0]
    assert real.view("money", account) == (100, 56, 3)


def test_whole_budget_fits_into_a_cell(real: Real):
    account = real.open(budget=MAX_BUDGET, cubes=[2**20])
    real.reserve(account, 1, 3, MAX_BUDGET - 1, cube=1, runs=[(2**20 - 1, 2**20, WHOLE)])
    real.reserve(account, 2, 4, MAX_BUDGET - 1, cube=1, runs=[(0, 2**20 - 1, WHOLE)], limit=0)
    real.reserve(account, 3, 5, 1, cube=1, runs=[(2**19, 2**19 + 1, WHOLE)])
    with pytest.raises(LedgerRefused, match="budget exhausted"):
        real.reserve(account, 4, 6, 1, cube=1, runs=[(2**19, 2**19 + 1, WHOLE)])
    assert real.view("money", account) == (MAX_BUDGET, MAX_BUDGET, 3)
    assert [real.view("cell", account, 1, cell)[0] for cell in (0, 2**19, 2**20 - 1)] == [
        MAX_BUDGET - 1,
        MAX_BUDGET,
        MAX_BUDGET - 1,
    ]


def test_cubes_can_be_added_at_any_time_and_keep_their_size(real: Real, account: bytes):
    assert real.call(OWNER, "add_cube", account, 16)[0] == (3,)
    assert [real.view("cells_of", account, cube)[0] for cube in range(5)] == [0, 4, 64, 16, 0]
    open_version(real, account)
    assert real.call(OWNER, "add_cube", account, 1)[0] == (4,)
    assert [real.view("cells_of", account, cube)[0] for cube in range(5)] == [0, 4, 64, 16, 1]


# -- versions -------------------------------------------------------------------------------------


def test_new_version_keeps_the_spend_and_forgets_the_answers(real: Real, account: bytes):
    open_version(real, account)
    assert real.view("desk", account) == (CURATOR, 2, 2, False)
    assert real.view("money", account) == (100, 50, 2)
    assert real.view("accounts", account)[2:4] == (word(70), word(71))
    assert real.view("largest_cell", account, SMALL) == real.view("cell", account, SMALL, 1) == (0,)
    assert real.view("record", account, word(3), 0, ()) == (0, 0)
    assert real.view("reservations", account, word(1)) == (2,)
    assert real.view("view_of", account, ANALYST) == (50, 10)
    # People stay in the table: everything is paid again, on top.
    assert real.reserve(account, 50, 3, 20) == (FIRST, 20, 0)
    where: dict[str, Any] = {"cube": SMALL, "runs": [(1, 3, WHOLE)], "analyst": ANALYST}
    assert real.reserve(account, 51, 5, 10, **where) == (FIRST, 10, 0)
    assert real.view("money", account) == (100, 80, 4)
    assert real.view("view_of", account, ANALYST) == (50, 20)
    assert real.view("reservations", account, word(50)) == (4,)
    real.publish(account, 50)
    assert real.view("reservations", account, word(50)) == (5,)


# -- views ----------------------------------------------------------------------------------------


def test_view_is_what_was_delivered_from_queries_and_cubes(real: Real, account: bytes):
    def used() -> object:
        return real.view("view_of", account, OTHER)[1]

    real.reserve(account, 50, 3, 20, analyst=OTHER)  # blurred: 20 of query 3
    assert used() == 20
    real.reserve(account, 51, 3, 10, analyst=OTHER)  # less than seen
    assert used() == 20
    real.reserve(account, 52, 3, 25, analyst=OTHER)
    assert used() == 25
    real.reserve(account, 53, 4, 3, analyst=OTHER)  # paid
    assert used() == 28
    real.reserve(account, 54, 9, 0, cube=SMALL, analyst=OTHER)  # inferred: all that the cube knows
    assert used() == 38
    real.reserve(account, 55, 5, 10, cube=SMALL, runs=[(1, 3, WHOLE)], analyst=OTHER)  # seen already
    assert used() == 38
    real.reserve(account, 56, 5, 12, cube=SMALL, runs=[(1, 3, WHOLE)])  # the owner raises the cube by 2
    assert used() == 38
    real.reserve(account, 55, 5, 12, cube=SMALL, runs=[(1, 3, WHOLE)], analyst=OTHER)
    assert used() == 40
    assert real.view("view_of", account, ANALYST) == (50, 10)
    assert real.view("view_of", account, THE_OWNER) == (0, 0)


def test_each_analyst_has_a_view_of_his_own(real: Real, account: bytes):
    for id, analyst in ((50, ANALYST), (51, OTHER)):
        real.reserve(account, id, 3, 20, analyst=analyst)
        real.reserve(account, id + 2, 9, 0, cube=SMALL, analyst=analyst)
        assert real.view("view_of", account, analyst) == (50, 30)


def test_view_counts_a_cubes_largest_cell_after_the_reservation(real: Real, account: bytes):
    real.reserve(account, 50, 4, 1, cube=SMALL, runs=[(0, 1, WHOLE)], analyst=OTHER)
    assert real.view("view_of", account, OTHER) == (50, 10)
    real.reserve(account, 51, 4, 3, cube=SMALL, runs=[(1, 2, WHOLE)], analyst=OTHER)
    assert real.view("view_of", account, OTHER) == (50, 13)


def test_view_at_its_limit_still_gets_what_it_has_seen(real: Real, account: bytes):
    real.call(OWNER, "set_limit", account, ANALYST, 10)
    where: dict[str, Any] = {"cube": SMALL, "analyst": ANALYST}
    assert real.reserve(account, 50, 5, 10, runs=[(1, 3, WHOLE)], **where)[0] == REPEAT
    assert real.reserve(account, 50, 9, 0, **where)[0] == INFER
    with pytest.raises(LedgerRefused, match="view exhausted"):
        real.reserve(account, 51, 3, 1, analyst=ANALYST)


def test_amounts_of_full_width_do_not_disturb_each_other(real: Real):
    account = real.open(budget=MAX_BUDGET, cubes=[4])
    real.call(OWNER, "set_limit", account, ANALYST, MAX_BUDGET)
    real.reserve(account, 1, 3, MAX_BUDGET - 2, about=255, analyst=ANALYST)
    assert real.view("view_of", account, ANALYST) == (MAX_BUDGET, MAX_BUDGET - 2)
    real.reserve(account, 2, 4, 2, about=254, analyst=ANALYST)
    assert real.view("view_of", account, ANALYST) == (MAX_BUDGET, MAX_BUDGET)
    assert real.view("money", account) == (MAX_BUDGET, MAX_BUDGET, 2)
    assert real.view("record", account, word(3), 0, ()) == (1, MAX_BUDGET - 2)
    assert real.view("balance_on", account, 255) == (MAX_BUDGET, MAX_BUDGET - 2, 0)
    with pytest.raises(LedgerRefused, match="below what is used"):
        real.call(OWNER, "set_limit", account, ANALYST, MAX_BUDGET - 1)
    with pytest.raises(LedgerRefused, match="below what is spent"):
        real.call(OWNER, "lower_budget", account, MAX_BUDGET - 1)
    with pytest.raises(LedgerRefused, match="budget exhausted"):
        real.reserve(account, 3, 5, 1)
    assert real.reserve(account, 3, 3, MAX_BUDGET - 3)[0] == BLUR
    real.write_version(account, 2**32 - 1)
    for _ in range(254):
        real.call(OWNER, "add_cube", account, 1)
    pause(real, account)
    assert real.view("desk", account) == (CURATOR, 2**32 - 1, 255, True)


def test_views_of_two_accounts_are_two(real: Real, account: bytes):
    other = real.open()
    real.call(OWNER, "set_limit", other, ANALYST, 7)
    real.reserve(other, 1, 3, 5, analyst=ANALYST)
    assert real.view("view_of", other, ANALYST) == (7, 5)
    assert real.view("view_of", account, ANALYST) == (50, 10)


# -- public bytes ---------------------------------------------------------------------------------


def test_public_bytes_share_the_spend(real: Real, account: bytes):
    real.reserve(account, 50, 3, 45, about=255)
    real.reserve(account, 51, 4, 6, about=0)
    real.reserve(account, 52, 4, 5, about=7)  # blurred: free
    real.reserve(account, 53, 4, 9, about=0, cube=SMALL, runs=[(0, 1, WHOLE)])  # below the largest cell
    assert [real.view("balance_on", account, about) for about in (1, 255, 0, 7)] == [
        (100, 50, 39), (100, 5, 39), (100, 6, 39), (100, 0, 39),
    ]  # fmt: skip
    assert [real.view("spent_on", account, about)[0] for about in (1, 255, 0, 7)] == [50, 5, 6, 0]


# -- groups and batches ---------------------------------------------------------------------------


def test_group_is_decided_in_order(real: Real, account: bytes):
    claims = (
        claim(50, 4, 5), claim(51, 4, 8), claim(52, 4, 6), claim(53, 4, 8),
        claim(54, 4, 2, cube=SMALL, runs=1), claim(55, 4, 3, cube=LARGE, runs=2), claim(56, 4, 0, cube=LARGE),
    )  # fmt: skip
    runs = ((1, 2, WHOLE), (0, 1, WHOLE), (5, 9, WHOLE))
    _, logged = real.call(CURATOR, "reserve", account, claims, runs)
    assert [(made["case"], made["fresh"], made["reused"], made["spent"], made["runs"]) for _, made in logged] == [
        (FIRST, 5, 0, 55, ()),
        (REFINE, 3, 1, 58, ()),
        (BLUR, 0, 2, 58, ()),
        (REPEAT, 0, 2, 58, ()),
        (FIRST, 2, 0, 60, runs[:1]),
        (FIRST, 3, 0, 63, runs[1:]),
        (INFER, 0, 0, 63, ()),
    ]


def test_group_has_at_most_sixteen_parts(real: Real, account: bytes):
    parts = tuple(claim(100 + part, 100 + part, 1, last=part == 15) for part in range(16))
    assert len(real.call(CURATOR, "reserve", account, parts, ())[1]) == 16
    more = tuple(claim(200 + part, 200 + part, 1, last=part == 15) for part in range(16))
    assert len(real.call(CURATOR, "reserve_many", account, more, ())[1]) == 16
    before = everything(real, account)
    too_many = tuple(claim(300 + part, 300 + part, 1, last=part == 16) for part in range(17))
    with pytest.raises(LedgerRefused, match="the call failed"):
        real.call(CURATOR, "reserve", account, too_many, ())
    with pytest.raises(LedgerRefused, match="group too large"):
        real.call(CURATOR, "reserve_many", account, too_many, ())
    seals = tuple(seal(100 + part, last=part == 15) for part in range(16))
    assert len(real.call(CURATOR, "publish", account, seals)[1]) == 16
    assert (
        len(real.call(CURATOR, "publish_many", account, tuple((word(200 + n), *seals[n][1:]) for n in range(16)))[1])
        == 16
    )
    with pytest.raises(LedgerRefused, match="the call failed"):
        real.call(CURATOR, "publish", account, (*seals, seal(1)))
    assert everything(real, account) == before


def test_group_has_at_most_sixteen_runs(real: Real, account: bytes):
    runs = tuple((cell, cell + 1, WHOLE) for cell in range(0, 64, 2))
    one = (claim(50, 4, 1, cube=LARGE, runs=16),)
    two = (claim(50, 6, 1, cube=LARGE, runs=8, last=False), claim(51, 6, 1, cube=LARGE, runs=8))
    assert len(real.call(CURATOR, "reserve", account, one, runs[:16])[1]) == 1
    assert real.call(CURATOR, "reserve_many", account, two, runs[:16])[1][0][0] == "GroupRefused"
    two = ((word(52), *two[0][1:]), two[1])
    assert len(real.call(CURATOR, "reserve_many", account, two, runs[:16])[1]) == 2
    (event,) = real.call(CURATOR, "reserve_many", account, (claim(54, 8, 1, cube=LARGE, runs=16),), runs[:16])[1]
    assert event[0] == "Reserved" and len(event[1]["runs"]) == 16
    with pytest.raises(LedgerRefused, match="the call failed"):
        real.call(CURATOR, "reserve", account, (claim(53, 7, 1, cube=LARGE, runs=17),), runs[:17])


def test_batch_has_at_most_128_claims_and_128_runs(real: Real):
    account = real.open(budget=10_000, cubes=[64])
    claims = tuple(claim(n, n, 3, cube=n % 2, runs=2 * (n % 2)) for n in range(1, 129))
    runs = tuple((cell, cell + 1, WHOLE) for _ in range(64) for cell in (3, 60))
    _, logged = real.call(CURATOR, "reserve_many", account, claims, runs)
    assert [name for name, _ in logged] == ["Reserved"] * 128
    assert real.view("money", account) == (10_000, 64 * 3 + 64 * 3, 128)
    with pytest.raises(LedgerRefused, match="the call failed"):
        real.call(CURATOR, "reserve_many", account, tuple(claim(n, n, 3) for n in range(200, 329)), ())
    seals = tuple(seal(n, last=n % 16 == 0) for n in range(1, 129))
    _, logged = real.call(CURATOR, "publish_many", account, seals)
    assert logged == [("Published", {"account": account, "id": word(n), "answer": word(9)}) for n in range(1, 129)]
    with pytest.raises(LedgerRefused, match="the call failed"):
        real.call(CURATOR, "publish_many", account, (*seals, seal(1)))


def test_refused_groups_do_not_disturb_their_neighbours(real: Real, account: bytes):
    claims = (
        claim(50, 4, 5), claim(51, 6, 1, last=False), claim(52, 7, 99), claim(53, 4, 6),
        claim(54, 8, 1, cube=SMALL, runs=1, last=False), claim(55, 8, 1, cube=SMALL, runs=1),
        claim(56, 8, 1, cube=SMALL, runs=1), claim(51, 6, 2),
    )  # fmt: skip
    runs = ((0, 1, WHOLE), (4, 5, WHOLE), (0, 2, WHOLE))
    _, logged = real.call(CURATOR, "reserve_many", account, claims, runs)
    assert [(name, told["id"], told.get("case", told.get("reason"))) for name, told in logged] == [
        ("Reserved", word(50), FIRST),
        ("GroupRefused", word(51), "ledger: budget exhausted"),
        ("Reserved", word(53), REFINE),
        ("GroupRefused", word(54), "ledger: run out of range"),
        ("Reserved", word(56), FIRST),
        ("Reserved", word(51), FIRST),
    ]
    assert real.view("money", account) == (100, 50 + 5 + 1 + 1 + 2, 6)
    assert [real.view("cell", account, SMALL, cell)[0] for cell in range(4)] == [1, 11, 10, 0]
    assert real.view("reservations", account, word(54)) == real.view("reservations", account, word(52)) == (0,)
    _, logged = real.call(
        CURATOR,
        "publish_many",
        account,
        (seal(1), seal(2, last=False), seal(1), seal(54), seal(2), seal(50, last=False), seal(53)),
    )
    assert [(name, told["id"], told.get("reason")) for name, told in logged] == [
        ("Published", word(1), None),
        ("GroupRefused", word(2), "ledger: already published"),
        ("GroupRefused", word(54), "ledger: no such reservation"),
        ("Published", word(2), None),
        ("Published", word(50), None),
        ("Published", word(53), None),
    ]


def test_batch_out_of_gas_decides_each_group_or_nothing():
    """Whatever the gas: a group that lacked it is refused without a reason, or the whole batch never was."""
    claims = (claim(1, 1, 1), *(claim(10 + part, 10 + part, 1, last=part == 15) for part in range(16)))
    outcomes = set()
    for gas in [*range(60_000, 2_000_000, 60_000), 3_000_000]:
        real = Real()
        account = real.open()
        try:
            logged = real.with_gas(gas).call(CURATOR, "reserve_many", account, claims, ())[1]
        except LedgerRefused as refusal:
            assert "the call failed" in refusal.reason
            logged = []
        reserved = [told["id"] for name, told in logged if name == "Reserved"]
        refused = [told for name, told in logged if name == "GroupRefused"]
        outcomes.add((len(reserved), len(refused)))
        assert all(told["reason"] == "" for told in refused)
        for part in claims:
            assert real.view("reservations", account, part[0]) == (2 if part[0] in reserved else 0,)
        assert real.view("money", account) == (100, len(reserved), len(reserved))
    assert outcomes == {(0, 0), (1, 1), (17, 0)}


def test_absurd_number_of_runs_is_refused(real: Real, account: bytes):
    before = everything(real, account)
    claims = (claim(50, 4, 1, cube=SMALL, runs=1, last=False), claim(51, 4, 1, cube=SMALL, runs=2**256 - 1))
    for function in ("reserve", "reserve_many"):
        with pytest.raises(LedgerRefused):
            real.call(CURATOR, function, account, claims, ((0, 1, WHOLE),))
    assert everything(real, account) == before


# -- accounts and events --------------------------------------------------------------------------


def test_account_ids_differ_over_senders_nonces_chains_and_contracts():
    ids = set()
    for chain_id in (1, 2, 2**63):
        for deployer in (STRANGER, CURATOR):
            real = Real(chain_id=chain_id, deployer=deployer)
            ids |= {real.open(owner=owner) for owner in (OWNER, HEIR) for _ in range(3)}
    assert len(ids) == 3 * 2 * 2 * 3


def test_same_opening_twice_gives_two_accounts_and_counts_them(real: Real):
    assert real.open() != real.open()
    assert real.view("opened_by", OWNER) == (2,)


def test_unit_of_an_account_is_fixed_when_it_opens(real: Real):
    accounts = {unit: real.open(unit=unit) for unit in (1, 2)}
    for unit, account in accounts.items():
        open_version(real, account)
        propose_heir(real, account)
        accept_heir(real, account)
        assert real.view("accounts", account)[1] == unit
    for unit in (4, 2**255):
        with pytest.raises(LedgerRefused, match="the call failed"):
            real.open(unit=unit)


def test_every_event_tells_everything(real: Real):
    logged: list[Any] = []

    def say(sender: str, function: str, *arguments: Any) -> None:
        logged.extend(real.call(sender, function, *arguments)[1])

    say(OWNER, "open_account", CURATOR, 2, 100, word(7), word(8), 10)
    account = logged[0][1]["account"]
    run = (1, 3, WHOLE + 1)
    say(OWNER, "add_cube", account, 4)
    say(OWNER, "set_limit", account, ANALYST, 60)
    say(CURATOR, "reserve", account, (claim(1, 3, 40, 50, 2, ANALYST),), ())
    say(CURATOR, "reserve", account, (claim(2, 3, 60, 50, 255),), ())
    say(CURATOR, "reserve", account, (claim(3, 3, 7, 50, 3, ANALYST, 1, 1),), (run,))
    say(CURATOR, "reserve_many", account, (claim(4, 3, 99),), ())
    say(CURATOR, "publish", account, (seal(1),))
    say(OWNER, "pause", account)
    say(OWNER, "resume", account)
    say(OWNER, "lower_budget", account, 90)
    say(OWNER, "propose_raise", account, 95)
    real.at(1_010)
    say(OWNER, "finish_raise", account)
    say(OWNER, "open_version", account, word(17), word(18))
    say(OWNER, "propose_owner", account, HEIR)
    say(HEIR, "accept_owner", account)
    say(HEIR, "propose_curator", account, DEPUTY)
    say(DEPUTY, "accept_curator", account)

    def of(**told: object) -> dict[str, object]:
        return {"account": account, **told}

    asked = of(id=word(1), query=word(3), analyst=ANALYST, about=2, cube=0, runs=())
    again = of(id=word(2), query=word(3), analyst=THE_OWNER, about=255, cube=0, runs=())
    cells = of(id=word(3), query=word(3), analyst=ANALYST, about=3, cube=1, runs=(run,))
    terms = {"unit": 2, "budget": 100, "policy": word(7), "data": word(8), "raise_delay": 10}
    assert logged == [
        ("AccountOpened", of(owner=OWNER, curator=CURATOR, **terms)),
        ("CubeAdded", of(cube=1, cells=4)),
        ("LimitSet", of(analyst=ANALYST, limit=60)),
        ("Reserved", asked | {"case": FIRST, "wanted": 40, "fresh": 40, "reused": 0, "spent": 40, "used": 40}),
        ("Reserved", again | {"case": REFINE, "wanted": 60, "fresh": 20, "reused": 1, "spent": 60, "used": 0}),
        ("Reserved", cells | {"case": FIRST, "wanted": 7, "fresh": 7, "reused": 0, "spent": 68, "used": 48}),
        ("GroupRefused", of(id=word(4), reason="ledger: budget exhausted")),
        ("Published", of(id=word(1), answer=word(9))),
        ("Paused", of()),
        ("Resumed", of()),
        ("BudgetLowered", of(budget=90)),
        ("RaiseProposed", of(budget=95, ready=1_010, expires=1_010 + WEEK)),
        ("BudgetRaised", of(budget=95)),
        ("VersionOpened", of(version=2, policy=word(17), data=word(18), base=68)),
        ("OwnerProposed", of(owner=HEIR)),
        ("OwnerChanged", of(owner=HEIR)),
        ("CuratorProposed", of(curator=DEPUTY)),
        ("CuratorChanged", of(curator=DEPUTY)),
    ]
    assert {name for name, _ in logged} == {event.name for event in real.contract.events.values()}


def test_contract_takes_no_ether_and_knows_no_other_function(real: Real):
    for calldata in (b"", b"\0\0\0", b"\xde\xad\xbe\xef", b"\xde\xad\xbe\xef" + bytes(64)):
        with pytest.raises(LedgerRefused, match="the call failed"):
            real.machine.execute(OWNER, real.address, calldata)
    real.machine._evm.set_balance(OWNER, 10)
    opening = real.contract.encode_call("open_account", CURATOR, 1, 1, bytes(32), bytes(32), 0)
    with pytest.raises(RuntimeError, match="Revert"):
        real.machine._evm.message_call(OWNER, real.address, opening, value=1)


def test_constants_are_what_the_documentation_says(real: Real):
    assert real.view("MAX_MEASUREMENTS") == real.view("MAX_CELLS") == (2**20,)
    assert real.view("MAX_BUDGET") == (MAX_BUDGET,)
    assert real.view("MAX_CUBES") == (255,)
    assert real.view("MAX_VERSIONS") == (2**32 - 1,)
    assert real.view("WHOLE_WEIGHT") == (WHOLE,)
    assert real.view("MAX_WEIGHT") == (MAX_WEIGHT,)
    assert real.view("RAISE_WINDOW") == (WEEK,)
    assert real.view("MAX_RAISE_DELAY") == (YEAR,)


def test_deployed_code_is_the_artefacts(real: Real):
    assert real.machine.get_code(real.address) == contract_under_test().runtime
    assert PLENTY == MAX_BUDGET
