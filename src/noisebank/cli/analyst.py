"""`noisebank analyst`, `roles`, `pause` and `resume`: who may do what, and how much."""

from __future__ import annotations

from contextlib import closing
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


@click.group("analyst")
def analyst_group() -> None:
    """Set how much each analyst may learn, and see what they have learned."""


@analyst_group.command("limit")
@click.argument("name")
@click.argument("epsilon")
@bank_option
@account_option
@owner_key_option
@json_option
@handle_errors
def set_limit(
    name: str, epsilon: str, folder: Path, account: str | None, owner_key: Path | None, as_json: bool
) -> None:
    """Let analyst NAME learn as much as EPSILON allows, at the account's delta.

    EPSILON 0 means: no more than was learned so far. The account's budget bounds all analysts together. Less than
    before ends NAME's sessions with a service.

    Example:  noisebank analyst limit maria 1
    """
    from noisebank.cli import render
    from noisebank.core.entropy import SystemEntropy
    from noisebank.core.units import parse_exact
    from noisebank.privacy.calibration import budget_precision
    from noisebank.service.auth import ACCESS_FILE, AccessControl

    with open_recovered_bank(folder, owner_key) as bank:
        selected = bank.account(account)
        value = parse_exact(epsilon, "epsilon")
        before, used = selected.view(name).limit, selected.view(name).used
        units = budget_precision(value, selected.policy.delta).units if value else used.units
        bank.ledger.set_limit(selected.id, selected.analyst(name), units)
        selected.vault.save_analyst(selected.id, selected.analyst(name), name)
        view = selected.view(name)
    if view.limit < before and (folder / ACCESS_FILE).is_file():
        with closing(AccessControl(folder / ACCESS_FILE, SystemEntropy())) as access:
            access.end_sessions(name)  # a session ends with what made it
    facts = {"analyst": name, "limit": view.limit, "used": view.used}
    render.show_json(facts) if as_json else render.print_line(
        f"{name} may learn {view.limit}, and has learned {view.used}"
    )


@analyst_group.command("list")
@bank_option
@account_option
@json_option
@handle_errors
def list_analysts(folder: Path, account: str | None, as_json: bool) -> None:
    """Show every analyst's limit and use.

    Example:  noisebank analyst list
    """
    from noisebank.cli import render

    with open_recovered_bank(folder) as bank:
        selected = bank.account(account)
        rows = [
            {"analyst": name, "limit": str(selected.view(name).limit), "used": str(selected.view(name).used)}
            for name in selected.vault.list_analysts(selected.id)
        ]
    if as_json:
        render.show_json({"analysts": rows})
        return
    nobody = [("nobody", "only the owner may ask; `noisebank analyst limit NAME EPSILON` lets others")]
    render.show_facts(
        "Analysts", [(row["analyst"], f"learned {row['used']} of {row['limit']}") for row in rows] or nobody
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


@click.command("pause")
@bank_option
@account_option
@owner_key_option
@json_option
@handle_errors
def pause_account(folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """Stop all spending of an account, until `resume`. Nothing else changes.

    Example:  noisebank pause
    """
    _set_paused("pause", folder, account, owner_key, as_json)


@click.command("resume")
@bank_option
@account_option
@owner_key_option
@json_option
@handle_errors
def resume_account(folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """End a pause.

    Example:  noisebank resume
    """
    _set_paused("resume", folder, account, owner_key, as_json)


def _set_paused(function: str, folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    from noisebank.cli import render

    with open_recovered_bank(folder, owner_key) as bank:
        selected = bank.account(account)
        bank.ledger.call_as_owner(function, selected.id)
        paused = selected.state.paused
    render.show_json({"paused": paused}) if as_json else render.print_line("paused" if paused else "going on")
