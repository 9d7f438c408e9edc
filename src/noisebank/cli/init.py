"""`noisebank init`: make a bank in a folder, with its keys, ledger and vault."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisebank.cli.options import (
    handle_device_errors,
    json_option,
    open_bank_parts,
    owner_key_option,
)

if TYPE_CHECKING:
    from noisebank.ledger.chain_config import ChainConfig


@click.command("init")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("bank"))
@owner_key_option
@click.option("--rpc", metavar="URL", envvar="NOISEBANK_RPC", help="A node: the ledger shall be a contract there.")
@click.option("--contract", metavar="ADDRESS", help="With --rpc: what `noisebank deploy` gave.")
@click.option("--from-block", type=int, default=0, help="With --rpc: the block of its deployment.")
@click.option("--confirmations", type=int, default=3, show_default=True, help="With --rpc: when a block is final.")
@click.option("--vault", metavar="ADDRESS", help="A PostgreSQL database for the vault; or set NOISEBANK_VAULT.")
@json_option
@handle_device_errors
def init_bank(
    folder: Path,
    owner_key: Path | None,
    rpc: str | None,
    contract: str | None,
    from_block: int,
    confirmations: int,
    vault: str | None,
    as_json: bool,
) -> None:
    """Make a bank in FOLDER, with an owner's and a curator's key.

    The curator's key must stay with the bank. The owner's opens accounts and changes budgets: move
    it to a safe place, or write it there at once with --owner-key, and keep a copy of both. Keys in
    NOISEBANK_CURATOR_KEY and NOISEBANK_OWNER_KEY are used and written nowhere.

    With --rpc and --contract the ledger is that contract on that chain. Without, it is embedded: no
    node is needed.

    With --vault the vault is in a PostgreSQL database, postgresql://user@host/database. If it holds
    one already, this bank is a further gateway to it. An address in NOISEBANK_VAULT is used and
    written nowhere; one after --vault is kept in a file for the bank's eyes only.

    Example:  noisebank init bank --owner-key /media/usb/owner.key
    """
    from noisebank.bank.folder import KEYS, create_bank
    from noisebank.cli import render

    create_bank(folder, owner_key, where=_chain_location(rpc, contract, from_block, confirmations), vault=vault)
    key = owner_key or folder / KEYS / "owner.key"
    with open_bank_parts(folder, owner_key) as parts:
        ledger = parts.ledger
        facts = {"bank": str(folder), "owner_key": str(key), "curator_key": str(folder / KEYS / "curator.key"),
                **{str(role.value): holder for role, holder in ledger.key_addresses().items()},
                "contract": ledger.contract, "chain_id": ledger.chain_id,
                "head": ledger.head().digest.hex()}  # fmt: skip
    render.show_json(facts) if as_json else render.show_facts("A new bank", [(k, str(v)) for k, v in facts.items()])


def _chain_location(rpc: str | None, contract: str | None, first: int, confirmations: int) -> ChainConfig | None:
    from noisebank.core.errors import BadRequest
    from noisebank.ledger.abi import ADDRESS_PATTERN
    from noisebank.ledger.chain_config import ChainConfig
    from noisebank.ledger.node import Node

    if contract is None:
        return None
    if rpc is None or not ADDRESS_PATTERN.fullmatch(contract):
        raise BadRequest("contract", contract, "a contract is an address of 40 hexadecimal digits, reached with --rpc")
    return ChainConfig(rpc, contract.lower(), Node(rpc).chain_id(), first, confirmations)
