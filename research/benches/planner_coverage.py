"""How often truths lie in the stated intervals, over fresh banks: five kinds of questions, through the bank's door.

Each bank answers all of them, partly from looks and from each other. Errors inside of one bank share noise, so scores
are averaged by bank first.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from noisebank.account.account import Account
from noisebank.bank.bank import create_bank, open_bank
from noisebank.core.entropy import workload_rng
from noisebank.core.intervals import normal_quantile

KINDS = ("sets of keys", "ranges", "prefixes", "groups", "sums")
BINS, TOWNS, JOBS = 64, ("north", "south", "east", "west"), ("baker", "smith", "clerk")
POLICY = f"""\
name = "people"
source = "people.csv"
neighbours = "add-remove"
row_cap = 10000
cubes = [["town", "job"], ["age"]]
[budget]
epsilon = 20
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, {BINS - 1}]
bins = {list(range(1, BINS))}
[columns.town]
type = "text"
keys = {list(TOWNS)}
complete = true
[columns.job]
type = "text"
keys = {list(JOBS)}
[columns.income]
type = "integer"
bounds = [0, 100]
""".replace("'", '"')
OpenAccount = Callable[[Path], AbstractContextManager[Account]]
"""Opens the policy at a path in a fresh bank."""


def write_people(folder: Path) -> Path:
    """Writes the table and its policy; returns the policy's path."""
    pick = workload_rng(11)
    rows = [
        f"{pick.randrange(BINS)},{pick.choice(TOWNS)},{pick.choice([*JOBS, 'none'])},{pick.randrange(101)}"
        for _ in range(2_000)
    ]
    (folder / "people.csv").write_text("\n".join(["age,town,job,income", *rows]) + "\n")
    (folder / "people.toml").write_text(POLICY)
    return folder / "people.toml"


def make_question(kind: str, pick: Random) -> str:
    """Returns a random question of a kind."""
    towns, jobs = (pick.sample(keys, pick.randint(1, len(keys) - 1)) for keys in (TOWNS, JOBS))
    among = f"town IN ({', '.join(map(repr, towns))})"
    low, high = sorted(pick.sample(range(BINS), 2))
    return {
        "sets of keys": f"SELECT COUNT(*) FROM people WHERE {among} AND job IN ({', '.join(map(repr, jobs))})",
        "ranges": f"SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {high}",
        "prefixes": f"SELECT COUNT(*) FROM people WHERE age <= {high}",
        "groups": f"SELECT job, COUNT(*) FROM people WHERE {among} GROUP BY job",
        "sums": f"SELECT SUM(income) FROM people WHERE {among}",
    }[kind]


def score_bank(account: Account, pick: Random, count: int) -> dict[str, list[float]]:
    """Returns the errors of a bank's answers by kind, in stated standard deviations. Kinds are asked mixed."""
    scores: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for kind in pick.sample([kind for kind in KINDS for _ in range(count)], count * len(KINDS)):
        sql = make_question(kind, pick)
        query = account.parse(sql).query
        truths = account.engine.statistics(query) if query.by else (account.engine.statistic(query),)
        result = account.ask(sql, sigma=pick.choice([15, 20, 30]) * (50 if kind == "sums" else 1))
        for row, truth in zip(result.rows, truths, strict=True):
            (estimate,) = row.estimates
            assert estimate.value is not None and estimate.stddev
            scores[kind].append((estimate.value - truth) / estimate.stddev)
    return scores


def cover_banks(count: int, questions: int = 8, open_account: OpenAccount | None = None) -> dict[str, Any]:
    """Returns for each kind the share of truths in 95% intervals, and the mean square of the scores (1 is right)."""
    opener, banks = open_account or _open_on_disk, []
    with tempfile.TemporaryDirectory() as folder:
        path = write_people(Path(folder))
        for seed in range(count):
            with opener(path) as account:
                banks.append(score_bank(account, workload_rng(100 + seed), questions))
    found: dict[str, Any] = {"banks": count}
    for kind in KINDS:
        found[kind] = _summarize([scores[kind] for scores in banks])
    found["all"] = _summarize([[score for kind in KINDS for score in scores[kind]] for scores in banks])
    return found


def _summarize(banks: Sequence[Sequence[float]]) -> dict[str, float]:
    inside = [np.mean(np.abs(scores) <= normal_quantile(0.95)) for scores in banks]
    squares = [np.mean(np.square(scores)) for scores in banks]
    return {
        "answers": float(sum(map(len, banks))),
        "covered_95": round(float(np.mean(inside)), 4),
        "error_of_covered": round(float(np.std(inside, ddof=1) / len(banks) ** 0.5), 4),
        "mean_square": round(float(np.mean(squares)), 4),
        "error_of_mean_square": round(float(np.std(squares, ddof=1) / len(banks) ** 0.5), 4),
    }


@contextmanager
def _open_on_disk(policy: Path) -> Iterator[Account]:
    with tempfile.TemporaryDirectory() as folder, open_bank(create_bank(Path(folder) / "bank")) as bank:
        yield bank.open_account(policy)
