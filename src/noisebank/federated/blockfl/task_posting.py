"""Posting a task: `post_task` stores terms and an initial model; digests and members go to the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noisebank.core.digests import keccak
from noisebank.core.entropy import SystemEntropy, simulation
from noisebank.core.errors import BadRequest
from noisebank.federated.blockfl.models import Model, fixed
from noisebank.federated.blockfl.network import initial
from noisebank.federated.blockfl.registry import Registry
from noisebank.federated.blockfl.store import Store
from noisebank.federated.blockfl.terms import Terms
from noisebank.ledger.abi import ADDRESS
from noisebank.ledger.signing import Key


@dataclass(frozen=True)
class Rules:
    """How a task is run; the fields are those of the contract's `post`."""

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
    """Post a task; return its id and the secret with which its poster begins it."""
    for address, _ in members:
        if not ADDRESS.fullmatch(address):
            raise BadRequest("member", address[:80], "must be an address, 0x and 40 hexadecimal digits")
    source = SystemEntropy()
    seed = int.from_bytes(source.token(8), "big")
    weights = fixed(initial(terms.shape, terms.norm, simulation(seed)))  # public: it protects nobody
    model = store.put(Model("", 0, "", weights).encode())
    terms_digest = store.put(terms.encode())
    secret = source.token()
    admitted = tuple((address.lower(), coins) for address, coins in members)
    task = registry.post(
        key, model, terms_digest, keccak(secret),
        rules.rounds, rules.byzantine, rules.seats, rules.patience,
        rules.norm, rules.printed, rules.stake, admitted,
    )  # fmt: skip
    return task, secret
