"""`noisebank deploy` and `anchor`: the ledger's contract, or the head of a journal, on a public chain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisebank.cli.options import as_json, guarded, in_bank, opened_bank

if TYPE_CHECKING:
    from noisebank.ledger.signing import Key

DEPLOYER = "NOISEBANK_DEPLOYER_KEY"
to_node = click.option("--rpc", metavar="URL", required=True, envvar="NOISEBANK_RPC", help="A node of the chain.")


@click.command("deploy")
@to_node
@click.option("--key", type=click.Path(path_type=Path), help=f"The key that pays; or set {DEPLOYER}.")
@as_json
@guarded
def deploy(rpc: str, key: Path | None, as_json: bool) -> None:
    """Put the ledger's contract on an EVM chain. Once: many banks and owners can share it.

    Example:  noisebank deploy --rpc http://localhost:8545 --key deployer.key
    """
    from noisebank import console
    from noisebank.ledger.rpc import deploy as deploy_ledger

    deployed = deploy_ledger(rpc, _paying(key))
    facts = {"contract": deployed.contract, "chain_id": deployed.chain_id, "block": deployed.created}
    if as_json:
        console.show_json(facts)
        return
    console.facts("Deployed", [(name, str(value)) for name, value in facts.items()])
    console.say(f"next: noisebank init bank --rpc URL --contract {deployed.contract} --from-block {deployed.created}")


@click.command("anchor")
@to_node
@click.option("--contract", metavar="ADDRESS", help="An anchors contract; a new one is deployed if not said.")
@in_bank
@as_json
@guarded
def anchor(rpc: str, contract: str | None, folder: Path, as_json: bool) -> None:
    """Pin the head of the bank's journal in an EVM chain. The bank's sealing key pays and signs.

    From then on a cut, old or rewritten journal is seen by:  noisebank verify JOURNAL --anchors URL

    Example:  noisebank anchor --rpc http://localhost:8545
    """
    from noisebank import console
    from noisebank.core.errors import BadBank
    from noisebank.ledger.anchors import anchor as anchor_head
    from noisebank.ledger.anchors import deploy_anchors
    from noisebank.ledger.embedded import EmbeddedChain
    from noisebank.ledger.node import Node

    node = Node(rpc)
    with opened_bank(folder) as bank:
        chain = bank.ledger
        if not isinstance(chain, EmbeddedChain):
            raise BadBank("this bank's ledger is on a chain already: there is no journal to anchor")
        address = contract.lower() if contract else deploy_anchors(node, chain.sealer)
        pinned = anchor_head(node, chain.sealer, address, chain.genesis.digest, chain.head())
    facts = {"contract": pinned.contract, "transaction": pinned.transaction, "block": pinned.block,
             "journal_block": pinned.number, "head": pinned.head.hex(), "chain_id": node.chain_id()}  # fmt: skip
    console.show_json(facts) if as_json else console.facts("Anchored", [(k, str(v)) for k, v in facts.items()])


def _paying(path: Path | None) -> Key:
    from noisebank.core.errors import BadRequest
    from noisebank.ledger.signing import Key

    key = Key.load(path) if path else Key.from_environment(DEPLOYER)
    if key is None:
        raise BadRequest("key", "nothing", f"name a key's file with --key, or set {DEPLOYER}")
    return key
