"""Reads receipts: what an analyst holds to prove that an answer is on the ledger."""

from __future__ import annotations

import json
from typing import Any

RECEIPT_FORMAT = "noisebank receipt 1"


def read_receipt(text: str) -> dict[str, Any] | None:
    """Returns a receipt's fields, or None if the text is no receipt."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.get("format") != RECEIPT_FORMAT:
        return None
    return fields
