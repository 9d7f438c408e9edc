"""The second opinion: each number that the contract derives, off by one, is caught; each rule, broken, is named."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from ledger_history import ANALYST, HALF, history, told, word
from noisebank.core.errors import Tampered
from noisebank.core.records import Case
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.block import Block, Genesis
from noisebank.ledger.evm import Event
from noisebank.ledger.protocol import OWNER_ANALYST
from noisebank.verifier.recount import WEEK, WHOLE_WEIGHT, Recount

OWNER, CURATOR, HEIR, NOBODY = ("0x" + byte * 20 for byte in ("0a", "0b", "0c", "00"))
ACCOUNT = word(1)
DELAY = 60


def at(event: Event, time: int, recount: Recount) -> None:
    recount.add_event(event, lambda: time)


def happened() -> list[tuple[int, Event]]:
    """Time and event of everything in the long history."""
    first, *rest = history()
    times = [
        Block.from_canonical_json(line, Genesis.from_canonical_json(first).chain_id, number).time
        for number, line in enumerate(rest)
    ]
    return [(time, event) for time, logged in zip(times, told(history()), strict=True) for event in logged]


HAPPENED = happened()
DERIVED = {
    "CubeAdded": ("cube",),
    "VersionOpened": ("version", "base"),
    "Reserved": ("case", "fresh", "reused", "spent", "used"),
    "RaiseProposed": ("ready", "expires"),
    "BudgetRaised": ("budget",),
    "OwnerChanged": ("owner",),
    "CuratorChanged": ("curator",),
}


def test_an_honest_history_is_recounted():
    recount = Recount()
    for time, event in HAPPENED:
        at(event, time, recount)
    assert {event.name for _, event in HAPPENED} == {event.name for event in budget_ledger().events.values()}
    first = next(iter(recount.accounts.values()))
    assert (first.version, first.budget, first.burnt, first.refused) == (2, 2_000, 5, 2)
    assert set(first.cases) == set(Case)


@pytest.mark.parametrize("place", range(len(HAPPENED)), ids=lambda place: f"{place} {HAPPENED[place][1].name}")
def test_each_derived_number_changed_by_one_is_caught(place: int):
    recount = Recount()
    for time, event in HAPPENED[:place]:
        at(event, time, recount)
    time, event = HAPPENED[place]
    for field in DERIVED.get(event.name, ()):
        value: Any = event.arguments[field]
        for other in (value + 1, value - 1) if isinstance(value, int) else (OWNER, NOBODY):
            with pytest.raises(Tampered, match=f"{event.name}: {field} is recorded as"):
                at(Event(event.name, {**event.arguments, field: other}), time, deepcopy(recount))
    at(event, time, recount)


def test_each_input_of_a_reservation_decides_what_follows():
    """Changed inputs give other numbers: here or at the latest when the balance is compared."""
    recount = Recount()
    for time, event in HAPPENED:
        if event.name == "Reserved" and event.arguments["fresh"]:
            for field in ("wanted",):
                for step in (1, -1):
                    changed = {**event.arguments, field: event.arguments[field] + step}
                    with pytest.raises(Tampered):
                        at(Event("Reserved", changed), time, deepcopy(recount))
        at(event, time, recount)


# -- rules, one by one -----------------------------------------------------------------------------


def opened(**others: Any) -> Event:
    plain = {"account": ACCOUNT, "owner": OWNER, "curator": CURATOR, "unit": 1, "budget": 100, "policy": word(8)}
    return Event("AccountOpened", {**plain, "data": word(9), "raise_delay": DELAY, **others})


def reserved(id: int, case: Case, wanted: int, fresh: int, spent: int, **others: Any) -> Event:
    plain: dict[str, Any] = {
        "account": ACCOUNT, "id": word(id), "query": word(3), "analyst": OWNER_ANALYST, "about": 2, "cube": 0,
        "case": case.value, "wanted": wanted, "fresh": fresh, "reused": 0, "spent": spent, "used": 0, "runs": (),
    }  # fmt: skip
    assert others.keys() <= plain.keys()
    return Event("Reserved", {**plain, **others})


def simple(name: str, **others: Any) -> Event:
    return Event(name, {"account": ACCOUNT, **others})


@pytest.fixture
def recount() -> Recount:
    """A budget of 100; a cube of eight cells; an analyst with 50; 30 spent on query 3."""
    found = Recount()
    for event in (
        opened(),
        simple("CubeAdded", cube=1, cells=8),
        simple("LimitSet", analyst=ANALYST, limit=50),
        reserved(1, Case.FIRST, 10, 10, 10),
        reserved(2, Case.REFINE, 30, 20, 30, reused=1),
    ):
        at(event, 1_000, found)
    return found


def refused(recount: Recount, event: Event, why: str, time: int = 1_000) -> None:
    with pytest.raises(Tampered, match=why):
        at(event, time, deepcopy(recount))


RUN = ((0, 4, WHOLE_WEIGHT),)
WRONG: dict[str, tuple[Event, str]] = {
    "opened twice": (opened(), "opened twice"),
    "no budget": (opened(account=word(2), budget=0), "no budget"),
    "no unit": (opened(account=word(2), unit=3), "unit"),
    "no curator": (opened(account=word(2), curator=NOBODY), "curator"),
    "odd cells": (simple("CubeAdded", cube=2, cells=6), "power of two"),
    "too many cells": (simple("CubeAdded", cube=2, cells=2**21), "power of two"),
    "no cells": (simple("CubeAdded", cube=2, cells=0), "power of two"),
    "a limit for the owner": (simple("LimitSet", analyst=OWNER_ANALYST, limit=5), "no analyst"),
    "used id": (reserved(1, Case.BLUR, 5, 0, 30, reused=1), "used before"),
    "about": (reserved(3, Case.FIRST, 5, 5, 35, query=word(4), about=256), "public byte"),
    "undeclared cube": (reserved(3, Case.FIRST, 5, 5, 35, cube=2, runs=RUN), "undeclared cube"),
    "no runs": (reserved(3, Case.FIRST, 5, 5, 35, cube=1), "runs where"),
    "runs without a cube": (reserved(3, Case.FIRST, 5, 5, 35, query=word(4), runs=RUN), "runs where"),
    "runs without a wish": (reserved(3, Case.INFER, 0, 0, 30, cube=1, runs=RUN), "runs where"),
    "nothing wanted": (reserved(3, Case.INFER, 0, 0, 30), "nothing wanted"),
    "overlap": (
        reserved(3, Case.FIRST, 5, 5, 35, cube=1, runs=((0, 4, WHOLE_WEIGHT), (3, 5, WHOLE_WEIGHT))),
        "overlap",
    ),
    "backwards": (
        reserved(3, Case.FIRST, 5, 5, 35, cube=1, runs=((4, 5, WHOLE_WEIGHT), (0, 1, WHOLE_WEIGHT))),
        "overlap",
    ),
    "empty run": (reserved(3, Case.FIRST, 5, 5, 35, cube=1, runs=((4, 4, WHOLE_WEIGHT),)), "overlap"),
    "outside": (reserved(3, Case.FIRST, 5, 5, 35, cube=1, runs=((7, 9, WHOLE_WEIGHT),)), "outside"),
    "no weight": (reserved(3, Case.FIRST, 5, 5, 35, cube=1, runs=((0, 4, 0),)), "weight"),
    "too heavy": (reserved(3, Case.FIRST, 5, 5, 35, cube=1, runs=((0, 4, 2**64 + 1),)), "weight"),
    "beyond the budget": (reserved(3, Case.FIRST, 71, 71, 101, query=word(4)), "more is spent than the budget"),
    "no limit": (reserved(3, Case.BLUR, 5, 0, 30, reused=1, analyst=word(7), used=5), "without a limit"),
    "beyond the limit": (
        reserved(3, Case.FIRST, 51, 51, 81, query=word(4), analyst=ANALYST, used=51),
        "beyond its limit",
    ),
    "published, not reserved": (simple("Published", id=word(9), answer=word(7)), "not reserved"),
    "published, no answer": (simple("Published", id=word(1), answer=bytes(32)), "no answer"),
    "lowered to the same": (simple("BudgetLowered", budget=100), "not lower"),
    "lowered below the spend": (simple("BudgetLowered", budget=29), "below what is spent"),
    "a raise to the same": (simple("RaiseProposed", budget=100, ready=1_060, expires=1_060 + WEEK), "not higher"),
    "a raise out of nothing": (simple("BudgetRaised", budget=200), "not announced"),
    "an unknown event": (simple("Burned"), "cannot be recounted"),
    "an unknown account": (Event("Paused", {"account": word(404)}), "cannot be recounted"),
}


@pytest.mark.parametrize("what", WRONG)
def test_broken_rules_are_named(recount: Recount, what: str):
    event, why = WRONG[what]
    refused(recount, event, why)


def test_a_budget_is_lowered_to_what_is_spent(recount: Recount):
    at(simple("BudgetLowered", budget=30), 1_000, recount)
    assert recount.accounts[ACCOUNT].budget == 30
    refused(recount, reserved(3, Case.FIRST, 1, 1, 31, query=word(4)), "more is spent than the budget")


def test_edges_of_the_rules_pass(recount: Recount):
    for event in (
        reserved(3, Case.FIRST, 50, 50, 80, query=word(4), analyst=ANALYST, used=50, about=255),
        reserved(4, Case.FIRST, 20, 20, 100, query=word(5), about=0),
        simple("LimitSet", analyst=ANALYST, limit=50),
        simple("Published", id=word(4), answer=word(7)),
    ):
        at(event, 1_000, recount)
    refused(recount, simple("LimitSet", analyst=ANALYST, limit=49), "below what is used")
    refused(recount, simple("BudgetLowered", budget=99), "below what is spent")
    refused(recount, simple("Published", id=word(4), answer=word(7)), "published twice")


def test_a_repeat_leaves_no_id_and_is_not_published(recount: Recount):
    repeat = reserved(3, Case.REPEAT, 10, 0, 30, reused=1)
    at(repeat, 1_000, recount)
    at(repeat, 1_000, recount)
    refused(recount, simple("Published", id=word(3), answer=word(7)), "not reserved")
    refused(recount, reserved(4, Case.BLUR, 10, 0, 30, reused=1), "case is recorded")
    at(reserved(4, Case.BLUR, 9, 0, 30, reused=1), 1_000, recount)
    refused(recount, reserved(4, Case.REPEAT, 10, 0, 30, reused=1), "used before")


# -- cubes -----------------------------------------------------------------------------------------


def test_a_cube_costs_by_its_largest_cell(recount: Recount):
    high, both = ((4, 8, WHOLE_WEIGHT),), ((3, 5, HALF),)
    at(reserved(3, Case.FIRST, 20, 20, 50, cube=1, runs=RUN), 1_000, recount)
    refused(recount, reserved(4, Case.FIRST, 20, 20, 70, cube=1, runs=high), "spent is recorded as 70, recounted 50")
    at(reserved(4, Case.FIRST, 20, 20, 50, cube=1, runs=high), 1_000, recount)
    refused(recount, reserved(5, Case.FIRST, 11, 11, 55, cube=1, runs=both), "recounted 56")
    at(reserved(5, Case.FIRST, 11, 11, 56, cube=1, runs=both), 1_000, recount)  # 5.5 is rounded up
    at(reserved(6, Case.REFINE, 25, 5, 61, cube=1, runs=RUN, reused=1), 1_000, recount)
    tally = recount.accounts[ACCOUNT]
    assert (tally.plain_spent, tally.cell_charges[1].largest, tally.spent, tally.measurements) == (30, 31, 61, 6)
    assert tally.spent_on == {2: 61}


def test_other_runs_are_another_query(recount: Recount):
    at(reserved(3, Case.FIRST, 20, 20, 50, cube=1, runs=RUN), 1_000, recount)
    other = ((0, 4, WHOLE_WEIGHT - 1),)
    refused(recount, reserved(4, Case.REPEAT, 20, 0, 50, cube=1, runs=other, reused=1), "recorded as")
    at(reserved(4, Case.FIRST, 20, 20, 70, cube=1, runs=other), 1_000, recount)


# -- views -----------------------------------------------------------------------------------------


def test_a_view_rises_to_what_is_delivered(recount: Recount):
    at(reserved(3, Case.BLUR, 20, 0, 30, reused=2, analyst=ANALYST, used=20), 1_000, recount)
    refused(recount, reserved(4, Case.REPEAT, 30, 0, 30, reused=2, analyst=ANALYST, used=50), "used is recorded")
    at(reserved(4, Case.REPEAT, 30, 0, 30, reused=2, analyst=ANALYST, used=30), 1_000, recount)
    at(reserved(5, Case.REPEAT, 10, 0, 30, reused=1, analyst=ANALYST, used=30), 1_000, recount)
    at(reserved(6, Case.FIRST, 20, 20, 50, query=word(4), analyst=ANALYST, used=50), 1_000, recount)
    one_more = reserved(7, Case.FIRST, 1, 1, 51, query=word(5), analyst=ANALYST, used=51)
    refused(recount, one_more, "beyond its limit")
    at(simple("LimitSet", analyst=ANALYST, limit=51), 1_000, recount)
    at(one_more, 1_000, recount)


def test_in_a_cube_a_view_rises_to_the_largest_cell(recount: Recount):
    at(reserved(3, Case.FIRST, 20, 20, 50, cube=1, runs=RUN), 1_000, recount)
    refused(recount, reserved(4, Case.INFER, 0, 0, 50, cube=1, analyst=ANALYST, used=0), "recounted 20")
    at(reserved(4, Case.INFER, 0, 0, 50, cube=1, analyst=ANALYST, used=20), 1_000, recount)
    at(reserved(5, Case.INFER, 0, 0, 50, cube=1, analyst=ANALYST, used=20, query=word(77)), 1_000, recount)
    assert recount.accounts[ACCOUNT].used[ANALYST] == 20


# -- versions --------------------------------------------------------------------------------------


def test_a_new_version_starts_from_what_is_spent(recount: Recount):
    at(reserved(3, Case.FIRST, 20, 20, 50, cube=1, runs=RUN, analyst=ANALYST, used=20), 1_000, recount)
    at(reserved(7, Case.REPEAT, 10, 0, 50, reused=1, analyst=ANALYST, used=30), 1_000, recount)
    at(simple("Published", id=word(1), answer=word(7)), 1_000, recount)
    version = simple("VersionOpened", version=2, base=50, policy=word(8), data=word(10))
    refused(recount, simple("VersionOpened", version=3, base=50, policy=word(8), data=word(10)), "recounted 2")
    refused(recount, simple("VersionOpened", version=2, base=30, policy=word(8), data=word(10)), "recounted 50")
    at(version, 1_000, recount)
    tally = recount.accounts[ACCOUNT]
    assert (tally.spent, tally.base, tally.plain_spent, tally.burnt, tally.published) == (50, 50, 0, 2, 1)
    refused(recount, simple("Published", id=word(2), answer=word(7)), "burnt")
    refused(recount, reserved(2, Case.FIRST, 5, 5, 55), "used before")
    refused(recount, reserved(4, Case.REPEAT, 10, 0, 50, reused=1), "recorded as")
    at(reserved(4, Case.FIRST, 10, 10, 60, analyst=ANALYST, used=40), 1_000, recount)  # of another table: learned anew
    at(reserved(5, Case.FIRST, 5, 5, 65, cube=1, runs=RUN, analyst=ANALYST, used=45), 1_000, recount)
    refused(recount, reserved(6, Case.FIRST, 36, 36, 101, query=word(9)), "more is spent")


# -- pauses, raises, hand-overs --------------------------------------------------------------------


def test_nothing_is_reserved_in_a_pause(recount: Recount):
    at(simple("Paused"), 1_000, recount)
    for event in (reserved(3, Case.FIRST, 1, 1, 31, query=word(4)), reserved(3, Case.REPEAT, 10, 0, 30, reused=1)):
        refused(recount, event, "paused")
    at(simple("Published", id=word(1), answer=word(7)), 1_000, recount)
    at(simple("Resumed"), 1_000, recount)
    at(reserved(3, Case.FIRST, 1, 1, 31, query=word(4)), 1_000, recount)


def test_a_raise_counts_from_its_announcement_and_for_a_week(recount: Recount):
    ready = 1_000 + DELAY
    for other in ({"ready": ready - 1}, {"ready": ready + 1}, {"expires": ready + WEEK + 1}):
        plain = {"budget": 200, "ready": ready, "expires": ready + WEEK}
        refused(recount, simple("RaiseProposed", **{**plain, **other}), "is recorded as")
    at(simple("RaiseProposed", budget=200, ready=ready, expires=ready + WEEK), 1_000, recount)
    done = simple("BudgetRaised", budget=200)
    for time in (1_000, ready - 1, ready + WEEK, ready + WEEK + 1):
        refused(recount, done, "too early or too late", time)
    refused(recount, simple("BudgetRaised", budget=201), "recounted 200", ready)
    for time in (ready, ready + WEEK - 1):
        at(done, time, deepcopy(recount))
    at(done, ready, recount)
    assert recount.accounts[ACCOUNT].budget == 200
    refused(recount, done, "not announced", ready)


def test_a_raise_is_dropped_by_a_lower_budget_and_by_a_new_owner(recount: Recount):
    ready = 1_000 + DELAY
    raised = simple("BudgetRaised", budget=200)
    at(simple("RaiseProposed", budget=200, ready=ready, expires=ready + WEEK), 1_000, recount)
    lowered = deepcopy(recount)
    at(simple("BudgetLowered", budget=99), 1_000, lowered)
    refused(lowered, raised, "not announced", ready)
    at(simple("OwnerProposed", owner=HEIR), 1_000, recount)
    at(simple("OwnerChanged", owner=HEIR), 1_000, recount)
    refused(recount, raised, "not announced", ready)


def test_a_second_announcement_replaces_the_first(recount: Recount):
    for time, budget in ((1_000, 200), (1_030, 300)):
        ready = time + DELAY
        at(simple("RaiseProposed", budget=budget, ready=ready, expires=ready + WEEK), time, recount)
    refused(recount, simple("BudgetRaised", budget=200), "too early", 1_000 + DELAY)
    refused(recount, simple("BudgetRaised", budget=200), "recounted 300", 1_030 + DELAY)
    at(simple("BudgetRaised", budget=300), 1_030 + DELAY, recount)


def test_only_the_proposed_take_over(recount: Recount):
    for name, proposal, field in (
        ("OwnerChanged", "OwnerProposed", "owner"),
        ("CuratorChanged", "CuratorProposed", "curator"),
    ):
        refused(recount, simple(name, **{field: HEIR}), "nobody was proposed")
        at(simple(proposal, **{field: HEIR}), 1_000, recount)
        refused(recount, simple(name, **{field: CURATOR if field == "owner" else OWNER}), "is recorded as")
        at(simple(name, **{field: HEIR}), 1_000, recount)
        refused(recount, simple(name, **{field: HEIR}), "nobody was proposed")
    tally = recount.accounts[ACCOUNT]
    assert (tally.owner, tally.curator, tally.next_owner, tally.next_curator) == (HEIR, HEIR, NOBODY, NOBODY)


def test_nobody_is_no_successor(recount: Recount):
    """Where nothing is proposed the successor is the empty address, and it never takes over."""
    for name, field in (("OwnerChanged", "owner"), ("CuratorChanged", "curator")):
        with pytest.raises(Tampered):
            at(simple(name, **{field: NOBODY}), 1_000, deepcopy(recount))


def test_a_new_owner_drops_the_old_ones_curator(recount: Recount):
    at(simple("CuratorProposed", curator=HEIR), 1_000, recount)
    at(simple("OwnerProposed", owner=HEIR), 1_000, recount)
    at(simple("OwnerChanged", owner=HEIR), 1_000, recount)
    refused(recount, simple("CuratorChanged", curator=HEIR), "nobody was proposed")
