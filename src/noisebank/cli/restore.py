"""`noisebank restore`: put a backup back, after every check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisebank.cli.options import handle_errors, json_option

if TYPE_CHECKING:
    from noisebank.bank.restore import RestoreResult


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
    """Put the backup SOURCE back as the bank FOLDER. Every check comes first.

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
    if as_json:
        render.show_json(_result_to_json(folder, done))
        return
    render.show_facts(f"Restored {folder}", [
        ("books", f"from {done.journal_origin}; they end with block {done.newest_block}, head {done.head[:16]}"),
        ("checked", f"{checked.answer_count} answers, {checked.recomputed_count} records recomputed from the policy"),
        ("lost", f"{len(checked.lost_ids)} answers; {done.given_up_count} reservations given up"),
        ("compared with", "; ".join(done.compared_with) or "nothing besides the books themselves"),
        *([("moved aside", str(done.moved_aside))] if done.moved_aside else []),
    ])  # fmt: skip


def _result_to_json(folder: Path, done: RestoreResult) -> dict[str, Any]:
    """Returns what was restored, and what was not, for --json."""
    checked = done.vault_check
    return {
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
