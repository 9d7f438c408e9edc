"""Anchors on the ledger page: heads of this journal that another chain remembers, if the operator named its node."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from noisebank.core.errors import NoisebankError
from noisebank.ledger.anchors import Anchor, find_anchors
from noisebank.ledger.embedded import EmbeddedChain
from noisebank.ledger.node import Node, NodeError

KEPT = 60.0
"""Seconds until the node is asked again."""


@dataclass(frozen=True, slots=True)
class Anchored:
    """What the node said, and whether our history agrees."""

    chain_id: int
    anchors: tuple[tuple[Anchor, bool], ...]
    trouble: str = ""


def anchors_of(state: Any) -> Anchored | None:
    """None where no node is named: this page asks no address that a visitor gives."""
    url, chain = state.settings.anchors, state.desk.bank.ledger
    if not url or not isinstance(chain, EmbeddedChain):
        return None
    known: tuple[float, Anchored] | None = getattr(state, "anchored", None)
    if known is not None and time.monotonic() - known[0] < KEPT:
        return known[1]
    try:
        node = Node(url, timeout=3.0)
        found = find_anchors(node, chain.genesis.digest, chain.sealer.address)
        newest = chain.head().number
        agree = [(each, each.number <= newest and chain.block_digest(each.number) == each.head) for each in found]
        made = Anchored(node.chain_id(), tuple(agree[::-1][:20]))
    except (NoisebankError, NodeError) as error:
        made = Anchored(0, (), str(error))
    state.anchored = (time.monotonic(), made)
    return made
