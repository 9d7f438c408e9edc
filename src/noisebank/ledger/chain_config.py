"""`ChainConfig`: where a ledger on a chain is (node, contract, chain id), and the bank's file that says so."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from noisebank.core.errors import BadBank

FORMAT = "noisebank ledger 1"
ADDRESS = re.compile(r"0x[0-9a-f]{40}")
URL_VARIABLE = "NOISEBANK_RPC"
"""The node's address. Overrides the file: the address often holds a key, which should perhaps not be on a disk."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where a ledger on a chain is."""

    url: str = field(repr=False)
    contract: str
    chain_id: int
    created: int = 0
    """The block of the contract's deployment: logs are read from there on."""
    confirmations: int = 1
    """A block is final when the chain has this many blocks from it on, itself included."""


def write_where(path: Path, where: Where) -> None:
    """Writes a new file that only its owner may read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        facts = {
            "format": FORMAT, "url": where.url, "contract": where.contract, "chain_id": where.chain_id,
            "created": where.created, "confirmations": where.confirmations,
        }  # fmt: skip
        json.dump(facts, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def read_where(path: Path) -> Where:
    """Reads what `write_chain_config` wrote; the environment's address wins over the file's."""
    try:
        fields = json.loads(path.read_text())
        if fields.pop("format") != FORMAT:
            raise ValueError("another format")
        if not fields.keys() <= {"url", "contract", "chain_id", "created", "confirmations"}:
            raise ValueError("an unknown key")
        where = Where(
            url=os.environ.get(URL_VARIABLE) or fields["url"],
            contract=fields["contract"],
            chain_id=fields["chain_id"],
            created=fields.get("created", 0),
            confirmations=fields.get("confirmations", 1),
        )
        numbers = (where.chain_id, where.created, where.confirmations)
        if not ADDRESS.fullmatch(where.contract) or any(type(number) is not int for number in numbers):
            raise ValueError("no address or number")
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise BadBank(f"{path} does not say where the ledger is") from None
    return where
