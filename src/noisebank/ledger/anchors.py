"""Anchors: the embedded journal's head, pinned in any EVM chain by one small transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from noisebank.core.errors import BadLedger
from noisebank.ledger.abi import anchors
from noisebank.ledger.node import Node, raw_log, transact
from noisebank.ledger.protocol import Head
from noisebank.ledger.signing import Key

GAS = 100_000
DEPLOY_GAS = 500_000
PATIENCE = 180.0


@dataclass(frozen=True, slots=True)
class Anchor:
    """A head that a chain remembers."""

    number: int
    head: bytes
    block: int
    """Of the chain that remembers it."""
    transaction: str
    contract: str


def deploy_anchors(node: Node, key: Key) -> str:
    """Puts the little contract on a chain; its address."""
    receipt = transact(node, key, node.chain_id(), "", anchors().initcode, DEPLOY_GAS, PATIENCE)
    return str(receipt["contractAddress"]).lower()


def anchor(node: Node, key: Key, contract: str, journal: bytes, head: Head) -> Anchor:
    """Pins a journal's newest block. `key` must be the one that seals the journal."""
    if node.code(contract) != anchors().runtime:
        raise BadLedger(f"there is no anchors contract of this version at {contract}")
    if not node.balance(key.address):
        raise BadLedger(f"{key.address} has no funds on this chain to pay for an anchor")
    data = anchors().call("anchor", journal, head.number, head.digest)
    receipt = transact(node, key, node.chain_id(), contract, data, GAS, PATIENCE)
    return Anchor(head.number, head.digest, int(receipt["blockNumber"], 16), receipt["transactionHash"], contract)


def find_anchors(node: Node, journal: bytes, sealer: str, contract: str | None = None) -> list[Anchor]:
    """All anchors of a journal that its sealer has sent, whether or not anybody mentions them.

    Without a contract's address all contracts are searched: what counts is who signed the
    transaction, and that no contract can make up.
    """
    topics = ["0x" + next(iter(anchors().events)).hex(), "0x" + journal.hex()]
    found = []
    for entry in node.logs(contract, 0, node.head(), topics):
        arguments = _read(entry)
        sent = node.ask("eth_getTransactionByHash", entry["transactionHash"])
        if arguments and sent and str(sent["from"]).lower() == sealer == arguments["sender"]:
            where = int(entry["blockNumber"], 16), entry["transactionHash"], str(entry["address"]).lower()
            found.append(Anchor(arguments["number"], arguments["head"], *where))
    return found


def _read(entry: dict[str, Any]) -> dict[str, Any]:
    """What a log says; nothing if another contract logs something else under the same name."""
    try:
        return dict(anchors().decode_event(*raw_log(entry))[1])
    except (KeyError, ValueError, StopIteration):
        return {}
