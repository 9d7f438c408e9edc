"""Encodes what the bank returns (answers, quotes, ledger entries) as JSON for the API and the pages.

Builds plain dictionaries in the form of the models in `schemas`, which do not check them: this is the hot path.
"""

from __future__ import annotations

import json
from fractions import Fraction
from math import isfinite
from typing import Any

from noisebank.account.answers import IN_WORDS, Answer, GroupedAnswer, Quote, Receipt, RelativeAnswer
from noisebank.account.derived import COUNTED, Answers, DerivedAnswer
from noisebank.core.caches import remembering
from noisebank.core.intervals import interval
from noisebank.core.records import Case
from noisebank.core.units import NOTHING, UNITS_PER_PRECISION, Precision
from noisebank.ledger.protocol import Reservation
from noisebank.queries.query import about_in_words

Result = Answer | DerivedAnswer | Answers
JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
LEFT = '"remaining":"'
"""Cannot occur inside a string of JSON: there, quotation marks are escaped with a backslash."""
SPELLED_BYTES = 8 << 20


def amount(precision: Precision) -> str:
    """Return an amount as an exact decimal.

    >>> amount(Precision(1_500_000_000_000_000_000)), amount(Precision(1)), amount(Precision(0))
    ('1.5', '0.000000000000000001', '0')
    """
    whole, rest = divmod(precision.units, UNITS_PER_PRECISION)
    return f"{whole}.{rest:018d}".rstrip("0").rstrip(".") if rest else str(whole)


def read_amount(text: str) -> Precision:
    """Return the precision that `amount_to_json` wrote.

    >>> read_amount("1.5"), read_amount("0.000000000000000001")
    (Precision(units=1500000000000000000), Precision(units=1))
    """
    whole, _, rest = text.partition(".")
    return Precision(int(whole) * UNITS_PER_PRECISION + int(rest.ljust(18, "0") or "0"))


def number(value: float) -> float | None:
    """Return the value, or None for infinities and NaN, which JSON does not have."""
    return value if isfinite(value) else None


def quote(quoted: Quote, view_left: Precision | None) -> dict[str, Any]:
    """Return a quote as JSON; `view_left` is what the analyst may still learn."""
    return {
        "sql": quoted.sql,
        "case": quoted.case.name,
        "in_words": IN_WORDS[quoted.case],
        "wanted": amount(quoted.wanted),
        "cost": amount(quoted.cost),
        "left": amount(quoted.left),
        "view_left": None if view_left is None else amount(view_left),
        "affordable": quoted.affordable,
        "stddev": None if quoted.parts else number(quoted.stddev),
        "error_at_95": None if quoted.parts else number(quoted.interval_half_width()),
        "reused_stddev": quoted.reused_stddev,
        "share_now": quoted.share_now,
        "share_after": quoted.share_after,
        "how_many": quoted.how_many,
        "cube": list(quoted.cube),
        "cell_factor": quoted.cell_factor,
        "first_look": amount(quoted.first_look),
        "parts": [quote(part, view_left) for part in quoted.parts],
        "floor": quoted.floor,
    }


def spelled(made: Result) -> bytes:
    """Return the bytes of `result_to_json`. Those of a repeated answer are cached but for what remains."""
    if type(made) is not Answer or made.case is not Case.REPEAT or made.inferred is not None:
        return JSON(result(made)).encode()
    before, after = _around(made.receipt, made.sql, made.value, made.stddev, made.case, made.cost, made.exact)
    return b'%b"remaining":"%b"%b' % (before, amount(made.remaining).encode(), after)


@remembering(SPELLED_BYTES)
def _around(
    receipt: Receipt, sql: str, value: float, stddev: float, case: Case, cost: Precision, exact: Fraction
) -> tuple[bytes, bytes]:
    """Return the bytes before and after the amount that remains."""
    answer = Answer(value, stddev, case, cost, NOTHING, NOTHING, sql, exact, receipt)
    before, _, rest = JSON(result(answer)).partition(LEFT)
    return before.encode(), rest.partition('"')[2].encode()


def result(made: Result) -> dict[str, Any]:
    """Return an answer of any kind as JSON."""
    if isinstance(made, Answers):
        parts = [{**result(item), "name": name} for name, item in zip(made.names, made.items, strict=True)]
        return _common("several", made.sql, made.cost, made.remaining) | {"parts": parts}
    if isinstance(made, DerivedAnswer):
        return _derived(made)
    plain = _common("answer", made.sql, made.cost, made.remaining)
    plain |= {
        "id": made.receipt.id.hex(),
        "value": number(made.value),
        "exact": str(made.exact),
        "stddev": made.stddev,
        "interval": list(made.interval()),
        "confidence": 0.95,
        "case": made.case.name,
        "in_words": IN_WORDS[made.case],
        "receipts": [made.receipt.plain()],
    }
    if isinstance(made, RelativeAnswer):
        following = None if made.next_cost is None else amount(made.next_cost)
        plain |= {"kind": "relative", "reached": made.reached, "message": made.message, "floor": made.floor}
        plain["next_cost"] = following
    if made.inferred is not None:
        plain["inferred"] = made.inferred.in_words
    if isinstance(made, GroupedAnswer):
        plain |= {"kind": "grouped", "value": None, "exact": None, "interval": None, "by": list(made.by)}
        half = interval(0.0, made.stddev)[1]
        plain["groups"] = [
            {"keys": list(group.keys), "value": group.value, "exact": str(group.exact), "low": group.value - half,
             "high": group.value + half} for group in made.groups
        ]  # fmt: skip
    return plain


def entry(place: int, found: Reservation) -> dict[str, Any]:
    """Return what the public ledger shows of a reservation; `number` is its place in the account, from 0."""
    return {
        "number": place,
        "id": found.id.hex(),
        "time": found.time,
        "block": found.block,
        "case": found.case.name,
        "about": about_in_words(found.about),
        "wanted": amount(found.wanted),
        "cost": amount(found.cost),
        "spent": amount(found.spent),
        "query": found.query.hex(),
        "analyst": found.analyst.hex(),
        "cube": found.cube,
        "version": found.version,
        "answer": None if found.answer is None else found.answer.hex(),
        "published_in": found.published_in,
    }


def _common(kind: str, sql: str, cost: Precision, remaining: Precision) -> dict[str, Any]:
    return {"kind": kind, "id": None, "sql": sql, "cost": amount(cost), "remaining": amount(remaining)}


def _derived(made: DerivedAnswer) -> dict[str, Any]:
    plain = _common("derived", made.sql, made.cost, made.remaining)
    plain |= {
        "name": made.name,
        "case": made.case.name,
        "in_words": IN_WORDS[made.case],
        "confidence": 0.95,
        "parts": [result(part) for part in made.parts],
        "receipts": [part.receipt.plain() for part in made.parts],
    }
    if made.by:
        plain["by"] = list(made.by)
        plain["groups"] = [
            {"keys": list(group.keys), "value": number(group.value), "low": number(low), "high": number(high)}
            for group, (low, high) in zip(made.groups, made.intervals(), strict=True)
        ]
    else:
        low, high = made.interval()
        plain |= {"value": number(made.value), "stddev": number(made.stddev)}
        plain["interval"] = [low, high] if isfinite(low) and isfinite(high) else None
    if made.how in COUNTED:
        plain["key"] = made.key
    return plain
