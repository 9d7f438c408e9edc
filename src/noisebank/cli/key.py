"""`noisebank key`: keys, sessions and disabled people of a served bank."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisebank.cli.options import bank_option, handle_errors, json_option

if TYPE_CHECKING:
    from noisebank.service.auth import AccessControl


@click.group("key")
def key_group() -> None:
    """Say who may come in: keys of the HTTP API, sessions."""


@key_group.command("make")
@click.argument("name")
@click.option("--role", type=click.Choice(["analyst", "curator", "auditor"]),
              help="Of somebody new: analyst, unless said. The owner is there from the start.")  # fmt: skip
@click.option("--scope", "scopes", multiple=True, type=click.Choice(["quote", "ask", "statement", "metrics", "manage"]),
              help="Only this; may be repeated. All that the role may do, unless said.")  # fmt: skip
@click.option("--days", type=float, help="Until it expires; never, unless said.")
@click.option("--label", default="", help="What it is for.")
@click.option("--wallet", help="The address that signs in; somebody who is there already must have it.")
@bank_option
@json_option
@handle_errors
def make_key(
    name: str, role: str | None, scopes: tuple[str, ...], days: float | None, label: str, wallet: str | None,
    folder: Path, as_json: bool,
) -> None:  # fmt: skip
    """Make a key for NAME, and NAME if nobody has it. The secret is shown this once.

    Works while the bank is being served. An analyst also needs a limit: `noisebank analyst limit`.

    Example:  noisebank key make owner
    Example:  noisebank key make maria --days 90
    """
    from noisebank.cli import render
    from noisebank.core.errors import BadRequest
    from noisebank.service.roles import Role, Scope

    if days is not None and not 0 < days <= 3650:
        raise BadRequest("days", days, "must lie above 0, at most 3650")
    with closing(_open_access(folder)) as access:
        person = access.find_person(name) or access.add_person(name, Role(role or "analyst"), wallet)
        if role is not None and person.role is not Role(role):
            raise BadRequest("role", role, f"{name} is there already, as {person.role.value}")
        if wallet is not None and person.wallet != wallet.lower():
            raise BadRequest("wallet", wallet, f"{name} is there already, with another wallet or none; the API sets it")
        key_scopes = [Scope(scope) for scope in scopes] or None
        secret, entry = access.make_key(name, key_scopes, label, None if days is None else days * 86_400)
    facts = {"name": name, "id": entry.id, "scopes": list(entry.scopes), "expires": entry.expires, "secret": secret}
    rows = [("for", name), ("may", ", ".join(entry.scopes) or "read what is public"), ("secret", secret)]
    render.show_json(facts) if as_json else render.show_facts("A new key, shown this once", rows)


@key_group.command("list")
@click.argument("name")
@bank_option
@json_option
@handle_errors
def list_keys(name: str, folder: Path, as_json: bool) -> None:
    """Show NAME's keys, without their secrets.

    Example:  noisebank key list maria
    """
    from noisebank.cli import render

    with closing(_open_access(folder)) as access:
        keys = access.list_keys(name)
    rows = [{"id": row.id, "label": row.label, "scopes": list(row.scopes), "expires": row.expires,
             "revoked": row.revoked} for row in keys]  # fmt: skip
    if as_json:
        render.show_json({"keys": rows})
        return
    lines = [(row.id, ("revoked" if row.revoked else ", ".join(row.scopes)) + f"  {row.label}") for row in keys]
    render.show_facts(f"Keys of {name}", lines or [("none", "make one with `noisebank key make`")])


@key_group.command("revoke")
@click.argument("name")
@click.argument("id")
@bank_option
@json_option
@handle_errors
def revoke_key(name: str, id: str, folder: Path, as_json: bool) -> None:
    """Take a key away, at once, also from a service that runs.

    Example:  noisebank key revoke maria 0FJx2mYp3aBd
    """
    from noisebank.cli import render

    with closing(_open_access(folder)) as access:
        access.revoke_key(name, id)
    render.show_json({"revoked": id}) if as_json else render.print_line(f"the key {id} opens nothing any more")


@key_group.command("disable")
@click.argument("name")
@bank_option
@json_option
@handle_errors
def disable_person(name: str, folder: Path, as_json: bool) -> None:
    """Shut NAME out, at once, also from a service that runs: keys open nothing, sessions end.

    What NAME was charged before is finished and can be read by the owner.

    Example:  noisebank key disable maria
    """
    from noisebank.cli import render

    with closing(_open_access(folder)) as access:
        access.disable_person(name)
    render.show_json({"disabled": name}) if as_json else render.print_line(f"nothing of {name} opens anything any more")


@key_group.command("enable")
@click.argument("name")
@bank_option
@json_option
@handle_errors
def enable_person(name: str, folder: Path, as_json: bool) -> None:
    """Let NAME in again, with the keys that are not revoked or by a new sign-in.

    Example:  noisebank key enable maria
    """
    from noisebank.cli import render

    with closing(_open_access(folder)) as access:
        access.enable_person(name)
    render.show_json({"enabled": name}) if as_json else render.print_line(f"{name} may come in again")


@key_group.command("sessions")
@click.argument("name", required=False)
@bank_option
@json_option
@handle_errors
def list_sessions(name: str | None, folder: Path, as_json: bool) -> None:
    """Show the sessions that are open, of NAME or of everybody.

    Example:  noisebank key sessions maria
    """
    from noisebank.cli import render

    with closing(_open_access(folder)) as access:
        open_sessions = access.list_sessions(name)
    if as_json:
        render.show_json({"sessions": [session.to_json() for session in open_sessions]})
        return
    rows = [
        (row.id, f"{row.person}, by " + (f"the key {row.key}" if row.key else f"the wallet {row.wallet}"))
        for row in open_sessions
    ]
    render.show_facts("Open sessions", rows or [("none", "nobody is signed in")])


@key_group.command("end")
@click.argument("id")
@bank_option
@json_option
@handle_errors
def end_session(id: str, folder: Path, as_json: bool) -> None:
    """End a session, at once, also in a service that runs.

    Example:  noisebank key end 0FJx2mYp3aBd
    """
    from noisebank.cli import render

    with closing(_open_access(folder)) as access:
        access.end_session_by_id(None, id)
    render.show_json({"ended": id}) if as_json else render.print_line(f"the session {id} is over")


def _open_access(folder: Path) -> AccessControl:
    from noisebank.bank.folder import VAULT
    from noisebank.core.entropy import SystemEntropy
    from noisebank.core.errors import BadBank
    from noisebank.service.auth import ACCESS_FILE, AccessControl

    if not (folder / "keys").is_dir() and not (folder / VAULT).is_file():
        raise BadBank(f"{folder} is no bank; make one with `noisebank init {folder}`")
    return AccessControl(folder / ACCESS_FILE, SystemEntropy())
