"""Averaging blurs: 50 descending requests over one good answer must not add up to it.

The base answer has sd 1, the requests 3.50, 3.49, ... 3.01. By the paper's rule each blur is a
fresh one and their best combination has sd 1.09. On a bridge any combination has at least 3.01,
and Cov(y_i, y_j) = min(s_i, s_j). All tests are two-sided chi-squares with a known mean; a correct
bank fails each with probability 1e-8.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.special import chdtr, chdtrc, ndtri

from assurance.mu_audit import PEOPLE, POLICY, most_units, question_number, rich_account
from assurance.planting import plant_bug
from assurance.report import Finding, Progress, worker_count
from noisebank import Account, Precision
from support.internals import BridgePoint, Case, NormalLaw, bridge_law
from support.patience import patience

BASE = Fraction(1)
REQUESTS = tuple(Fraction(350 - step, 100) for step in range(50))
PROMISED = float(REQUESTS[-1])
FALSE_ALARM = 1e-8
PER_ACCOUNT = 100


# -- the attack ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attack:
    """Repetitions of the attack, one after the other or all at once, perhaps against a planted bug."""

    repetitions: int
    at_once: bool = False
    plant: str = ""


def errors(attack: Attack) -> np.ndarray:
    """One row a repetition: the error of the base answer, then of the 50 blurs in the order of their sigmas."""
    rows = np.empty((attack.repetitions, 1 + len(REQUESTS)))
    with TemporaryDirectory() as folder, ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(len(REQUESTS)))
        stack.enter_context(PLANTS[attack.plant]())
        progress = Progress(f"{'at once' if attack.at_once else 'in order'}, {attack.plant or 'as it is'}", len(rows))
        for repetition in range(attack.repetitions):
            progress(repetition)
            if repetition % PER_ACCOUNT == 0:
                lines = ("place,room,income", "0,0,0", "0,0,0", PEOPLE[1])
                account = rich_account(Path(folder), POLICY, lines)
                account.ledger.set_limit(account.id, account.analyst("eve"), most_units(account))
            sql, _ = question_number("count", 2 * repetition)
            rows[repetition] = _one(account, sql, pool if attack.at_once else None)
    return rows - 1.0  # the true count


def _one(account: Account, sql: str, pool: ThreadPoolExecutor | None) -> list[float]:
    base = account.ask(sql, sigma=BASE)

    def blurred(sigma: Fraction) -> float:
        answer = account.ask(sql, sigma=sigma, analyst="eve")
        assert answer.case is Case.BLUR and not answer.cost
        return float(answer.exact)

    return [float(base.exact), *(pool.map(blurred, REQUESTS) if pool else map(blurred, REQUESTS))]


# -- what it finds ---------------------------------------------------------------------------------


def variances() -> np.ndarray:
    """s = sigma^2 of the base and of the 50 requests."""
    return np.array([float(BASE) ** 2, *(float(sigma) ** 2 for sigma in REQUESTS)])


def promised_covariance() -> np.ndarray:
    """min(s_i, s_j)."""
    s = variances()
    return np.minimum.outer(s, s)


def combinations() -> dict[str, np.ndarray]:
    """Weights over the 50 blurs: what an analyst would try."""
    s = variances()[1:]
    weights = {
        "best under the paper's rule": np.ones((50, 50)) * float(BASE) ** 2 + np.diag(s - float(BASE) ** 2),
        "best under the bridge": np.minimum.outer(s, s),
    }
    found = {name: np.linalg.solve(covariance, np.ones(50)) for name, covariance in weights.items()}
    return {name: w / w.sum() for name, w in found.items()} | {"plain average": np.full(50, 1 / 50)}


def spread(rows: np.ndarray, weights: np.ndarray) -> float:
    """The sd of a combination of the 50 blurs; its mean is known to be 0."""
    return float(np.sqrt(np.mean((rows[:, 1:] @ weights) ** 2)))


def failures(rows: np.ndarray) -> list[str]:
    """The tests that the errors fail."""
    failed = []
    promised = promised_covariance()
    count = len(rows)
    for name, weights in combinations().items():
        variance = weights @ promised[1:, 1:] @ weights
        if not _fits(count * spread(rows, weights) ** 2 / variance, count):
            failed.append(f"{name} has sd {spread(rows, weights):.2f}, not {variance**0.5:.2f}")
    white = np.linalg.solve(np.linalg.cholesky(promised), rows.T)
    if not _fits(float((white**2).sum()), white.size):
        failed.append(f"the joint law is off: {(white**2).mean():.3f}, not 1")
    if covariance_error(rows) > ndtri(1 - FALSE_ALARM / promised.size):
        failed.append(f"a covariance is off by {covariance_error(rows):.1f} standard errors")
    return failed


def covariance_error(rows: np.ndarray) -> float:
    """The largest difference between Cov(y_i, y_j) and min(s_i, s_j), in standard errors."""
    promised = promised_covariance()
    diagonal = np.diag(promised)
    error = np.sqrt((promised**2 + np.outer(diagonal, diagonal)) / len(rows))
    return float(np.abs((rows.T @ rows / len(rows) - promised) / error)[np.triu_indices(len(promised), 1)].max())


def _fits(statistic: float, freedom: int) -> bool:
    return min(chdtr(freedom, statistic), chdtrc(freedom, statistic)) > FALSE_ALARM / 2


# -- planted bugs ----------------------------------------------------------------------------------


def paper_rule(wanted: Precision, sensitivity: Fraction, points: Sequence[BridgePoint]) -> NormalLaw:
    """P0's case 2C: fresh noise on the answer just better."""
    better = min((point for point in points if point.precision > wanted), key=lambda point: point.precision)
    return NormalLaw(better.value.exact, sensitivity**2 * (1 / wanted.exact - 1 / better.precision.exact))


@contextmanager
def _stale_neighbours() -> Iterator[None]:
    """No turns: all fifty look at the same released answers before any of them is sealed."""
    barrier = threading.Barrier(len(REQUESTS))

    def late(wanted: Precision, sensitivity: Fraction, points: Sequence[BridgePoint]) -> NormalLaw:
        law = bridge_law(wanted, sensitivity, points)
        barrier.wait(patience())
        return law

    with (
        plant_bug("noisebank.account.plain", "bridge_law", late),
        plant_bug("noisebank.account.pipeline", "hold_locks", lambda *_: nullcontext()),
    ):
        yield


def _paper() -> AbstractContextManager[object]:
    return plant_bug("noisebank.account.plain", "bridge_law", paper_rule)


PLANTS = {"": nullcontext, "the paper's rule": _paper, "blurs from stale neighbours": _stale_neighbours}


# -- the row ---------------------------------------------------------------------------------------


def blur_attack(share: float) -> Finding:
    """2,000 attacks one after the other and 500 with 50 threads at full share; 200 on each planted bug."""
    one_by_one = Attack(max(16, round(1_000 * share)))
    at_once = Attack(max(8, round(500 * share)), at_once=True)
    bugs = [
        Attack(max(8, round(200 * share)), plant="the paper's rule"),
        Attack(max(8, round(200 * share)), at_once=True, plant="blurs from stale neighbours"),
    ]
    attacks = [one_by_one, one_by_one, at_once, *bugs] if share > 0.1 else [one_by_one, at_once, *bugs]
    found = _all(attacks, parallel=share > 0.1)
    in_order = np.concatenate(found[: len(attacks) - 3])
    together = found[-3]
    failed = failures(in_order) + failures(together)
    planted = {}
    for bug, rows in zip(bugs, found[-2:], strict=True):
        reached = min(spread(rows, weights) for weights in combinations().values())
        planted[f"{bug.plant} (sd {reached:.2f})"] = bool(failures(rows)) and (len(rows) < 50 or reached < 2)
    figures = [
        f"{label}: "
        + ", ".join(f"{name} {spread(rows, weights):.3f}" for name, weights in combinations().items())
        + f"; covariances within {covariance_error(rows):.1f} standard errors"
        for label, rows in (("one after the other", in_order), ("all at once", together))
    ]
    return Finding(
        row="averaging blurs leaks more than the best of them",
        tried=f"{len(in_order):,} attacks of 50 requests one after the other, {len(together):,} with 50 threads; "
        f"{bugs[0].repetitions} on each planted bug",
        figure=f"sd {spread(in_order, combinations()['best under the bridge']):.3f}, promised {PROMISED:.2f}. "
        + ". ".join(figures),
        violations=len(failed),
        planted=planted,
        note="; ".join(failed) or "false alarm 1e-8 for each of 10 tests",
    )


def _all(attacks: list[Attack], parallel: bool) -> list[np.ndarray]:
    if not parallel:
        return [errors(attack) for attack in attacks]
    with ProcessPoolExecutor(max_workers=worker_count(), mp_context=get_context("spawn")) as pool:
        return list(pool.map(errors, attacks))
