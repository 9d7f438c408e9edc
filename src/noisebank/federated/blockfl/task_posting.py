"""Posting a task: terms and an initial model into the store, both digests and the members onto the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from noisebank.core.digests import keccak
from noisebank.core.entropy import SystemEntropy, simulation
from noisebank.core.errors import BadRequest
from noisebank.federated.blockfl.models import Model, fixed
from noisebank.federated.blockfl.network import initial
from noisebank.federated.blockfl.registry import Registry, admissions
from noisebank.federated.blockfl.store import Store
from noisebank.federated.blockfl.terms import Terms
from noisebank.ledger.abi import ADDRESS
from noisebank.ledger.signing import Key


@dataclass(frozen=True)
class Rules:
    """How a task is run."""

    rounds: int = 3
    byzantine: int = 1
    seats: int = 20
    patience: int = 60
    norm: int = 0
    printed: bool = False
    stake: int = 0


def post_task(
    registry: Registry, store: Store, key: Key, terms: Terms, rules: Rules, members: Sequence[tuple[str, int]]
) -> tuple[bytes, bytes]:
    """Posts a task; its id, and the secret with which its poster begins it."""
    for address, _ in members:
        if not ADDRESS.fullmatch(address):
            raise BadRequest("member", address[:80], "must be an address, 0x and 40 hexadecimal digits")
    source = SystemEntropy()
    seed = int.from_bytes(source.token(8), "big")
    weights = fixed(initial(terms.shape, terms.norm, simulation(seed)))  # public: it protects nobody
    model = store.put(Model("", 0, "", weights).encode())
    described = store.put(terms.encode())
    secret = source.token()
    task = registry.post(
        key, model, described, keccak(secret), rules.rounds, rules.byzantine, rules.seats, rules.patience, rules.norm,
        rules.printed, rules.stake, admissions(members),
    )  # fmt: skip
    return task, secret


def keep_secret(path: Path, secret: bytes) -> None:
    """For its poster's eyes until the task begins."""
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(secret.hex() + "\n")
