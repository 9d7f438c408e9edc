"""`noisebank serve`: a bank behind HTTP."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from noisebank.cli.options import handle_errors, json_option, open_recovered_bank, owner_key_option


@click.command("serve")
@click.option("--settings", "-s", type=click.Path(path_type=Path), help="A TOML file; --show-settings lists its names.")
@click.option("--bank", "-b", type=click.Path(path_type=Path), envvar="NOISEBANK_BANK", help="The bank's folder.")
@click.option("--host", help="Where to listen; 127.0.0.1 unless said otherwise.")
@click.option("--port", "-p", help="The port; 8410 unless said otherwise, 0 for any.")
@owner_key_option
@click.option("--show-settings", is_flag=True, help="Print every setting as it would be, and stop.")
@json_option
@handle_errors
def serve_bank(
    settings: Path | None, bank: Path | None, host: str | None, port: str | None, owner_key: Path | None,
    show_settings: bool, as_json: bool,
) -> None:  # fmt: skip
    """Serve a bank over HTTP: API under /v1, pages under /.

    Settings come from the file, then from NOISEBANK_... in the environment, then from options. Make the first key
    with `noisebank key make owner`. Stop with Ctrl-C or SIGTERM: what is reserved is finished first.

    Example:  noisebank serve --bank bank --port 8410
    """
    from noisebank.cli import render
    from noisebank.service.server import open_listener
    from noisebank.service.server import serve as run
    from noisebank.service.settings import read_settings

    effective = read_settings(settings, bank=bank, host=host, port=port, owner_key=owner_key)
    if show_settings:
        plain = effective.to_json()
        render.show_json(plain) if as_json else render.show_facts("Settings", list(plain.items()))
        return
    with open_recovered_bank(effective.bank, effective.owner_key) as opened:
        door = open_listener(effective)
        effective = replace(effective, port=door.getsockname()[1])
        run(opened, effective, door, lambda: _print_address(effective.address, as_json))


def _print_address(address: str, as_json: bool) -> None:
    from noisebank.cli import render

    render.show_json({"address": address}) if as_json else render.print_line(f"serving at {address}")
