"""Moments that somebody chooses: stop asking at an extreme answer, lower or raise the budget then, and guess.

One bit of one person is secret, both values equally likely. The guesser sees every answer, decides after each whether
to go on, and says in the end what is more likely. What the public page shows then must hold: of all accounts that show
a number, no larger share may be guessed right. (The accounts that show it are judged, not all: a number that is small
exactly where the guess is good would pass on average.) Most rules are played with normal noise and the page's own
functions, one against the whole bank. The odometer's line is held against paths besides: it may be crossed, at any
moment, in delta of all cases.

False alarms: every judgement is a Clopper-Pearson limit at 1e-8.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.special import betaincinv, ndtri

from assurance.mu_audit import PEOPLE, POLICY, question_number
from assurance.report import Finding
from noisebank import Account, Precision, read_policy
from support.banks import memory_rooms
from support.internals import (
    Budgets,
    PrecisionTarget,
    budget_guess_rate,
    budget_precision,
    max_guess_rate,
    open_account,
    promised_epsilon,
    raised_epsilon,
)
from support.released import release_answer

FALSE_ALARM = 1e-8
EPSILON, DELTA = Fraction(2), Fraction(1, 1000)
FIXED = budget_precision(EPSILON, DELTA)
STEPS = 24
"""Answers that the first budget pays for."""
EXTREME = 0.6
"""Log of the odds at which a guesser is content."""
LINE_DELTA = Fraction(1, 20)
FURTHEST = 8
"""Times the first budget: how far the line is watched."""


# -- what is shown ---------------------------------------------------------------------------------


def shown(largest: Precision, fixed: Precision = FIXED) -> float:
    """By the public page now: of what is spent it says nothing."""
    epsilon = float(promised_epsilon(fixed, largest, DELTA))
    return max_guess_rate(Budgets(fixed, fixed, largest), epsilon, DELTA)


Shown = Callable[[Precision, Precision, Precision], float]
"""From what is spent, the budget now, and the largest that ever held."""
SHOWN: dict[str, Shown] = {
    "": lambda spent, now, largest: shown(largest),
    "the fixed-time number of what is spent": lambda spent, now, largest: budget_guess_rate(spent),
    "the fixed-time number of the budget now": lambda spent, now, largest: budget_guess_rate(now),
}


def failures(rows: np.ndarray, said: Shown) -> list[str]:
    """Numbers that are too small for the accounts that show them. Rows: spent, budget, largest, whether right."""
    found: dict[float, list[float]] = {}
    for row in np.unique(rows[:, :3], axis=0):
        number = said(*(Precision(int(units)) for units in row))
        found.setdefault(number, []).extend(rows[(rows[:, :3] == row).all(axis=1), 3])
    failed = [
        f"{np.mean(right):.1%} of {len(right):,} right, {number:.1%} shown"
        for number, right in sorted(found.items())
        if lower_limit(int(sum(right)), len(right)) > number
    ]
    return failed + _together({number: right for number, right in found.items() if number < max(found)})


def _together(found: dict[float, list[float]]) -> list[str]:
    """The same for all accounts that show less than the most: few show the same number. Hoeffding's inequality."""
    rights = np.array([right for group in found.values() for right in group])
    numbers = np.array([number for number, group in found.items() for _ in group])
    if len(rights) == 0 or (rights - numbers).mean() <= sqrt(log(1 / FALSE_ALARM) / (2 * len(rights))):
        return []
    return [f"{rights.mean():.1%} of {len(rights):,} right, {numbers.mean():.1%} shown on average"]


def lower_limit(hits: int, tries: int) -> float:
    """Clopper-Pearson."""
    return float(betaincinv(hits, tries - hits + 1, FALSE_ALARM)) if hits else 0.0


# -- rules of stopping -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """When to stop, and what the owner does with the budget then."""

    stops: Callable[[np.ndarray, np.ndarray, int], np.ndarray]
    """From log odds, last answers in standard deviations, and how many there were."""
    costs: tuple[int, ...]
    """Units of each answer; together the first budget at most."""
    lowers: bool = False
    raises: bool = False


EQUAL = (FIXED.units // STEPS,) * STEPS
FALLING = tuple(FIXED.units >> number for number in range(1, STEPS))
RULES = {
    "ask to the end": Rule(lambda odds, last, count: np.zeros(len(odds), bool), EQUAL),
    "stop at extreme odds": Rule(lambda odds, last, count: np.abs(odds) >= EXTREME, EQUAL),
    "stop after an answer beyond 2 sd": Rule(lambda odds, last, count: np.abs(last - 0.1) >= 2, EQUAL),
    "stop at extreme odds, dear answers first": Rule(lambda odds, last, count: np.abs(odds) >= EXTREME, FALLING),
    "stop for one side": Rule(lambda odds, last, count: odds >= EXTREME, EQUAL),
    "lower at extreme odds": Rule(lambda odds, last, count: np.abs(odds) >= EXTREME, EQUAL, lowers=True),
    "raise a little if sure, else a lot": Rule(lambda odds, last, count: np.zeros(len(odds), bool), EQUAL, raises=True),
}


def play(rule: Rule, accounts: int, rng: np.random.Generator) -> np.ndarray:
    """Many accounts at once with normal noise, one row each."""
    secret = rng.integers(0, 2, accounts)
    odds, spent, going = np.zeros(accounts), np.zeros(accounts, dtype=np.int64), np.ones(accounts, bool)

    def ask(units: np.ndarray | int, who: np.ndarray) -> np.ndarray:
        precision = np.broadcast_to(np.asarray(units) / 1e18, accounts)
        answer = secret + rng.normal(size=accounts) / np.sqrt(precision)
        odds[who] += (precision * (answer - 0.5))[who]
        spent[who] += np.broadcast_to(units, accounts)[who]
        return answer * np.sqrt(precision)

    for count, units in enumerate(rule.costs, 1):
        last = ask(units, going)
        going &= ~rule.stops(odds, last, count)
    budget = np.where(rule.lowers & ~going, spent, FIXED.units)
    if rule.raises:  # a raise of one in a thousand for the sure, of three times the budget for the others
        budget = np.where(np.abs(odds) >= 1, FIXED.units + FIXED.units // 1000, 4 * FIXED.units)
        ask(budget - spent, np.ones(accounts, bool))
    return np.stack([spent, budget, np.maximum(budget, FIXED.units), (odds > 0) == secret], axis=1)


# -- the line --------------------------------------------------------------------------------------


def crossings(paths: int, rng: np.random.Generator, line: Callable[[np.ndarray], np.ndarray]) -> int:
    """Paths of the privacy loss that are above the line at one moment at least; budgets are raised just in time."""
    spent = np.arange(1, STEPS * FURTHEST + 1) * (float(FIXED) / STEPS)
    allowed = line(np.maximum(spent, float(FIXED)))
    loss = np.cumsum(rng.normal(scale=np.sqrt(float(FIXED) / STEPS), size=(paths, len(spent))), axis=1) + spent / 2
    return int((loss > allowed).any(axis=1).sum())


def odometer_line(budget: np.ndarray) -> np.ndarray:
    """What the bank says."""
    return np.array(
        [float(raised_epsilon(FIXED, max(FIXED, Precision(round(one * 1e18))), LINE_DELTA)) for one in budget]
    )


def fixed_time_line(budget: np.ndarray) -> np.ndarray:
    """What the loss exceeds with probability delta at each moment by itself."""
    return budget / 2 + ndtri(1 - float(LINE_DELTA)) * np.sqrt(budget)


# -- the whole bank --------------------------------------------------------------------------------

BANK_EPSILON = Fraction(4)
BANK_FIXED = budget_precision(BANK_EPSILON, DELTA)
BANK_STEPS = 6
BANK_EXTREME = 1.6
"""Chosen by simulation with normal noise, so that 3,000 accounts catch a bank that shows the number of its spend."""


def play_bank(accounts: int) -> np.ndarray:
    """Stop at extreme odds, through parse, price, reserve, measure, seal and publish; one row an account."""
    policy = POLICY.replace("epsilon = 100", f"epsilon = {BANK_EPSILON}").replace(
        "delta = 0.5", f"delta = {float(DELTA)}"
    )
    rows, rooms = [], memory_rooms()
    with TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(accounts):
            secret = number % 2
            (folder / "people.csv").write_text(
                "\n".join(("place,room,income", "0,0,0", "0,0,0", PEOPLE[secret])) + "\n"
            )
            (folder / "people.toml").write_text(policy.replace('name = "people"', f'name = "people{number}"'))
            account = open_account(rooms, read_policy(folder / "people.toml"))[0]
            rows.append(_guessed(account, secret))
    return np.array(rows)


def _guessed(account: Account, secret: int) -> list[int]:
    each = Precision(account.state.budget.units // BANK_STEPS)
    odds = 0.0
    for number in range(BANK_STEPS):
        sql = question_number("count", 2 * number)[0].replace("FROM people", f"FROM {account.name}")
        answer = release_answer(account, sql, PrecisionTarget(each))
        odds += float(each) * (answer.value - 0.5)
        if abs(odds) >= BANK_EXTREME:
            break
    state, said = account.state, max_guess_rate(account.budgets, account.epsilon, account.context.policy.delta)
    assert said == shown(BANK_FIXED, BANK_FIXED) and account.budgets.largest == BANK_FIXED == state.budget
    return [state.spent.units, state.budget.units, BANK_FIXED.units, int((odds > 0) == secret)]


# -- the row ---------------------------------------------------------------------------------------


def stopping_rules(share: float) -> Finding:
    """400,000 accounts per rule, 200,000 paths and 3,000 accounts of a bank at full share."""
    accounts, paths = max(20_000, round(400_000 * share)), max(20_000, round(200_000 * share))
    banked = max(30, round(3_000 * share))
    rng = np.random.default_rng(17)
    failed: list[str] = []
    caught: dict[str, list[str]] = {name: [] for name in SHOWN if name}
    worst = 0.0
    for name, rule in RULES.items():
        rows = play(rule, accounts, rng)
        failed += [f"{name}: {failure}" for failure in failures(rows, SHOWN[""])]
        worst = max(worst, float(rows[:, 3].mean()) if not rule.raises else 0.0)
        for old, found in caught.items():
            found += [f"{name}: {failure}" for failure in failures(rows, SHOWN[old])]
    most = -(-paths // 20_000)
    crossed = sum(crossings(20_000, rng, odometer_line) for _ in range(most))
    too_often = sum(crossings(20_000, rng, fixed_time_line) for _ in range(most))
    if lower_limit(crossed, most * 20_000) > LINE_DELTA:
        failed.append(f"the odometer's line was crossed by {crossed:,} paths")
    rows = np.concatenate(_banks(banked, parallel=share > 0.1))
    said: Shown = lambda spent, now, largest: shown(largest, BANK_FIXED)  # noqa: E731
    failed += [f"a bank: {failure}" for failure in failures(rows, said)]
    planted = {f"{old} ({found[0] if found else 'none'})": bool(found) for old, found in caught.items()}
    if banked >= 1_000:
        found = failures(rows, SHOWN["the fixed-time number of what is spent"])
        planted[f"the same in a bank ({found[0] if found else 'none'})"] = bool(found)
    planted[f"a fixed-time line (crossed by {too_often / most / 20_000:.1%})"] = (
        lower_limit(too_often, most * 20_000) > LINE_DELTA
    )
    return Finding(
        row="what the public page says fails at a moment that somebody chose",
        tried=f"{len(RULES)} rules of stopping, lowering and raising with {accounts:,} accounts each, {len(rows):,} "
        f"accounts of a bank, {most * 20_000:,} paths against the odometer's line",
        figure=f"shown {shown(FIXED):.1%}, right {worst:.1%} at most; "
        f"in the bank shown {shown(BANK_FIXED, BANK_FIXED):.1%}, "
        f"right {rows[:, 3].mean():.1%}; the line is crossed by "
        f"{crossed / most / 20_000:.2%} of the paths, {float(LINE_DELTA):.0%} allowed",
        violations=len(failed),
        planted=planted,
        note="; ".join(failed) or f"false alarm {FALSE_ALARM:g} for each judgement",
    )


def _banks(accounts: int, parallel: bool) -> list[np.ndarray]:
    if not parallel:
        return [play_bank(accounts)]
    with ProcessPoolExecutor(max_workers=2, mp_context=get_context("spawn")) as pool:
        return list(pool.map(play_bank, [accounts // 6] * 6))
