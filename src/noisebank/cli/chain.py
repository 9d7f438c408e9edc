"""`noisebank deploy` and `anchor`: the ledger's contract, or the head of a journal, on a public chain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisebank.cli.options import bank_option, handle_errors, json_option, open_recovered_bank

if TYPE_CHECKING:
    from noisebank.ledger.signing import Key

DEPLOYER_VARIABLE = "NOISEBANK_DEPLOYER_KEY"
node_option = click.option("--rpc", metavar="URL", required=True, envvar="NOISEBANK_RPC", help="A node of the chain.")


@click.command("deploy")
@node_option
@click.option("--key", type=click.Path(path_type=Path), help=f"The key that pays; or set {DEPLOYER_VARIABLE}.")
@json_option
@handle_errors
def deploy_contract(rpc: str, key: Path | None, as_json: bool) -> None:
    """Put the ledger's contract on an EVM chain. Once: many banks and owners can share it.

    Example:  noisebank deploy --rpc http://localhost:8545 --key deployer.key
    """
    from noisebank.cli import render
    from noisebank.ledger.rpc import deploy_contract as deploy_ledger

    deployed = deploy_ledger(rpc, _load_payer(key))
    facts = {"contract": deployed.contract, "chain_id": deployed.chain_id, "block": deployed.deployment_block}
    if as_json:
        render.show_json(facts)
        return
    render.show_facts("Deployed", [(name, str(value)) for name, value in facts.items()])
    render.print_line(
        f"next: noisebank init bank --rpc URL --contract {deployed.contract} --from-block {deployed.deployment_block}"
    )


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


def _load_payer(path: Path | None) -> Key:
    from noisebank.core.errors import BadRequest
    from noisebank.ledger.signing import Key

    key = Key.load(path) if path else Key.from_environment(DEPLOYER_VARIABLE)
    if key is None:
        raise BadRequest("key", "nothing", f"name a key's file with --key, or set {DEPLOYER_VARIABLE}")
    return key
