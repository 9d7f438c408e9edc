"""Encodes what the bank returns (results, ledger entries) as JSON for the API and the pages.

Builds plain dictionaries in the form of the models in `schemas`, which do not check them: this is the hot path.
"""

from __future__ import annotations

import json
from typing import Any

from noisebank.core.caches import BoundedCache, cache_results
from noisebank.core.charges import Charge
from noisebank.core.receipts import Receipt
from noisebank.core.records import Case
from noisebank.core.result import Result
from noisebank.ledger.protocol import Reservation
from noisebank.queries.query import describe_category

dump_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
REPEATED_CACHE_BYTES = 8 << 20
_repeated_tables: BoundedCache[tuple[Receipt, str, float], bytes] = BoundedCache(REPEATED_CACHE_BYTES)
CHARGE_BYTES = 1_000
"""More than a charge and its JSON take: six numbers and a fixed sentence."""


def result_to_bytes(result: Result) -> bytes:
    """Return the bytes of `Result.to_json`. The table of a repeated answer is cached, and its charge apart."""
    if result.case is not Case.REPEAT or not _is_constant(result):
        return dump_json(result.to_json()).encode()
    key = (result.receipt, result.sql, result.confidence)
    table = _repeated_tables.get(key)
    if table is None:
        table = dump_json(result.table_to_json()).removesuffix("}").encode()
        _repeated_tables.put(key, table)
    return b'%b,"charge":%b}' % (table, charge_to_bytes(result.charge))


@cache_results(256 * CHARGE_BYTES, size_of=lambda charge, encoded: CHARGE_BYTES)
def charge_to_bytes(charge: Charge) -> bytes:
    """Return the bytes of `Charge.to_json`. Cached: all repeats between two paid answers have the same charge."""
    return dump_json(charge.to_json()).encode()


def entry_to_json(number: int, reservation: Reservation) -> dict[str, Any]:
    """Return what the public ledger shows of a reservation; `number` is its place in the account, from 0."""
    return {
        "number": number,
        "id": reservation.id.hex(),
        "time": reservation.time,
        "block": reservation.block,
        "case": reservation.case.name,
        "about": describe_category(reservation.category),
        "wanted": reservation.target.to_decimal(),
        "cost": reservation.cost.to_decimal(),
        "spent": reservation.spent_after.to_decimal(),
        "query": reservation.query.hex(),
        "analyst": reservation.analyst.hex(),
        "cube": reservation.cube,
        "version": reservation.version,
        "answer": None if reservation.answer_digest is None else reservation.answer_digest.hex(),
        "published_in": reservation.published_block,
    }


def _is_constant(result: Result) -> bool:
    """Whether all but the charge follows from receipt, question and confidence: one number, without a verdict, whose
    price would be new, and not from a cube."""
    single = len(result.parts) == len(result.rows) == len(result.items) == 1
    return single and result.parts[0].inferred is None and result.estimate.verdict is None
