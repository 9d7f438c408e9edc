"""The real bytecode and the model get the same calls: they must do the same, for ever.

Once in the embedded EVM alone, and once in the embedded EVM and on anvil together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from contract.model import MAX_BUDGET, MAX_MEASUREMENTS, MAX_WEIGHT, NO_ACCOUNT, NOBODY, NOTHING, Model, Revert
from contract.node import Node, OnAnvil, node_or_skip
from contract.real import CURATOR, HEIR, OWNER, PEOPLE, PLENTY, STRANGER, WHOLE, Real, contract_under_test, word
from support.internals import LedgerRefused

UNKNOWN = word(2**255)
IDS = [word(n) for n in range(1, 1_000)]
QUERIES = [word(n) for n in range(101, 104)]
ANALYSTS = [word(n) for n in range(201, 204)]
"""The last one never gets a limit."""
DIGESTS = [NOTHING, word(1), word(2)]
NO_OWNER = replace(NO_ACCOUNT, owner=STRANGER, curator=STRANGER)
ABOUTS = [0, 1, 2, 255]
HALF, DOUBLE = WHOLE // 2, 2 * WHOLE
WEEK, YEAR = 7 * 86400, 365 * 86400

Runs = tuple[tuple[int, int, int], ...]

# Runs in a cube of n cells. Few of them, so that the same question comes again.
GOOD_RUNS: list[Callable[[int], Runs]] = [
    lambda n: ((0, n, WHOLE),),
    lambda n: ((0, max(1, n // 2), WHOLE),),
    lambda n: ((n // 2, n, WHOLE),),
    lambda n: ((n // 3, n // 3 + 1, WHOLE),),
    lambda n: ((n // 4, n - n // 4, HALF),),
    lambda n: ((n // 3, n - n // 5, WHOLE),),
    lambda n: ((min(5, n - 1), n - n // 7, WHOLE),),
    lambda n: ((n - 1, n, DOUBLE),),
    lambda n: ((0, 1, 1), (n // 2, n, WHOLE + 1)) if n > 1 else ((0, 1, 1),),
    lambda n: tuple((cell, cell + 1, WHOLE) for cell in range(n)[:16:2]),
    lambda n: ((0, n // 2, DOUBLE), (n // 2, n, HALF)) if n > 1 else ((0, 1, DOUBLE),),
]
BAD_RUNS: list[Callable[[int], Runs]] = [
    lambda n: ((0, n, WHOLE),),  # brought where there should be none, missing where there should be some
    lambda n: ((0, 0, WHOLE),),
    lambda n: ((n, n, WHOLE),),
    lambda n: ((1, 0, WHOLE),),
    lambda n: ((0, n + 1, WHOLE),),
    lambda n: ((n, n + 1, WHOLE),),
    lambda n: ((0, n, 0),),
    lambda n: ((0, n, MAX_WEIGHT + 1),),
    lambda n: ((0, n, MAX_WEIGHT),),
    lambda n: ((0, n, WHOLE), (n - 1, n, WHOLE)),
    lambda n: ((n - 1, n, WHOLE), (0, 1, WHOLE)),
    lambda n: ((2**256 - 2, 2**256 - 1, WHOLE),),
]


def mostly(random: Random, usual: Sequence[Any], *others: Any, share: float = 0.04) -> Any:
    """One of the usual things, now and then one of the others."""
    return random.choice(others if random.random() < share else usual)


def some_claim(random: Random) -> dict[str, Any]:
    """What one claim asks for; its runs depend on the cube's size."""
    return {
        "id": mostly(random, [None], *IDS[:9]),  # None: the next unused one
        "query": random.choice(QUERIES),
        "analyst": mostly(random, [NOTHING, *ANALYSTS[:2]], ANALYSTS[2]),
        "about": mostly(random, ABOUTS, 256, 2**256 - 1, share=0.02),
        "cube": mostly(random, [0, 0, 1, 2, 3], 4, 5, 255),
        "wanted": mostly(random, [*range(1, 9), 0], 1_000, MAX_BUDGET, MAX_BUDGET + 1, 2**256 - 1),
        "limit": mostly(random, [PLENTY], *range(6), 2**256 - 1, share=0.1),
        "runs": mostly(random, GOOD_RUNS, *BAD_RUNS, share=0.06),
    }


def some_group(random: Random, most: int = 3) -> list[dict[str, Any]]:
    return [some_claim(random) for _ in range(random.randint(1, most))]


class Ledgers(RuleBasedStateMachine):
    """hypothesis chooses what happens, a seeded `chance` how: alone it tends to extremes, and almost all is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.real = self.first_chain()
        self.model = Model(self.real.chain_id, self.real.address)
        self.chance, self.ending = Random(0), False
        self.known: list[bytes] = []
        self.spent: dict[bytes, int] = {}
        self.base: dict[bytes, int] = {}
        self.runs: dict[bytes, list[tuple[int, Runs]]] = {}
        """Per account: cube and runs that were ever asked about."""
        self.seen: dict[tuple[object, ...], tuple[object, ...]] = {}
        self.look(UNKNOWN)

    def first_chain(self) -> Real:
        return Real()

    def all_chains(self) -> list[Any]:
        return [self.real]

    def worth_a_look(self, chain: Any, expected: dict[Any, Any]) -> Iterable[Any]:
        """Which of the views to compare after a call."""
        return expected

    # -- accounts --------------------------------------------------------------------------------

    @initialize(seed=st.integers(0, 2**64))
    def first_account(self, seed: int) -> None:
        self.chance = chance = Random(seed)
        budget, delay = chance.choice([20, 60, 200, 1_000]), chance.choice([0, 10])
        self.both(OWNER, "open_account", CURATOR, 1, budget, word(1), word(2), delay)
        self.furnish(self.known[0])

    @precondition(lambda self: len(self.known) < 3)
    @rule()
    def open_account(self) -> None:
        chance, before = self.chance, len(self.known)
        sender, curator = mostly(chance, [OWNER], *PEOPLE), mostly(chance, [CURATOR], *PEOPLE, NOBODY, share=0.3)
        budget = mostly(chance, [30, 100, 1_000], 0, 1, MAX_BUDGET, MAX_BUDGET + 1, 2**256 - 1, share=0.2)
        unit, delay = mostly(chance, [1, 2], 0, 3, share=0.1), mostly(chance, [0, 10, YEAR], YEAR + 1, share=0.1)
        self.both(sender, "open_account", curator, unit, budget, chance.choice(DIGESTS), word(9), delay)
        for account in self.known[before:]:
            self.furnish(account)

    def furnish(self, account: bytes) -> None:
        """Cubes, and limits for all analysts but the last."""
        owner = self.model.accounts[account].owner
        for cells in self.chance.sample([1, 4, 64], 3):
            self.both(owner, "add_cube", account, cells)
        for analyst in ANALYSTS[:2]:
            self.both(owner, "set_limit", account, analyst, self.chance.choice([5, 20, 60, 500]))

    @rule()
    def change_the_table(self) -> None:
        chance, account = self.chance, self.account()
        if chance.random() < 0.5:
            self.both(self.owner(account), "open_version", account, *chance.choices(DIGESTS, k=2))
        elif len(self.model.accounts.get(account, NO_ACCOUNT).cubes) < 4:
            cells = mostly(chance, [1, 4, 64], 0, 3, 2**20 + 1, 2**21, 2**256 - 1, 2**255, share=0.5)
            self.both(self.owner(account), "add_cube", account, cells)

    @rule()
    def set_limit(self) -> None:
        chance, account = self.chance, self.account()
        analyst = mostly(chance, ANALYSTS[:2], NOTHING)
        used = self.model.accounts.get(account, NO_ACCOUNT).used(analyst)
        limit = mostly(chance, [5, 20, 60, 500, used, used + 1, max(0, used - 1)], 0, MAX_BUDGET, MAX_BUDGET + 1)
        self.both(self.owner(account), "set_limit", account, analyst, limit)

    # -- spending --------------------------------------------------------------------------------

    @rule()
    def reserve(self) -> None:
        chance, account = self.chance, self.account()
        rows, runs = self.rows(account, [some_group(chance)])
        self.both(self.curator(account), "reserve", account, rows, slipped(chance, runs))

    @rule()
    def ask_the_same_with_other_precisions(self, account: bytes | None = None) -> None:
        chance, account = self.chance, account or self.account()
        claim = some_claim(chance)
        for wanted in chance.choices(range(1, 9), k=4):
            analyst = chance.choice([NOTHING, *ANALYSTS[:2]])
            rows, runs = self.rows(account, [[{**claim, "id": None, "wanted": wanted, "analyst": analyst}]])
            self.both(self.curator(account), "reserve", account, rows, runs)

    @rule()
    def reserve_many(self) -> None:
        chance, account = self.chance, self.account()
        rows, runs = self.rows(account, [some_group(chance, 2) for _ in range(chance.randint(0, 5))])
        if rows and chance.random() < 0.04:
            rows = (*rows[:-1], (*rows[-1][:-1], False))
        self.both(self.curator(account), "reserve_many", account, rows, slipped(chance, runs))

    @rule()
    def publish(self) -> None:
        chance, account = self.chance, self.account()
        seals = self.seals(account, chance.randint(0, 3))
        self.both(self.curator(account), "publish", account, seals)

    @rule()
    def publish_many(self) -> None:
        chance, account = self.chance, self.account()
        seals = self.seals(account, chance.randint(0, 6))
        if seals and chance.random() < 0.9:
            seals = (*seals[:-1], (*seals[-1][:-1], True))
        self.both(self.curator(account), "publish_many", account, seals)

    # -- the owner's ------------------------------------------------------------------------------

    @rule()
    def pause_try_and_resume(self) -> None:
        chance, account = self.chance, self.account()
        for function in mostly(chance, [("pause",)], ("resume",), ("pause", "pause"), share=0.2):
            self.both(self.owner(account), function, account)
        if chance.random() < 0.7:
            getattr(self, chance.choice(["reserve", "reserve_many", "publish", "set_limit", "change_the_table"]))()
        if chance.random() < 0.95:
            self.both(self.owner(account), "resume", account)

    @rule()
    def lower_and_raise(self) -> None:
        """Lowers the budget to an edge, and raises it inside, or just outside, of its window."""
        chance, account = self.chance, self.account()
        books = self.model.accounts.get(account, NO_ACCOUNT)
        old = books.budget
        lower = mostly(chance, [books.spent + 1, books.spent, old - 1, old], books.spent - 1, old + 1, share=0.2)
        self.both(self.owner(account), "lower_budget", account, max(0, lower))
        if chance.random() < 0.5:
            self.reserve()
        higher = mostly(chance, [old, old + 1, old + 50], MAX_BUDGET, MAX_BUDGET + 1, lower, max(0, lower) + 1)
        self.both(self.owner(account), "propose_raise", account, max(0, higher))
        if chance.random() < 0.2:
            getattr(self, chance.choice(["change_roles", "lower_and_raise"]))()
        _, ready, expires = self.model.accounts.get(account, NO_ACCOUNT).pending
        self.at(max(self.real.now, mostly(chance, [ready], ready - 1, expires - 1, expires, share=0.5)))
        for _ in range(chance.randint(1, 2)):
            self.both(self.owner(account), "finish_raise", account)

    @rule()
    def change_roles(self) -> None:
        chance = self.chance
        account, what = self.account(), chance.choice(["owner", "curator"])
        if chance.random() < 0.8:
            whom = mostly(chance, PEOPLE, NOBODY, share=0.1)
            self.both(self.owner(account), f"propose_{what}", account, whom)
        if chance.random() < 0.8:
            books = self.model.accounts.get(account, NO_ACCOUNT)
            proposed = books.next_owner if what == "owner" else books.next_curator
            sender = mostly(chance, [proposed], *PEOPLE, share=0.3)
            self.both(sender if sender != NOBODY else HEIR, f"accept_{what}", account)

    # -- what nobody decides ----------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0, 1, 9, 10, WEEK]))
    def wait(self, seconds: int) -> None:
        self.at(self.real.now + seconds)

    @rule()
    def nearly_use_up_the_measurements(self) -> None:
        account = self.chance.choice(self.known)
        before = self.model.accounts[account].measurements
        self.write_measurements(account, MAX_MEASUREMENTS - 1)
        self.ask_the_same_with_other_precisions(account)
        self.write_measurements(account, before)

    # -- what must hold, read off the real contract -----------------------------------------------

    @invariant()
    def no_account_is_overspent(self) -> None:
        for account in self.known:
            budget, spent, _ = self.seen["money", account]
            assert spent <= budget
            assert spent >= self.spent.get(account, 0), "what is spent never comes back"
            self.spent[account] = spent

    @invariant()
    def spend_is_base_and_plain_answers_and_largest_cells(self) -> None:
        cells: dict[Any, list[Any]] = {}
        for key, answer in self.seen.items():
            if key[0] == "cell":
                cells.setdefault(key[1:3], []).append(answer[0])
        for account in self.known:
            _, _, cubes, _ = self.seen["desk", account]
            plain = sum(self.seen["record", account, query, 0, ()][1] for query in QUERIES)
            largest = [self.seen["largest_cell", account, cube][0] for cube in range(1, cubes + 1)]
            assert self.seen["money", account][1] == self.base[account] + plain + sum(largest)
            for cube, most in enumerate(largest, 1):
                assert max(cells[account, cube]) == most

    @invariant()
    def public_bytes_add_up_to_the_spend(self) -> None:
        for account in self.known:
            assert sum(self.seen["spent_on", account, about][0] for about in ABOUTS) == self.seen["money", account][1]

    @invariant()
    def no_view_is_above_its_limit(self) -> None:
        for account in self.known:
            for analyst in ANALYSTS:
                limit, used = self.seen["view_of", account, analyst]
                assert used <= limit

    def teardown(self) -> None:
        self.ending = True
        for account in [*self.known, UNKNOWN]:
            self.look(account)

    # -- parts -----------------------------------------------------------------------------------

    def account(self) -> bytes:
        return mostly(self.chance, [*self.known[:1], *self.known], UNKNOWN, share=0.02)

    def owner(self, account: bytes) -> str:
        return mostly(self.chance, [self.model.accounts.get(account, NO_OWNER).owner], *PEOPLE)

    def curator(self, account: bytes) -> str:
        return mostly(self.chance, [self.model.accounts.get(account, NO_OWNER).curator], *PEOPLE)

    def seals(self, account: bytes, count: int) -> Any:
        """Mostly for what is reserved and not published."""
        chance, books = self.chance, self.model.accounts.get(account, NO_ACCOUNT)
        waiting = [id for id, state in books.reservations.items() if state == (books.version, False)]
        chance.shuffle(waiting)
        if chance.random() < 0.2:
            waiting = []
        made = [*waiting[:count], *chance.choices(IDS[:9], k=count)]
        return tuple((id, mostly(chance, [word(5)], NOTHING), chance.random() < 0.6) for id in made[:count])

    def write_measurements(self, account: bytes, measurements: int) -> None:
        self.model.accounts[account].measurements = measurements
        for chain in self.all_chains():
            chain.write_money(account, measurements=measurements)
        self.look(account)

    def at(self, now: int) -> None:
        for chain in self.all_chains():
            chain.at(now)

    def rows(self, account: bytes, groups: list[list[dict[str, Any]]]) -> tuple[Any, Any]:
        """Claims and runs of a call."""
        books = self.model.accounts.get(account, NO_ACCOUNT)
        unused = iter([id for id in IDS if id not in books.reservations])
        rows: list[tuple[Any, ...]] = []
        runs: list[tuple[int, int, int]] = []
        for group in groups:
            for place, claim in enumerate(group, 1):
                id, cube, wanted = claim["id"] or next(unused), claim["cube"], claim["wanted"]
                cells = books.cubes[cube - 1] if 0 < cube <= len(books.cubes) else 4
                plain = cube == 0 or wanted == 0
                own = claim["runs"](cells) if plain == (claim["runs"] is BAD_RUNS[0]) else ()
                if own and account in self.runs and (cube, own) not in self.runs[account]:
                    self.runs[account].append((cube, own))
                runs += own
                asked = (id, claim["query"], claim["analyst"], claim["about"], cube, wanted, claim["limit"])
                rows.append((*asked, len(own), place == len(group)))
        return tuple(rows), tuple(runs)

    def both(self, sender: str, function: str, *arguments: Any) -> None:
        """Makes the call in all ledgers; they must agree on everything that anybody can see."""
        try:
            expected = self.model.call(sender, self.real.now, function, *arguments)
        except Revert as revert:
            expected = str(revert)
        for chain in self.all_chains():
            got = outcome(chain, sender, function, *arguments)
            assert got == expected, type(chain).__name__
        account = arguments[0]
        if function == "open_account":
            account = UNKNOWN
            if not isinstance(expected, str):
                account = expected[0][0]
                self.known.append(account)
                self.runs[account], self.base[account] = [], 0
        elif function == "open_version" and not isinstance(expected, str):
            self.base[account] = self.seen["money", account][1]
        before = dict(self.seen)
        self.look(account)
        if isinstance(expected, str):
            changed = {key for key in before if before[key] != self.seen.get(key, before[key])}
            assert not changed, "a refusal changed something"

    def look(self, account: bytes) -> None:
        """What the contract shows of this account, and of the others' money, which must be the model's."""
        expected = dict(self.model.visible_people(PEOPLE))
        ids = [*IDS[:9], *list(self.model.accounts.get(account, NO_ACCOUNT).reservations)[-9:]]
        expected |= self.model.visible(account, ANALYSTS, QUERIES, ids, ABOUTS, self.runs.get(account, [])[-6:])
        for other in self.known:
            if other != account:
                brief = self.model.visible(other, ANALYSTS[:1], [], [], [], [])
                expected |= ((key, answer) for key, answer in brief if key[0] != "cell")
        for chain in self.all_chains():
            keys = self.worth_a_look(chain, expected)
            assert {key: chain.view(*key) for key in keys} == {key: expected[key] for key in keys}, type(chain).__name__
        stale = [key for key in self.seen if key[:2] == ("cell", account) and key not in expected]
        for key in stale:
            del self.seen[key]
        self.seen |= expected


def outcome(chain: Any, sender: str, function: str, *arguments: Any) -> Any:
    """What a call returned and logged, or why it was refused."""
    try:
        return chain.call(sender, function, *arguments)
    except LedgerRefused as refusal:
        return refusal.reason


def slipped(chance: Random, runs: Any) -> Any:
    """Now and then a run too few or too many."""
    return mostly(chance, [runs], runs[:-1], (*runs, (0, 1, WHOLE)))


class LongLedgers(Ledgers):
    """The same, for longer."""


class Anvil(OnAnvil):
    def store(self, slot: int, value: int) -> None:
        self.node.rpc("anvil_setStorageAt", self.address, hex(slot), f"0x{value:064x}")


class AnvilToo(Ledgers):
    """The same calls on pyrevm and on anvil, at the same address."""

    node: ClassVar[Node]

    def first_chain(self) -> Real:
        self.on_anvil = Anvil(self.node, contract_under_test())
        return Real(address=self.on_anvil.address, now=self.on_anvil.now)

    def all_chains(self) -> list[Any]:
        return [self.real, self.on_anvil]

    def worth_a_look(self, chain: Any, expected: dict[Any, Any]) -> Iterable[Any]:
        """A node is slow to ask: what changed, some of the rest, and all of it in the end."""
        if chain is self.real or self.ending:
            return expected
        rest = [key for key, answer in expected.items() if self.seen.get(key) == answer]
        return {*expected} - {*rest} | {*self.chance.sample(rest, min(20, len(rest)))}


CALM = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
TestLedgers = Ledgers.TestCase
TestLedgers.settings = settings(CALM, max_examples=60, stateful_step_count=40)
TestLedgersForLonger = pytest.mark.timeout(1200)(pytest.mark.slow(LongLedgers.TestCase))
TestLedgersForLonger.settings = settings(CALM, max_examples=120, stateful_step_count=80)


@pytest.mark.parametrize("examples", [6, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_anvil_does_the_same(examples: int):
    with node_or_skip() as AnvilToo.node:
        run_state_machine_as_test(AnvilToo, settings=settings(CALM, max_examples=examples, stateful_step_count=25))
