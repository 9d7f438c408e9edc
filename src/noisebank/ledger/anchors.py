"""Anchors: pin the head of an embedded journal on any EVM chain with one small transaction, and find such pins.

`noisebank anchor` sends them; `verifier.comparison` holds a journal against them. The contract is contracts/anchors.vy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from noisebank.core.errors import BadLedger
from noisebank.ledger.abi import anchors_contract
from noisebank.ledger.node import Node, parse_log, send_and_wait
from noisebank.ledger.protocol import Head
from noisebank.ledger.signing import Key

ANCHOR_GAS = 100_000
DEPLOY_GAS = 500_000
PATIENCE = 180.0


@dataclass(frozen=True, slots=True)
class Anchor:
    """A journal's head as recorded on a chain."""

    number: int
    head: bytes
    block: int
    """Of the chain that records it; `number` is the journal's own block."""
    transaction: str
    contract: str


def deploy_anchors(node: Node, key: Key) -> str:
    """Deploys the anchors contract; returns its address."""
    receipt = send_and_wait(node, key, node.chain_id(), "", anchors_contract().initcode, DEPLOY_GAS, PATIENCE)
    return str(receipt["contractAddress"]).lower()


def send_anchor(node: Node, key: Key, contract: str, journal: bytes, head: Head) -> Anchor:
    """Records a journal's newest block on a chain. `key` must be the one that seals the journal."""
    if node.get_code(contract) != anchors_contract().runtime:
        raise BadLedger(f"there is no anchors contract of this version at {contract}")
    if not node.get_balance(key.address):
        raise BadLedger(f"{key.address} has no funds on this chain to pay for an anchor")
    data = anchors_contract().encode_call("anchor", journal, head.number, head.digest)
    receipt = send_and_wait(node, key, node.chain_id(), contract, data, ANCHOR_GAS, PATIENCE)
    return Anchor(head.number, head.digest, int(receipt["blockNumber"], 16), receipt["transactionHash"], contract)


def find_anchors(node: Node, journal: bytes, sealer: str, contract: str | None = None) -> list[Anchor]:
    """Returns all anchors of a journal that its sealer has sent, also those that nobody mentions.

    Without a contract's address all contracts are searched: what counts is who signed the
    transaction, and no contract can forge that.
    """
    topics = ["0x" + next(iter(anchors_contract().events)).hex(), "0x" + journal.hex()]
    results = []
    for entry in node.read_logs(contract, 0, node.block_number(), topics):
        arguments = _decode_anchor(entry)
        sent = node.ask("eth_getTransactionByHash", entry["transactionHash"])
        if arguments and sent and str(sent["from"]).lower() == sealer == arguments["sender"]:
            location = int(entry["blockNumber"], 16), entry["transactionHash"], str(entry["address"]).lower()
            results.append(Anchor(arguments["number"], arguments["head"], *location))
    return results


def _decode_anchor(log_entry: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of an anchor's log; empty if another contract logs something else under the same topic."""
    try:
        return dict(anchors_contract().decode_event(*parse_log(log_entry))[1])
    except (KeyError, ValueError, StopIteration):
        return {}
