"""`noisebank deploy`: put the ledger's contract on a chain that others run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisebank.cli.options import handle_errors, json_option

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

    deployed = deploy_ledger(rpc, load_payer(key))
    facts = {"contract": deployed.contract, "chain_id": deployed.chain_id, "block": deployed.deployment_block}
    if as_json:
        render.show_json(facts)
        return
    render.show_facts("Deployed", [(name, str(value)) for name, value in facts.items()])
    render.print_line(
        f"next: noisebank init bank --rpc URL --contract {deployed.contract} --from-block {deployed.deployment_block}"
    )


def load_payer(path: Path | None) -> Key:
    from noisebank.core.errors import BadRequest
    from noisebank.ledger.signing import Key

    key = Key.load(path) if path else Key.from_environment(DEPLOYER_VARIABLE)
    if key is None:
        raise BadRequest("key", None, f"name a key's file with --key, or set {DEPLOYER_VARIABLE}")
    return key
