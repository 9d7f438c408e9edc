"""Posting a task: `post_task` stores terms and an initial model; digests and members go to the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noisebank.core.digests import keccak
from noisebank.core.entropy import SystemEntropy, simulation_rng
from noisebank.core.errors import BadRequest
from noisebank.federated.blockfl.models import Model, to_fixed_point
from noisebank.federated.blockfl.network import initialize_weights
from noisebank.federated.blockfl.registry import ModelRegistry
from noisebank.federated.blockfl.store import ContentStore
from noisebank.federated.blockfl.terms import TaskTerms
from noisebank.ledger.abi import ADDRESS_PATTERN
from noisebank.ledger.signing import Key


@dataclass(frozen=True)
class TaskRules:
    """How a task is run; the fields are those of the contract's `post`."""

    round_count: int = 3
    byzantine: int = 1
    expected_seats: int = 20
    patience_seconds: int = 60
    reputation_norm: int = 0
    uses_printed_rule: bool = False
    stake_wei: int = 0


def post_task(
    registry: ModelRegistry,
    store: ContentStore,
    key: Key,
    terms: TaskTerms,
    rules: TaskRules,
    members: Sequence[tuple[str, int]],
) -> tuple[bytes, bytes]:
    """Post a task; return its id and the secret with which its poster begins it."""
    for address, _ in members:
        if not ADDRESS_PATTERN.fullmatch(address):
            raise BadRequest("member", address[:80], "must be an address, 0x and 40 hexadecimal digits")
    source = SystemEntropy()
    seed = int.from_bytes(source.token(8), "big")
    weights = to_fixed_point(
        initialize_weights(terms.shape, terms.norm, simulation_rng(seed))
    )  # public: it protects nobody
    model = store.put(Model("", 0, "", weights).to_bytes())
    terms_digest = store.put(terms.to_bytes())
    secret = source.token()
    admitted = tuple((address.lower(), coins) for address, coins in members)
    task = registry.post_task(
        key, model, terms_digest, keccak(secret),
        rules.round_count, rules.byzantine, rules.expected_seats, rules.patience_seconds,
        rules.reputation_norm, rules.uses_printed_rule, rules.stake_wei, admitted,
    )  # fmt: skip
    return task, secret
