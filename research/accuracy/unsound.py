"""NOT PRIVATE: looks at the true answer to choose its epsilon, then publishes that epsilon.

Algorithms 1 to 3 of P3 (Islam, Rehmani, Chen: "An Optimized Privacy-Utility Trade-off Framework
for Differentially Private Data Sharing in Blockchain-based Internet of Things", OPU-TF-IoT), kept
as a baseline to compare with. Nothing in the bank imports this module.

Why it is not private: the epsilon that just meets the accuracy asked for is 1/(Y (1 - A - tau)),
a function of the true answer Y without any noise, and the ledger shows it. `recover_count` reads Y
off. Skipping a query because its true relative error is too large gives Y away as well.

Two repairs, without which Algorithm 1 does nothing or never ends: as printed its inner loop
(lines 16 to 18) lowers epsilon but never computes the actual accuracy again, and its outer
condition `eps_t <= eps_def` (line 1) is inverted, so that it would answer only while the budget is too
small. One gap: the paper does not say what happens when epsilon reaches zero; here the query is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Accuracy = Callable[[NDArray[np.float64], float], NDArray[np.float64]]
    """The actual accuracy A_act at each of these epsilons, for this true answer."""

REQUIRED = (0.99, 0.98, 0.96, 0.96, 0.95, 0.93, 0.99, 0.98, 0.95, 0.97)
KINDS = (1, 1, 1, 1, 1, 0, 0, 0, 0, 0)
"""Required accuracy and type N of the paper's ten data users."""
DRAWS = 1000
"""Noise values over which the paper averages A_act."""
DEFAULT_STEP, ETA_FACTOR, MOST_DEFAULT = 0.1, 0.1, 1.0
"""How Algorithm 2 moves: "increase eps_def, decrease eta" with no amounts given; the paper's own grids."""
SLACK = 1e-12
"""Boundary cases count as within tolerance; floats miss them by a few 1e-16."""


@dataclass(frozen=True, slots=True)
class Asked:
    """P3's query: required accuracy, function and type N, with the true answer that the curator sees.

    Sensitivity 1 for every function, as in the paper (wrong for averages, maxima and minima).
    """

    required: float
    function: str
    kind: int
    value: float

    @property
    def key(self) -> tuple[float, str, int]:
        """Algorithm 3's key. It does not name the query: different questions share it."""
        return (self.required, self.function, self.kind)


@dataclass(frozen=True, slots=True)
class Settings:
    """Default epsilon, decrement eta, tolerance tau, and the total budget."""

    eps_def: float = 0.5
    eta: float = 0.0005
    tau: float = 0.02
    total: float = 8.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What one data user got. `epsilon` is on the ledger; None for a query that was skipped."""

    epsilon: float | None
    answer: float | None
    reused: bool = False

    @property
    def satisfied(self) -> bool:
        """In the paper's sense: answered, from the data or from the ledger."""
        return self.answer is not None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One execution of Algorithm 1."""

    settings: Settings
    replies: tuple[Reply, ...]

    @property
    def total(self) -> float:
        """The paper's total privacy budget: the sum of what the ledger shows."""
        return sum(reply.epsilon for reply in self.replies if reply.epsilon is not None and not reply.reused)

    @property
    def satisfied(self) -> int:
        """Number of satisfied data users."""
        return sum(reply.satisfied for reply in self.replies)


def ten_users(function: str, part: float, whole: float) -> tuple[Asked, ...]:
    """The paper's data users, with the true answers of type N = 1 (a part of the table) and N = 0."""
    pairs = zip(REQUIRED, KINDS, strict=True)
    return tuple(Asked(required, function, kind, part if kind else whole) for required, kind in pairs)


def expected_accuracy(epsilons: NDArray[np.float64], value: float) -> NDArray[np.float64]:
    """1 - E|noise|/Y, with E|Laplace(1/epsilon)| = 1/epsilon."""
    return 1.0 - 1.0 / (epsilons * value)


def drawn_accuracy(generator: np.random.Generator) -> Accuracy:
    """The paper's form: the mean over 1000 noise values, drawn anew at each epsilon.

    The mean of 1000 |Laplace(1)| is Gamma(1000)/1000 exactly, so one draw stands for the thousand.
    """

    def accuracy(epsilons: NDArray[np.float64], value: float) -> NDArray[np.float64]:
        return 1.0 - generator.gamma(DRAWS, size=epsilons.shape) / DRAWS / (epsilons * value)

    return accuracy


def suitable_epsilon(asked: Asked, settings: Settings, accuracy: Accuracy = expected_accuracy) -> float | None:
    """Lines 4 to 18 of Algorithm 1, repaired: lower epsilon in steps of eta until |A_act - A_req| <= tau.

    None if the query is skipped: the default is not accurate enough, or no step meets the
    tolerance (a coarse eta jumps over it).
    """
    default = np.array([settings.eps_def])
    actual = accuracy(default, asked.value)
    if _within(actual, asked, settings)[0]:
        return settings.eps_def
    if actual[0] < asked.required:
        return None
    steps = ceil(settings.eps_def / settings.eta - 0.5)  # those that leave epsilon above zero
    epsilons = settings.eps_def - settings.eta * np.arange(1, steps, dtype=np.float64)
    met = np.flatnonzero(_within(accuracy(epsilons, asked.value), asked, settings))
    return float(epsilons[met[0]]) if met.size else None


def search(
    users: Sequence[Asked],
    settings: Settings,
    noise: np.random.Generator,
    accuracy: Accuracy = expected_accuracy,
) -> Outcome:
    """Algorithm 1 for all data users, with the ledger of Algorithm 3.

    A query whose (accuracy, function, type) is on the ledger gets the recorded answer, even if it asks
    about other people: that is a wrong answer, not a saving.
    """
    left, ledger, replies = settings.total, dict[tuple[float, str, int], Reply](), list[Reply]()
    for asked in users:
        if asked.key in ledger:  # Algorithm 3
            replies.append(replace(ledger[asked.key], reused=True))
            continue
        epsilon = suitable_epsilon(asked, settings, accuracy) if left >= settings.eps_def - SLACK else None
        if epsilon is None:
            replies.append(Reply(None, None))
            continue
        left -= epsilon
        ledger[asked.key] = Reply(epsilon, asked.value + float(noise.laplace(scale=1.0 / epsilon)))
        replies.append(ledger[asked.key])
    return Outcome(settings, tuple(replies))


def choose_settings(
    users: Sequence[Asked],
    start: Settings,
    rho: int,
    noise: np.random.Generator,
    accuracy: Accuracy = expected_accuracy,
) -> tuple[Outcome, ...]:
    """Algorithm 2: while fewer than `rho` users are satisfied, raise eps_def, lower eta, run again.

    All executions in order; each one answers from the data, and the paper charges only the last.
    """
    outcomes = [search(users, start, noise, accuracy)]
    while outcomes[-1].satisfied < rho:
        now = outcomes[-1].settings
        if now.eps_def + DEFAULT_STEP > MOST_DEFAULT + SLACK:
            break
        following = replace(now, eps_def=now.eps_def + DEFAULT_STEP, eta=now.eta * ETA_FACTOR)
        outcomes.append(search(users, following, noise, accuracy))
    return tuple(outcomes)


def flat(users: Sequence[Asked], settings: Settings, reuse: bool) -> float:
    """The paper's comparisons: eps_def for each query that is accurate enough; BST reuses the ledger too.

    No total budget: the paper's own columns go up to 10 although its eps_t is 8.
    """
    spent, ledger = 0.0, set[tuple[float, str, int]]()
    for asked in users:
        actual = expected_accuracy(np.array([settings.eps_def]), asked.value)
        if actual[0] < asked.required - settings.tau - SLACK or (reuse and asked.key in ledger):
            continue
        ledger.add(asked.key)
        spent += settings.eps_def
    return spent


def laplace_coverage(epsilon: float, asked: Asked) -> float:
    """Probability that the answer is within 1 - A_req of the truth, which is what a user might expect."""
    return 1.0 - exp(-epsilon * (1.0 - asked.required) * asked.value)


def recover_count(published_epsilon: float, required: float, tau: float) -> float:
    """The attack: the true answer, from what the ledger shows.

    The search stops at the first step with 1/(epsilon Y) >= 1 - A - tau. So Y is at most the number
    returned, and above 1/((epsilon + eta)(1 - A - tau)): for Y below 1/sqrt(eta (1 - A - tau)) its whole
    part is Y. Requires: the search ran (the published epsilon is below the default).

    >>> int(recover_count(0.1655, required=0.95, tau=0.02))
    201
    """
    return 1.0 / (published_epsilon * (1.0 - required - tau))


def _within(actual: NDArray[np.float64], asked: Asked, settings: Settings) -> NDArray[np.bool_]:
    """Inequality 6 of the paper."""
    met: NDArray[np.bool_] = np.abs(actual - asked.required) <= settings.tau + SLACK
    return met
