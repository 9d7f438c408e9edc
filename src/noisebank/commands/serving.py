"""serve, key: the bank as a service, and the first key to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisebank.commands.options import as_json, guarded, in_bank, opened_bank, owner_key

if TYPE_CHECKING:
    from noisebank.service.access import Access


@click.command()
@click.option("--settings", "-s", type=click.Path(path_type=Path), help="A TOML file; see the guide for its names.")
@click.option("--bank", "-b", type=click.Path(path_type=Path), envvar="NOISEBANK_BANK", help="The bank's folder.")
@click.option("--host", help="Where to listen; 127.0.0.1 unless said otherwise.")
@click.option("--port", "-p", help="The port; 8410 unless said otherwise, 0 for any.")
@owner_key
@click.option("--show-settings", is_flag=True, help="Print every setting as it would be, and stop.")
@as_json
@guarded
def serve(
    settings: Path | None, bank: Path | None, host: str | None, port: str | None, owner_key: Path | None,
    show_settings: bool, as_json: bool,
) -> None:  # fmt: skip
    """Serve a bank over HTTP: API under /v1, pages under /.

    Settings come from the file, then from NOISEBANK_... in the environment, then from options. Make the first key
    with `noisebank key make owner`. Stop with Ctrl-C or SIGTERM: what is reserved is finished first.

    Example:  noisebank serve --bank bank --port 8410
    """
    from noisebank import console
    from noisebank.service.server import listening
    from noisebank.service.server import serve as run
    from noisebank.service.settings import read_settings

    found = read_settings(settings, bank=bank, host=host, port=port, owner_key=owner_key)
    if show_settings:
        plain = found.plain()
        console.show_json(plain) if as_json else console.facts("Settings", list(plain.items()))
        return
    with opened_bank(found.bank, found.owner_key) as opened:
        door = listening(found)
        found = replace(found, port=door.getsockname()[1])
        run(opened, found, door, lambda: _say_where(found.address, as_json))


def _say_where(address: str, as_json: bool) -> None:
    from noisebank import console

    console.show_json({"address": address}) if as_json else console.say(f"serving at {address}")


@click.group()
def key() -> None:
    """Keys for the HTTP API: make, list, revoke."""


@key.command("make")
@click.argument("name")
@click.option("--role", type=click.Choice(["analyst", "curator", "auditor"]), default="analyst", show_default=True,
              help="Of somebody new; the owner is there from the start.")  # fmt: skip
@click.option("--scope", "scopes", multiple=True, type=click.Choice(["quote", "ask", "statement", "metrics", "manage"]),
              help="Only this; may be repeated. All that the role may do, unless said.")  # fmt: skip
@click.option("--days", type=float, help="Until it expires; never, unless said.")
@click.option("--label", default="", help="What it is for.")
@click.option("--wallet", help="Of somebody new: the address that signs in.")
@in_bank
@as_json
@guarded
def make(
    name: str, role: str, scopes: tuple[str, ...], days: float | None, label: str, wallet: str | None, folder: Path,
    as_json: bool,
) -> None:  # fmt: skip
    """Make a key for NAME, and NAME if nobody has it. The secret is shown this once.

    Works while the bank is being served. An analyst also needs a limit: `noisebank analyst limit`.

    Example:  noisebank key make owner
    Example:  noisebank key make maria --days 90
    """
    from noisebank import console
    from noisebank.errors import BadRequest
    from noisebank.service.access import Part, Scope

    if days is not None and not 0 < days <= 3650:
        raise BadRequest("days", days, "must lie above 0, at most 3650")
    access = _access(folder)
    try:
        if access.person(name) is None:
            access.add_person(name, Part(role), wallet)
        wanted = [Scope(scope) for scope in scopes] or None
        secret, made = access.make_key(name, wanted, label, None if days is None else days * 86_400)
    finally:
        access.close()
    shown = {"name": name, "id": made.id, "scopes": list(made.scopes), "expires": made.expires, "secret": secret}
    rows = [("for", name), ("may", ", ".join(made.scopes) or "read what is public"), ("secret", secret)]
    console.show_json(shown) if as_json else console.facts("A new key, shown this once", rows)


@key.command("list")
@click.argument("name")
@in_bank
@as_json
@guarded
def list_(name: str, folder: Path, as_json: bool) -> None:
    """Show NAME's keys, without their secrets.

    Example:  noisebank key list maria
    """
    from noisebank import console

    access = _access(folder)
    try:
        keys = access.keys(name)
    finally:
        access.close()
    rows = [{"id": each.id, "label": each.label, "scopes": list(each.scopes), "expires": each.expires,
             "revoked": each.revoked} for each in keys]  # fmt: skip
    if as_json:
        console.show_json({"keys": rows})
        return
    lines = [(each.id, ("revoked" if each.revoked else ", ".join(each.scopes)) + f"  {each.label}") for each in keys]
    console.facts(f"Keys of {name}", lines or [("none", "make one with `noisebank key make`")])


@key.command("revoke")
@click.argument("name")
@click.argument("id")
@in_bank
@as_json
@guarded
def revoke(name: str, id: str, folder: Path, as_json: bool) -> None:
    """Take a key away, at once, also from a service that runs.

    Example:  noisebank key revoke maria 0FJx2mYp3aBd
    """
    from noisebank import console

    access = _access(folder)
    try:
        access.revoke(name, id)
    finally:
        access.close()
    console.show_json({"revoked": id}) if as_json else console.say(f"the key {id} opens nothing any more")


def _access(folder: Path) -> Access:
    from noisebank.bank import VAULT
    from noisebank.entropy import SystemEntropy
    from noisebank.errors import BadBank
    from noisebank.service.access import FILE, Access

    if not (folder / "keys").is_dir() and not (folder / VAULT).is_file():
        raise BadBank(f"{folder} is no bank; make one with `noisebank init {folder}`")
    return Access(folder / FILE, SystemEntropy())
