"""Crash points: the process ends just before or just after every durable step and every look at the data.

A bank on real files is opened, asked, and cut off at its n-th step; all that survives is a copy of its
files at that moment. It is opened again (recovery), the request is retried, and cut off again at each
step of that: all single crashes and all pairs. A witness outside of the bank sees every step and every
answer, and says what went wrong.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from assurance.planting import in_place_of, plant_part, replaces
from assurance.report import Finding, Progress
from noisebank import Account, Bank, NoisebankError, Precision, Receipt, Result, create_bank
from noisebank.ledger.protocol import Role
from support.banks import write_people
from support.internals import (
    BadTable,
    Block,
    Case,
    CubedEngine,
    EmbeddedLedger,
    Engine,
    Journal,
    Key,
    KeyReused,
    Ledger,
    PlainStrategy,
    Query,
    Question,
    Request,
    Reservation,
    Seal,
    SealedAnswer,
    SqliteVault,
    SystemEntropy,
    Vault,
    budget_ledger,
    complete_reservations,
    digest_answer,
    floor_to_ladder,
    settle,
    workload_rng,
)

CRASHES = 10_000
Outcome = TypeVar("Outcome")
PEOPLE_ROWS = 20


Cells = tuple[Any, ...]
"""The cube, and the runs of cells that a claim charges."""


class Crash(BaseException):
    """The process ends here."""


class CommitFailed(BaseException):
    """A commit failed although nobody crashed it."""


# -- requests ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """One request of a workload, in several spellings of the same SQL."""

    key: str
    query: str
    spellings: tuple[str, ...]
    factor: Fraction
    """Standard deviation of the noise over sensitivity."""
    sigma: str

    @property
    def wanted(self) -> int:
        return floor_to_ladder(Precision.floor(1 / self.factor**2)).units

    def sql(self, attempt: int) -> str:
        return self.spellings[attempt % len(self.spellings)]


SPELLINGS = {
    ("income", Fraction(1100)): (
        "SELECT SUM(income) FROM people",
        "select sum(p.income) as total from people p",
        "SELECT SUM(income) FROM people WHERE age >= 0",
    ),
    ("income", Fraction(1100, PEOPLE_ROWS)): (
        "SELECT AVG(income) FROM people",
        "select avg((p.income)) from people as p",
    ),
    ("smokers", Fraction(1)): (
        "SELECT COUNT(*) FROM people WHERE smoker AND age > 30",
        "SELECT COUNT(*) FROM people WHERE NOT (age <= 30 OR smoker = false)",
        "select count(*) n from people where age >= 31 and smoker = true",
    ),
}
"""By query and sensitivity in the unit asked for."""
FIRSTS, REFINES = ("5/2", "3", "7/2"), ("1", "5/4", "3/2")
BLURS = ("7/4", "2", "4", "5")


def workload_of(random: Random, name: str, more: int = 1) -> list[Asked]:
    """Requests in which each of the four cases comes up, and `more` of any case."""
    (query, moves), spellings = random.choice(list(SPELLINGS.items()))
    first, better = random.choice(FIRSTS), random.choice(REFINES)
    wanted = [(query, moves, spellings, factor) for factor in (first, better, random.choice((first, better)))]
    wanted.append((query, moves, spellings, random.choice(BLURS)))
    for _ in range(more):
        (query, moves), spellings = random.choice(list(SPELLINGS.items()))
        wanted.append((query, moves, spellings, random.choice(FIRSTS + REFINES + BLURS)))
    return [
        Asked(f"{name} {place}", query, spellings, Fraction(factor), str(moves * Fraction(factor)))
        for place, (query, moves, spellings, factor) in enumerate(wanted)
    ]


# -- the witness -------------------------------------------------------------------------------


@dataclass
class Witness:
    """Sees every durable step, every look at the data and every answer, over all crashes."""

    fresh: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    """By reservation: its query (salted) and what it charged. Durable. Without the repeats."""
    repeats: set[bytes] = field(default_factory=set)
    """Reservations whose answer is a recorded one: nothing of theirs is drawn, sealed or published."""
    paid: dict[tuple[bytes, Cells], set[int]] = field(default_factory=dict)
    """By query and cells: the precisions that were paid for."""
    sealed: dict[bytes, bytes] = field(default_factory=dict)
    published: dict[bytes, bytes] = field(default_factory=dict)
    shown: dict[str, tuple[Any, str, Case, Precision]] = field(default_factory=dict)
    """By idempotency key: what its asker was given."""
    wrong: list[str] = field(default_factory=list)
    touches: int = 0
    draws: int = 0

    def fork(self) -> Witness:
        """The same past, another future; what was wrong is wrong for all."""
        return replace(
            self,
            fresh=dict(self.fresh),
            repeats=set(self.repeats),
            paid={query: set(found) for query, found in self.paid.items()},
            sealed=dict(self.sealed),
            published=dict(self.published),
            shown=dict(self.shown),
            touches=0,
            draws=0,
        )

    def blame(self, what: str) -> None:
        self.wrong.append(what)

    def ledger_opened(self, chain: EmbeddedLedger) -> None:
        """What a replayed journal holds: all that was durable, and perhaps what a commit was cut off in."""
        found = [r for state in chain.books.list_accounts() for r in chain.list_reservations(state.account)]
        published = {r.id: r.answer_digest for r in found if r.answer_digest is not None}
        known = self.fresh.keys() | self.repeats
        if known - {r.id for r in found} or self.published.items() - published.items():
            self.blame("what was durable is missing from the ledger")
        self.fresh, self.repeats, self.paid, seen = {}, set(), {}, dict(self.fresh)
        for r in found:
            self.reserved(
                r.id, r.query, r.target.units, (r.cube, *((run.start, run.stop, run.weight) for run in r.runs))
            )
            decided = None if r.case is Case.REPEAT else (r.query, r.fresh_precision.units)
            if self.fresh.get(r.id) != decided or seen.get(r.id, decided) != decided:
                self.blame("the ledger decided otherwise than its rules say")
        self.published = published

    def vault_opened(self, vault: SqliteVault) -> None:
        """The same for the vault, which is opened after the ledger."""
        sealed = {id: kept.digest for id in self.fresh if (kept := vault.find_answer(id)) is not None}
        if self.sealed.items() - sealed.items():
            self.blame("what was durable is missing from the vault")
        self.sealed = sealed

    def reserved(self, id: bytes, query: bytes, wanted: int, cells: Cells) -> None:
        """Decides the case as the paper does: the journal holds calls, and what came of them only as a digest."""
        paid = self.paid.setdefault((query, cells), set())
        fresh = max(0, wanted - max(paid, default=0))
        if wanted in paid:
            self.repeats.add(id)
            return
        self.fresh[id] = (query, fresh)
        if fresh:
            paid.add(wanted)

    def wrote(self, block: Block) -> None:
        for name, row in called(block):
            if name == "reserve":
                self.reserved(row[0], row[1], row[5], (row[4], *row[9:]))
            elif name == "publish":
                if self.sealed.get(row[0]) != row[1]:
                    self.blame("published before it was sealed")
                self.published[row[0]] = row[1]

    def kept(self, sealed: SealedAnswer) -> None:
        if sealed.id in self.sealed:
            self.blame("sealed twice")
        self.sealed[sealed.id] = sealed.digest

    def touched(self, query: bytes) -> None:
        self.touches += 1
        if not any(known == query and charged and id not in self.sealed for id, (known, charged) in self.fresh.items()):
            self.blame("data touched without a durable, unanswered reservation")

    def drew(self) -> None:
        self.draws += 1
        if all(id in self.sealed for id in self.fresh):
            self.blame("noise drawn although every reservation is sealed: a second sample")

    def saw(self, key: str, answer: Result) -> None:
        """The asker of `key` holds this answer now."""
        self.saw_values(key, answer.exact, answer)

    def saw_values(self, key: str, values: Any, proof: Any) -> None:
        """The same for these values, with what has their receipt."""
        digest = digest_answer(proof.receipt.salt, proof.receipt.answer)
        if self.sealed.get(proof.receipt.id) != digest:
            self.blame("shown before it was sealed")
        if self.published.get(proof.receipt.id) != digest:
            self.blame("shown before it was published")
        self.saw_bits(key, (values, proof.receipt.to_canonical_json(), proof.case, proof.cost))

    def saw_bits(self, key: str, bits: tuple[Any, str, Case, Precision]) -> None:
        if self.shown.setdefault(key, bits) != bits:
            self.blame("a second sample was shown for the same key")

    def audit(self, account: Account, requests: list[Asked]) -> None:
        """The books, against the requests alone."""
        reservations = account.ledger.list_reservations(account.id)
        spent = account.state.spent.units
        if sum(reservation.fresh_precision.units for reservation in reservations) != spent:
            self.blame("the books do not balance: spent is not the sum of what was charged")
        if len(reservations) != len(requests):
            self.blame(f"{len(reservations)} reservations for {len(requests)} requests: charged twice or not at all")
        expected = model(requests)
        if sum(cost for _, cost in expected.values()) != spent:
            self.blame("the books do not balance: spent is not what the requests cost")
        for key, (case, cost) in expected.items():
            if key not in self.shown:
                self.blame("a request has no answer")
            elif self.shown[key][2:] != (case, Precision(cost)):
                self.blame("a request has another case or cost than it should")
        ids = {made.id: made.answer_digest for made in reservations if made.case is not Case.REPEAT}
        if ids.keys() != self.fresh.keys() or ids != self.published or ids != self.sealed:
            self.blame("what was durable is missing from the ledger")
        repeats = {made.id for made in reservations} - ids.keys()
        if repeats != self.repeats or any(account.vault.find_answer(id) is not None for id in repeats):
            self.blame("a repeat has an answer of its own, or is missing from the ledger")


def called(block: Block) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Function and arguments of each call in a block; for groups each part by itself, a claim with its runs behind."""
    for transaction in block.transactions:
        name, arguments = budget_ledger().decode_call(transaction.data)
        parts: Any = arguments.get("claims") or arguments.get("seals")
        runs: list[Any] = list(arguments.get("runs") or ())  # type: ignore[call-overload]
        for part in parts if parts is not None else [tuple(arguments.values())]:
            own = [runs.pop(0) for _ in range(part[7])] if "claims" in arguments else []
            yield name, (*part, *own)


def model(requests: list[Asked]) -> dict[str, tuple[Case, int]]:
    """Case and cost of each request, from the paper: comparisons and one subtraction."""
    paid: dict[str, list[int]] = {}
    found = {}
    for asked in requests:
        wanted = asked.wanted
        records = paid.setdefault(asked.query, [])
        best = max(records, default=0)
        if wanted > best:
            records.append(wanted)
            found[asked.key] = (Case.REFINE if best else Case.FIRST, wanted - best)
        else:
            found[asked.key] = (Case.REPEAT if wanted in records else Case.BLUR, 0)
    return found


# -- a bank that can be cut off ----------------------------------------------------------------


@dataclass
class Fuse:
    """Ends the process at its n-th step, or at the step of that name. What is in the files then is all that is left."""

    at: int | None = None
    save: Callable[[], None] = lambda: None
    name: str = "nowhere"
    steps: int = 0
    blew: str = ""

    def __call__(self, where: str) -> None:
        self.steps += 1
        if self.steps == self.at or where == self.name:
            self.blew = where
            self.save()
            raise Crash(where)

    @contextmanager
    def around(self, step: str) -> Iterator[None]:
        self(f"before {step}")
        yield
        self(f"after {step}")

    def die(self, reason: str) -> None:
        """What a failed commit does: the process ends."""
        raise Crash(reason) if self.blew else CommitFailed(reason)


@dataclass(frozen=True)
class Place:
    """Where the databases lie: in the bank's folder, or on a disk made for tests."""

    vfs: str | None = None
    prefix: str = ""

    def of(self, path: Path) -> Path | str:
        return path if self.vfs is None else f"{self.prefix}/{path.name}"


ON_FILES = Place()


class WatchedChain(EmbeddedLedger):
    def __init__(self, journal: Journal, keys: dict[Role, Key], witness: Witness, fuse: Fuse) -> None:
        super().__init__(journal, keys, on_failure=fuse.die)
        witness.ledger_opened(self)


class WatchedJournal(Journal):
    def __init__(self, path: Path, witness: Witness, fuse: Fuse, place: Place) -> None:
        super().__init__(place.of(path), place.vfs)
        self._witness, self._fuse = witness, fuse

    def append(self, block: Block) -> None:
        name, _ = next(called(block))
        with self._fuse.around(name):
            super().append(block)
            self._witness.wrote(block)


class WatchedVault(SqliteVault):
    def __init__(self, path: Path, witness: Witness, fuse: Fuse, place: Place) -> None:
        super().__init__(place.of(path), place.vfs, on_failure=fuse.die)
        self._witness, self._fuse = witness, fuse
        witness.vault_opened(self)

    def save_opening(self, data: bytes, body: dict[str, Any]) -> None:
        with self._fuse.around("save_opening"):
            super().save_opening(data, body)

    def save_requests(self, requests: Sequence[Request]) -> list[KeyReused | None]:
        with self._fuse.around("save_request"):
            return super().save_requests(requests)

    def seal_many(self, answers: Sequence[SealedAnswer]) -> list[SealedAnswer]:
        with self._fuse.around("seal"):
            kept = super().seal_many(answers)
            for sealed in answers:
                self._witness.kept(sealed)
            return kept


class WatchedEngine:
    """The real engine; each exact statistic is computed once and then remembered, for speed."""

    def __init__(self, engine: Engine, commitment: Callable[[Query], bytes], witness: Witness, fuse: Fuse) -> None:
        self._engine, self._commitment, self._witness, self._fuse = engine, commitment, witness, fuse
        self.identity, self.inspect, self.fingerprint = engine.identity, engine.inspect, engine.fingerprint

    known: dict[tuple[str, bytes], int] = {}  # noqa: RUF012

    def statistics_many(self, queries: Sequence[Query]) -> list[tuple[int, ...] | BadTable]:
        return [(self.statistic(query),) for query in queries]

    def statistic(self, query: Query) -> int:
        with self._fuse.around("measure"):
            self._witness.touched(self._commitment(query))
            place = (self._engine.identity(), query.digest)
            if place not in self.known:
                self.known[place] = self._engine.statistic(query)
            return self.known[place]


class WatchedEntropy(SystemEntropy):
    def __init__(self, witness: Witness, fuse: Fuse) -> None:
        self._witness, self._fuse = witness, fuse

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        with self._fuse.around("draw"):
            self._witness.drew()
            return super().discrete_gaussians(scale, count)

    def discrete_gaussian(self, scale: float) -> int:
        with self._fuse.around("draw"):
            self._witness.drew()
            return super().discrete_gaussian(scale)


class WatchedCubes(CubedEngine):
    """The same for tables with cubes: every sum over cells is a look at the data."""

    commitment: Callable[[Query], bytes]
    witness: Witness
    fuse: Fuse

    def statistic(self, query: Query) -> int:
        return self._seen(query, super().statistic)

    def statistics(self, query: Query) -> tuple[int, ...]:
        return self._seen(query, super().statistics)

    def look(self, query: Query, cube_index: int) -> NDArray[np.object_]:
        return self._seen(query, lambda query: CubedEngine.look(self, query, cube_index))

    def _seen(self, query: Query, look: Callable[[Query], Outcome]) -> Outcome:
        with self.fuse.around("measure"):
            self.witness.touched(self.commitment(query))
            return look(query)


@contextmanager
def opened(folder: Path, witness: Witness, fuse: Fuse, kind: Any = Account, place: Place = ON_FILES) -> Iterator[Bank]:
    """The real bank, recovery included, with a watcher at each step."""

    def account(*parts: Any) -> Account:
        made = kind(*parts) if isinstance(kind, type) and issubclass(kind, Account) else Account(*parts)
        if isinstance(made.engine, WatchedCubes):
            made.engine.commitment, made.engine.witness, made.engine.fuse = made.secrets.salted_query, witness, fuse
        else:
            made.context.engine = WatchedEngine(made.engine, made.secrets.salted_query, witness, fuse)
        return made

    with (
        patch("noisebank.bank.folder.Journal", partial(WatchedJournal, witness=witness, fuse=fuse, place=place)),
        patch("noisebank.vault.location.SqliteVault", partial(WatchedVault, witness=witness, fuse=fuse, place=place)),
        patch("noisebank.bank.folder.EmbeddedLedger", partial(WatchedChain, witness=witness, fuse=fuse)),
        patch("noisebank.bank.opening.Account", account),
        patch("noisebank.bank.opening.CubedEngine", WatchedCubes),
        Bank(folder, entropy=WatchedEntropy(witness, fuse)) as bank,
    ):
        yield bank


# -- all crashes and all pairs -----------------------------------------------------------------


@dataclass
class Laboratory:
    """Cuts one request off in every way and judges what the files hold afterwards."""

    room: Path
    kind: Any = Account
    depth: int = 2
    witness: type[Witness] = Witness
    crashes: int = 0
    judged: int = 0
    points: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    rooms: int = 0

    def folder(self) -> Path:
        self.rooms += 1
        return self.room / str(self.rooms)

    def explore(self, start: Path, witness: Witness, requests: list[Asked], depth: int) -> None:
        """Crashes the last request at each of its steps, and what follows again, `depth` crashes in all."""
        step = 0
        while not witness.wrong:
            step += 1
            here, after, eye = self.folder(), self.folder(), witness.fork()
            shutil.copytree(start, here)
            fuse = Fuse(step, save=lambda here=here, after=after: shutil.copytree(here, after))
            self.attempt(here, eye, fuse, requests)
            shutil.rmtree(here)
            if not fuse.blew:
                return
            self.crashes += 1
            self.points[fuse.blew] += 1
            if depth > 1:
                self.explore(after, eye, requests, depth - 1)
            self.attempt(after, eye, Fuse(), requests)
            self.judge(after, eye, requests)
            shutil.rmtree(after)

    def attempt(self, folder: Path, witness: Witness, fuse: Fuse, requests: list[Asked]) -> None:
        """One process: opens the bank, which recovers, and asks, or asks again, in another spelling."""
        asked = requests[-1]
        try:
            with opened(folder, witness, fuse, self.kind) as bank:
                account = bank.account()
                answer = account.ask(asked.sql(self.crashes), sigma=asked.sigma, key=asked.key)
                witness.saw(asked.key, answer)
        except Crash:
            pass
        except (NoisebankError, CommitFailed) as error:
            witness.blame(f"an attempt failed: {type(error).__name__}: {error}")

    def judge(self, folder: Path, witness: Witness, requests: list[Asked]) -> None:
        """Opens the bank once more, which replays everything, and asks everything again."""
        self.judged += 1
        try:
            with opened(folder, witness, Fuse(), self.kind) as bank:
                ask_all_again(bank, witness, requests)
        except (NoisebankError, CommitFailed) as error:
            witness.blame(f"the last look failed: {type(error).__name__}: {error}")

    def work(self, start: Path, requests: list[Asked], enough: int) -> Witness:
        """Walks through a workload; crashes each of its requests in every way on the way."""
        witness, state = self.witness(), self.folder()
        shutil.copytree(start, state)
        for place in range(len(requests)):
            done = requests[: place + 1]
            self.explore(state, witness, done, self.depth)
            self.attempt(state, witness, Fuse(), done)
            if witness.wrong or self.crashes >= enough:
                break
            self.cases[witness.shown[done[-1].key][2].name] += 1
        self.judge(state, witness, done)
        shutil.rmtree(state)
        return witness

    def open_accounts(self, bare: Path, policy: Path, depth: int = 2) -> list[str]:
        """Crashes the opening of an account in every way; a retry ends with one account, not two."""
        wrong: list[str] = []
        step = 0
        while True:
            step += 1
            here, after, witness = self.folder(), self.folder(), self.witness(wrong=wrong)
            shutil.copytree(bare, here)
            fuse = Fuse(step, save=lambda here=here, after=after: shutil.copytree(here, after))
            self._open_account(here, witness, fuse, policy)
            shutil.rmtree(here)
            if not fuse.blew:
                return wrong
            self.crashes += 1
            self.points[fuse.blew] += 1
            if depth > 1:
                wrong += self.open_accounts(after, policy, depth - 1)
            self._open_account(after, witness, Fuse(), policy)
            with opened(after, witness, Fuse()) as bank:
                if len(bank.ledger.books.list_accounts()) != 1 or len(bank.accounts()) != 1:
                    wrong.append("opening an account again after a crash left two accounts, or none")
                witness.audit(bank.account(), [])
            shutil.rmtree(after)

    def _open_account(self, folder: Path, witness: Witness, fuse: Fuse, policy: Path) -> None:
        try:
            with opened(folder, witness, fuse) as bank:
                if not bank.accounts():
                    bank.open_account(policy)
        except Crash:
            pass


def ask_all_again(bank: Bank, witness: Witness, requests: list[Asked]) -> None:
    """Everything was answered: nothing is left to recover, each key has its bits, the books balance."""
    found = bank.recovered["people"]
    if (found.finished, found.waiting, found.unknown, found.lost) != (0, 0, 0, 0):
        witness.blame(f"something was left to recover after an answer: {found}")
    account = bank.account()
    for place, asked in enumerate(requests):
        witness.saw(asked.key, account.ask(asked.sql(place), sigma=asked.sigma, key=asked.key))
    witness.audit(account, requests)


def room_for(name: str) -> tempfile.TemporaryDirectory[str]:
    """A folder in memory where there is one: what is tested here is order, not the disk."""
    memory = Path("/dev/shm")
    there = not memory.is_dir() or Path(tempfile.gettempdir()).is_relative_to(memory)  # the runner's, which it removes
    return tempfile.TemporaryDirectory(prefix=f"noisebank-{name}-", dir=None if there else memory)


def new_bank(room: Path, name: str = "bank") -> tuple[Path, Path]:
    """A bank without accounts and a policy with budget enough."""
    return create_bank(room / name), write_people(room / "table", PEOPLE_ROWS, epsilon="20")


def bank_with_account(room: Path, name: str = "bank") -> Path:
    """A bank with one account and no history."""
    folder, policy = new_bank(room, name)
    with Bank(folder) as bank:
        bank.open_account(policy)
    return folder


# -- planted bugs ------------------------------------------------------------------------------


class MeasuresFirst(PlainStrategy):
    """Looks at the data before the reservation."""

    @replaces
    def plan(self, question: Question, target: Precision) -> Any:
        self._context.engine.statistic(question.query)
        return super().plan(question, target)


def show_early(sealed: SealedAnswer, reservation: Reservation, vault: Vault, ledger: Ledger) -> None:
    """The asker holds an answer now, though it is not published."""
    request = vault.find_request(sealed.id)
    if request is None or "levels" in sealed.body:  # a first look is shown to nobody
        return
    place = sealed.account, sealed.id, sealed.body, sealed.salt, ledger.chain_id, ledger.contract
    receipt = Receipt(*place, block=0, block_digest=ledger.block_digest(0))
    exact = sealed.values[0].exact * Fraction(sealed.body["unit"])
    shown = SimpleNamespace(receipt=receipt, exact=exact, case=reservation.case, cost=reservation.cost)
    vault._witness.saw(request.key, shown)  # type: ignore[attr-defined]


@in_place_of("noisebank.account.completion", "settle")
def shows_unsealed(reservations: Sequence[Reservation], vault: Vault, ledger: Ledger, draw: Any) -> Any:
    """Shows an answer before it is sealed."""

    def show_drawn(unsealed: Sequence[Reservation]) -> Any:
        drawn = draw(unsealed)
        for reservation, sealed in zip(unsealed, drawn, strict=True):
            show_early(sealed, reservation, vault, ledger)
        return drawn

    return settle(reservations, vault, ledger, show_drawn)


@in_place_of("noisebank.account.completion", "settle")
def shows_unpublished(reservations: Sequence[Reservation], vault: Vault, ledger: Ledger, draw: Any) -> Any:
    """Shows an answer that is sealed, and publishes it afterwards."""
    by_id = {reservation.id: reservation for reservation in reservations}

    def publish_late(account: bytes, seals: Sequence[Seal]) -> Any:
        for seal in seals:
            sealed = vault.find_answer(seal.id)
            assert sealed is not None
            show_early(sealed, by_id[seal.id], vault, ledger)
        return ledger.publish_many(account, seals)

    return settle(reservations, vault, SimpleNamespace(publish_many=publish_late), draw)  # type: ignore[arg-type]


@in_place_of("noisebank.account.completion", "settle")
def publishes_unsealed(reservations: Sequence[Reservation], vault: Vault, ledger: Ledger, draw: Any) -> Any:
    """Publishes first, seals afterwards."""

    def publish_then_seal(answers: Sequence[SealedAnswer]) -> list[SealedAnswer]:
        ledger.publish_many(answers[0].account, [Seal(sealed.id, sealed.digest) for sealed in answers])
        return vault.seal_many(answers)

    def publish_rest(account: bytes, seals: Sequence[Seal]) -> Any:
        known = (ledger.find_reservation(account, seal.id) for seal in seals)
        open_seals = [
            seal for seal, entry in zip(seals, known, strict=True) if entry is None or entry.answer_digest is None
        ]
        ledger.publish_many(account, open_seals)
        return [None] * len(seals)

    late = SimpleNamespace(find_answer=vault.find_answer, lost_ids=vault.lost_ids, seal_many=publish_then_seal)
    return settle(reservations, late, SimpleNamespace(publish_many=publish_rest), draw)  # type: ignore[arg-type]


@in_place_of("noisebank.account.pipeline", "complete_reservations")
def draws_again(context: Any, paid: Sequence[tuple[Reservation, Question]]) -> Any:
    """Forgets, on a retry, that the answer is sealed."""
    known = [context.vault.find_answer(reservation.id) for reservation, _ in paid]
    outcomes = complete_reservations(context, paid)
    for index, (reservation, question) in enumerate(paid):
        if known[index] is not None and reservation.case is not Case.REPEAT:
            strategy = context.cubes if reservation.cube else context.plain
            (contents,) = strategy.draw_contents([(reservation, question)])
            outcomes[index] = replace(outcomes[index], body={**outcomes[index].body, **contents})  # type: ignore[type-var, union-attr]
    return outcomes


class ChargesAgain(Account):
    """Gives every attempt an id of its own."""

    @replaces
    def ask(self, sql: str, *, key: str | None = None, **wish: Any) -> Result:
        return super().ask(sql, key=f"{key} {self.context.entropy.token(4).hex()}", **wish)


PLANTED: dict[str, tuple[Any, str]] = {
    "measures before it reserves": (MeasuresFirst, "data touched without"),
    "shows before it seals": (shows_unsealed, "shown before it was sealed"),
    "shows before it publishes": (shows_unpublished, "shown before it was published"),
    "publishes before it seals": (publishes_unsealed, "published before it was sealed"),
    "draws again for a sealed answer": (draws_again, "a second sample"),
    "a new id for each retry": (ChargesAgain, "charged twice"),
}
"""Each with the words that the witness must find for it."""


def crashes(share: float) -> Finding:
    """An answer without a record; a record lost after it was acknowledged; a second sample."""
    enough = max(1, round(CRASHES * share))
    random = workload_rng(1)
    with room_for("crashes") as name:
        room = Path(name)
        start = bank_with_account(room)
        laboratory = Laboratory(room)
        bare, policy = new_bank(room / "opening")
        wrong = laboratory.open_accounts(bare, policy)
        round_, progress = 0, Progress("crashes", enough)
        while laboratory.crashes < enough and not wrong:
            round_ += 1
            progress(laboratory.crashes)
            wrong += laboratory.work(start, workload_of(random, f"round {round_}"), enough).wrong
        planted = {bug: _caught(room, start, kind, words) for bug, (kind, words) in PLANTED.items()}
    cases = ", ".join(f"{count} {case}" for case, count in sorted(laboratory.cases.items()))
    points = len(laboratory.points)
    return Finding(
        row="an answer without a record; a record lost after it was acknowledged",
        tried=f"{laboratory.crashes:,} crashes in process, at {points} points, singly and in pairs",
        figure=f"{len(wrong)} violations; {laboratory.judged:,} banks judged; requests cut off at every step: {cases}",
        violations=len(wrong),
        planted=planted,
        note="; ".join(dict.fromkeys(wrong)),
    )


def _caught(room: Path, start: Path, kind: Any, words: str) -> bool:
    """Whether the witness finds the planted bug, by the words for it and not by some other accident."""
    laboratory = Laboratory(room / kind.__name__, kind)
    laboratory.room.mkdir()
    with plant_part(kind):
        wrong = laboratory.work(start, workload_of(workload_rng(2), "planted", more=0), CRASHES).wrong
    return any(words in what for what in wrong)
