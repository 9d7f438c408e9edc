"""`noisebank anchor`: pin the head of a bank's journal on a chain that others run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisebank.cli.options import bank_option, handle_errors, json_option, open_recovered_bank

if TYPE_CHECKING:
    pass
from noisebank.cli.deploy import node_option


@click.command("anchor")
@node_option
@click.option("--contract", metavar="ADDRESS", help="An anchors contract; a new one is deployed if not said.")
@bank_option
@json_option
@handle_errors
def anchor_journal(rpc: str, contract: str | None, folder: Path, as_json: bool) -> None:
    """Pin the head of the bank's journal in an EVM chain. The bank's sealing key pays and signs.

    From then on a cut, old or rewritten journal is seen by:  noisebank verify JOURNAL --anchors URL

    Example:  noisebank anchor --rpc http://localhost:8545
    """
    from noisebank.cli import render
    from noisebank.core.errors import BadBank
    from noisebank.ledger.anchors import deploy_anchors
    from noisebank.ledger.anchors import send_anchor as anchor_head
    from noisebank.ledger.embedded import EmbeddedLedger
    from noisebank.ledger.node import Node

    node = Node(rpc)
    with open_recovered_bank(folder) as bank:
        chain = bank.ledger
        if not isinstance(chain, EmbeddedLedger):
            raise BadBank("this bank's ledger is on a chain already: there is no journal to anchor")
        address = contract.lower() if contract else deploy_anchors(node, chain.sealing_key)
        pinned = anchor_head(node, chain.sealing_key, address, chain.genesis.digest, chain.head())
    facts = {"contract": pinned.contract, "transaction": pinned.transaction, "block": pinned.block,
             "journal_block": pinned.number, "head": pinned.head.hex(), "chain_id": node.chain_id()}  # fmt: skip
    render.show_json(facts) if as_json else render.show_facts("Anchored", [(k, str(v)) for k, v in facts.items()])
