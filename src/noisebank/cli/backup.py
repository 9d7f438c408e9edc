"""`noisebank backup`: copy a bank while it is in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from noisebank.cli.options import handle_errors, json_option


@click.command("backup")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--with-keys", is_flag=True, help="Copy the keys and the address of a chain's node as well.")
@json_option
@handle_errors
def back_up_bank(folder: Path, target: Path, with_keys: bool, as_json: bool) -> None:
    """Copy the bank in FOLDER to the new folder TARGET. It may be in use.

    The copy is one moment of the bank: replayed, held against its vault and signed before TARGET
    appears. It holds questions, answers and salts: guard it like the bank. Keys are left out unless
    --with-keys is said.

    Example:  noisebank backup bank /media/backup/2026-11-16
    """
    from noisebank.bank.backup import make_backup
    from noisebank.cli import render

    copied = make_backup(folder, target, with_keys)
    facts = copied.manifest.facts
    result: dict[str, Any] = {
        "backup": str(target),
        "manifest": copied.manifest_digest,
        "signer": copied.manifest.signer,
        "answers": facts["answers"],
        "keys": with_keys,
        "files": sorted(copied.manifest.files),
        "ledger": copied.manifest.ledger,
    }
    if as_json:
        render.show_json(result)
        return
    ledger = copied.manifest.ledger
    books = (
        f"up to block {ledger['block']}, head {ledger['head'][:16]}"
        if ledger["kind"] == "journal"
        else f"on chain {ledger['chain_id']}: not copied"
    )
    render.show_facts(f"A backup of {folder}", [
        ("books", books), ("answers", str(facts["answers"])), ("keys", "copied" if with_keys else "not copied"),
        ("signed by", copied.manifest.signer), ("manifest", f"{copied.manifest_digest} (keep this elsewhere)"),
    ])  # fmt: skip
