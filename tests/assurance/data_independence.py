"""Cost, case or error depends on data: the same requests to different tables get the same responses.

Two experiments, both on whole banks in memory with the same salts, so that whole ledgers compare:
swap the table and keep the released answers (everything must be equal), and take a neighbour (all
but the noisy values must be equal). Nothing here is random in its verdict: no false alarms.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, cast
from unittest.mock import patch

from assurance.planting import plant_bug, replaces
from assurance.report import Finding, Progress
from noisebank import Account, Bank, NoisebankError, Precision, Quote, Result
from support.banks import PEOPLE, memory_account, write_people
from support.internals import (
    AccuracyTarget,
    BadTable,
    Engine,
    Entropy,
    Function,
    GridValue,
    NormalLaw,
    Operations,
    Query,
    Question,
    SystemEntropy,
    draw_value,
    keccak,
    read_each,
    workload_rng,
)

LIMITS = {"ann": Precision.floor(Fraction(2)), "bob": Precision.floor(Fraction(1, 4))}
Plant = Callable[[Account], AbstractContextManager[None]]
Outcome = tuple[str, Any]


class SameSalts(SystemEntropy):
    """Real noise, but the same salts and keys in every bank: then ledgers can be compared bit by bit."""

    def __init__(self) -> None:
        self.count = 0

    def token(self, size: int = 32) -> bytes:
        self.count += 1
        return keccak(b"salt", self.count.to_bytes(8, "big"))[:size]


# -- requests --------------------------------------------------------------------------------------

ANSWERABLE = (
    "SELECT COUNT(*) FROM people WHERE age > 40",
    "SELECT COUNT(*) FROM people WHERE town = 'south'",
    "SELECT COUNT(children) FROM people",
    "SELECT COUNT(*) FROM people WHERE children IS NULL AND NOT smoker",
    "SELECT SUM(income) FROM people",
    "SELECT SUM(income) FROM people WHERE town <> 'north'",
    "SELECT SUM(children) FROM people",
    "SELECT AVG(income) FROM people",
    "SELECT AVG(smoker) FROM people",
    "SELECT town, COUNT(*) FROM people GROUP BY town",
    "SELECT SUM(income) FROM people WHERE smoker GROUP BY town, smoker",
    "SELECT AVG(children) FROM people WHERE age > 30",
    "SELECT 3 * COUNT_IF(smoker) - 2 * COUNT_IF(age > 50) + 7 FROM people",
    "select sum(income) as s from people where (age >= 120)",
    "SELECT SUM(CASE WHEN smoker THEN CLAMP(income - 5 * age, 0, 300) ELSE 2 * children END) FROM people",
    "SELECT FLOOR(age / 40) AS band, COUNT(*) FROM people WHERE COALESCE(children, 0) < 5 GROUP BY band",
    "SELECT CORR(age, income) AS c, VARIANCE(children) AS v FROM people WHERE town LIKE '%th'",
)
FOLLOWING = (
    "SELECT town, COUNT(*) AS n FROM people GROUP BY town HAVING COUNT(*) > 1 ORDER BY n DESC LIMIT 1",
    "SELECT town, AVG(income) AS m FROM people GROUP BY ROLLUP (town) ORDER BY m",
    "SELECT SQRT(GREATEST(COUNT(*), 0)) AS r FROM people WHERE smoker",
    "SELECT AVG(income) / NULLIF(AVG(age), 0) AS q FROM people WHERE NOT smoker",
)
"""What released numbers choose: rows and their order, and with `within` or `relative` how the request goes on."""
OTHERS = (
    "SELECT COUNT(*) FROM people",
    "SELECT COUNT(*) FROM people WHERE age > 1000",
    "SELECT MAX(income) FROM people",
    "SELECT SUM(salary) FROM people",
    "SELECT AVG(children) FROM people",
    "SELECT COUNT(*) FROM people WHERE town = 'atlantis'",
    "SELECT town, COUNT(*) FROM people GROUP BY town HAVING town = 'south'",
    "nonsense",
)


@dataclass(frozen=True)
class Asking:
    """One request, or (`touched`) the same after somebody has changed the file."""

    quote: bool
    sql: str
    wish: dict[str, Any]
    rest: dict[str, Any]
    touched: bool = False

    def put(self, account: Account) -> object:
        """Quote or answer."""
        if self.quote:
            return account.quote(self.sql, **self.wish)
        with _touched(account.context.policy.source) if self.touched else _as_it_is():
            return account.ask(self.sql, **self.wish, **self.rest)


def requests(random: Random, count: int, follows: bool = False) -> list[Asking]:
    """Good and bad, cheap and dear, new and repeated; `follows`: also those that follow what was released."""
    found = []
    for _ in range(count):
        wish: dict[str, Any] = {
            "sigma": random.choice(["1", "2", "3", "5.5", "40", "900", "2000", "9000", "0.01", "0"])
        }
        if random.random() < 0.3:
            wish = {"epsilon": random.choice(["0.1", "0.5", "1", "50"]), "delta": random.choice(["1e-6", "1e-4", "2"])}
        elif random.random() < 0.2:
            # With a floor one precision is fixed beforehand; what follows a look follows its noise (proofs/looks.md).
            wish = {"relative": random.choice(["5%", "0.3", "2"]), "floor": random.choice(["5", "400", "0"])}
        rest: dict[str, Any] = {"analyst": random.choice(["owner", "owner", "ann", "ann", "bob", "eve"])}
        if random.random() < 0.4:
            rest["key"] = f"key {random.randrange(6)}"
        if random.random() < 0.2:
            rest["max_cost"] = random.choice(["0", "0.1", "-1"])
        sql = random.choice(ANSWERABLE if random.random() < 0.8 else OTHERS)
        if follows and random.random() < 0.25:
            sql = random.choice((*FOLLOWING, *ANSWERABLE[-4:]))
            wish = random.choice(
                [{"within": "9"}, {"relative": "20%"}, {"spend": "2%"}, {"within": 40, "groups": "all"}]
            )
        touched = random.random() < 0.05
        found.append(Asking(random.random() < 0.3, sql, wish, rest, touched))
    return found


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


@contextmanager
def _touched(source: Path) -> Iterator[None]:
    before, status = source.read_bytes(), source.stat()
    source.write_bytes(before + b"\n")
    try:
        yield
    finally:
        source.write_bytes(before)
        os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))


# -- responses -------------------------------------------------------------------------------------


def outcomes(account: Account, asked: list[Asking], see: Callable[[Result], object]) -> list[Outcome]:
    """What came back for each request, and at the end what the public ledger shows."""
    found: list[Outcome] = []
    for request in asked:
        try:
            response = request.put(account)
        except NoisebankError as error:
            found.append((type(error).__name__, str(error)))
        else:
            assert isinstance(response, Result | Quote)
            found.append((type(response).__name__, see(response) if isinstance(response, Result) else response))
    state = asdict(account.state)
    del state["data_commitment"]  # the salted commitment to the table itself
    found.append(("state", state))
    found.append(("what everybody sees", Operations(cast(Bank, None)).describe_dataset(account)))
    return found


def everything(answer: Result) -> object:
    """All of an answer but the digest of its block, which follows from the commitment to the table."""
    plain = asdict(answer)
    for part in plain["parts"]:
        del part["receipt"]["block_digest"]
    return plain


def all_but_noise(answer: Result) -> object:
    """A result without its values, what follows from them, and its receipts as their shape only."""
    plain = asdict(answer)
    for row in plain["rows"]:
        for estimate in row["estimates"]:
            for name in ("value", "exact", "label"):
                estimate[name] = type(estimate[name]).__name__
            del estimate["low"], estimate["high"]  # a ratio's interval has no end where the noise of its count is large
            if estimate["verdict"] is not None:
                del estimate["verdict"]["reached"]
    for part in plain["parts"]:
        receipt = part.pop("receipt")
        sealed = dict(receipt["answer"])
        values = sealed.pop("values", None) or [sealed.pop("value")]
        numerator, _ = values[0]
        part["sealed"], part["shift"] = sealed, [shift for _, shift in values]
        part["shape"] = {name: (type(value).__name__, len(value) if isinstance(value, bytes | str) else 0)
                         for name, value in receipt.items()}  # fmt: skip
        part |= {"block": receipt["block"], "type": type(numerator).__name__}
    return plain


def reserved(account: Account, with_answers: bool) -> list[Outcome]:
    """The reservations on the ledger; published digests of noisy values only as present or absent."""
    found: list[Outcome] = []
    for reservation in account.ledger.list_reservations(account.id):
        plain = asdict(reservation)
        if not with_answers:
            plain["answer_digest"] = plain["answer_digest"] is not None
        found.append(("reserved", plain))
    return found


# -- the two experiments ---------------------------------------------------------------------------


class Tape:
    """Released values: recorded on one table, forced on the other."""

    def __init__(self) -> None:
        self.values: list[GridValue] = []
        self.next: int | None = None

    def __call__(self, law: NormalLaw, entropy: Entropy) -> GridValue:
        value = draw_value(law, entropy)
        if self.next is None:
            self.values.append(value)
            return value
        self.next += 1
        return self.values[self.next - 1] if self.next <= len(self.values) else value

    def many(
        self, parts: Sequence[tuple[Sequence[Fraction], Fraction]], entropy: Entropy
    ) -> list[tuple[GridValue, ...]]:
        """The same for `draw_values_many`."""
        return [tuple(self(NormalLaw(mean, variance), entropy) for mean in means) for means, variance in parts]


def limited_account(policy: Path) -> Account:
    """Ann may learn a lot, Bob little, Eve nothing, and the owner everything."""
    account = memory_account(policy, SameSalts())
    for analyst, limit in LIMITS.items():
        account.ledger.set_limit(account.id, account.analyst(analyst), limit.units)
    return account


def swapped(folder: Path, asked: list[Asking], tables: list[Path], plant: Plant) -> int:
    """Differences between two tables whose released answers are the same."""
    tape = Tape()
    seen = []
    measured = patch("noisebank.engines.mechanism.draw_values_many", tape.many)
    with measured, patch("noisebank.account.plain.draw_value", tape):
        for policy in tables:
            account = limited_account(policy)
            with plant(account):
                seen.append(outcomes(account, asked, everything) + reserved(account, with_answers=True))
            tape.next = 0
    return differences(*seen)


def neighbours(folder: Path, asked: list[Asking], tables: list[Path], plant: Plant) -> int:
    """Differences between neighbouring tables, each with noise of its own."""
    seen = []
    for policy in tables:
        account = limited_account(policy)
        with plant(account):
            seen.append(outcomes(account, asked, all_but_noise) + reserved(account, with_answers=False))
    return differences(*seen)


def differences(a: list[Outcome], b: list[Outcome]) -> int:
    """How many responses differ; a missing one differs too."""
    return sum(x != y for x, y in zip(a, b, strict=False)) + abs(len(a) - len(b))


# -- tables ----------------------------------------------------------------------------------------


def row(random: Random) -> str:
    """Somebody: often at, on or far beyond a bound, missing where it may be, in a town that nobody declared."""
    age = random.choice(["0", "120", "119.5", "1e400", "-inf", str(random.randrange(120))])
    income = random.choice(["-100", "1000", "1e18", "-99999999999999999999", "0.5", str(random.randrange(-100, 1000))])
    children = random.choice(["", "nan", "many", "inf", "-1", "10", "11", str(random.randrange(10))])
    return f"{age},{income},{random.choice(['true', 'false'])},{random.choice(['north', 'south', 'x'])},{children}"


def two_tables(folder: Path, random: Random, relation: str, near: bool) -> list[Path]:
    """Policies of two tables: neighbours, or as different as their public facts allow."""
    same = random.random() < 0.2
    people = [row(random) if not same else "120,1000,true,north,10" for _ in range(random.randrange(1, 9))]
    other = list(people) if near else [row(random) for _ in people]
    if relation == "replace-one":
        other[random.randrange(len(other))] = row(random)
    elif near:
        del other[random.randrange(len(other))]
    else:
        other = other[: random.randrange(len(other) + 1)]
    return [
        write_people(folder / name, lines=lines, epsilon="8", neighbours=relation)
        for name, lines in (("a", people), ("b", other))
    ]


CAPPED, COUNTED = "row_cap = 1000", "row_cap = {rows}"
Person = list[str]


def two_crowds(folder: Path, random: Random, relation: str, near: bool, size: str = CAPPED) -> list[Path]:
    """The same for people with one to four rows each, of which two count. Who comes has another number of rows than
    who goes."""
    people = [_visits(random, f"p{number}", 0) for number in range(random.randrange(1, 5))]
    other = list(people) if near else [_visits(random, f"q{number}", 0) for number in range(len(people))]
    place = random.randrange(len(other))
    if relation == "replace-one":
        other[place] = _visits(random, "somebody else", len(people[place]))
    else:
        del other[place]
    return [_write_visits(folder / name, crowd, relation, size) for name, crowd in (("a", people), ("b", other))]


def _visits(random: Random, who: str, other_than: int) -> Person:
    count = random.choice([number for number in range(1, 5) if number != other_than])
    return [f"{row(random)},{who}" for _ in range(count)]


def _write_visits(folder: Path, people: list[Person], relation: str, size: str) -> Path:
    lines = [line for person in people for line in person]
    policy = write_people(folder, lines=lines, epsilon="8", neighbours=relation)
    (folder / "people.csv").write_text("\n".join(["age,income,smoker,town,children,who", *lines]) + "\n")
    size = size.format(rows=max(1, len(lines))) + '\nunit = "who"\nmax_rows = 2'
    text = PEOPLE.format(neighbours=relation, rows=size, epsilon="8", delta="1e-6")
    policy.write_text(text + '[columns.who]\ntype = "text"\n')
    return policy


# -- planted bugs ----------------------------------------------------------------------------------


def _peeking_price(account: Account) -> AbstractContextManager[None]:
    """Prices an answer by what is in the table."""
    real = account.context.target_precision

    def peek(question: Question, accuracy: AccuracyTarget) -> Precision:
        wanted = real(question, accuracy)
        return wanted if sum(_peek(account, question.query)) % 2 else Precision(wanted.units * 2)

    return plant_bug(account.context, "target_precision", peek)


class LoudEngine:
    """An engine whose errors quote what it saw, or only happen where nobody is."""

    def __init__(self, engine: Engine, empty_only: bool) -> None:
        self.engine, self.identity, self.empty_only = engine, engine.identity, empty_only

    @replaces
    def statistic(self, query: Query) -> int:
        return self._seen(query, (self.engine.statistic(query),))[0]

    @replaces
    def statistics(self, query: Query) -> tuple[int, ...]:
        return self._seen(query, self.engine.statistics(query))

    def statistics_many(self, queries: Sequence[Query]) -> list[tuple[int, ...] | BadTable]:
        return read_each(self, queries)  # type: ignore[arg-type]

    def _seen(self, query: Query, values: tuple[int, ...]) -> tuple[int, ...]:
        if self.empty_only and 0 in values:
            raise BadTable("the group is empty")
        if not self.empty_only and query.parts[0].function is Function.SUM:
            raise BadTable(f"cannot convert {values[0]}")
        return values


def _loud(empty_only: bool) -> Plant:
    return lambda account: plant_bug(account.context, "engine", LoudEngine(account.engine, empty_only))


PLANTS: dict[str, Plant] = {
    "a price that looks at the data": _peeking_price,
    "an engine error that quotes a value": _loud(empty_only=False),
    "an error for empty groups": _loud(empty_only=True),
}


# -- the row ---------------------------------------------------------------------------------------


def data_independence(share: float) -> Finding:
    """150 sequences of 60 requests on swapped tables, and as many on neighbours, at full share."""
    sequences, length = max(4, round(150 * share)), 60 if share >= 0.1 else 40
    honest = {name: _run(run, sequences, length, nullcontext) for name, run in EXPERIMENTS.items()}
    few = max(2, round(20 * share))
    exact = _run(neighbours, few, length, nullcontext, partial(two_crowds, size=COUNTED), ("replace-one",))
    planted = {
        f"{bug} ({found} differences)": found > 0
        for bug, plant in PLANTS.items()
        for found in [sum(_run(run, few, length, plant) for run in EXPERIMENTS.values())]
    }
    planted[f"the number of rows for a cap, where people have several ({exact} differences)"] = exact > 0
    return Finding(
        row="cost, case or error depends on data",
        tried=f"{sequences:,} sequences of {length} requests on swapped tables, as many on neighbours, half of them "
        f"with people of several rows; {few} of each on every planted bug",
        figure=", ".join(f"{found} differences on {name}" for name, found in honest.items()),
        violations=sum(honest.values()),
        planted=planted,
        note="looks, HAVING and ORDER BY on swapped tables; "
        "answers, quotes, errors, receipts, ledger and public facts compared; "
        "nothing statistical",
    )


EXPERIMENTS = {"swapped tables": swapped, "neighbours": neighbours}


def _run(
    experiment: Callable[..., int],
    sequences: int,
    length: int,
    plant: Plant,
    drawn: Callable[..., list[Path]] | None = None,
    relations: Sequence[str] = ("replace-one", "add-remove"),
) -> int:
    """Tables of rows and of people with several rows in turn, unless one kind is `drawn`."""
    found, progress = 0, Progress(f"sequences, {experiment.__name__}", sequences)
    for seed in range(sequences):
        progress(seed)
        random = workload_rng(seed)
        relation = relations[seed % len(relations)]
        draw_two = drawn or (two_tables, two_crowds)[seed // 2 % 2]
        with TemporaryDirectory() as folder:
            tables = draw_two(Path(folder), random, relation, near=experiment is neighbours)
            asked = requests(random, length, follows=experiment is swapped)
            found += experiment(Path(folder), asked, tables, plant)
    return found


def _peek(account: Account, query: Query) -> tuple[int, ...]:
    return account.engine.statistics(query) if query.by else (account.engine.statistic(query),)
