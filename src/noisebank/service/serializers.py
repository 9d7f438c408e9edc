"""Encodes what the bank returns (answers, quotes, ledger entries) as JSON for the API and the pages.

Builds plain dictionaries in the form of the models in `schemas`, which do not check them: this is the hot path.
"""

from __future__ import annotations

import json
from fractions import Fraction
from math import isfinite
from typing import Any

from noisebank.account.answers import Answer, GroupedAnswer, Quote, Receipt, RelativeAnswer
from noisebank.account.derived import FROM_COUNTS, Answers, DerivedAnswer
from noisebank.core.caches import cache_results
from noisebank.core.intervals import confidence_interval
from noisebank.core.records import Case
from noisebank.core.units import UNITS_PER_PRECISION, ZERO_PRECISION, Precision
from noisebank.core.wording import CASE_DESCRIPTIONS
from noisebank.ledger.protocol import Reservation
from noisebank.queries.query import describe_category

Result = Answer | DerivedAnswer | Answers
dump_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
REMAINING_KEY = '"remaining":"'
"""Cannot occur inside a string of JSON: there, quotation marks are escaped with a backslash."""
REPEATED_CACHE_BYTES = 8 << 20


def amount_to_json(precision: Precision) -> str:
    """Return an amount as an exact decimal.

    >>> amount_to_json(Precision(1_500_000_000_000_000_000)), amount_to_json(Precision(1)), amount_to_json(Precision(0))
    ('1.5', '0.000000000000000001', '0')
    """
    whole, rest = divmod(precision.units, UNITS_PER_PRECISION)
    return f"{whole}.{rest:018d}".rstrip("0").rstrip(".") if rest else str(whole)


def parse_amount(text: str) -> Precision:
    """Return the precision that `amount_to_json` wrote.

    >>> parse_amount("1.5"), parse_amount("0.000000000000000001")
    (Precision(units=1500000000000000000), Precision(units=1))
    """
    whole, _, rest = text.partition(".")
    return Precision(int(whole) * UNITS_PER_PRECISION + int(rest.ljust(18, "0") or "0"))


def finite_or_none(value: float) -> float | None:
    """Return the value, or None for infinities and NaN, which JSON does not have."""
    return value if isfinite(value) else None


def quote_to_json(quoted: Quote, view_left: Precision | None) -> dict[str, Any]:
    """Return a quote as JSON; `view_left` is what the analyst may still learn."""
    return {
        "sql": quoted.sql,
        "case": quoted.case.name,
        "in_words": CASE_DESCRIPTIONS[quoted.case],
        "wanted": amount_to_json(quoted.target),
        "cost": amount_to_json(quoted.cost),
        "left": amount_to_json(quoted.left),
        "view_left": None if view_left is None else amount_to_json(view_left),
        "affordable": quoted.affordable,
        "stddev": None if quoted.parts else finite_or_none(quoted.stddev),
        "error_at_95": None if quoted.parts else finite_or_none(quoted.interval_half_width()),
        "reused_stddev": quoted.reused_stddev,
        "share_now": quoted.share_now,
        "share_after": quoted.share_after,
        "how_many": quoted.how_many,
        "cube": list(quoted.cube),
        "cell_factor": quoted.cell_factor,
        "first_look": amount_to_json(quoted.first_look),
        "parts": [quote_to_json(part, view_left) for part in quoted.parts],
        "floor": quoted.floor,
    }


def result_to_bytes(answer: Result) -> bytes:
    """Return the bytes of `result_to_json`. Those of a repeated answer are cached but for what remains."""
    if type(answer) is not Answer or answer.case is not Case.REPEAT or answer.inferred is not None:
        return dump_json(result_to_json(answer)).encode()
    before, after = _split_at_remaining(
        answer.receipt, answer.sql, answer.value, answer.stddev, answer.case, answer.cost, answer.exact
    )
    return b'%b"remaining":"%b"%b' % (before, amount_to_json(answer.remaining).encode(), after)


@cache_results(REPEATED_CACHE_BYTES)
def _split_at_remaining(
    receipt: Receipt, sql: str, value: float, stddev: float, case: Case, cost: Precision, exact: Fraction
) -> tuple[bytes, bytes]:
    """Return the bytes before and after the amount that remains."""
    answer = Answer(value, stddev, case, cost, ZERO_PRECISION, ZERO_PRECISION, sql, exact, receipt)
    before, _, rest = dump_json(result_to_json(answer)).partition(REMAINING_KEY)
    return before.encode(), rest.partition('"')[2].encode()


def result_to_json(answer: Result) -> dict[str, Any]:
    """Return an answer of any kind as JSON."""
    if isinstance(answer, Answers):
        parts = [{**result_to_json(item), "name": name} for name, item in zip(answer.names, answer.items, strict=True)]
        return _common_fields("several", answer.sql, answer.cost, answer.remaining) | {"parts": parts}
    if isinstance(answer, DerivedAnswer):
        return _derived_to_json(answer)
    plain = _common_fields("answer", answer.sql, answer.cost, answer.remaining)
    plain |= {
        "id": answer.receipt.id.hex(),
        "value": finite_or_none(answer.value),
        "exact": str(answer.exact),
        "stddev": answer.stddev,
        "interval": list(answer.interval()),
        "confidence": 0.95,
        "case": answer.case.name,
        "in_words": CASE_DESCRIPTIONS[answer.case],
        "receipts": [answer.receipt.to_json()],
    }
    if isinstance(answer, RelativeAnswer):
        following = None if answer.next_cost is None else amount_to_json(answer.next_cost)
        plain |= {"kind": "relative", "reached": answer.reached, "message": answer.message, "floor": answer.floor}
        plain["next_cost"] = following
    if answer.inferred is not None:
        plain["inferred"] = answer.inferred.in_words
    if isinstance(answer, GroupedAnswer):
        plain |= {"kind": "grouped", "value": None, "exact": None, "interval": None, "by": list(answer.by)}
        half = confidence_interval(0.0, answer.stddev)[1]
        plain["groups"] = [
            {"keys": list(group.keys), "value": group.value, "exact": str(group.exact), "low": group.value - half,
             "high": group.value + half} for group in answer.groups
        ]  # fmt: skip
    return plain


def entry_to_json(number: int, reservation: Reservation) -> dict[str, Any]:
    """Return what the public ledger shows of a reservation; `number` is its place in the account, from 0."""
    return {
        "number": number,
        "id": reservation.id.hex(),
        "time": reservation.time,
        "block": reservation.block,
        "case": reservation.case.name,
        "about": describe_category(reservation.category),
        "wanted": amount_to_json(reservation.target),
        "cost": amount_to_json(reservation.cost),
        "spent": amount_to_json(reservation.spent_after),
        "query": reservation.query.hex(),
        "analyst": reservation.analyst.hex(),
        "cube": reservation.cube,
        "version": reservation.version,
        "answer": None if reservation.answer_digest is None else reservation.answer_digest.hex(),
        "published_in": reservation.published_block,
    }


def _common_fields(kind: str, sql: str, cost: Precision, remaining: Precision) -> dict[str, Any]:
    return {"kind": kind, "id": None, "sql": sql, "cost": amount_to_json(cost), "remaining": amount_to_json(remaining)}


def _derived_to_json(answer: DerivedAnswer) -> dict[str, Any]:
    plain = _common_fields("derived", answer.sql, answer.cost, answer.remaining)
    plain |= {
        "name": answer.name,
        "case": answer.case.name,
        "in_words": CASE_DESCRIPTIONS[answer.case],
        "confidence": 0.95,
        "parts": [result_to_json(part) for part in answer.parts],
        "receipts": [part.receipt.to_json() for part in answer.parts],
    }
    if answer.by:
        plain["by"] = list(answer.by)
        plain["groups"] = [
            {
                "keys": list(group.keys),
                "value": finite_or_none(group.value),
                "low": finite_or_none(low),
                "high": finite_or_none(high),
            }
            for group, (low, high) in zip(answer.groups, answer.intervals(), strict=True)
        ]
    else:
        low, high = answer.interval()
        plain |= {"value": finite_or_none(answer.value), "stddev": finite_or_none(answer.stddev)}
        plain["interval"] = [low, high] if isfinite(low) and isfinite(high) else None
    if answer.how in FROM_COUNTS:
        plain["key"] = answer.key
    return plain
