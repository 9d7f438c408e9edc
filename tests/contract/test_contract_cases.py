"""Every refusal, every case and every event of the contract, one at a time, on the real bytecode."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest

from assurance.overspend import variant
from contract.real import CURATOR, DEPUTY, HEIR, MEASUREMENTS, OWNER, SPENT, STRANGER, Real, word
from noisebank.errors import LedgerRefused
from noisebank.ledger.machine import NOBODY

SOURCE = Path(__file__).parents[2] / "contracts" / "budget_ledger.vy"
MAX_BUDGET, YEAR, WEEK = 2**96, 365 * 86400, 7 * 86400
FIRST, REPEAT, REFINE, BLUR = 1, 2, 4, 8

Attempt = Callable[[Real, bytes], object]


def opening(curator: str = CURATOR, budget: int = 5, delay: int = 0) -> Attempt:
    return lambda real, _: real.call(OWNER, "open_account", curator, budget, word(1), word(2), delay)


def reserving(**changes: object) -> Attempt:
    usual = {"id": 50, "query": 3, "wanted": 10}
    return lambda real, account: real.reserve(account, **{**usual, **changes})  # type: ignore[arg-type]


def calling(sender: str, function: str, *arguments: object) -> Attempt:
    return lambda real, account: real.call(sender, function, account, *arguments)  # type: ignore[arg-type]


def waiting(seconds: int) -> Attempt:
    return lambda real, _: real.at(real.now + seconds)


def storing(place: int, value: int) -> Attempt:
    return lambda real, account: real.set(account, place, value)


def on_another_account(attempt: Attempt) -> Attempt:
    return lambda real, _: attempt(real, real.other)  # type: ignore[attr-defined]


def on_no_account(attempt: Attempt) -> Attempt:
    return lambda real, _: attempt(real, word(12345))


def everything(real: Real, account: bytes) -> list[object]:
    """All that one can see of the account, of query 3 and of reservations 1 and 50."""
    views = [real.view(name, account) for name in ("accounts", "pending_raise", "pending_owner", "pending_curator")]
    views += [real.view("reservations", word(id)) for id in (1, 50)]
    views += [real.view("opened_by", OWNER), real.view("record_count", account, word(3))]
    return [*views, *(real.view("records", account, word(3), place) for place in range(3))]


propose_raise = calling(OWNER, "propose_raise", 200)
finish_raise = calling(OWNER, "finish_raise")

# Each account: budget 100, a raise takes 10 seconds; reservation 1 paid 40 for query 3.
REFUSALS: list[tuple[str, list[Attempt]]] = [
    ("no curator", [opening(curator=NOBODY)]),
    ("budget of zero", [opening(budget=0)]),
    ("budget too large", [opening(budget=MAX_BUDGET + 1)]),
    ("budget too large", [calling(OWNER, "propose_raise", MAX_BUDGET + 1)]),
    ("delay too long", [opening(delay=YEAR + 1)]),
    ("not the curator", [reserving(sender=STRANGER)]),
    ("not the curator", [reserving(sender=OWNER)]),
    ("not the curator", [on_no_account(reserving())]),
    ("not the curator", [calling(STRANGER, "publish", word(1), word(9))]),
    ("not the curator", [calling(OWNER, "publish", word(1), word(9))]),
    ("not the curator", [calling(OWNER, "propose_curator", DEPUTY), reserving(sender=DEPUTY)]),
    ("not the curator", [calling(OWNER, "propose_curator", DEPUTY), calling(DEPUTY, "accept_curator"), reserving()]),
    ("id already used", [reserving(id=1)]),
    ("id already used", [reserving(id=1, wanted=40)]),
    ("id already used", [on_another_account(reserving(id=1))]),
    ("nothing wanted", [reserving(wanted=0)]),
    ("too much wanted", [reserving(wanted=MAX_BUDGET + 1)]),
    ("about is one byte", [reserving(about=256)]),
    ("price above limit", [reserving(query=4, wanted=10, limit=9)]),
    ("price above limit", [reserving(wanted=50, limit=9)]),
    ("budget exhausted", [reserving(query=4, wanted=61)]),
    ("budget exhausted", [reserving(wanted=101)]),
    ("budget exhausted", [reserving(wanted=MAX_BUDGET)]),
    ("too many measurements", [storing(MEASUREMENTS, 2**20), reserving(wanted=41)]),
    ("invariant", [storing(SPENT, 101), reserving(wanted=40)]),
    ("no such reservation", [calling(CURATOR, "publish", word(50), word(9))]),
    ("no such reservation", [on_another_account(calling(CURATOR, "publish", word(1), word(9)))]),
    (
        "already published",
        [calling(CURATOR, "publish", word(1), word(9)), calling(CURATOR, "publish", word(1), word(9))],
    ),
    ("no answer", [calling(CURATOR, "publish", word(1), bytes(32))]),
    ("not the owner", [calling(CURATOR, "lower_budget", 50)]),
    ("not the owner", [calling(CURATOR, "propose_raise", 200)]),
    ("not the owner", [propose_raise, waiting(10), calling(CURATOR, "finish_raise")]),
    ("not the owner", [calling(CURATOR, "propose_owner", CURATOR)]),
    ("not the owner", [calling(CURATOR, "propose_curator", DEPUTY)]),
    ("not the owner", [calling(OWNER, "propose_owner", HEIR), calling(HEIR, "lower_budget", 50)]),
    (
        "not the owner",
        [calling(OWNER, "propose_owner", HEIR), calling(HEIR, "accept_owner"), calling(OWNER, "lower_budget", 50)],
    ),
    ("not the owner", [on_no_account(calling(OWNER, "lower_budget", 0))]),
    ("not lower", [calling(OWNER, "lower_budget", 100)]),
    ("not lower", [calling(OWNER, "lower_budget", 101)]),
    ("below what is spent", [calling(OWNER, "lower_budget", 39)]),
    ("not higher", [calling(OWNER, "propose_raise", 100)]),
    ("not higher", [calling(OWNER, "propose_raise", 99)]),
    ("no raise pending", [finish_raise]),
    ("no raise pending", [propose_raise, calling(OWNER, "lower_budget", 90), waiting(10), finish_raise]),
    ("no raise pending", [on_another_account(calling(OWNER, "lower_budget", 0)), on_another_account(finish_raise)]),
    ("no raise pending", [propose_raise, waiting(10), finish_raise, finish_raise]),
    (
        "no raise pending",
        [
            propose_raise,
            calling(OWNER, "propose_owner", HEIR),
            calling(HEIR, "accept_owner"),
            waiting(10),
            calling(HEIR, "finish_raise"),
        ],
    ),
    ("raise not ready", [propose_raise, waiting(9), finish_raise]),
    ("raise not ready", [propose_raise, waiting(9), propose_raise, waiting(1), finish_raise]),
    ("raise expired", [propose_raise, waiting(10 + WEEK), finish_raise]),
    ("not proposed", [calling(HEIR, "accept_owner")]),
    ("not proposed", [calling(DEPUTY, "accept_curator")]),
    ("not proposed", [calling(OWNER, "propose_owner", HEIR), calling(HEIR, "accept_curator")]),
    ("not proposed", [calling(OWNER, "propose_curator", DEPUTY), calling(DEPUTY, "accept_owner")]),
    (
        "not proposed",
        [calling(OWNER, "propose_owner", HEIR), calling(OWNER, "propose_owner", NOBODY), calling(HEIR, "accept_owner")],
    ),
    (
        "not proposed",
        [
            calling(OWNER, "propose_curator", DEPUTY),
            calling(OWNER, "propose_owner", HEIR),
            calling(HEIR, "accept_owner"),
            calling(DEPUTY, "accept_curator"),
        ],
    ),
    (
        "not proposed",
        [
            calling(OWNER, "propose_curator", DEPUTY),
            calling(DEPUTY, "accept_curator"),
            calling(OWNER, "propose_curator", CURATOR),
            calling(CURATOR, "accept_curator"),
            calling(DEPUTY, "accept_curator"),
        ],
    ),
]


@pytest.fixture
def real() -> Real:
    return Real()


@pytest.fixture
def account(real: Real) -> bytes:
    real.other = real.open()  # type: ignore[attr-defined]
    account = real.open(budget=100, delay=10)
    real.reserve(account, 1, 3, 40)
    return account


@pytest.mark.parametrize(("reason", "steps"), REFUSALS)
def test_refusal_says_why_and_changes_nothing(real: Real, account: bytes, reason: str, steps: list[Attempt]):
    for step in steps[:-1]:
        step(real, account)
    before = everything(real, account)
    with pytest.raises(LedgerRefused) as refusal:
        steps[-1](real, account)
    assert refusal.value.reason == f"ledger: {reason}"
    assert everything(real, account) == before


def test_every_reason_in_the_source_is_provoked_here():
    reasons = set(re.findall(r'"ledger: ([^"]+)"', SOURCE.read_text()))
    assert reasons == {reason for reason, _ in REFUSALS}


def test_invariant_holds_a_lowering_that_forgot_to_look_at_the_spend():
    real = Real(variant('    assert budget >= self.accounts[account].spent, "ledger: below what is spent"\n'))
    account = real.open(budget=100)
    real.reserve(account, 1, 3, 40)
    with pytest.raises(LedgerRefused, match="ledger: invariant"):
        real.call(OWNER, "lower_budget", account, 39)


# -- edges that must be allowed -------------------------------------------------------------------


ALLOWED: list[Attempt] = [
    opening(budget=1),
    opening(budget=MAX_BUDGET, delay=YEAR),
    reserving(wanted=100),
    reserving(query=4, wanted=60, limit=60),
    reserving(wanted=40, limit=0),
    reserving(wanted=39, limit=0),
    reserving(about=255),
    reserving(about=0),
    calling(CURATOR, "publish", word(1), word(9)),
    calling(OWNER, "lower_budget", 40),
    calling(OWNER, "lower_budget", 99),
    calling(OWNER, "propose_raise", 101),
    calling(OWNER, "propose_raise", MAX_BUDGET),
]


@pytest.mark.parametrize("attempt", ALLOWED)
def test_edge_is_allowed(real: Real, account: bytes, attempt: Attempt):
    attempt(real, account)


def test_last_measurement_is_allowed_and_free_answers_flow_after_it(real: Real, account: bytes):
    real.set(account, MEASUREMENTS, 2**20 - 1)
    assert real.reserve(account, 2, 3, 41) == (REFINE, 1, word(1))
    assert real.reserve(account, 3, 3, 41) == (REPEAT, 0, word(2))
    assert real.reserve(account, 4, 3, 5) == (BLUR, 0, word(1))
    with pytest.raises(LedgerRefused, match="too many measurements"):
        real.reserve(account, 5, 3, 42)


def test_free_answers_flow_when_nothing_is_left(real: Real, account: bytes):
    assert real.reserve(account, 2, 3, 100) == (REFINE, 60, word(1))
    with pytest.raises(LedgerRefused, match="budget exhausted"):
        real.reserve(account, 3, 4, 1)
    assert real.reserve(account, 3, 3, 100, limit=0) == (REPEAT, 0, word(2))
    assert real.reserve(account, 4, 3, 60, limit=0) == (BLUR, 0, word(2))
    assert real.view("accounts", account)[2:5] == (100, 100, 2)


@pytest.mark.parametrize("second", [10, 10 + WEEK - 1])
def test_raise_may_be_finished_from_its_first_to_its_last_second(real: Real, account: bytes, second: int):
    propose_raise(real, account)
    real.at(real.now + second)
    finish_raise(real, account)
    assert real.view("accounts", account)[2] == 200
    assert real.view("pending_raise", account) == (0, 0, 0)
    assert real.reserve(account, 2, 3, 200)[:2] == (REFINE, 160)


def test_hand_over_takes_two_steps_and_old_roles_end(real: Real, account: bytes):
    calling(OWNER, "propose_owner", HEIR)(real, account)
    assert real.view("accounts", account)[0] == OWNER
    calling(HEIR, "accept_owner")(real, account)
    calling(HEIR, "propose_curator", DEPUTY)(real, account)
    assert real.view("accounts", account)[:2] == (HEIR, CURATOR)
    calling(DEPUTY, "accept_curator")(real, account)
    assert real.view("accounts", account)[:2] == (HEIR, DEPUTY)
    assert real.view("pending_owner", account) == real.view("pending_curator", account) == (NOBODY,)
    assert real.reserve(account, 2, 3, 41, sender=DEPUTY) == (REFINE, 1, word(1))
    calling(DEPUTY, "publish", word(1), word(9))(real, account)


# -- reuse ----------------------------------------------------------------------------------------

TYPES = [1, 2, 3, 1, 2, 1, 3, 2, 2, 1, 2, 1, 3]
SIGMAS = ["1", "3", "2", "2.5", "2", "0.5", "2", "2.5", "1.5", "0.25", "1", "0.75", "1.5"]
CASES = [FIRST, FIRST, FIRST, BLUR, REFINE, REFINE, REPEAT, BLUR, REFINE, REFINE, REFINE, BLUR, REFINE]
REUSES = [0, 0, 0, 1, 2, 1, 3, 5, 5, 6, 9, 6, 3]
CUMULATIVE = [
    "1",
    "1.111111",
    "1.361111",
    "1.361111",
    "1.5",
    "4.5",
    "4.5",
    "4.5",
    "4.694444",
    "16.694444",
    "17.25",
    "17.25",
    "17.444444",
]
PAPER = ["1", "1", "1", "2C", "2B", "2B", "2A", "2C", "2B", "2B", "2B", "2C", "2B"]


def test_table_2_of_the_paper(real: Real):
    account = real.open(budget=26 * 10**18)
    named = {FIRST: "1", REPEAT: "2A", REFINE: "2B", BLUR: "2C"}
    cases, reuses, cumulative, naive = [], [], [], 0
    for number, (kind, sigma) in enumerate(zip(TYPES, SIGMAS, strict=True), 1):
        wanted = ceil(10**18 / Fraction(sigma) ** 2)
        case, _, reused = real.reserve(account, number, 100 + kind, wanted)
        cases.append(case)
        reuses.append(int.from_bytes(reused, "big"))
        cumulative.append(f"{real.view('accounts', account)[3] / 10**18:.6f}")
        naive += wanted
    assert cases == CASES
    assert [named[case] for case in cases] == PAPER
    assert reuses == REUSES
    assert cumulative == [f"{float(text):.6f}" for text in CUMULATIVE]
    assert f"{naive / 10**18:.6f}" == "25.847778"


def test_every_wanted_value_finds_the_smallest_record_that_reaches_it(real: Real):
    account = real.open(budget=1000)
    precisions = [3 * n - n % 2 for n in range(1, 301)]
    for number, precision in enumerate(precisions, 1):
        real.reserve(account, number, 3, precision)
    assert real.view("record_count", account, word(3)) == (300,)
    for wanted in range(1, precisions[-1] + 1):
        place = next(place for place, precision in enumerate(precisions) if precision >= wanted)
        case = REPEAT if precisions[place] == wanted else BLUR
        assert real.reserve(account, 10_000 + wanted, 3, wanted, limit=0) == (case, 0, word(place + 1))
    assert real.view("accounts", account)[3:5] == (precisions[-1], 300)


@pytest.mark.parametrize("count", [*range(1, 20), 31, 32, 33, 63, 64, 65])
def test_search_is_right_for_any_number_of_records(real: Real, count: int):
    account = real.open(budget=1000)
    for number in range(1, count + 1):
        real.reserve(account, number, 3, 2 * number)
    for wanted in range(1, 2 * count + 1):
        case = BLUR if wanted % 2 else REPEAT
        assert real.reserve(account, 1000 + wanted, 3, wanted) == (case, 0, word((wanted + 1) // 2))


def test_records_of_one_query_or_account_say_nothing_about_another(real: Real, account: bytes):
    other = real.open(budget=100)
    assert real.reserve(account, 2, 4, 20) == (FIRST, 20, bytes(32))
    assert real.reserve(other, 3, 3, 20) == (FIRST, 20, bytes(32))
    assert real.view("accounts", account)[3] == 60
    assert real.view("accounts", other)[3] == 20


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


def test_every_event_tells_everything(real: Real):
    logged: list[tuple[str, dict[str, object]]] = []

    def say(sender: str, function: str, *arguments: object) -> None:
        logged.extend(real.call(sender, function, *arguments)[1])  # type: ignore[arg-type]

    say(OWNER, "open_account", CURATOR, 100, word(7), word(8), 10)
    account = logged[0][1]["account"]
    say(CURATOR, "reserve", account, word(1), word(3), word(99), 2, 40, 50)
    say(CURATOR, "reserve", account, word(2), word(3), word(98), 255, 60, 50)
    say(CURATOR, "publish", account, word(1), word(9))
    say(OWNER, "lower_budget", account, 90)
    say(OWNER, "propose_raise", account, 95)
    real.at(1_010)
    say(OWNER, "finish_raise", account)
    say(OWNER, "propose_owner", account, HEIR)
    say(HEIR, "accept_owner", account)
    say(HEIR, "propose_curator", account, DEPUTY)
    say(DEPUTY, "accept_curator", account)

    asked = {"account": account, "id": word(1), "query": word(3), "analyst": word(99), "about": 2}
    again = {"account": account, "id": word(2), "query": word(3), "analyst": word(98), "about": 255}
    opened = {"owner": OWNER, "curator": CURATOR, "budget": 100, "policy": word(7), "data": word(8), "raise_delay": 10}
    assert logged == [
        ("AccountOpened", {"account": account, **opened}),
        ("Reserved", {**asked, "case": FIRST, "wanted": 40, "fresh": 40, "reused": bytes(32), "spent": 40}),
        ("Reserved", {**again, "case": REFINE, "wanted": 60, "fresh": 20, "reused": word(1), "spent": 60}),
        ("Published", {"account": account, "id": word(1), "answer": word(9)}),
        ("BudgetLowered", {"account": account, "budget": 90}),
        ("RaiseProposed", {"account": account, "budget": 95, "ready": 1_010, "expires": 1_010 + WEEK}),
        ("BudgetRaised", {"account": account, "budget": 95}),
        ("OwnerProposed", {"account": account, "owner": HEIR}),
        ("OwnerChanged", {"account": account, "owner": HEIR}),
        ("CuratorProposed", {"account": account, "curator": DEPUTY}),
        ("CuratorChanged", {"account": account, "curator": DEPUTY}),
    ]
    assert {name for name, _ in logged} == {event.name for event in real.contract.events.values()}


def test_contract_takes_no_ether_and_knows_no_other_function(real: Real):
    for calldata in (b"", b"\0\0\0", b"\xde\xad\xbe\xef", b"\xde\xad\xbe\xef" + bytes(64)):
        with pytest.raises(LedgerRefused, match="the call failed"):
            real.machine.execute(OWNER, real.address, calldata)
    real.machine._evm.set_balance(OWNER, 10)
    opening = real.contract.call("open_account", CURATOR, 1, bytes(32), bytes(32), 0)
    with pytest.raises(RuntimeError, match="Revert"):
        real.machine._evm.message_call(OWNER, real.address, opening, value=1)


def test_constants_are_what_the_documentation_says(real: Real):
    assert real.view("MAX_MEASUREMENTS") == (2**20,)
    assert real.view("MAX_BUDGET") == (MAX_BUDGET,)
    assert real.view("RAISE_WINDOW") == (WEEK,)
    assert real.view("MAX_RAISE_DELAY") == (YEAR,)


def test_deployed_code_is_the_artefacts(real: Real):
    assert real.machine.code(real.address) == real.contract.runtime
