"""`noisebank backup` and `restore`: copy a bank while it is in use, check a copy and put it back."""

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
    """Copy the bank in FOLDER to the new folder TARGET, also while it is in use.

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
@json_option
@handle_errors
def restore_bank(
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
    from noisebank.bank.restore import RestoreOptions
    from noisebank.bank.restore import restore as restore_backup
    from noisebank.cli import render

    done = restore_backup(source, folder, RestoreOptions(replace, journal, head, anchors, anchor_contract, vault, rpc))
    checked = done.vault_check
    for warning in done.warnings:
        click.secho(f"warning: {warning}", err=True, fg="yellow")
    result: dict[str, Any] = {
        "bank": str(folder),
        "block": done.newest_block,
        "head": done.head,
        "journal": done.journal_origin,
        "signer": done.manifest.signer,
        "accounts": checked.account_count,
        "answers": checked.answer_count,
        "recomputed": checked.recomputed_count,
        "lost": len(checked.lost_ids),
        "never_measured": done.given_up_count,
        "compared_with": list(done.compared_with),
        "keys": done.has_keys,
        "moved_aside": str(done.moved_aside) if done.moved_aside else None,
        "warnings": list(done.warnings),
    }
    if as_json:
        render.show_json(result)
        return
    render.show_facts(f"Restored {folder}", [
        ("books", f"from {done.journal_origin}; they end with block {done.newest_block}, head {done.head[:16]}"),
        ("checked", f"{checked.answer_count} answers, {checked.recomputed_count} records recomputed from the policy"),
        ("lost", f"{len(checked.lost_ids)} answers; {done.given_up_count} reservations given up"),
        ("compared with", "; ".join(done.compared_with) or "nothing besides the books themselves"),
        *([("moved aside", str(done.moved_aside))] if done.moved_aside else []),
    ])  # fmt: skip
