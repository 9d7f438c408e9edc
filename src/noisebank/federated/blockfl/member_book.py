"""`MemberBook`: a member's own database with its one budget, the tasks charged to it, and every model it made.

It is in the member's folder because a chain is somebody else's: its keeper may roll it back, and every poster may name
another budget ledger. A charge is written here before the ledger hears of it, and a model before anybody does; a sealed
model is always sent as the same bytes, whatever crashed in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from noisebank.core.durability import fsync_path, open_database, translate_errors
from noisebank.core.errors import BadRequest, BudgetExhausted, Refused
from noisebank.core.units import Exact, Precision, parse_exact
from noisebank.privacy.calibration import check_epsilon

BOOK_FILE = "trainings.sqlite"
DELTA_RANGE = (Fraction(1, 10**15), Fraction(1, 10))
"""Smallest and largest delta of a member's budget."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS budget (one INTEGER PRIMARY KEY CHECK (one = 1), epsilon TEXT NOT NULL,
    delta TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS charges (task TEXT PRIMARY KEY, work TEXT NOT NULL, units TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS sizes (task TEXT PRIMARY KEY, examples INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS models (task TEXT NOT NULL, round INTEGER NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (task, round)) STRICT
"""


@dataclass(frozen=True, slots=True)
class Budget:
    """What all tasks together may cost one example: (epsilon, delta) by basic composition.

    A task of (e, d) is priced max(e, d epsilon/delta), one number that bounds both: if the prices add up to at most
    epsilon, so do the e, and the d add up to at most delta. Proof: docs/explanation/crowd.md.

    >>> Budget(Fraction(2), Fraction(1, 10**4)).price(Fraction(1), Fraction(1, 10**5))
    Precision(units=1000000000000000000)
    >>> Budget(Fraction(2), Fraction(1, 10**4)).price(Fraction(1), Fraction(1, 10**4))
    Precision(units=2000000000000000000)
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if not DELTA_RANGE[0] <= self.delta <= DELTA_RANGE[1]:
            raise BadRequest("budget's delta", str(self.delta)[:40], "must lie in 1e-15 .. 0.1")

    @property
    def total_precision(self) -> Precision:
        """The whole budget, rounded down."""
        return Precision.floor(self.epsilon)

    def price(self, epsilon: Fraction, delta: Fraction) -> Precision:
        """Return the cost of a task of (epsilon, delta), rounded up."""
        return Precision.ceil(max(epsilon, delta * self.epsilon / self.delta))


class MemberBook:
    """Durable on return, whatever the method. Safe for several processes of one member."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self._database = open_database(folder / BOOK_FILE, SCHEMA)
        fsync_path(folder)

    @property
    def budget(self) -> Budget | None:
        """The budget that the member has set; None before that."""
        with translate_errors(self._database):
            for epsilon, delta in self._database.execute("SELECT epsilon, delta FROM budget"):
                return Budget(Fraction(str(epsilon)), Fraction(str(delta)))
        return None

    @property
    def spent_precision(self) -> Precision:
        """Cost of all charged tasks."""
        with translate_errors(self._database):
            rows = self._database.execute("SELECT units FROM charges").fetchall()
            return Precision(sum(int(str(units)) for (units,) in rows))

    def set_budget(self, epsilon: Exact, delta: Exact) -> Budget:
        """Set the budget once. The same again changes nothing, another one is refused: a budget is never raised."""
        budget = Budget(parse_exact(epsilon, "budget"), parse_exact(delta, "budget's delta"))
        with self._write_transaction():
            self._database.execute(
                "INSERT OR IGNORE INTO budget VALUES (1, ?, ?)", (str(budget.epsilon), str(budget.delta))
            )
        stored = self.budget
        if stored != budget:
            text = _format_budget(stored)
            raise BadRequest("budget", f"{epsilon}, {delta}", f"this member's budget is {text} and stays it")
        return budget

    def charge_task(self, task: bytes, work: bytes, epsilon: Fraction, delta: Fraction) -> Precision:
        """Charge a task once, for this work (digest of terms and rounds). On refusal nothing is spent."""
        budget = self.budget
        if budget is None:
            raise BadRequest("budget", "none", "this member has no budget for trainings yet: say --budget")
        price = budget.price(epsilon, delta)
        with self._write_transaction():
            known = self.find_charged_work(task)
            if known is None:
                left = max(0, budget.total_precision.units - self.spent_precision.units)
                if price.units > left:
                    raise BudgetExhausted(price, Precision(left), budget.total_precision)
                self._database.execute(
                    "INSERT INTO charges VALUES (?, ?, ?)", (task.hex(), work.hex(), str(price.units))
                )
        if known is not None and known != work:
            raise Refused("this task was charged under other terms; a charge pays for what it was made for")
        return price

    def find_charged_work(self, task: bytes) -> bytes | None:
        """Return the work that a task was charged for; None if it was not charged."""
        with translate_errors(self._database):
            for (work,) in self._database.execute("SELECT work FROM charges WHERE task = ?", (task.hex(),)):
                return bytes.fromhex(str(work))
        return None

    def adopt_charge(self, account: bytes, charge_id: bytes, charged: Precision) -> None:
        """Count a charge that a ledger shows and this book did not make: the book was lost, or the key copied."""
        with self._write_transaction():
            name = f"on the ledger: {account.hex()} {charge_id.hex()}"
            self._database.execute("INSERT OR IGNORE INTO charges VALUES (?, '', ?)", (name, str(charged.units)))

    @property
    def charged_tasks(self) -> list[bytes]:
        """Tasks that this book has charged."""
        with translate_errors(self._database):
            rows = self._database.execute("SELECT task FROM charges WHERE work <> ''").fetchall()
            return [bytes.fromhex(str(task)) for (task,) in rows]

    def fix_example_count(self, task: bytes, examples: int) -> None:
        """Fix the number of examples of a task, for which its noise is sized; `Refused` if it was another one."""
        with self._write_transaction():
            self._database.execute("INSERT OR IGNORE INTO sizes VALUES (?, ?)", (task.hex(), examples))
        with translate_errors(self._database):
            ((stored,),) = self._database.execute("SELECT examples FROM sizes WHERE task = ?", (task.hex(),))
        if stored != examples:
            raise Refused(f"this task was begun with {stored} examples, and goes on with no other number")

    def find_model(self, task: bytes, round: int) -> bytes | None:
        """Return the sealed model of a round; None if there is none."""
        with translate_errors(self._database):
            for (content,) in self._database.execute(
                "SELECT content FROM models WHERE task = ? AND round = ?", (task.hex(), round)
            ):
                return bytes(content)
        return None

    def seal_model(self, task: bytes, round: int, content: bytes) -> bytes:
        """Seal a model for ever; return the one that may leave: this, or the first that was sealed for the round."""
        with self._write_transaction():
            self._database.execute("INSERT OR IGNORE INTO models VALUES (?, ?, ?)", (task.hex(), round, content))
        sealed = self.find_model(task, round)
        assert sealed is not None
        return sealed

    def close(self) -> None:
        """Close the database; everything is on disk already."""
        self._database.close()

    @contextmanager
    def _write_transaction(self) -> Iterator[None]:
        """Run one write transaction. One writer at a time, also among processes: what is checked inside still holds."""
        with translate_errors(self._database):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")


def _format_budget(budget: Budget | None) -> str:
    return "none" if budget is None else f"({float(budget.epsilon):g}, {float(budget.delta):g})"
