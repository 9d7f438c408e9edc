"""Reads the JSON of a result (`Result.to_json`), as the command line and the service print it."""

from __future__ import annotations

from typing import Any

from noisebank import Precision


def single(plain: dict[str, Any]) -> dict[str, Any]:
    """Returns the one estimate of a result of one row and one item, with the charge's fields and the receipts."""
    (row,), (name,) = plain["rows"], plain["columns"]
    return row[name] | plain["charge"] | {"receipts": receipts_of(plain), "id": plain["parts"][0]["id"]}


def receipts_of(plain: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the receipts of all questions behind a result."""
    return [part["receipt"] for part in plain["parts"]]


def units_of(amount: str) -> int:
    """Returns an amount of the JSON in units of the ledger."""
    return Precision.parse_decimal(amount).units
