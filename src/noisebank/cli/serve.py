"""`noisebank serve`: a bank behind HTTP."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from noisebank.cli.options import as_json, guarded, opened_bank, owner_key


@click.command("serve")
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
    from noisebank.cli import render as console
    from noisebank.service.server import listening
    from noisebank.service.server import serve as run
    from noisebank.service.settings import read_settings

    effective = read_settings(settings, bank=bank, host=host, port=port, owner_key=owner_key)
    if show_settings:
        plain = effective.plain()
        console.show_json(plain) if as_json else console.facts("Settings", list(plain.items()))
        return
    with opened_bank(effective.bank, effective.owner_key) as opened:
        door = listening(effective)
        effective = replace(effective, port=door.getsockname()[1])
        run(opened, effective, door, lambda: _say_where(effective.address, as_json))


def _say_where(address: str, as_json: bool) -> None:
    from noisebank.cli import render as console

    console.show_json({"address": address}) if as_json else console.say(f"serving at {address}")
