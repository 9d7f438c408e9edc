"""statement, verify: the books, for the owner and for anyone."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from noisebank.commands.options import as_json, guarded, in_bank, of_account, opened_bank


@click.command()
@in_bank
@of_account
@click.option("--last", type=int, default=10, show_default=True, help="How many entries to show.")
@click.option("--journal", type=click.Path(path_type=Path), help="Write the journal: all that a verifier needs.")
@click.option(
    "--openings",
    "opened",
    type=click.Path(path_type=Path),
    help="Write questions, answers and salts: with them every charge can be recomputed.",
)
@as_json
@guarded
def statement(
    folder: Path, account: str | None, last: int, journal: Path | None, opened: Path | None, as_json: bool
) -> None:
    """Show an account's history and balance, and export the books.

    Example:  noisebank statement --journal journal.jsonl --openings openings.json
    """
    import json

    from noisebank import console
    from noisebank.statement import openings
    from noisebank.statement import statement as make

    with opened_bank(folder) as bank:
        found = bank.account(account)
        made = make(found)
        if journal is not None:
            journal.write_text("\n".join(bank.export()) + "\n")
        if opened is not None:
            opened.write_text(json.dumps(openings(found), indent=1) + "\n")
        head = bank.head()
    if as_json:
        console.show_json({**console.plain_statement(made), "head": head.digest.hex()})
        return
    console.show_statement(made, last)
    console.say(f"head of the journal: {head.digest.hex()} (block {head.number}); keep it somewhere else")


@click.command()
@click.argument("journal", type=click.Path(path_type=Path))
@click.option("--head", help="Digest of a block that you pinned earlier.")
@click.option("--receipt", "receipts", multiple=True, type=click.Path(path_type=Path), help="A receipt that you hold.")
@click.option(
    "--openings", "opened", multiple=True, type=click.Path(path_type=Path), help="Records opened by the owner."
)
@as_json
@guarded
def verify(
    journal: Path, head: str | None, receipts: tuple[Path, ...], opened: tuple[Path, ...], as_json: bool
) -> None:
    """Recompute the books from JOURNAL, an exported journal or a bank's folder. Trusts nobody.

    Example:  noisebank verify journal.jsonl --head 5f1c... --receipt receipt.json
    """
    from noisebank import console
    from noisebank.answers import read_receipt
    from noisebank.audit.openings import read_openings
    from noisebank.audit.verifier import verify as check
    from noisebank.errors import BadBank

    held = []
    for path in receipts:
        fields = read_receipt(path.read_text()) if path.is_file() else None
        if fields is None:
            raise BadBank(f"{path} holds no receipt")
        held.append(fields)
    lines = _journal_lines(journal)
    with console.progress("verifying", quiet=as_json) as moved:
        report = check(
            lines, head=head, receipts=held, openings=[read_openings(path) for path in opened],
            progress=lambda done: moved(done, len(lines) - 1),
        )  # fmt: skip
    console.show_json(report.plain()) if as_json else console.show_report(report)
    sys.exit(0 if report.passed else 1)


def _journal_lines(source: Path) -> list[str]:
    """From an export, or straight from a bank's journal file without opening the bank."""
    from noisebank.errors import BadBank
    from noisebank.ledger.journal import Journal, read_lines

    if source.is_dir():
        from noisebank.bank import JOURNAL

        if not (source / JOURNAL).is_file():
            raise BadBank(f"{source} is no bank and no journal")
        journal = Journal(source / JOURNAL)
        try:
            return list(journal.lines())
        finally:
            journal.close()
    return list(read_lines(source))
