"""The ledger of requests with looks tells neighbours apart no better than their looks are paid to.

Two tables differ by one person in each of many cells, and each request is about one cell: so each is a trial on
neighbours. A distinguisher reads the precisions on the public ledger and nothing else. It learns on half of the
trials which course is more frequent on the second table, and is tested on the others (Clopper-Pearson). What it shows
must stay below the square root of the precision of the looks, the number of docs/proofs/looks.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from scipy.special import betaincinv, ndtri

from assurance.planting import plant_bug
from assurance.report import Finding, Progress
from noisebank import Account, Precision
from noisebank.account import coarse_looks as looking
from support.banks import memory_account
from support.internals import AccountContext, Answer, BatchItem, CoarseLookCounter, LookedRequest, Question

CELLS, COUNT = 40, 64
"""Cells of a table, and people in each of them on the first table: on the second there is one more in each."""
SPARE = CELLS
"""Where those people stand on the first table, if one takes another's place."""
CAP = 4_000
BUDGET = Precision(20_000 * 10**18)
SQL = "SELECT SQRT(COUNT(*)) AS root FROM people WHERE cell = {}"
PRECISELY = {"sigma": Fraction(3, 10)}
"""What somebody else knows of each cell already, in half of the runs."""
CONFIDENCE = 0.9999
RELATIONS = ("add-remove", "replace-one")
MOST = Fraction(3, 10)
CLAIMED = sqrt(MOST)
"""How well one request may tell neighbours apart: what follows a look above `MOST` is left out, as an account does with
looks beyond its own limit. So the number is the same for all requests."""
Course = tuple[str, ...]
"""The target precisions of one request, as they stand on the ledger."""
READERS: tuple[Callable[[Course], object], ...] = (lambda course: course, len)
"""What a reader may compare: all of it, or how many steps there were."""
Plant = Callable[[], AbstractContextManager[object]]


@dataclass
class Trials:
    """What a reader of the ledger has seen of each table."""

    courses: tuple[list[Course], list[Course]] = field(default_factory=lambda: ([], []))

    def lower_bound(self) -> float:
        """A lower confidence bound on how well the ledger of one request tells the tables apart, to some reader."""
        return max(self._bound_of(read) for read in READERS)

    def _bound_of(self, read: Callable[[Course], object]) -> float:
        half = len(self.courses[0]) // 2
        seen = [[read(course) for course in courses] for courses in self.courses]
        one, other = (Counter(courses[:half]) for courses in seen)
        says_second = {course for course in one | other if other[course] > one[course]}
        n = len(seen[0]) - half
        wrongly = sum(course in says_second for course in seen[0][half:])
        missed = sum(course not in says_second for course in seen[1][half:])
        return float(ndtri(1 - _upper(wrongly, n)) - ndtri(_upper(missed, n)))


def _upper(count: int, n: int) -> float:
    return float(betaincinv(count + 1, n - count, 1 - (1 - CONFIDENCE) / 2 / len(READERS))) if count < n else 1.0


# -- the trials --------------------------------------------------------------------------------------


def two_accounts(folder: Path, relation: str) -> list[Account]:
    """Neighbours in every cell."""
    accounts = []
    for side in range(2):
        sizes = [COUNT + side] * CELLS + [(1 - side) * CELLS if relation == "replace-one" else 0]
        lines = ["cell", *(str(cell) for cell, size in enumerate(sizes) for _ in range(size))]
        home = folder / str(side)
        home.mkdir(parents=True)
        (home / "people.csv").write_text("\n".join(lines) + "\n")
        size = f"rows = {len(lines) - 1}" if relation == "replace-one" else f"row_cap = {CAP}"
        (home / "people.toml").write_text(
            f'name = "people"\nsource = "people.csv"\nneighbours = "{relation}"\n{size}\nraise_delay_hours = 0\n'
            f'[budget]\nepsilon = 100\ndelta = 0.5\n[columns.cell]\ntype = "integer"\nbounds = [0, {SPARE}]\n'
        )
        account = memory_account(home / "people.toml")
        account.ledger.propose_raise(account.id, BUDGET.units)  # before any answer: it is fixed
        account.ledger.finish_raise(account.id)
        accounts.append(account)
    return accounts


def play(trials: Trials, folder: Path, relation: str, within: Fraction, is_known: bool, plant: Plant) -> None:
    """One request per cell and table; where `is_known`, after somebody's precise answer."""
    with plant():
        for side, account in enumerate(two_accounts(folder, relation)):
            for cell in range(CELLS):
                if is_known:
                    account.ask(f"SELECT COUNT(*) FROM people WHERE cell = {cell}", **PRECISELY)
                before = account.ledger.books.count_reservations(account.id)
                account.ask(SQL.format(cell), within=within, key=f"cell {cell}")
                entries = account.ledger.books.page_reservations(account.id, before, before + 10)
                assert _is_look(account, entries[0].id), "every request here begins with a look"
                course = []
                for entry in entries:
                    course.append(str(entry.target))
                    if _is_look(account, entry.id) and entry.target.exact > MOST:
                        break
                trials.courses[side].append(tuple(course))


def _is_look(account: Account, id: bytes) -> bool:
    request = account.vault.find_request(id)
    return request is not None and " / look " in request.key


def run(runs: int, within: Fraction, bug: str = "") -> Trials:
    """Both neighbourhoods, with and without a precise answer that is known before. A bug in one that shows it best."""
    plant, known = PLANTS[bug] if bug else nullcontext, (True,) if "known" in bug else (False, True)
    relations = RELATIONS[:1] if bug else RELATIONS
    trials, progress = Trials(), Progress("ledgers of looks", runs)
    with TemporaryDirectory() as folder:
        for number in range(runs):
            relation, is_known = relations[number % len(relations)], known[number // 2 % len(known)]
            play(trials, Path(folder) / str(number), relation, within, is_known, plant)
            progress(number + 1)
    return trials


# -- planted bugs ------------------------------------------------------------------------------------

Decide = Callable[[AccountContext, Question, Answer], Fraction]
"""Returns, for a part of a look, the value that decides what comes next."""


@contextmanager
def deciding_by(value_of: Decide) -> Iterator[None]:
    """A bank where other values than the look's own decide."""
    real = looking.plan_step

    def plan_step(context: AccountContext, request: LookedRequest, number: int) -> BatchItem | None:
        answers = request.item.answers
        if not request.has_ended and request.item.error is None:
            request.item.answers = [
                replace(answer, exact=value, value=float(value))
                for answer, (question, _) in zip(answers, request.item.questions, strict=True)
                for value in [value_of(context, question, answer)]
            ]
        try:
            return real(context, request, number)
        finally:
            request.item.answers = answers

    with plant_bug("noisebank.account.coarse_looks", "plan_step", plan_step):
        yield


def true_value(context: AccountContext, question: Question, answer: Answer) -> Fraction:
    return context.engine.statistic(question.query) * question.unit  # type: ignore[attr-defined, no-any-return]


def best_known(context: AccountContext, question: Question, answer: Answer) -> Fraction:
    """The finest answer to the question, whoever has it: not the look's own."""
    released = context.vault.list_released(context.id, context.secrets.salted_query(question.query))
    return released[-1][1][0].exact * question.unit


@contextmanager
def following_up() -> Iterator[None]:
    """A bank that measures small groups once more, after their last answer."""
    real = looking.take_step

    def take_step(context: AccountContext, request: LookedRequest, item: BatchItem) -> None:
        real(context, request, item)
        if request.is_final and all(answer.value < COUNT + 0.5 for answer in item.answers):
            request.has_ended = request.is_final = False
            request.key = f"{request.key} again"

    with (
        patch.object(looking, "MAX_LOOKS", 3),  # one round more
        plant_bug("noisebank.account.coarse_looks", "take_step", take_step),
        plant_bug(CoarseLookCounter, "may_follow", lambda *_: True),
    ):
        yield


FOLLOWED = "a last answer is followed"
PLANTS: dict[str, Plant] = {
    "growth follows the true value": lambda: deciding_by(true_value),
    "growth follows the finest answer that is known": lambda: deciding_by(best_known),
    FOLLOWED: following_up,
}


def find_threshold(plant: Plant) -> Fraction:
    """A distance at which the true values of the two tables call for different precisions."""
    with TemporaryDirectory() as folder, plant():
        accounts = two_accounts(Path(folder), "add-remove")
        for cell, step in enumerate(range(100)):
            within = Fraction(round(0.1 * 1.012**step * 10_000), 10_000)
            targets = [
                [part.target for part in account.ask(SQL.format(cell % CELLS), within=within).parts]
                for account in accounts
            ]
            if targets[0] != targets[1]:
                return within
    raise AssertionError("no distance tells the true values apart")


# -- the row -----------------------------------------------------------------------------------------


def look_ledger(share: float = 1.0) -> Finding:
    """200 pairs of tables with 40 requests each at full share; 20 or 120 on each planted bug."""
    runs, few = max(4, 4 * round(50 * share)), max(2, 2 * round(10 * share))
    within = find_threshold(PLANTS["growth follows the true value"])
    found = run(runs, within)
    told = found.lower_bound()
    planted = {}
    for bug in PLANTS:
        if bug == FOLLOWED and share < 0.05:  # in every run: tests/unit/account/test_coarse_look_counter.py
            continue
        trials = run(6 * few if bug == FOLLOWED else few, within, bug)  # what it gives away is noisy
        bound = trials.lower_bound()
        planted[f"{bug} (told apart by {bound:.2f}, {CLAIMED:.2f} claimed)"] = bound > CLAIMED
    lengths = Counter(len(course) for courses in found.courses for course in courses)
    return Finding(
        row="the ledger says more of a table than its looks do",
        tried=f"{sum(map(len, found.courses)):,} requests about cells of neighbouring tables, at least "
        f"{few * CELLS * 2:,} on every planted bug",
        figure=f"told apart by at least {max(0.0, told):.2f}, {CLAIMED:.2f} claimed",
        violations=int(told > CLAIMED),
        planted=planted,
        note=f"precisions on the ledger only; both neighbourhoods; {min(lengths) - 1} to {max(lengths) - 1} looks per "
        f"request; half of the cells known precisely before; confidence {CONFIDENCE}",
    )
