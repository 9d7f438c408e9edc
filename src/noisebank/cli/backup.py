"""`noisebank backup` and `restore`: copy a bank while it is in use, check a copy and put it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from noisebank.cli.options import as_json, guarded


@click.command("backup")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--with-keys", is_flag=True, help="Copy the keys and the address of a chain's node as well.")
@as_json
@guarded
def backup(folder: Path, target: Path, with_keys: bool, as_json: bool) -> None:
    """Copy the bank in FOLDER to the new folder TARGET, also while it is in use.

    The copy is one moment of the bank: replayed, held against its vault and signed before TARGET
    appears. It holds questions, answers and salts: guard it like the bank. Keys are left out unless
    --with-keys is said.

    Example:  noisebank backup bank /media/backup/2026-11-16
    """
    from noisebank.bank.backup import make_backup
    from noisebank.cli import render as console

    copied = make_backup(folder, target, with_keys)
    facts = copied.manifest.facts
    result: dict[str, Any] = {"backup": str(target), "manifest": copied.digest, "signer": copied.manifest.signer,
             "answers": facts["answers"], "keys": with_keys, "files": sorted(copied.manifest.files),
             "ledger": copied.manifest.ledger}  # fmt: skip
    if as_json:
        console.show_json(result)
        return
    ledger = copied.manifest.ledger
    books = (
        f"up to block {ledger['block']}, head {ledger['head'][:16]}"
        if ledger["kind"] == "journal"
        else f"on chain {ledger['chain_id']}: not copied"
    )
    console.facts(f"A backup of {folder}", [
        ("books", books), ("answers", str(facts["answers"])), ("keys", "copied" if with_keys else "not copied"),
        ("signed by", copied.manifest.signer), ("manifest", f"{copied.digest} (keep this elsewhere)"),
    ])  # fmt: skip


@click.command("restore")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="FOLDER holds a bank: move it aside, use its journal if that is newer.")
@click.option(
    "--journal",
    type=click.Path(path_type=Path),
    help="An exported journal or bundle that may be newer than the backup's.",
)
@click.option("--head", help="Digest of a block that you pinned: it must be in the books.")
@click.option("--anchors", metavar="URL", help="A node of a chain on which the journal was anchored.")
@click.option("--anchor-contract", metavar="ADDRESS", help="With --anchors: where.")
@click.option("--vault", metavar="ADDRESS", help="An empty PostgreSQL database for the vault, or `file`.")
@click.option("--rpc", metavar="URL", help="A node of the chain that holds the ledger; or set NOISEBANK_RPC.")
@as_json
@guarded
def restore(
    source: Path,
    folder: Path,
    replace: bool,
    journal: Path | None,
    head: str | None,
    anchors: str | None,
    anchor_contract: str | None,
    vault: str | None,
    rpc: str | None,
    as_json: bool,
) -> None:
    """Put the backup SOURCE back as the bank FOLDER, after every check.

    Each byte is compared with the signed manifest, the books are replayed and recounted, every
    answer is held against them, every record recomputed from its policy. A copy forgets what came
    after it: what that means is said, and a newer journal is used wherever there is one.

    Example:  noisebank restore /media/backup/2026-11-16 bank --head 5f1c...
    """
    from noisebank import console
    from noisebank.bank.restore import Asked
    from noisebank.bank.restore import restore as restore_backup

    done = restore_backup(source, folder, Asked(replace, journal, head, anchors, anchor_contract, vault, rpc))
    checked = done.checked
    for warning in done.warnings:
        click.secho(f"warning: {warning}", err=True, fg="yellow")
    result: dict[str, Any] = {"bank": str(folder), "block": done.newest, "head": done.head, "journal": done.journal,
             "signer": done.manifest.signer, "accounts": checked.accounts, "answers": checked.answers,
             "recomputed": checked.recomputed, "lost": len(checked.lost), "never_measured": done.never_measured,
             "compared_with": list(done.compared_with), "keys": done.keys,
             "moved_aside": str(done.moved_aside) if done.moved_aside else None,
             "warnings": list(done.warnings)}  # fmt: skip
    if as_json:
        console.show_json(result)
        return
    console.facts(f"Restored {folder}", [
        ("books", f"from {done.journal}; they end with block {done.newest}, head {done.head[:16]}"),
        ("checked", f"{checked.answers} answers, {checked.recomputed} records recomputed from the policy"),
        ("lost", f"{len(checked.lost)} answers; {done.never_measured} reservations given up"),
        ("compared with", "; ".join(done.compared_with) or "nothing besides the books themselves"),
        *([("moved aside", str(done.moved_aside))] if done.moved_aside else []),
    ])  # fmt: skip
