"""Random histories on the embedded chain, with cubes, views, groups, batches and hand-overs: all of them verify."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import NoisebankError, Refused
from noisebank.core.records import WHOLE_WEIGHT, Case, CellRun
from noisebank.core.units import Precision
from noisebank.ledger.embedded import EmbeddedChain, begin_chain
from noisebank.ledger.encoding import publish_many_call, reserve_many_call
from noisebank.ledger.journal import Journal
from noisebank.ledger.protocol import THE_OWNER, Claim, Opening, Role, Seal, Unit
from noisebank.ledger.signing import Key
from noisebank.verifier.verification import verify

KEYS = [Key(bytes([number]) * 32) for number in range(1, 6)]
SEALER = KEYS[0]
CELLS = (8, 2)
ANALYSTS = (THE_OWNER, THE_OWNER, b"\x01" * 32, b"\x02" * 32, b"\x03" * 32)
WEIGHTS = (1, WHOLE_WEIGHT // 3, WHOLE_WEIGHT, 3 * WHOLE_WEIGHT)


@st.composite
def parts(draw: st.DrawFn) -> tuple[int, int, tuple[CellRun, ...], bytes, int, int]:
    """Query, cube, runs, analyst, wanted, limit: mostly fine, sometimes refused."""
    cube = draw(st.sampled_from([0, 0, 1, 1, 2, 3]))
    wanted = draw(st.integers(0, 40) if cube else st.integers(1, 60))
    runs: tuple[CellRun, ...] = ()
    if cube and wanted:
        size = CELLS[min(cube, 2) - 1]
        cuts = sorted(draw(st.sets(st.integers(0, size), min_size=2, max_size=6)))
        runs = tuple(CellRun(a, b, draw(st.sampled_from(WEIGHTS))) for a, b in zip(cuts[::2], cuts[1::2], strict=False))
    limit = draw(st.sampled_from([10**6, 10**6, 10**6, 10]))
    return draw(st.integers(1, 3)), cube, runs, draw(st.sampled_from(ANALYSTS)), wanted, limit


groups = st.lists(parts(), min_size=1, max_size=4)


class LedgerMachine(RuleBasedStateMachine):
    """What a curator and an owner do; after each step spend is the largest cell of each cube, cell by cell."""

    chain: EmbeddedChain

    @initialize(budget=st.integers(50, 600), unit=st.sampled_from(Unit))
    def open(self, budget: int, unit: Unit) -> None:
        self.now, self.count = 1_000, 0
        self.journal = Journal(":memory:")
        begin_chain(self.journal, SEALER, SystemEntropy(), self.clock)
        self.owner, self.curator = KEYS[1], SEALER
        self.chain = self.restarted()
        self.account = self.chain.open_account(Opening(Precision(budget), b"\x07" * 32, b"\x08" * 32, 60, unit))
        self.other = self.chain.open_account(Opening(Precision(budget), b"\x09" * 32, b"\x0a" * 32, 0))
        for cells in CELLS:
            self.chain.add_cube(self.account, cells)
        self.chain.set_limit(self.account, ANALYSTS[2], 50)
        self.chain.set_limit(self.account, ANALYSTS[3], 10**6)
        self.empty()
        self.base = 0

    def empty(self) -> None:
        """What a new version forgets."""
        self.cells: dict[int, list[int]] = {cube: [0] * size for cube, size in enumerate(CELLS, 1)}
        self.best: dict[object, int] = defaultdict(int)
        self.plain = 0

    def clock(self) -> float:
        return float(self.now)

    def restarted(self) -> EmbeddedChain:
        keys = {Role.SEALER: SEALER, Role.CURATOR: self.curator, Role.OWNER: self.owner}
        return EmbeddedChain(self.journal, keys, self.clock)

    def claims(self, group: list[Any]) -> list[Claim]:
        found = []
        for query, cube, runs, analyst, wanted, limit in group:
            self.count += 1
            id, name = self.count.to_bytes(32, "big"), query.to_bytes(32, "big")
            found.append(Claim(self.account, id, name, analyst, query, Precision(wanted), Precision(limit), cube, runs))
        return found

    def charge(self, group: list[Claim]) -> None:
        """The model: a number a cell."""
        for claim in group:
            key = (claim.query, claim.cube, claim.runs)
            fresh = max(0, claim.wanted.units - self.best[key])
            self.best[key] += fresh
            if not claim.cube:
                self.plain += fresh
            for run in claim.runs:
                for cell in range(run.start, run.stop):
                    self.cells[claim.cube][cell] += -(-fresh * run.weight // WHOLE_WEIGHT)

    @property
    def spent(self) -> int:
        return self.base + self.plain + sum(max(cells) for cells in self.cells.values())

    @rule(group=groups)
    def reserve(self, group: list[Any]) -> None:
        claims, before = self.claims(group), list(self.chain.export())
        try:
            made = self.chain.reserve(*claims)
        except Refused:
            assert list(self.chain.export()) == before
            return
        self.charge(claims)
        assert [one.id for one in made] == [claim.id for claim in claims]
        assert made[-1].spent.units == self.spent

    @rule(several=st.lists(groups, min_size=1, max_size=4))
    def reserve_batch(self, several: list[list[Any]]) -> None:
        claims = [self.claims(group) for group in several]
        self.chain._send(Role.CURATOR, reserve_many_call(claims))
        for group in claims:
            done = [self.chain.reservation(self.account, claim.id) is not None for claim in group]
            assert all(done) or not any(done), "all of a group or nothing"
            if all(done):
                self.charge(group)

    @rule(pick=st.data(), several=st.booleans())
    def publish(self, pick: st.DataObject, several: bool) -> None:
        made = self.chain.reservations(self.account)
        if not made:
            return
        chosen = pick.draw(st.lists(st.sampled_from(made), min_size=1, max_size=3))
        seals = [Seal(one.id, b"\x0c" * 32) for one in chosen]
        if several:
            self.chain._send(Role.CURATOR, publish_many_call(self.account, [[seal] for seal in seals]))
            return
        try:
            self.chain.publish(self.account, *seals)
        except Refused:
            assert any(one.finished or one.version < self.chain.account(self.account).version for one in chosen) or (
                len({one.id for one in chosen}) < len(chosen)
            )

    @rule(function=st.sampled_from(["pause", "resume", "finish_raise"]))
    def owners_word(self, function: str) -> None:
        self.tried(lambda: self.chain.manage(function, self.account))

    @rule(function=st.sampled_from(["lower_budget", "propose_raise"]), budget=st.integers(1, 900))
    def owners_budget(self, function: str, budget: int) -> None:
        self.tried(lambda: self.chain.manage(function, self.account, budget))

    @rule(analyst=st.sampled_from(ANALYSTS), limit=st.integers(0, 300))
    def limit(self, analyst: bytes, limit: int) -> None:
        self.tried(lambda: self.chain.set_limit(self.account, analyst, limit))

    @rule(step=st.sampled_from([1, 59, 60, 61, 7 * 86_400]))
    def wait(self, step: int) -> None:
        self.now += step

    @precondition(lambda self: self.count > 5)
    @rule()
    def new_version(self) -> None:
        self.base = self.spent
        self.chain.open_version(self.account, b"\x0d" * 32, self.count.to_bytes(32, "big"))
        self.empty()

    @rule(role=st.sampled_from([Role.OWNER, Role.CURATOR]), heir=st.sampled_from(KEYS))
    def hand_over(self, role: Role, heir: Key) -> None:
        """To another key, or to the same; the sealer stays."""
        self.chain.manage(f"propose_{role.value}", self.account, heir.address)
        if role is Role.OWNER:
            self.owner = heir
        else:
            self.curator = heir
        self.chain = self.restarted()
        self.chain.accept(role, self.account)

    @rule()
    def restart(self) -> None:
        """The books after a restart are the books before."""
        before = self.chain
        self.chain = self.restarted()
        assert everything(self.chain) == everything(before)

    def tried(self, action: Callable[[], object]) -> None:
        before = list(self.chain.export())
        try:
            action()
        except NoisebankError:
            assert list(self.chain.export()) == before

    @invariant()
    def spend_is_that_of_the_model(self) -> None:
        if not hasattr(self, "account"):
            return
        state = self.chain.account(self.account)
        assert state.spent.units == self.spent <= state.budget.units
        assert self.chain.account(self.other).spent.units == 0

    def teardown(self) -> None:
        if not hasattr(self, "account"):
            return
        machine, contract = self.chain._state.machine, self.chain.contract
        for cube, cells in self.cells.items():
            found = [machine.view(contract, "cell", self.account, cube, place)[0] for place in range(len(cells))]
            assert found == cells
        report = verify(list(self.chain.export()))
        assert report.passed, report.problem
        told = {account.account: account for account in report.accounts}[self.account.hex()]
        made = self.chain.reservations(self.account)
        assert (told.spent, told.budget) == (self.spent, self.chain.account(self.account).budget.units)
        assert told.reserved == len(made)
        assert told.published == sum(one.answer is not None for one in made)
        for case in Case:
            assert told.cases.get(case.name, 0) == sum(one.case is case for one in made)


def everything(chain: EmbeddedChain) -> Any:
    books = chain.books
    return (
        chain.head(),
        [(state, books.reservations(state.account), books.changes(state.account)) for state in books.accounts()],
        {place: kept for place, kept in books._records.items() if kept},
        books._views,
        {place: units for place, units in books._spent_on.items() if units},
        [chain._state.nonce(key.address) for key in KEYS],
    )


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
