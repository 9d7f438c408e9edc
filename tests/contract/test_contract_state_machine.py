"""The real bytecode and the model get the same calls: they must do the same, for ever."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from contract.model import MAX_BUDGET, MAX_MEASUREMENTS, NOBODY, NOTHING, Model, Revert
from contract.real import CURATOR, MEASUREMENTS, OWNER, PEOPLE, Real, word
from noisebank.errors import LedgerRefused

UNKNOWN = word(2**255)
IDS = [word(n) for n in range(1, 13)]
QUERIES = [word(n) for n in range(101, 104)]

curators = st.sampled_from(["curator"] * 15 + ["owner", *PEOPLE])
owners = st.sampled_from(["owner"] * 15 + ["curator", *PEOPLE])
successors = st.sampled_from(["next"] * 15 + ["owner", *PEOPLE])
places = st.sampled_from([0] * 8 + [1] * 4 + [2] * 2 + [3])
budgets = st.sampled_from([*range(31), MAX_BUDGET - 1, MAX_BUDGET, MAX_BUDGET + 1])
wanteds = st.sampled_from([*range(1, 13), 0, MAX_BUDGET, MAX_BUDGET + 1, 2**256 - 1])
limits = st.sampled_from([MAX_BUDGET] * 8 + [*range(9)])
digests = st.sampled_from([NOTHING, word(1), word(2)])


class Ledgers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.real = Real()
        self.model = Model(5, self.real.address)
        self.known: list[bytes] = []
        self.spent: dict[bytes, int] = {}
        self.seen = self.look()

    # -- calls -----------------------------------------------------------------------------------

    @initialize(budget=st.integers(5, 30), delay=st.sampled_from([0, 10]))
    def first_account(self, budget: int, delay: int) -> None:
        self.both(OWNER, "open_account", CURATOR, budget, word(1), word(2), delay)

    @precondition(lambda self: len(self.known) < 3)
    @rule(
        sender=st.sampled_from(PEOPLE),
        curator=st.sampled_from([NOBODY, CURATOR, CURATOR, *PEOPLE]),
        budget=budgets,
        policy=digests,
        data=digests,
        delay=st.sampled_from([0, 10, 365 * 86400, 365 * 86400 + 1]),
    )
    def open_account(self, sender: str, curator: str, budget: int, policy: bytes, data: bytes, delay: int) -> None:
        self.both(sender, "open_account", curator, budget, policy, data, delay)

    @rule(
        place=places, role=curators, id=st.sampled_from(IDS), query=st.sampled_from(QUERIES), analyst=digests,
        about=st.sampled_from([0, 1, 2, 3, 255, 256]), wanted=wanteds, limit=limits,
    )  # fmt: skip
    def reserve(
        self, place: int, role: str, id: bytes, query: bytes, analyst: bytes, about: int, wanted: int, limit: int
    ) -> None:
        account = self.account(place)
        self.both(self.person(role, account), "reserve", account, id, query, analyst, about, wanted, limit)

    @rule(place=places, role=curators, query=st.sampled_from(QUERIES), wanted=st.integers(1, 12))
    def reserve_with_a_new_id(self, place: int, role: str, query: bytes, wanted: int) -> None:
        unused = [id for id in IDS if id not in self.model.reservations]
        if unused:
            self.reserve(place, role, unused[0], query, NOTHING, 1, wanted, MAX_BUDGET)

    @rule(place=places, role=curators, id=st.sampled_from(IDS), answer=digests)
    def publish(self, place: int, role: str, id: bytes, answer: bytes) -> None:
        account = self.account(place)
        self.both(self.person(role, account), "publish", account, id, answer)

    @precondition(lambda self: self.model.reservations)
    @rule(pick=st.integers(0, 11), answer=st.just(word(5)) | digests)
    def publish_a_reserved_one(self, pick: int, answer: bytes) -> None:
        id, reservation = list(self.model.reservations.items())[pick % len(self.model.reservations)]
        self.both(self.person("curator", reservation.account), "publish", reservation.account, id, answer)

    @rule(place=places, role=owners, budget=budgets)
    def lower_budget(self, place: int, role: str, budget: int) -> None:
        account = self.account(place)
        self.both(self.person(role, account), "lower_budget", account, budget)

    @rule(place=places, role=owners, budget=budgets)
    def propose_raise(self, place: int, role: str, budget: int) -> None:
        account = self.account(place)
        self.both(self.person(role, account), "propose_raise", account, budget)

    @precondition(lambda self: len(self.known) > 1)
    @rule(place=places, role=owners)
    def finish_raise(self, place: int, role: str) -> None:
        account = self.account(place)
        self.both(self.person(role, account), "finish_raise", account)

    @rule(
        place=places,
        role=owners,
        what=st.sampled_from(["propose_owner", "propose_curator"]),
        whom=st.sampled_from([NOBODY, *PEOPLE]),
    )
    def propose(self, place: int, role: str, what: str, whom: str) -> None:
        account = self.account(place)
        self.both(self.person(role, account), what, account, whom)

    @rule(place=places, role=successors, what=st.sampled_from(["owner", "curator"]))
    def accept(self, place: int, role: str, what: str) -> None:
        account = self.account(place)
        role = f"next_{what}" if role == "next" else role
        self.both(self.person(role, account), f"accept_{what}", account)

    # -- time ------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0, 1, 9, 10, 7 * 86400]))
    def wait(self, seconds: int) -> None:
        self.real.at(self.real.now + seconds)

    @precondition(lambda self: any(books.pending[0] for books in self.model.accounts.values()))
    @rule(pick=places, edge=st.sampled_from([1, 2]), early=st.sampled_from([0, 1]), role=owners)
    def finish_raise_at_an_edge(self, pick: int, edge: int, early: int, role: str) -> None:
        pending = [account for account, books in self.model.accounts.items() if books.pending[0]]
        account = pending[pick % len(pending)]
        self.real.at(max(self.real.now, self.model.accounts[account].pending[edge] - early))
        self.both(self.person(role, account), "finish_raise", account)

    @precondition(lambda self: self.known)
    @rule(pick=places, best=st.integers(2, 12), less=st.integers(0, 11))
    def reserve_less_than_the_best(self, pick: int, best: int, less: int) -> None:
        self.reserve_with_a_new_id(pick, "curator", QUERIES[0], best)
        self.reserve_with_a_new_id(pick, "curator", QUERIES[0], max(1, best - less))

    @precondition(lambda self: self.known)
    @rule(place=places)
    def nearly_use_up_the_measurements(self, place: int) -> None:
        account = self.known[place % len(self.known)]
        self.model.accounts[account].measurements = MAX_MEASUREMENTS - 1
        self.real.set(account, MEASUREMENTS, MAX_MEASUREMENTS - 1)
        self.seen = self.look()

    # -- what must hold --------------------------------------------------------------------------

    @invariant()
    def no_account_is_overspent(self) -> None:
        for account in self.known:
            _, _, budget, spent, *_ = self.seen["accounts", account]
            assert spent <= budget
            assert spent >= self.spent.get(account, 0), "what is spent never comes back"
            self.spent[account] = spent

    @invariant()
    def records_rise_and_account_for_the_spend(self) -> None:
        for account in self.known:
            total = 0
            for query in QUERIES:
                (count,) = self.seen["record_count", account, query]
                rising = [self.seen["records", account, query, place][0] for place in range(count)]
                assert all(low < high for low, high in pairwise(rising))
                total += rising[-1] if rising else 0
            assert total == self.seen["accounts", account][3]

    # -- parts -----------------------------------------------------------------------------------

    def account(self, place: int) -> bytes:
        return UNKNOWN if place == 3 else self.known[place % len(self.known)]

    def person(self, role: str, account: bytes) -> str:
        if role.startswith("0x"):
            return role
        found = getattr(self.model.accounts.get(account), role, NOBODY)
        return str(found) if found != NOBODY else PEOPLE[2]

    def both(self, sender: str, function: str, *arguments: object) -> None:
        """Makes the call in both ledgers; they must agree on everything that anybody can see."""
        try:
            expected = self.model.call(sender, self.real.now, function, *arguments)
        except Revert as revert:
            expected = str(revert)
        try:
            got = self.real.call(sender, function, *arguments)
        except LedgerRefused as refusal:
            got = refusal.reason
        assert got == expected
        if function == "open_account" and not isinstance(got, str):
            self.known.append(got[0][0])
        before, self.seen = self.seen, self.look()
        if isinstance(got, str):
            assert self.seen == before, "a refusal changed something"

    def look(self) -> dict[tuple[object, ...], tuple[object, ...]]:
        """The whole visible state of the contract, which must be the model's."""
        expected = self.model.visible(PEOPLE, [*self.known, UNKNOWN], QUERIES, IDS)
        seen = {key: self.real.view(*key) for key in expected}
        assert seen == expected
        return seen


class LongLedgers(Ledgers):
    """The same, for longer."""


CALM = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
TestLedgers = Ledgers.TestCase
TestLedgers.settings = settings(CALM, max_examples=120, stateful_step_count=40)
TestLedgersForLonger = pytest.mark.slow(LongLedgers.TestCase)
TestLedgersForLonger.settings = settings(CALM, max_examples=250, stateful_step_count=80)
