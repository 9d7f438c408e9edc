"""Anchors for the ledger page: heads of this journal on another chain, if the operator has set a node of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from noisebank.core.errors import NoisebankError
from noisebank.ledger.anchors import Anchor, find_anchors
from noisebank.ledger.embedded import EmbeddedChain
from noisebank.ledger.node import Node, NodeError
from noisebank.service.authenticator import ServiceState

KEPT = 60.0
"""How long what the node has answered is shown."""


@dataclass(frozen=True, slots=True)
class Anchored:
    """The anchors that the node knows, each with whether our history agrees; or why they cannot be read."""

    chain_id: int
    anchors: tuple[tuple[Anchor, bool], ...]
    trouble: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the report as the ledger page shows it."""
        anchors = [
            {"number": anchor.number, "block": anchor.block, "transaction": anchor.transaction, "agrees": agrees}
            for anchor, agrees in self.anchors
        ]
        return {"chain_id": self.chain_id, "anchors": anchors, "trouble": self.trouble}


def anchors_of(state: ServiceState) -> Anchored | None:
    """Return the newest anchors, or None if no node is set: a page never asks an address that a visitor gives."""
    url, chain = state.settings.anchors, state.desk.bank.ledger
    if not url or not isinstance(chain, EmbeddedChain):
        return None
    cached = state.anchored
    if cached is not None and time.monotonic() - cached[0] < KEPT:
        return cached[1]
    try:
        node = Node(url, timeout=3.0)
        anchors = find_anchors(node, chain.genesis.digest, chain.sealer.address)
        newest = chain.head().number
        agreements = [
            (anchor, anchor.number <= newest and chain.block_digest(anchor.number) == anchor.head) for anchor in anchors
        ]
        report = Anchored(node.chain_id(), tuple(agreements[::-1][:20]))
    except (NoisebankError, NodeError) as error:
        report = Anchored(0, (), str(error))
    state.anchored = (time.monotonic(), report)
    return report
