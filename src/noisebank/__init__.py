"""noisebank: a privacy bank. Noisy answers, an enforced budget, books that anyone can check.

>>> import noisebank
>>> "open_bank" in noisebank.__all__
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from noisebank.core.extras import needs_extra

if TYPE_CHECKING:
    from noisebank.account.account import Account
    from noisebank.bank.bank import Bank, open_bank
    from noisebank.bank.budget_explanation import explain
    from noisebank.bank.folder import create_bank
    from noisebank.client.async_client import connect_async
    from noisebank.client.sync_client import connect
    from noisebank.core.asks import Ask
    from noisebank.core.errors import NoisebankError
    from noisebank.core.quote import Quote
    from noisebank.core.receipts import Receipt
    from noisebank.core.result import Result
    from noisebank.core.units import Precision
    from noisebank.policy.file import read_policy
    from noisebank.policy.model import Policy
    from noisebank.verifier.verification import Report, verify

__version__ = "0.1.0"

__all__ = [
    "Account",
    "Ask",
    "Bank",
    "NoisebankError",
    "Policy",
    "Precision",
    "Quote",
    "Receipt",
    "Report",
    "Result",
    "connect",
    "connect_async",
    "create_bank",
    "explain",
    "open_bank",
    "read_policy",
    "verify",
]

_HOMES = {
    "Account": "account.account",
    "Ask": "core.asks",
    "Bank": "bank.bank",
    "NoisebankError": "core.errors",
    "Policy": "policy.model",
    "Precision": "core.units",
    "Quote": "core.quote",
    "Receipt": "core.receipts",
    "Report": "verifier.verification",
    "Result": "core.result",
    "connect": "client.sync_client",
    "connect_async": "client.async_client",
    "create_bank": "bank.folder",
    "explain": "bank.budget_explanation",
    "open_bank": "bank.bank",
    "read_policy": "policy.file",
    "verify": "verifier.verification",
}


def __getattr__(name: str) -> Any:
    """Imports on first use: `noisebank --help` needs none of this."""
    if name not in _HOMES:
        raise AttributeError(f"noisebank has no {name}")
    with needs_extra("bank", f"noisebank.{name}"):
        return getattr(import_module(f"noisebank.{_HOMES[name]}"), name)
