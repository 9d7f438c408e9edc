"""`Receipt`: proof that an answer is on the ledger, for whoever holds it; `noisebank verify --receipt` checks it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from noisebank.core.digests import to_canonical_json

RECEIPT_FORMAT = "noisebank receipt 1"


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that an answer is on the ledger: check it with `noisebank verify --receipt`."""

    account: bytes
    id: bytes
    answer: Mapping[str, object]
    """What was sealed: the ledger has its digest."""
    salt: bytes
    chain_id: int
    contract: str
    block: int
    block_digest: bytes

    def __hash__(self) -> int:
        """By id: an answer has one receipt."""
        return hash(self.id)

    def to_json(self) -> dict[str, object]:
        """Returns the receipt as a JSON object."""
        return {
            "format": RECEIPT_FORMAT,
            "account": self.account.hex(),
            "id": self.id.hex(),
            "answer": dict(self.answer),
            "salt": self.salt.hex(),
            "chain_id": self.chain_id,
            "contract": self.contract,
            "block": self.block,
            "block_digest": self.block_digest.hex(),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Receipt:
        """Returns the receipt that `to_json` wrote."""
        return cls(
            account=bytes.fromhex(fields["account"]),
            id=bytes.fromhex(fields["id"]),
            answer=fields["answer"],
            salt=bytes.fromhex(fields["salt"]),
            chain_id=fields["chain_id"],
            contract=fields["contract"],
            block=fields["block"],
            block_digest=bytes.fromhex(fields["block_digest"]),
        )

    def to_canonical_json(self) -> str:
        """Returns the receipt as one line of canonical JSON, to keep."""
        return to_canonical_json(self.to_json())


def read_receipt(text: str) -> dict[str, Any] | None:
    """Returns a receipt's fields, or None if the text is no receipt."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.get("format") != RECEIPT_FORMAT:
        return None
    return fields
