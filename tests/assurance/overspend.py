"""Races for the last of a budget: many threads ask at once, exactly one can be answered."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier

from assurance.planting import plant_bug
from assurance.report import Finding
from noisebank import Precision
from support.banks import memory_rooms
from support.internals import (
    OWNER_ANALYST,
    AccountOpening,
    BudgetExhausted,
    Claim,
    Contract,
    EmbeddedLedger,
    Reservation,
    budget_ledger,
    workload_rng,
)
from support.paths import ROOT
from support.patience import patience

ROW = "spend beyond the budget"
RACES, THREADS = 1_000, 50
PLANTED_RACES = 10
SOURCE = ROOT / "contracts" / "budget_ledger.vy"
BUDGET_CHECK = '    assert after.spent <= after.budget, "ledger: budget exhausted"\n'
INVARIANT = '    assert written.spent <= written.budget, "ledger: invariant"\n'

Reserve = Callable[[Claim], Reservation]


@dataclass(frozen=True)
class Race:
    """What one race left behind."""

    budget: int
    before: int
    """Spent before the race."""
    after: int
    """Spent after it, as the contract says."""
    won: tuple[int, ...]
    """What each winner was charged."""
    lost: int
    """How many were told that the budget is exhausted."""
    recorded: tuple[int, ...]
    """Fresh precision of each reservation that the ledger shows for the race."""

    @property
    def sound(self) -> bool:
        """Exactly one winner, nobody unaccounted for, and the balance is the sum of what was charged."""
        charged = sum(self.won)
        return (
            len(self.won) == 1
            and len(self.won) + self.lost == THREADS
            and self.after == self.before + charged <= self.budget
            and sorted(self.recorded) == sorted(self.won)
        )


def overspend(share: float) -> Finding:
    """Runs `share` of all races on the real contract, and some on contracts with a planted bug."""
    races = list(_races(max(3, round(RACES * share)), _plainly))
    winners = sorted({len(race.won) for race in races})
    overspent = sum(race.after > race.budget for race in races)
    with _contract(variant(BUDGET_CHECK, INVARIANT)):
        unchecked = list(_races(PLANTED_RACES, _plainly))
        too_early = list(_races(PLANTED_RACES, _checking_before_the_transaction))
    return Finding(
        row=ROW,
        tried=f"{len(races):,} races of {THREADS} threads for the last of an account",
        figure=f"{overspent} overspends, {'/'.join(map(str, winners))} winner in each race",
        violations=sum(not race.sound for race in races),
        planted={
            "the contract does not check the budget": any(not race.sound for race in unchecked),
            "the budget is checked before the transaction": any(not race.sound for race in too_early),
        },
    )


def _races(count: int, reserving: Callable[[EmbeddedLedger], Reserve]) -> Iterator[Race]:
    chance = workload_rng(count)
    rooms = memory_rooms()
    start = Barrier(THREADS, timeout=patience())
    with ThreadPoolExecutor(THREADS) as pool:
        for number in range(count):
            spent, left = chance.randrange(1, 1_000), chance.choice([1, 1, 2, 3, chance.randrange(4, 10**18)])
            wishes = [chance.randint(left // 2 + 1, left) for _ in range(THREADS)]
            yield _race(rooms.ledger, reserving(rooms.ledger), pool, start, number, spent, left, wishes)
    rooms.ledger.close()
    rooms.vault.close()


def _race(
    chain: EmbeddedLedger,
    reserve: Reserve,
    pool: ThreadPoolExecutor,
    start: Barrier,
    number: int,
    spent: int,
    left: int,
    wishes: list[int],
) -> Race:
    """Every wish is more than half of what is left, and for a query of its own."""
    account = chain.open_account(AccountOpening(Precision(spent + left), _word(1), _word(2), 0))
    first = _claim(account, number, THREADS, spent)
    chain.reserve(first)

    def run(runner: int) -> int:
        claim = _claim(account, number, runner, wishes[runner])
        start.wait()
        try:
            return reserve(claim).fresh_precision.units
        except BudgetExhausted:
            return 0

    charged = list(pool.map(run, range(THREADS)))
    after = chain._replay.evm.call_view(chain.contract, "money", account)[1]
    recorded = [made.fresh_precision.units for made in chain.list_reservations(account) if made.id != first.id]
    won = tuple(fresh for fresh in charged if fresh)
    assert isinstance(after, int)
    return Race(spent + left, spent, after, won, charged.count(0), tuple(recorded))


def _claim(account: bytes, number: int, runner: int, wanted: int) -> Claim:
    name = _word((number << 16) + runner + 1)
    return Claim(account, name, name, OWNER_ANALYST, 0, Precision(wanted), Precision(wanted))


def _word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def _plainly(chain: EmbeddedLedger) -> Reserve:
    return lambda claim: chain.reserve(claim)[0]


# -- planted bugs ---------------------------------------------------------------------------------


def _checking_before_the_transaction(chain: EmbeddedLedger) -> Reserve:
    """The mistake of many budget servers: look at the balance, and charge later."""
    looked = Barrier(THREADS, timeout=patience())

    def reserve(claim: Claim) -> Reservation:
        state = chain.get_account(claim.account)
        looked.wait()
        if claim.target > state.remaining_budget:
            raise BudgetExhausted(claim.target, state.remaining_budget, state.budget)
        return chain.reserve(claim)[0]

    return reserve


@contextmanager
def _contract(planted: Contract) -> Iterator[None]:
    with plant_bug("noisebank.ledger.replay", "budget_ledger", lambda: planted):
        yield


@cache
def variant(*dropped: str) -> Contract:
    """The contract compiled without these lines of its source."""
    source = SOURCE.read_text()
    for line in dropped:
        if line not in source:
            raise ValueError(f"the source has no line {line.strip()!r}")
        source = source.replace(line, "")
    with warnings.catch_warnings(), TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        from vyper.compiler import compile_from_file_input
        from vyper.compiler.input_bundle import FilesystemInputBundle
        from vyper.compiler.settings import Settings

        for module in SOURCE.parent.glob("*.vy"):
            Path(folder, module.name).write_text(source if module == SOURCE else module.read_text())
        bundle = FilesystemInputBundle([Path(folder)])
        output = compile_from_file_input(
            bundle.load_file(SOURCE.name),
            input_bundle=bundle,
            output_formats=["bytecode", "bytecode_runtime"],
            settings=Settings(evm_version="cancun"),
        )
    initcode, runtime = (bytes.fromhex(re.sub("^0x", "", output[name])) for name in ("bytecode", "bytecode_runtime"))
    return replace(budget_ledger(), initcode=initcode, runtime=runtime)
