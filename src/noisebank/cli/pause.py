"""`noisebank pause`: refuse every new request of an account, free ones too, until `noisebank resume`."""

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
    set_paused("pause", folder, account, owner_key, as_json)


def set_paused(function: str, folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    from noisebank.cli import render

    with open_recovered_bank(folder, owner_key) as bank:
        selected = bank.account(account)
        bank.ledger.call_as_owner(function, selected.id)
        paused = selected.state.paused
    render.show_json({"paused": paused}) if as_json else render.print_line("paused" if paused else "going on")
