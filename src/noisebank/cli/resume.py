"""`noisebank resume`: let a paused account answer again."""

from __future__ import annotations

from pathlib import Path

import click

from noisebank.cli.options import (
    account_option,
    bank_option,
    handle_errors,
    json_option,
    owner_key_option,
)
from noisebank.cli.pause import set_paused


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
    set_paused("resume", folder, account, owner_key, as_json)
