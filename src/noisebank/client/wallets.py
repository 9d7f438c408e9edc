"""Signatures of a wallet: to sign in (EIP-4361), and to agree to what a request may cost (EIP-712)."""

from __future__ import annotations

from pathlib import Path

from noisebank.core.spend import Spend, message_digest, spend_digest
from noisebank.ledger.signing import Key

SIGNATURE_SECONDS = 600
"""Seconds that a signature is valid: longer than requests are retried, so that a retry carries the same one."""


def load_wallet(wallet: Path | str | Key) -> Key:
    """Loads the key from a file that nobody else may read; a key is returned as it is."""
    return wallet if isinstance(wallet, Key) else Key.load(Path(wallet))


def sign_message(key: Key, message: str) -> str:
    """Signs a text as `personal_sign` does."""
    return _signature_hex(key.sign(message_digest(message)))


def sign_spend(key: Key, spend: Spend, chain_id: int, contract: str) -> dict[str, object]:
    """Returns what goes with a request: its maximal cost, its deadline, and the signature over all of it."""
    signature = _signature_hex(key.sign(spend_digest(spend, chain_id, contract)))
    return {"max_cost_units": str(spend.max_cost), "deadline": spend.deadline, "signature": signature}


def _signature_hex(signature: bytes) -> str:
    """Returns a signature with the parity as Ethereum's wallets write it."""
    return "0x" + signature[:64].hex() + bytes([signature[64] + 27]).hex()
