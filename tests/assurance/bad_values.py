"""NaN, inf, overflow, nulls slip through: every bad value gets a clear error and changes nothing.

Each parameter of `ask` and `quote` is tried with every bad value, in every combination of sides.
Afterwards nothing may be spent, reserved or in the journal, and a good request must still work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from assurance.planting import plant_bug
from assurance.report import Finding
from noisebank import Account, NoisebankError, Precision
from support.banks import memory_account, write_people
from support.internals import floor_to_ladder

GOOD = "SELECT COUNT(*) FROM people WHERE age > 30"
HUGE = 10**5_000
PAIR: dict[str, Any] = {"epsilon": "1", "delta": "1e-6"}
CLASSICAL: dict[str, Any] = {"delta": "1e-6", "calibration": "classical"}

NOT_NUMBERS: tuple[Any, ...] = (
    math.nan, math.inf, -math.inf, np.float64("nan"), Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"),
    True, False, "", " ", "x", "nan", "inf", "1/0", "0x10", "1e999999999", "--1", "1,5", b"1", [], {}, (), object(), 1j,
    "9" * 6_000, "1/" + "9" * 6_000,
)  # fmt: skip
NOT_POSITIVE: tuple[Any, ...] = (0, 0.0, -0.0, -1, -1e-300, "-1", "-1e300", Fraction(-1, 3), -HUGE, Fraction(-HUGE, 3))
TOO_EXTREME: tuple[Any, ...] = (1e308, 1e-308, "1e300", "1e-300", HUGE, Fraction(1, HUGE), 10**400, 2**2_000)

NOT_TEXTS: tuple[Any, ...] = (None, 5, 1.5, True, b"x", [], {}, object())
BAD_NAMES: tuple[Any, ...] = ("", "x" * 201, "a\nb", "a\tb", "\x00", "\x7f", "\ud800", "\u202e", "a\u200bb", *NOT_TEXTS)
BAD_SQL: tuple[Any, ...] = (
    "", " ", ";", "\x00", "\ud800", "x", "(" * 5_000, "SELECT", "SELECT 1", "SELECT * FROM people", "DROP TABLE people",
    "SELECT COUNT(*) FROM people WHERE " + "NOT " * 3_000 + "smoker",
    "SELECT COUNT(*) FROM people WHERE " + " OR ".join(["age > 30"] * 4_000),
    "SELECT COUNT(*) FROM people WHERE age > 1e999",
    "WITH a0 AS (SELECT age AS v FROM people)"
    + "".join(f", a{level + 1} AS (SELECT v + v AS v FROM a{level})" for level in range(40))
    + " SELECT SUM(v) FROM a40",
    "SELECT COUNT(*) FROM people WHERE age > " + "9" * 5_000,
    "SELECT COUNT(*) FROM people WHERE age > 'nan'",
    "SELECT COUNT(*) FROM people WHERE town = '\ud800'",
    "SELECT COUNT(*) FROM people WHERE age > NULL",
    "SELECT COUNT(*) FROM people; SELECT COUNT(*) FROM people",
    "SELECT SUM(income) / 0 FROM people",
    "SELECT COUNT(*) FROM 'people.csv' WHERE age > 3",
    "SELECT COUNT(*) FROM read_csv('people.csv')",
    "SELECT SUM(age) FROM people WHERE age > (SELECT 1)",
    "SELECT AVG(children) FROM people",
    "SELECT SUM(town) FROM people",
    *NOT_TEXTS,
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One bad value in one place."""

    what: str
    put: Callable[[Account], object]


def trials() -> Iterator[Trial]:
    """Every parameter with every value that it must refuse."""
    for value in (*NOT_NUMBERS, *NOT_POSITIVE, *TOO_EXTREME):
        what = _shown(value)
        yield Trial(f"epsilon = {what}", lambda a, v=value: a.ask(GOOD, epsilon=v, delta="1e-6"))
        yield Trial(f"quoted epsilon = {what}", lambda a, v=value: a.quote(GOOD, epsilon=v, delta="1e-6"))
        yield Trial(
            f"classical epsilon = {what}",
            lambda a, v=value: a.ask(GOOD, epsilon=v, delta="1e-6", calibration="classical"),
        )
        yield Trial(f"delta = {what}", lambda a, v=value: a.ask(GOOD, epsilon="1", delta=v))
        yield Trial(f"quoted delta = {what}", lambda a, v=value: a.quote(GOOD, epsilon="1", delta=v))
        yield Trial(f"sigma = {what}", lambda a, v=value: a.ask(GOOD, sigma=v))
        yield Trial(f"sigma of a sum = {what}", lambda a, v=value: a.ask("SELECT SUM(income) FROM people", sigma=v))
        yield Trial(f"quoted sigma = {what}", lambda a, v=value: a.quote(GOOD, sigma=v))
        yield Trial(f"within = {what}", lambda a, v=value: a.ask(GOOD, within=v))
        yield Trial(f"quoted within = {what}", lambda a, v=value: a.quote(GOOD, within=v))
        yield Trial(f"confidence = {what}", lambda a, v=value: a.ask(GOOD, within="10", confidence=v))
        yield Trial(f"relative = {what}", lambda a, v=value: a.ask(GOOD, relative=v))
        yield Trial(f"relative confidence = {what}", lambda a, v=value: a.ask(GOOD, relative="10%", confidence=v))
    for value in (*NOT_NUMBERS, -1, -1e-300, "-1", -HUGE, HUGE, Fraction(1, HUGE)):
        yield Trial(f"max_cost = {_shown(value)}", lambda a, v=value: a.ask(GOOD, sigma="2", max_cost=v))
    for value in (1, 0.9999999, "1", Fraction(1), "0.6"):
        yield Trial(f"delta = {_shown(value)}", lambda a, v=value: a.ask(GOOD, epsilon="1", delta=v))
    for value in BAD_NAMES:
        if value is not None:
            yield Trial(f"key = {_shown(value)}", lambda a, v=value: a.ask(GOOD, sigma="2", key=v))
        yield Trial(f"analyst = {_shown(value)}", lambda a, v=value: a.ask(GOOD, sigma="2", analyst=v))
    for value in BAD_SQL:
        yield Trial(f"sql = {_shown(value)}", lambda a, v=value: a.ask(v, sigma="2"))
        yield Trial(f"quoted sql = {_shown(value)}", lambda a, v=value: a.quote(v, sigma="2"))
    for value in ("x", "", 5, [], "ANALYTIC"):
        yield Trial(
            f"calibration = {_shown(value)}", lambda a, v=value: a.ask(GOOD, epsilon="1", delta="1e-6", calibration=v)
        )
    yield Trial("nothing wished", lambda a: a.ask(GOOD))
    yield Trial("epsilon alone", lambda a: a.ask(GOOD, epsilon="1"))
    yield Trial("delta alone", lambda a: a.ask(GOOD, delta="1e-6"))
    yield Trial("sigma and within", lambda a: a.ask(GOOD, sigma="1", within="1"))
    yield Trial("sigma and relative", lambda a: a.ask(GOOD, sigma="1", relative="2%"))
    yield Trial("sigma and confidence", lambda a: a.ask(GOOD, sigma="1", confidence="0.9"))
    yield Trial("sigma and epsilon", lambda a: a.ask(GOOD, sigma="1", epsilon="1", delta="1e-6"))
    yield Trial("more than is left", lambda a: a.ask(GOOD, sigma="0.001"))


def _shown(value: object) -> str:
    if isinstance(value, int | Fraction) and not isinstance(value, bool) and abs(value) > 10**30:
        return "huge"
    return "tiny" if isinstance(value, Fraction) and 0 < abs(value) < Fraction(1, 10**30) else ascii(value)[:50]


def wrong(account: Account, trial: Trial) -> str | None:
    """What is wrong with how the account took a bad value; None if nothing is."""
    before = (account.state, account.ledger.head(), account.ledger.list_reservations(account.id))
    try:
        trial.put(account)
    except NoisebankError as error:
        said = str(error)
        if not 15 <= len(said) <= 2_000 or "Traceback" in said:
            return f"{trial.what}: unclear: {said[:60]!r} ({len(said)} characters)"
    except Exception as error:
        return f"{trial.what}: unhandled {type(error).__name__}: {str(error)[:60]}"
    else:
        return f"{trial.what}: accepted"
    if before != (account.state, account.ledger.head(), account.ledger.list_reservations(account.id)):
        return f"{trial.what}: refused, but something changed"
    return None


def _forgiving(value: Any, parameter: str = "value") -> Fraction:
    """The planted bug: bad numbers become some number, as OpenDP itself does."""
    try:
        return Fraction(float(value))
    except (TypeError, ValueError, OverflowError):
        return Fraction(1)


def _overflowing(*_: object) -> Any:
    """The planted bug: a number that nobody checked does not fit where it is used."""
    raise OverflowError


def bad_values(share: float) -> Finding:
    """Every bad value in every place; `share` only thins out the planted bugs, the list is short enough."""
    tried = list(trials())
    with TemporaryDirectory() as folder:
        account = memory_account(write_people(Path(folder) / "a"))
        found = [problem for trial in tried if (problem := wrong(account, trial))]
        still = account.ask(GOOD, sigma="2").cost == floor_to_ladder(Precision(25 * 10**16))
        thinned = tried[:: max(1, round(8 * (1 - share)))]
        fresh = memory_account(write_people(Path(folder) / "b", epsilon="50"))
        with plant_bug("noisebank.planning.pricing", "parse_exact", _forgiving):
            slipped = sum(wrong(fresh, trial) is not None for trial in thinned)
        charged = memory_account(write_people(Path(folder) / "c", epsilon="50"))
        unchecked = plant_bug("noisebank.account.plain", "_check_scale", lambda *_: None)
        with unchecked, plant_bug("noisebank.account.plain", "measure", _overflowing):
            late = wrong(charged, Trial("overflow", lambda a: a.ask(GOOD, sigma="2")))
    return Finding(
        row="NaN, inf, overflow, nulls slip through",
        tried=f"{len(tried):,} bad values",
        figure=f"{len(found)} unhandled, accepted or charged; a good request {'still' if still else 'no longer'} works",
        violations=len(found) + (not still),
        planted={f"bad numbers become some number ({slipped} slip through)": slipped > 0, "overflow": late is not None},
        note="; ".join(found[:8]),
    )
