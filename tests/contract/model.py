"""A second, independent ledger: what `budget_ledger.vy` promises, in plain Python.

Written from the contract's documentation. It shares no code with the package, so that one mistake
cannot hide in both. Nothing is kept running: what is spent, and what a view has used, is added up
anew from records, cells and deliveries each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from Crypto.Hash import keccak

NOBODY = "0x" + "00" * 20
NOTHING = bytes(32)
PRECISION, EPSILON = 1, 2
FIRST, REPEAT, REFINE, BLUR, INFER = 1, 2, 4, 8, 16
WEEK, YEAR = 7 * 86400, 365 * 86400
MAX_BUDGET = 2**96 - 1
MAX_MEASUREMENTS = 2**20
MAX_CELLS = 2**20
MAX_CUBES = 255
MAX_VERSIONS = 2**32 - 1
WHOLE_WEIGHT, MAX_WEIGHT = 2**32, 2**64
MAX_PARTS = 16

Logged = tuple[str, dict[str, object]]
Run = tuple[int, int, int]
Runs = tuple[Run, ...]
Key = tuple[object, ...]
"""A view function and its arguments."""


class Revert(Exception):
    """The call is refused and changes nothing."""


@dataclass
class Account:
    owner: str
    curator: str
    unit: int
    budget: int
    policy: bytes
    data: bytes
    raise_delay: int
    version: int = 1
    paused: bool = False
    measurements: int = 0
    next_owner: str = NOBODY
    next_curator: str = NOBODY
    pending: tuple[int, int, int] = (0, 0, 0)
    """Budget, ready, expires."""
    cubes: list[int] = field(default_factory=list)
    """Cells of cube 1, 2, ..."""
    base: int = 0
    """What earlier versions have spent."""
    records: dict[tuple[int, bytes, Runs], list[int]] = field(default_factory=dict)
    """In this version, per cube, query and runs: precisions as they were recorded."""
    cells: dict[int, list[int]] = field(default_factory=dict)
    """In this version, per cube: what each cell was charged."""
    limits: dict[bytes, int] = field(default_factory=dict)
    used_before: dict[bytes, int] = field(default_factory=dict)
    """Per analyst: what the view had used when this version opened."""
    delivered: dict[bytes, dict[tuple[int, bytes], int]] = field(default_factory=dict)
    """In this version, per analyst: what came from each query of cube 0, and from each other cube."""
    spent_on: dict[int, int] = field(default_factory=dict)
    reservations: dict[bytes, tuple[int, bool]] = field(default_factory=dict)
    """Version, and whether it is published."""

    @property
    def spent(self) -> int:
        plain = sum(max(known) for (cube, _, _), known in self.records.items() if cube == 0)
        return self.base + plain + sum(max(cells) for cells in self.cells.values())

    def used(self, analyst: bytes) -> int:
        return self.used_before.get(analyst, 0) + sum(self.delivered.get(analyst, {}).values())

    def largest(self, cube: int) -> int:
        return max(self.cells.get(cube, [0]))

    def copy(self) -> Account:
        return replace(
            self,
            cubes=list(self.cubes),
            records={key: list(known) for key, known in self.records.items()},
            cells={cube: list(cells) for cube, cells in self.cells.items()},
            limits=dict(self.limits),
            used_before=dict(self.used_before),
            delivered={analyst: dict(seen) for analyst, seen in self.delivered.items()},
            spent_on=dict(self.spent_on),
            reservations=dict(self.reservations),
        )


NO_ACCOUNT = Account(NOBODY, NOBODY, 0, 0, NOTHING, NOTHING, 0, version=0)


class Model:
    """All accounts of one contract."""

    def __init__(self, chain_id: int, contract: str) -> None:
        self.chain_id, self.contract = chain_id, contract
        self.accounts: dict[bytes, Account] = {}
        self.opened: dict[str, int] = {}

    def call(self, sender: str, now: int, function: str, *arguments: object) -> tuple[tuple[object, ...], list[Logged]]:
        """What the call returns and logs; `Revert` if it is refused."""
        if function == "open_account":
            return self.open_account(sender, *arguments)
        id, *rest = arguments
        books = self.accounts.get(id, NO_ACCOUNT).copy()
        returned, logged = getattr(self, function)(books, sender, now, *rest)
        self.accounts[id] = books
        return returned, [(name, {"account": id, **told}) for name, told in logged]

    # -- the contract's functions: each may spoil its copy of the books, which counts only on return

    def open_account(self, sender, curator, unit, budget, policy, data, raise_delay):
        require(curator != NOBODY, "no curator")
        require(unit in (PRECISION, EPSILON), "no such unit")
        require(budget >= 1, "budget of zero")
        require(budget <= MAX_BUDGET, "budget too large")
        require(raise_delay <= YEAR, "delay too long")
        id = self._account_id(sender)
        self.opened[sender] = self.opened.get(sender, 0) + 1
        self.accounts[id] = Account(sender, curator, unit, budget, policy, data, raise_delay)
        terms = {"owner": sender, "curator": curator, "unit": unit, "budget": budget}
        digests = {"policy": policy, "data": data, "raise_delay": raise_delay}
        return (id,), [("AccountOpened", {"account": id, **terms, **digests})]

    def add_cube(self, books, sender, now, cells):
        require(sender == books.owner, "not the owner")
        require(bin(cells).count("1") == 1, "cells not a power of two")
        require(cells <= MAX_CELLS, "too many cells")
        require(len(books.cubes) < MAX_CUBES, "too many cubes")
        books.cubes.append(cells)
        cube = len(books.cubes)
        return (cube,), [("CubeAdded", {"cube": cube, "cells": cells})]

    def open_version(self, books, sender, now, policy, data):
        require(sender == books.owner, "not the owner")
        require(books.version < MAX_VERSIONS, "too many versions")
        books.used_before = {analyst: books.used(analyst) for analyst in books.limits}
        books.base = books.spent
        books.version += 1
        books.policy, books.data = policy, data
        books.records, books.cells, books.delivered = {}, {}, {}
        table = {"policy": policy, "data": data}
        return (), [("VersionOpened", {"version": books.version, **table, "base": books.base})]

    def set_limit(self, books, sender, now, analyst, limit):
        require(sender == books.owner, "not the owner")
        require(analyst != NOTHING, "no analyst")
        require(limit <= MAX_BUDGET, "limit too large")
        require(limit >= books.used(analyst), "below what is used")
        books.limits[analyst] = limit
        return (), [("LimitSet", {"analyst": analyst, "limit": limit})]

    def reserve(self, books, sender, now, claims, runs):
        require(sender == books.curator, "not the curator")
        return (), decide(books, claims, runs)

    def reserve_many(self, books, sender, now, claims, runs):
        require(sender == books.curator, "not the curator")
        logged, group, own, left = [], [], [], list(runs)
        for claim in claims:
            count = claim[7]
            require(len(group) < MAX_PARTS, "group too large")
            require(len(own) + count <= MAX_PARTS, "too many runs")
            require(count <= len(left), "runs missing")
            group.append(claim)
            own += left[:count]
            left = left[count:]
            if claim[-1]:
                logged += attempt(books, decide, group, own)
                group, own = [], []
        require(not group, "group without an end")
        require(not left, "runs left over")
        return (), logged

    def publish(self, books, sender, now, seals):
        require(sender == books.curator, "not the curator")
        return (), pin(books, seals)

    def publish_many(self, books, sender, now, seals):
        require(sender == books.curator, "not the curator")
        logged, group = [], []
        for seal in seals:
            require(len(group) < MAX_PARTS, "group too large")
            group.append(seal)
            if seal[-1]:
                logged += attempt(books, pin, group)
                group = []
        require(not group, "group without an end")
        return (), logged

    def pause(self, books, sender, now):
        require(sender == books.owner, "not the owner")
        require(not books.paused, "paused")
        books.paused = True
        return (), [("Paused", {})]

    def resume(self, books, sender, now):
        require(sender == books.owner, "not the owner")
        require(books.paused, "not paused")
        books.paused = False
        return (), [("Resumed", {})]

    def lower_budget(self, books, sender, now, budget):
        require(sender == books.owner, "not the owner")
        require(budget < books.budget, "not lower")
        require(budget >= books.spent, "below what is spent")
        books.budget, books.pending = budget, (0, 0, 0)
        return (), [("BudgetLowered", {"budget": budget})]

    def propose_raise(self, books, sender, now, budget):
        require(sender == books.owner, "not the owner")
        require(budget > books.budget, "not higher")
        require(budget <= MAX_BUDGET, "budget too large")
        ready = now + books.raise_delay
        books.pending = (budget, ready, ready + WEEK)
        return (), [("RaiseProposed", {"budget": budget, "ready": ready, "expires": ready + WEEK})]

    def finish_raise(self, books, sender, now):
        require(sender == books.owner, "not the owner")
        budget, ready, expires = books.pending
        require(budget > 0, "no raise pending")
        require(now >= ready, "raise not ready")
        require(now < expires, "raise expired")
        books.budget, books.pending = budget, (0, 0, 0)
        return (), [("BudgetRaised", {"budget": budget})]

    def propose_owner(self, books, sender, now, owner):
        require(sender == books.owner, "not the owner")
        books.next_owner = owner
        return (), [("OwnerProposed", {"owner": owner})]

    def accept_owner(self, books, sender, now):
        require(sender == books.next_owner, "not proposed")
        books.owner, books.next_owner = sender, NOBODY
        books.next_curator, books.pending = NOBODY, (0, 0, 0)
        return (), [("OwnerChanged", {"owner": sender})]

    def propose_curator(self, books, sender, now, curator):
        require(sender == books.owner, "not the owner")
        books.next_curator = curator
        return (), [("CuratorProposed", {"curator": curator})]

    def accept_curator(self, books, sender, now):
        require(sender == books.next_curator, "not proposed")
        books.curator, books.next_curator = sender, NOBODY
        return (), [("CuratorChanged", {"curator": sender})]

    # -- what anybody may read -------------------------------------------------------------------

    def visible_people(self, people: Iterable[str]) -> Iterator[tuple[Key, tuple[object, ...]]]:
        """What the contract's views would answer about people."""
        for person in people:
            yield ("opened_by", person), (self.opened.get(person, 0),)

    def visible(
        self,
        id: bytes,
        analysts: Iterable[bytes],
        queries: Iterable[bytes],
        ids: Iterable[bytes],
        abouts: Iterable[int],
        runs: Iterable[tuple[int, Runs]],
    ) -> Iterator[tuple[Key, tuple[object, ...]]]:
        """What the contract's views would answer about an account; `runs` are those of interest, with their cube."""
        books = self.accounts.get(id, NO_ACCOUNT)
        yield ("accounts", id), (books.owner, books.unit, books.policy, books.data, books.raise_delay)
        yield ("desk", id), (books.curator, books.version, len(books.cubes), books.paused)
        yield ("money", id), (books.budget, books.spent, books.measurements)
        yield ("pending_raise", id), books.pending
        yield ("pending_owner", id), (books.next_owner,)
        yield ("pending_curator", id), (books.next_curator,)
        for place in ids:
            version, published = books.reservations.get(place, (0, False))
            yield ("reservations", id, place), (2 * version + published,)
        for analyst in analysts:
            yield ("view_of", id, analyst), (books.limits.get(analyst, 0), books.used(analyst))
        for about in abouts:
            charged = books.spent_on.get(about, 0)
            yield ("spent_on", id, about), (charged,)
            yield ("balance_on", id, about), (books.budget, charged, books.budget - books.spent)
        for cube, cells in enumerate([0, *books.cubes, 0]):
            yield ("cells_of", id, cube), (cells,)
            yield ("largest_cell", id, cube), (books.largest(cube),)
            for cell, charged in enumerate(books.cells.get(cube, [0] * min(cells, 2))):
                yield ("cell", id, cube, cell), (charged,)
        for query in queries:
            for cube, own in [(0, ()), *runs]:
                known = books.records.get((cube, query, own), [])
                yield ("record", id, query, cube, own), (len(known), max(known, default=0))

    def _account_id(self, sender: str) -> bytes:
        addresses = (int(self.contract, 16), int(sender, 16))
        words = (self.chain_id, *addresses, self.opened.get(sender, 0))
        return keccak.new(digest_bits=256, data=b"".join(word.to_bytes(32, "big") for word in words)).digest()


def decide(books: Account, claims, runs) -> list[Logged]:
    """A group of claims, in order."""
    require(not books.paused, "paused")
    require(len(claims) > 0, "nothing claimed")
    logged, left = [], list(runs)
    for claim in claims:
        count = claim[7]
        require(count <= min(MAX_PARTS, len(left)), "runs missing")
        logged.append(decide_one(books, claim, tuple(left[:count])))
        left = left[count:]
    require(not left, "runs left over")
    return logged


def decide_one(books: Account, claim, runs: Runs) -> Logged:
    id, query, analyst, about, cube, wanted, _, _, _ = claim
    require(id not in books.reservations, "id already used")
    require(wanted <= MAX_BUDGET, "too much wanted")
    require(about <= 255, "about is one byte")
    require(cube <= len(books.cubes), "undeclared cube")
    if cube == 0 or wanted == 0:
        require(not runs, "runs without a cube")
    else:
        require(len(runs) > 0, "no runs")
    known = books.records.get((cube, query, runs), [])
    fresh = reused = 0
    if wanted == 0:
        require(cube > 0, "nothing wanted")
        case = INFER
    elif any(precision >= wanted for precision in known):
        enough = min(precision for precision in known if precision >= wanted)
        case, reused = (REPEAT if enough == wanted else BLUR), 1 + known.index(enough)
    else:
        best = max(known, default=0)
        case, fresh, reused = (REFINE if known else FIRST), wanted - best, len(known)
        charge(books, claim, fresh, runs)
    show(books, analyst, cube, query, wanted)
    if case != REPEAT:
        books.reservations[id] = (books.version, False)
    asked = {"id": id, "query": query, "analyst": analyst, "about": about, "cube": cube, "wanted": wanted}
    decided = {"case": case, "fresh": fresh, "reused": reused, "runs": runs}
    used = books.used(analyst) if analyst != NOTHING else 0
    return "Reserved", asked | decided | {"spent": books.spent, "used": used}


def charge(books: Account, claim, fresh: int, runs: Runs) -> None:
    _, query, _, about, cube, wanted, limit, _, _ = claim
    before = books.spent
    if cube:
        cells = books.cells.setdefault(cube, [0] * books.cubes[cube - 1])
        free = 0
        for start, stop, weight in runs:
            require(start >= free, "runs overlap")
            require(start < stop, "empty run")
            require(stop <= len(cells), "run out of range")
            require(1 <= weight <= MAX_WEIGHT, "weight out of range")
            free = stop
            for cell in range(start, stop):
                cells[cell] += -(-fresh * weight // WHOLE_WEIGHT)
    books.records.setdefault((cube, query, runs), []).append(wanted)
    books.measurements += 1
    cost = books.spent - before
    require(cost <= limit, "price above limit")
    require(books.spent <= books.budget, "budget exhausted")
    require(books.measurements <= MAX_MEASUREMENTS, "too many measurements")
    books.spent_on[about] = books.spent_on.get(about, 0) + cost


def show(books: Account, analyst: bytes, cube: int, query: bytes, wanted: int) -> None:
    if analyst == NOTHING:
        return
    require(books.limits.get(analyst, 0) > 0, "analyst without a limit")
    seen = books.delivered.setdefault(analyst, {})
    entry, level = ((cube, NOTHING), books.largest(cube)) if cube else ((0, query), wanted)
    seen[entry] = max(seen.get(entry, 0), level)
    require(books.used(analyst) <= books.limits[analyst], "view exhausted")


def pin(books: Account, seals) -> list[Logged]:
    """A group of seals."""
    require(len(seals) > 0, "nothing published")
    logged = []
    for id, answer, _ in seals:
        require(id in books.reservations, "no such reservation")
        version, published = books.reservations[id]
        require(version == books.version, "reservation burnt")
        require(not published, "already published")
        require(answer != NOTHING, "no answer")
        books.reservations[id] = (version, True)
        logged.append(("Published", {"id": id, "answer": answer}))
    return logged


def attempt(books: Account, action, group, *rest) -> list[Logged]:
    """A group of a batch: all of it, or an event that says why not and nothing else."""
    trial = books.copy()
    try:
        logged = action(trial, group, *rest)
    except Revert as revert:
        return [("GroupRefused", {"id": group[0][0], "reason": str(revert)})]
    books.__dict__.update(trial.__dict__)
    return logged


def require(condition: bool, reason: str) -> None:
    if not condition:
        raise Revert(f"ledger: {reason}")
