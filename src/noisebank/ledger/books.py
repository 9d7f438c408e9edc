"""The books: accounts, reservations, records and views, derived from the contract's logs alone.

`Books` is the read model of a ledger. `replay` and `follower` feed it with logs; the bank, the service and the
verifier read it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from noisebank.core.records import WHOLE_WEIGHT, Case, CellRun, Record
from noisebank.core.units import NOTHING, Precision
from noisebank.ledger.abi import Contract, Signature
from noisebank.ledger.chunks import Pieces
from noisebank.ledger.evm import Event, Log
from noisebank.ledger.protocol import THE_OWNER, AccountState, Claim, Reservation, Unit, View

RecordKey = tuple[bytes, int, int, bytes, tuple[CellRun, ...]]
"""Account, version, cube, query, runs: the contract keeps one list of records for each."""

Measured = tuple[int, int, bool]
"""Version, category, and whether it may be a first look: the public facts that bound a measurement's draws."""


@dataclass(frozen=True, slots=True)
class Change:
    """An event of an account other than a reservation or a publication."""

    block: int
    time: int
    event: Event


@dataclass(frozen=True, slots=True)
class Budgets:
    """The budgets from which an account's privacy guarantee follows: docs/proofs/odometer.md."""

    opened: Precision
    """The budget at opening, from the policy."""
    fixed: Precision
    """The budget fixed before the first measurement: the one then, or a raise that was announced already."""
    largest: Precision
    """The largest budget since."""
    lowered: bool = False
    """Whether it was lowered after answers were given: the guarantee stays that of the larger budget."""

    @property
    def raised(self) -> bool:
        """Whether it was raised after answers were given: the guarantee is then that of a privacy odometer."""
        return self.fixed < self.largest


class Books:
    """State of all accounts of a ledger, updated log by log. Reading never changes it."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._accounts: dict[bytes, AccountState] = {}
        self._money: dict[bytes, tuple[int, int]] = {}
        """Units spent and number of measurements. Apart from the state: these change with every paid answer."""
        self._whole: dict[bytes, tuple[AccountState, AccountState]] = {}
        """The state without and with its spending, as last returned."""
        self._reservations: dict[tuple[bytes, bytes], Reservation] = {}
        self._by_account: dict[bytes, list[bytes]] = defaultdict(list)
        self._records: dict[RecordKey, list[Record]] = defaultdict(list)
        self._cubes: dict[tuple[bytes, int, int], Pieces] = defaultdict(Pieces)
        self._views: dict[tuple[bytes, bytes], View] = {}
        self._delivered: dict[tuple[bytes, int, bytes, bytes], Precision] = {}
        self._spent_on: dict[tuple[bytes, int], int] = defaultdict(int)
        self._measured: dict[bytes, Counter[Measured]] = defaultdict(Counter)
        self._budgets: dict[bytes, Budgets] = {}
        self._changes: dict[bytes, list[Change]] = defaultdict(list)

    def write(self, log: Log, block: int, time: int) -> tuple[str, tuple[Any, ...]]:
        """Enters one log; returns the event's name and values."""
        signature, values = self._decode_log(log)
        name = signature.name
        if name == "Reserved":
            self._reserved(block, time, *values)
        elif name == "Published":
            account, id, answer = values
            self._reservations[account, id] = self._reservations[account, id].published(answer, block)
        elif name != "GroupRefused":  # a refused group changes nothing
            arguments = dict(zip(signature.names, values, strict=True))
            account = arguments["account"]  # the first argument of every event
            self._changes[account].append(Change(block, time, Event(name, arguments)))
            self._accounts[account] = self._changed(account, name, arguments)
            if name in ("AccountOpened", "BudgetLowered", "RaiseProposed", "BudgetRaised"):
                self._budgets[account] = self._promised(account, name, Precision(arguments["budget"]))
        return name, values

    def accounts(self) -> tuple[AccountState, ...]:
        """Returns all accounts, oldest first."""
        return tuple(self._with_money(state) for state in tuple(self._accounts.values()))

    def account(self, account: bytes) -> AccountState | None:
        """Returns the state of an account; None if there is none."""
        state = self._accounts.get(account)
        return None if state is None else self._with_money(state)

    def changes(self, account: bytes) -> tuple[Change, ...]:
        """Returns an account's changes of opening, budget, limit, version and roles, oldest first."""
        return tuple(self._changes.get(account, ()))

    def reservation(self, account: bytes, id: bytes) -> Reservation | None:
        """Returns a reservation; None if there is none. Ids are unique within an account only."""
        return self._reservations.get((account, id))

    def reservations(self, account: bytes) -> tuple[Reservation, ...]:
        """Returns all reservations of an account, oldest first."""
        return tuple(self._reservations[account, id] for id in tuple(self._by_account.get(account, ())))

    def count(self, account: bytes) -> int:
        """Returns how many reservations an account has."""
        return len(self._by_account.get(account, ()))

    def page(self, account: bytes, start: int, stop: int) -> tuple[Reservation, ...]:
        """Returns reservations [start, stop) of an account, oldest first."""
        return tuple(self._reservations[account, id] for id in self._by_account.get(account, [])[start:stop])

    def delivered(self, account: bytes, analyst: bytes, query: bytes) -> Precision:
        """Returns the best precision at which an analyst has an answer to a query by plain reuse, in this version."""
        return self._delivered.get((account, self._version(account), analyst, query), NOTHING)

    def records(
        self, account: bytes, query: bytes, cube: int = 0, runs: tuple[CellRun, ...] = ()
    ) -> tuple[Record, ...]:
        """Returns the paid answers to a query in the present version, by rising precision."""
        return tuple(self._records.get((account, self._version(account), cube, query, runs), ()))

    def view(self, account: bytes, analyst: bytes) -> View:
        """Returns what an analyst may learn, and has learned so far."""
        return self._views.get((account, analyst), View())

    def measured(self, account: bytes) -> dict[Measured, int]:
        """Returns how many paid measurements of each kind an account has, over all versions."""
        return dict(self._measured.get(account, {}))

    def budgets(self, account: bytes) -> Budgets:
        """Returns the budgets that decide an account's guarantee."""
        return self._budgets[account]

    def spent_on(self, account: bytes, about: int) -> Precision:
        """Returns what was charged under one category (the public byte of a claim)."""
        return Precision(self._spent_on.get((account, about), 0))

    def costs(self, group: Sequence[Claim]) -> tuple[Precision, ...]:
        """Returns the cost of each claim of a group now, by the contract's rules, whatever budget is left."""
        best: dict[object, int] = {}
        cubes: dict[int, Pieces] = {}
        costs = []
        for claim in group:
            key = (claim.cube, claim.query, claim.runs)
            known = self.records(claim.account, claim.query, claim.cube, claim.runs)
            before = best.get(key, known[-1].precision.units if known else 0)
            fresh = max(0, claim.wanted.units - before)
            best[key] = before + fresh
            if claim.cube and fresh:
                if claim.cube not in cubes:
                    cubes[claim.cube] = self._cubes[claim.account, self._version(claim.account), claim.cube].copy()
                largest = cubes[claim.cube].largest
                self._charge_cells(cubes[claim.cube], fresh, claim.runs)
                fresh = cubes[claim.cube].largest - largest
            costs.append(Precision(fresh))
        return tuple(costs)

    def cells(self, account: bytes, cube: int) -> Pieces:
        """Returns what was charged to each cell of a cube in the present version (a copy)."""
        return self._cubes[account, self._version(account), cube].copy()

    def largest_cell(self, account: bytes, cube: int) -> Precision:
        """Returns what a cube has cost the account in the present version: the charge of its largest cell."""
        return Precision(self._cubes[account, self._version(account), cube].largest)

    def _with_money(self, state: AccountState) -> AccountState:
        spent, measurements = self._money[state.account]
        known = self._whole.get(state.account)
        money = (known[1].spent.units, known[1].measurements) if known else None
        if known is None or known[0] is not state or money != (spent, measurements):
            known = state, replace(state, spent=Precision(spent), measurements=measurements)
            self._whole[state.account] = known
        return known[1]

    def _version(self, account: bytes) -> int:
        state = self._accounts.get(account)
        return state.version if state else 1

    @staticmethod
    def _charge_cells(cube: Pieces, fresh: int, runs: Sequence[CellRun]) -> None:
        for run in runs:
            cube.add(run.start, run.stop, -(-fresh * run.weight // WHOLE_WEIGHT))

    def _decode_log(self, log: Log) -> tuple[Signature, tuple[Any, ...]]:
        """Decodes without types: which value has which follows from the event's name."""
        return self._contract.event_values(*log)

    def _reserved(
        self, block: int, time: int, account: bytes, id: bytes, query: bytes, analyst: bytes, about: int,
        cube: int, case: int, wanted: int, fresh: int, reused: int, spent: int, used: int,
        charged: Sequence[tuple[int, int, int]],
    ) -> None:  # fmt: skip
        """Enters a reservation; parameters are the event's arguments in their order. Amounts become `Precision` only
        where they are stored: a busy ledger enters thousands of these per second."""
        version = self._accounts[account].version
        before, measurements = self._money[account]
        runs = tuple([CellRun(*run) for run in charged])
        records = self._records[account, version, cube, query, runs]
        target = Precision(wanted)
        fresh_precision = target if fresh == wanted else Precision(fresh)
        reservation = Reservation(
            account=account,
            id=id,
            query=query,
            analyst=analyst,
            about=about,
            case=Case(case),
            wanted=target,
            fresh=fresh_precision,
            reused=records[reused - 1].id if reused else None,
            spent=Precision(spent),
            block=block,
            time=time,
            cost=fresh_precision if spent - before == fresh else Precision(spent - before),
            used=Precision(used),
            cube=cube,
            runs=runs,
            version=version,
        )
        earlier = self._reservations.get((account, id))
        if earlier is None:
            self._by_account[account].append(id)
        if earlier is None or earlier.case is Case.REPEAT:  # the contract stores no id of a REPEAT: a paid one wins
            self._reservations[account, id] = reservation
        if fresh:
            records.append(Record(id, target))
            if cube:
                self._charge_cells(self._cubes[account, version, cube], fresh, runs)
            self._spent_on[account, about] += spent - before
            self._money[account] = spent, measurements + 1
            self._measured[account][version, about, reservation.whole_cube] += 1
        if analyst != THE_OWNER:
            self._views[account, analyst] = View(self.view(account, analyst).limit, reservation.used)
            if not cube:
                key = account, version, analyst, query
                known = self._delivered.get(key)
                if known is None or known.units < wanted:
                    self._delivered[key] = target

    def _promised(self, account: bytes, name: str, budget: Precision) -> Budgets:
        """Returns the budgets after an event. A change before the first measurement cannot depend on an answer. A raise
        counts from its announcement: all that is left to decide then is whether it takes effect."""
        known = self._budgets.get(account, Budgets(budget, budget, budget))
        if not self._money[account][1]:
            return Budgets(known.opened, budget, budget)
        if name == "RaiseProposed":
            return known
        return replace(known, largest=max(known.largest, budget), lowered=budget < known.largest)

    def _changed(self, account: bytes, name: str, arguments: dict[str, Any]) -> AccountState:
        if name == "AccountOpened":
            self._money[account] = 0, 0
            return AccountState(
                account=account,
                owner=arguments["owner"],
                curator=arguments["curator"],
                budget=Precision(arguments["budget"]),
                spent=NOTHING,
                measurements=0,
                policy=arguments["policy"],
                data=arguments["data"],
                raise_delay=arguments["raise_delay"],
                unit=Unit(arguments["unit"]),
            )
        state = self._accounts[account]
        if name in ("BudgetLowered", "BudgetRaised"):
            return replace(state, budget=Precision(arguments["budget"]))
        if name == "OwnerChanged":
            return replace(state, owner=arguments["owner"])
        if name == "CuratorChanged":
            return replace(state, curator=arguments["curator"])
        if name == "CubeAdded":
            return replace(state, cubes=(*state.cubes, arguments["cells"]))
        if name == "VersionOpened":
            return replace(
                state,
                base=Precision(arguments["base"]),
                version=arguments["version"],
                policy=arguments["policy"],
                data=arguments["data"],
            )
        if name in ("Paused", "Resumed"):
            return replace(state, paused=name == "Paused")
        if name == "LimitSet":
            view = self.view(account, arguments["analyst"])
            self._views[account, arguments["analyst"]] = replace(view, limit=Precision(arguments["limit"]))
        return state
