"""`noisebank ask`: an answer, charged on the ledger before the data is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisebank.cli.options import (
    account_option,
    accuracy_options,
    bank_option,
    handle_errors,
    json_option,
    open_recovered_bank,
)

if TYPE_CHECKING:
    from noisebank.core.receipts import Receipt


@click.command("ask")
@click.argument("question")
@accuracy_options
@click.option("--max-cost", metavar="P", help="The most precision that may be spent on it.")
@click.option("--key", help="Idempotency key: asking again with it gives the same answer and charges once.")
@click.option("--receipt", type=click.Path(path_type=Path), help="Write the receipt to this file.")
@click.option("--analyst", default="owner", show_default=True, help="On whose behalf; see `noisebank analyst`.")
@bank_option
@account_option
@json_option
@handle_errors
def ask_question(
    question: str, max_cost: str | None, key: str | None, receipt: Path | None, analyst: str, folder: Path,
    account: str | None, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Answer a question, with noise, and charge what is new in it.

    QUESTION is SQL or the name of one of the policy's queries. Say how good the answer shall be in
    one way: --epsilon and --delta, --within, --relative, or --sigma.

    Example:  noisebank ask "SELECT COUNT(*) FROM survey WHERE age > 60" --within 25
    """
    from noisebank.cli.render import show_json, show_result

    with open_recovered_bank(folder) as bank:
        selected = bank.account(account)
        result = selected.ask(question, max_cost=max_cost, key=key, analyst=analyst, **options)
        if receipt is not None:
            _write_receipts(receipt, result.receipts)
    show_json(result.to_json()) if as_json else show_result(result)


def _write_receipts(path: Path, receipts: Sequence[Receipt]) -> None:
    """Writes one receipt per question behind a result: to PATH, then PATH.2, PATH.3, ..."""
    for number, receipt in enumerate(receipts, 1):
        target = path if number == 1 else path.with_name(f"{path.name}.{number}")
        target.write_text(receipt.to_canonical_json() + "\n")
