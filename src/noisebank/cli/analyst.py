"""`noisebank analyst`, `roles`, `pause` and `resume`: who may do what, and how much."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from noisebank.cli.options import as_json, guarded, in_bank, of_account, opened_bank, owner_key


@click.group("analyst")
def analyst() -> None:
    """Set how much each analyst may learn, and see what they have learned."""


@analyst.command("limit")
@click.argument("name")
@click.argument("epsilon")
@in_bank
@of_account
@owner_key
@as_json
@guarded
def limit(name: str, epsilon: str, folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """Let analyst NAME learn as much as EPSILON allows, at the account's delta.

    EPSILON 0 means: no more than was learned so far. The account's budget bounds all analysts together. Less than
    before ends NAME's sessions with a service.

    Example:  noisebank analyst limit maria 1
    """
    from noisebank.cli import render as console
    from noisebank.core.entropy import SystemEntropy
    from noisebank.core.units import exact
    from noisebank.privacy.calibration import budget_precision
    from noisebank.service.auth import FILE, Access

    with opened_bank(folder, owner_key) as bank:
        selected = bank.account(account)
        value = exact(epsilon, "epsilon")
        before, used = selected.view(name).limit, selected.view(name).used
        units = budget_precision(value, selected.policy.delta).units if value else used.units
        bank.ledger.set_limit(selected.id, selected.analyst(name), units)
        selected.vault.save_analyst(selected.id, selected.analyst(name), name)
        view = selected.view(name)
    if view.limit < before and (folder / FILE).is_file():
        with closing(Access(folder / FILE, SystemEntropy())) as access:
            access.end_sessions(name)  # a session ends with what made it
    facts = {"analyst": name, "limit": view.limit, "used": view.used}
    console.show_json(facts) if as_json else console.say(f"{name} may learn {view.limit}, and has learned {view.used}")


@analyst.command("list")
@in_bank
@of_account
@as_json
@guarded
def list_(folder: Path, account: str | None, as_json: bool) -> None:
    """Show every analyst's limit and use.

    Example:  noisebank analyst list
    """
    from noisebank.cli import render as console

    with opened_bank(folder) as bank:
        selected = bank.account(account)
        rows = [
            {"analyst": name, "limit": str(selected.view(name).limit), "used": str(selected.view(name).used)}
            for name in selected.vault.analysts(selected.id)
        ]
    if as_json:
        console.show_json({"analysts": rows})
        return
    nobody = [("nobody", "only the owner may ask; `noisebank analyst limit NAME EPSILON` lets others")]
    console.facts("Analysts", [(row["analyst"], f"learned {row['used']} of {row['limit']}") for row in rows] or nobody)


@click.group("roles")
def roles() -> None:
    """See and hand over the roles of owner and curator."""


@roles.command("show")
@in_bank
@of_account
@as_json
@guarded
def show(folder: Path, account: str | None, as_json: bool) -> None:
    """Show who holds the roles of an account.

    Example:  noisebank roles show
    """
    from noisebank.cli import render as console

    with opened_bank(folder) as bank:
        state = bank.account(account).state
    facts = {"owner": state.owner, "curator": state.curator, "paused": state.paused, "version": state.version}
    console.show_json(facts) if as_json else console.facts("Roles", [(k, str(v)) for k, v in facts.items()])


@roles.command("curator")
@in_bank
@owner_key
@as_json
@guarded
def curator(folder: Path, owner_key: Path | None, as_json: bool) -> None:
    """Give the bank a new curator's key, for all of its accounts; the old one can no longer reserve.

    Run it again if it was interrupted. On a chain the new key needs funds: it says which.

    Example:  noisebank roles curator --owner-key /media/usb/owner.key
    """
    from noisebank.cli import render as console

    with opened_bank(folder, owner_key) as bank:
        address, moved = bank.rotate_curator()
    facts = {"curator": address, "accounts": moved}
    console.show_json(facts) if as_json else console.say(f"the curator of {moved} accounts is now {address}")


@roles.command("owner")
@click.argument("address")
@in_bank
@of_account
@owner_key
@as_json
@guarded
def owner(address: str, folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """Name ADDRESS as the next owner of an account, who must accept.

    Example:  noisebank roles owner 0x52908400098527886e0f7030069857d2e4169ee7
    """
    from noisebank.cli import render as console
    from noisebank.core.errors import BadRequest
    from noisebank.ledger.abi import ADDRESS

    if not ADDRESS.fullmatch(address):
        raise BadRequest("address", address, "an address has 40 hexadecimal digits after 0x")
    with opened_bank(folder, owner_key) as bank:
        bank.ledger.manage("propose_owner", bank.account(account).id, address.lower())
    facts = {"proposed": address.lower()}
    console.show_json(facts) if as_json else console.say("proposed; the next owner runs: noisebank roles accept")


@roles.command("accept")
@in_bank
@of_account
@owner_key
@as_json
@guarded
def accept(folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """Take over as the owner of an account, with the key that was proposed.

    Example:  noisebank roles accept --owner-key /media/usb/my.key
    """
    from noisebank.cli import render as console
    from noisebank.ledger.protocol import Role

    with opened_bank(folder, owner_key) as bank:
        selected = bank.account(account)
        bank.ledger.accept(Role.OWNER, selected.id)
        state = selected.state
    console.show_json({"owner": state.owner}) if as_json else console.say(f"the owner is now {state.owner}")


@click.command("pause")
@in_bank
@of_account
@owner_key
@as_json
@guarded
def pause(folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """Stop all spending of an account, until `resume`. Nothing else changes.

    Example:  noisebank pause
    """
    _switch("pause", folder, account, owner_key, as_json)


@click.command("resume")
@in_bank
@of_account
@owner_key
@as_json
@guarded
def resume(folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """End a pause.

    Example:  noisebank resume
    """
    _switch("resume", folder, account, owner_key, as_json)


def _switch(function: str, folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    from noisebank.cli import render as console

    with opened_bank(folder, owner_key) as bank:
        selected = bank.account(account)
        bank.ledger.manage(function, selected.id)
        paused = selected.state.paused
    console.show_json({"paused": paused}) if as_json else console.say("paused" if paused else "going on")
