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
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.ledger.abi import Contract, Signature
from noisebank.ledger.chunks import CellCharges
from noisebank.ledger.evm import Event, Log
from noisebank.ledger.protocol import OWNER_ANALYST, AccountState, Claim, Reservation, Unit, View

RecordKey = tuple[bytes, int, int, bytes, tuple[CellRun, ...]]
"""Account, version, cube, query, runs: the contract keeps one list of records for each."""

MeasurementKind = tuple[int, int, bool]
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
        self._spending: dict[bytes, tuple[int, int]] = {}
        """Units spent and number of measurements. Apart from the state: these change with every paid answer."""
        self._states_with_spending: dict[bytes, tuple[AccountState, AccountState]] = {}
        """The state without and with its spending, as last returned."""
        self._reservations: dict[tuple[bytes, bytes], Reservation] = {}
        self._ids_by_account: dict[bytes, list[bytes]] = defaultdict(list)
        self._records: dict[RecordKey, list[Record]] = defaultdict(list)
        self._cell_charges: dict[tuple[bytes, int, int], CellCharges] = defaultdict(CellCharges)
        self._views: dict[tuple[bytes, bytes], View] = {}
        self._delivered: dict[tuple[bytes, int, bytes, bytes], Precision] = {}
        self._delivered_cubes: dict[tuple[bytes, int, bytes, int], Precision] = {}
        self._spent_on: dict[tuple[bytes, int], int] = defaultdict(int)
        self._measurement_counts: dict[bytes, Counter[MeasurementKind]] = defaultdict(Counter)
        self._cube_counts: Counter[tuple[bytes, int, int]] = Counter()
        self._budgets: dict[bytes, Budgets] = {}
        self._changes: dict[bytes, list[Change]] = defaultdict(list)

    def enter_log(self, log: Log, block: int, time: int) -> tuple[str, tuple[Any, ...]]:
        """Enters one log; returns the event's name and values."""
        signature, values = self._decode_log(log)
        name = signature.name
        if name == "Reserved":
            self._enter_reservation(block, time, *values)
        elif name == "Published":
            account, id, answer = values
            self._reservations[account, id] = self._reservations[account, id].with_answer(answer, block)
        elif name != "GroupRefused":  # a refused group changes nothing
            arguments = dict(zip(signature.input_names, values, strict=True))
            account = arguments["account"]  # the first argument of every event
            self._changes[account].append(Change(block, time, Event(name, arguments)))
            self._accounts[account] = self._apply_change(account, name, arguments)
            if name in ("AccountOpened", "BudgetLowered", "RaiseProposed", "BudgetRaised"):
                self._budgets[account] = self._apply_to_budgets(account, name, Precision(arguments["budget"]))
        return name, values

    def list_accounts(self) -> tuple[AccountState, ...]:
        """Returns all accounts, oldest first."""
        return tuple(self._with_spending(state) for state in tuple(self._accounts.values()))

    def find_account(self, account: bytes) -> AccountState | None:
        """Returns the state of an account; None if there is none."""
        state = self._accounts.get(account)
        return None if state is None else self._with_spending(state)

    def list_changes(self, account: bytes) -> tuple[Change, ...]:
        """Returns an account's changes of opening, budget, limit, version and roles, oldest first."""
        return tuple(self._changes.get(account, ()))

    def find_reservation(self, account: bytes, id: bytes) -> Reservation | None:
        """Returns a reservation; None if there is none. Ids are unique within an account only."""
        return self._reservations.get((account, id))

    def list_reservations(self, account: bytes) -> tuple[Reservation, ...]:
        """Returns all reservations of an account, oldest first."""
        return tuple(self._reservations[account, id] for id in tuple(self._ids_by_account.get(account, ())))

    def count_reservations(self, account: bytes) -> int:
        """Returns how many reservations an account has."""
        return len(self._ids_by_account.get(account, ()))

    def page_reservations(self, account: bytes, start: int, stop: int) -> tuple[Reservation, ...]:
        """Returns reservations [start, stop) of an account, oldest first."""
        return tuple(self._reservations[account, id] for id in self._ids_by_account.get(account, [])[start:stop])

    def delivered_precision(self, account: bytes, analyst: bytes, query: bytes) -> Precision:
        """Returns the best precision at which an analyst has an answer to a query by plain reuse, in this version."""
        return self._delivered.get((account, self._current_version(account), analyst, query), ZERO_PRECISION)

    def delivered_from_cube(self, account: bytes, analyst: bytes, cube: int) -> Precision:
        """Returns what an analyst's view was charged for a cube, in this version."""
        return self._delivered_cubes.get((account, self._current_version(account), analyst, cube), ZERO_PRECISION)

    def list_records(
        self, account: bytes, query: bytes, cube: int = 0, runs: tuple[CellRun, ...] = ()
    ) -> tuple[Record, ...]:
        """Returns the paid answers to a query in the present version, by rising precision."""
        return tuple(self._records.get((account, self._current_version(account), cube, query, runs), ()))

    def get_view(self, account: bytes, analyst: bytes) -> View:
        """Returns what an analyst may learn, and has learned so far."""
        return self._views.get((account, analyst), View())

    def count_measurements(self, account: bytes) -> dict[MeasurementKind, int]:
        """Returns how many paid measurements of each kind an account has, over all versions."""
        return dict(self._measurement_counts.get(account, {}))

    def count_cube_measurements(self, account: bytes, cube: int) -> int:
        """Returns how many measurements were charged to a cube in the present version."""
        return self._cube_counts[account, self._current_version(account), cube]

    def get_budgets(self, account: bytes) -> Budgets:
        """Returns the budgets that decide an account's guarantee."""
        return self._budgets[account]

    def spent_on(self, account: bytes, category: int) -> Precision:
        """Returns what was charged under one category (the public byte of a claim)."""
        return Precision(self._spent_on.get((account, category), 0))

    def price_claims(self, group: Sequence[Claim]) -> tuple[Precision, ...]:
        """Returns the cost of each claim of a group now, by the contract's rules, whatever budget is left."""
        best: dict[object, int] = {}
        cubes: dict[int, CellCharges] = {}
        costs = []
        for claim in group:
            key = (claim.cube, claim.query, claim.runs)
            known = self.list_records(claim.account, claim.query, claim.cube, claim.runs)
            before = best.get(key, known[-1].precision.units if known else 0)
            fresh = max(0, claim.target.units - before)
            best[key] = before + fresh
            if claim.cube and fresh:
                if claim.cube not in cubes:
                    cubes[claim.cube] = self._cell_charges[
                        claim.account, self._current_version(claim.account), claim.cube
                    ].copy()
                largest = cubes[claim.cube].largest
                self._charge_cells(cubes[claim.cube], fresh, claim.runs)
                fresh = cubes[claim.cube].largest - largest
            costs.append(Precision(fresh))
        return tuple(costs)

    def get_cell_charges(self, account: bytes, cube: int) -> CellCharges:
        """Returns what was charged to each cell of a cube in the present version (a copy)."""
        return self._cell_charges[account, self._current_version(account), cube].copy()

    def largest_cell_charge(self, account: bytes, cube: int) -> Precision:
        """Returns what a cube has cost the account in the present version: the charge of its largest cell."""
        return Precision(self._cell_charges[account, self._current_version(account), cube].largest)

    def _with_spending(self, state: AccountState) -> AccountState:
        spent, measurements = self._spending[state.account]
        known = self._states_with_spending.get(state.account)
        money = (known[1].spent.units, known[1].measurements) if known else None
        if known is None or known[0] is not state or money != (spent, measurements):
            known = state, replace(state, spent=Precision(spent), measurements=measurements)
            self._states_with_spending[state.account] = known
        return known[1]

    def _current_version(self, account: bytes) -> int:
        state = self._accounts.get(account)
        return state.version if state else 1

    @staticmethod
    def _charge_cells(cube: CellCharges, fresh_units: int, runs: Sequence[CellRun]) -> None:
        for run in runs:
            cube.add(run.start, run.stop, -(-fresh_units * run.weight // WHOLE_WEIGHT))

    def _decode_log(self, log: Log) -> tuple[Signature, tuple[Any, ...]]:
        """Decodes without types: which value has which follows from the event's name."""
        return self._contract.decode_event_values(*log)

    def _enter_reservation(
        self, block: int, time: int, account: bytes, id: bytes, query: bytes, analyst: bytes, about: int,
        cube: int, case: int, target_units: int, fresh: int, reused: int, spent: int, used: int,
        charged: Sequence[tuple[int, int, int]],
    ) -> None:  # fmt: skip
        """Enters a reservation; parameters are the event's arguments in their order. Amounts become `Precision` only
        where they are stored: a busy ledger enters thousands of these per second."""
        version = self._accounts[account].version
        before, measurements = self._spending[account]
        runs = tuple([CellRun(*run) for run in charged])
        records = self._records[account, version, cube, query, runs]
        target = Precision(target_units)
        fresh_precision = target if fresh == target_units else Precision(fresh)
        reservation = Reservation(
            account=account,
            id=id,
            query=query,
            analyst=analyst,
            category=about,
            case=Case(case),
            target=target,
            fresh_precision=fresh_precision,
            reused_id=records[reused - 1].id if reused else None,
            spent_after=Precision(spent),
            block=block,
            time=time,
            cost=fresh_precision if spent - before == fresh else Precision(spent - before),
            used_after=Precision(used),
            cube=cube,
            runs=runs,
            version=version,
        )
        earlier = self._reservations.get((account, id))
        if earlier is None:
            self._ids_by_account[account].append(id)
        if earlier is None or earlier.case is Case.REPEAT:  # the contract stores no id of a REPEAT: a paid one wins
            self._reservations[account, id] = reservation
        if fresh:
            records.append(Record(id, target))
            if cube:
                self._charge_cells(self._cell_charges[account, version, cube], fresh, runs)
                self._cube_counts[account, version, cube] += 1
            self._spent_on[account, about] += spent - before
            self._spending[account] = spent, measurements + 1
            self._measurement_counts[account][version, about, reservation.is_whole_cube] += 1
        if analyst != OWNER_ANALYST:
            self._views[account, analyst] = View(self.get_view(account, analyst).limit, reservation.used_after)
            if cube:
                largest = Precision(self._cell_charges[account, version, cube].largest)
                self._delivered_cubes[account, version, analyst, cube] = largest
            else:
                key = account, version, analyst, query
                known = self._delivered.get(key)
                if known is None or known.units < target_units:
                    self._delivered[key] = target

    def _apply_to_budgets(self, account: bytes, name: str, budget: Precision) -> Budgets:
        """Returns the budgets after an event. A change before the first measurement cannot depend on an answer. A raise
        counts from its announcement: all that is left to decide then is whether it takes effect."""
        known = self._budgets.get(account, Budgets(budget, budget, budget))
        if not self._spending[account][1]:
            return Budgets(known.opened, budget, budget)
        if name == "RaiseProposed":
            return known
        return replace(known, largest=max(known.largest, budget), lowered=budget < known.largest)

    def _apply_change(self, account: bytes, name: str, arguments: dict[str, Any]) -> AccountState:
        if name == "AccountOpened":
            self._spending[account] = 0, 0
            return AccountState(
                account=account,
                owner=arguments["owner"],
                curator=arguments["curator"],
                budget=Precision(arguments["budget"]),
                spent=ZERO_PRECISION,
                measurements=0,
                policy_digest=arguments["policy"],
                data_commitment=arguments["data"],
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
                policy_digest=arguments["policy"],
                data_commitment=arguments["data"],
            )
        if name in ("Paused", "Resumed"):
            return replace(state, paused=name == "Paused")
        if name == "LimitSet":
            view = self.get_view(account, arguments["analyst"])
            self._views[account, arguments["analyst"]] = replace(view, limit=Precision(arguments["limit"]))
        return state
