"""`noisebank statement`: an account's balance and history, and exports for verifiers."""

from __future__ import annotations

from pathlib import Path

import click

from noisebank.cli.options import account_option, bank_option, handle_errors, json_option, open_recovered_bank


@click.command("statement")
@bank_option
@account_option
@click.option("--last", type=int, default=10, show_default=True, help="How many entries to show.")
@click.option("--journal", type=click.Path(path_type=Path), help="Write the journal: all that a verifier needs.")
@click.option(
    "--openings",
    "opened",
    type=click.Path(path_type=Path),
    help="Write questions, answers and salts: with them every charge can be recomputed.",
)
@click.option(
    "--bundle", type=click.Path(path_type=Path), help="Write journal, head and openings of all accounts, as one zip."
)
@json_option
@handle_errors
def show_statement(
    folder: Path,
    account: str | None,
    last: int,
    journal: Path | None,
    opened: Path | None,
    bundle: Path | None,
    as_json: bool,
) -> None:
    """Show an account's history and balance, and export the books.

    Example:  noisebank statement --journal journal.jsonl --openings openings.json
    """
    import json

    from noisebank.account.statement import make_openings
    from noisebank.bank.bundle import write_bundle
    from noisebank.cli import render

    with open_recovered_bank(folder) as bank:
        selected = bank.account(account)
        current = selected.statement()
        if journal is not None:
            journal.write_text("\n".join(bank.export()) + "\n")
        if opened is not None:
            opened.write_text(json.dumps(make_openings(selected), indent=1) + "\n")
        if bundle is not None:
            write_bundle(bundle, bank)
        head = bank.head()
    if as_json:
        render.show_json({**render.statement_to_json(current), "head": head.digest.hex()})
        return
    render.show_statement(current, last)
    render.print_line(f"head of the journal: {head.digest.hex()} (block {head.number}); keep it somewhere else")
