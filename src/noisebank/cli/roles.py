"""`noisebank roles show|curator|owner|accept`: who may act for an account, and handing that over."""

from __future__ import annotations

from pathlib import Path

import click

from noisebank.cli.options import (
    account_option,
    bank_option,
    handle_errors,
    json_option,
    open_recovered_bank,
    owner_key_option,
)


@click.group("roles")
def roles_group() -> None:
    """See and hand over the roles of owner and curator."""


@roles_group.command("show")
@bank_option
@account_option
@json_option
@handle_errors
def show_roles(folder: Path, account: str | None, as_json: bool) -> None:
    """Show who holds the roles of an account.

    Example:  noisebank roles show
    """
    from noisebank.cli import render

    with open_recovered_bank(folder) as bank:
        state = bank.account(account).state
    facts = {"owner": state.owner, "curator": state.curator, "paused": state.paused, "version": state.version}
    render.show_json(facts) if as_json else render.show_facts("Roles", [(k, str(v)) for k, v in facts.items()])


@roles_group.command("curator")
@bank_option
@owner_key_option
@json_option
@handle_errors
def rotate_curator(folder: Path, owner_key: Path | None, as_json: bool) -> None:
    """Give the bank a new curator's key, for all of its accounts; the old one can no longer reserve.

    Run it again if it was interrupted. On a chain the new key needs funds: it says which.

    Example:  noisebank roles curator --owner-key /media/usb/owner.key
    """
    from noisebank.cli import render

    with open_recovered_bank(folder, owner_key) as bank:
        address, moved = bank.rotate_curator()
    facts = {"curator": address, "accounts": moved}
    render.show_json(facts) if as_json else render.print_line(f"the curator of {moved} accounts is now {address}")


@roles_group.command("owner")
@click.argument("address")
@bank_option
@account_option
@owner_key_option
@json_option
@handle_errors
def propose_owner(address: str, folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """Name ADDRESS as the next owner of an account, who must accept.

    Example:  noisebank roles owner 0x52908400098527886e0f7030069857d2e4169ee7
    """
    from noisebank.cli import render
    from noisebank.core.errors import BadRequest
    from noisebank.ledger.abi import ADDRESS_PATTERN

    if not ADDRESS_PATTERN.fullmatch(address):
        raise BadRequest("address", address, "an address has 40 hexadecimal digits after 0x")
    with open_recovered_bank(folder, owner_key) as bank:
        bank.ledger.call_as_owner("propose_owner", bank.account(account).id, address.lower())
    facts = {"proposed": address.lower()}
    render.show_json(facts) if as_json else render.print_line("proposed; the next owner runs: noisebank roles accept")


@roles_group.command("accept")
@bank_option
@account_option
@owner_key_option
@json_option
@handle_errors
def accept_ownership(folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """Take over as the owner of an account, with the key that was proposed.

    Example:  noisebank roles accept --owner-key /media/usb/my.key
    """
    from noisebank.cli import render
    from noisebank.ledger.protocol import Role

    with open_recovered_bank(folder, owner_key) as bank:
        selected = bank.account(account)
        bank.ledger.accept_role(Role.OWNER, selected.id)
        state = selected.state
    render.show_json({"owner": state.owner}) if as_json else render.print_line(f"the owner is now {state.owner}")
