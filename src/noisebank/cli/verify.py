"""`noisebank verify`: recompute the books, from a journal, a bundle, a bank's folder or a chain."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from noisebank.cli.options import handle_errors, json_option
from noisebank.core.extras import needs_extra


@click.command("verify")
@click.argument("journal", type=click.Path(path_type=Path), required=False)
@click.option("--rpc", metavar="URL", help="Instead of a journal: a node of the chain that holds the ledger.")
@click.option("--contract", metavar="ADDRESS", help="With --rpc: the ledger's address.")
@click.option("--from-block", type=int, default=0, show_default=True, help="With --rpc: the block of its deployment.")
@click.option("--head", help="Digest of a block that you pinned earlier.")
@click.option("--receipt", "receipts", multiple=True, type=click.Path(path_type=Path), help="A receipt that you hold.")
@click.option("--anchors", metavar="URL", help="A node of a chain on which the journal was anchored.")
@click.option(
    "--anchor-contract", metavar="ADDRESS", help="With --anchors: where; all contracts are searched if not said."
)
@click.option(
    "--openings", "opened", multiple=True, type=click.Path(path_type=Path), help="Records opened by the owner."
)
@json_option
@handle_errors
def verify_books(
    journal: Path | None,
    rpc: str | None,
    contract: str | None,
    from_block: int,
    head: str | None,
    receipts: tuple[Path, ...],
    anchors: str | None,
    anchor_contract: str | None,
    opened: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Recompute the books. Trusts nobody.

    JOURNAL is an exported journal, a bundle (.zip) or a bank's folder; or name a chain's node and the
    ledger's address there.

    Example:  noisebank verify journal.jsonl --head 5f1c... --receipt receipt.json
    """
    from noisebank.cli import render
    from noisebank.core.errors import BadRequest
    from noisebank.verifier.bundle import read_openings
    from noisebank.verifier.verification import verify as verify_lines
    from noisebank.verifier.verification import verify_chain

    if (journal is None) == (rpc is None):
        raise BadRequest("journal", journal or None, "name a journal, or a chain with --rpc and --contract")
    if rpc is not None and (contract is None or anchors is not None):
        raise BadRequest("contract", contract or None, "--rpc needs --contract, and no --anchors")
    held = [_load_receipt(path) for path in receipts]
    records = [read_openings(path) for path in opened]
    with render.show_progress("verifying", quiet=as_json) as moved:
        if rpc is not None and contract is not None:
            report = verify_chain(
                rpc, contract, first=from_block, head=head, receipts=held, openings=records,
                progress=lambda done: moved(done, 0),
            )  # fmt: skip
        else:
            assert journal is not None
            lines, bundled = _load_journal(journal)
            report = verify_lines(
                lines, head=head, receipts=held, openings=[*bundled, *records], anchors=anchors,
                anchor_contract=anchor_contract, progress=lambda done: moved(done, len(lines) - 1),
            )  # fmt: skip
    render.show_json(report.to_json()) if as_json else render.show_report(report)
    sys.exit(0 if report.passed else 1)


def _load_receipt(path: Path) -> dict[str, object]:
    from noisebank.core.errors import BadBank
    from noisebank.core.receipts import read_receipt

    fields = read_receipt(path.read_text()) if path.is_file() else None
    if fields is None:
        raise BadBank(f"{path} holds no receipt")
    return fields


def _load_journal(source: Path) -> tuple[list[str], list[dict[str, object]]]:
    """Reads a journal's lines and openings: from an export or a bundle, or from a bank's folder without opening it."""
    from noisebank.core.errors import BadBank
    from noisebank.ledger.block import read_exported_lines
    from noisebank.verifier.bundle import read_bundle

    if source.is_dir():
        with needs_extra("bank", "reading a bank's folder"):
            from noisebank.ledger.journal import JOURNAL_FILE, Journal
        if not (source / JOURNAL_FILE).is_file():
            raise BadBank(f"{source} is no bank with a journal; a ledger on a chain is verified with --rpc")
        journal = Journal(source / JOURNAL_FILE)
        try:
            return list(journal.read_lines()), []
        finally:
            journal.close()
    if source.suffix == ".zip":
        bundle = read_bundle(source)
        return list(bundle.journal_lines), list(bundle.openings)
    return list(read_exported_lines(source)), []
