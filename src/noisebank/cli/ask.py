"""`noisebank ask`: an answer, charged on the ledger before the data is read."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisebank.cli.options import (
    INTERRUPTED,
    account_option,
    accuracy_options,
    bank_option,
    handle_errors,
    json_option,
    open_bank_parts,
    open_recovered_bank,
)
from noisebank.cli.question_file import ask_questions, make_keys, read_questions
from noisebank.core.asks import collect_accuracy
from noisebank.core.errors import BadRequest, NoisebankError

if TYPE_CHECKING:
    from noisebank.bank.folder import BankParts
    from noisebank.core.receipts import Receipt
    from noisebank.core.result import Result


@click.command("ask")
@click.argument("question", required=False)
@accuracy_options
@click.option(
    "--file",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Instead of one question: those of a file, one per line or SQL separated by semicolons; - for standard input.",
)
@click.option("--atomic", is_flag=True, help="With --file: charge all of up to 16 questions together, or none.")
@click.option(
    "--max-cost",
    metavar="P",
    help="The most to spend on it: precision, or a share of the budget, e.g. 1%; with --file, on each.",
)
@click.option("--key", help="Idempotency key: asking again with it gives the same answer and charges once.")
@click.option("--receipt", type=click.Path(path_type=Path), help="Write the receipt to this file.")
@click.option("--analyst", default="owner", show_default=True, help="On whose behalf; see `noisebank analyst`.")
@bank_option
@account_option
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print the table as CSV, with the ends of each interval.")
@handle_errors
def ask_question(
    question: str | None, file: Path | None, atomic: bool, max_cost: str | None, key: str | None, receipt: Path | None,
    analyst: str, folder: Path, account: str | None, as_json: bool, as_csv: bool, **options: Any,
) -> None:  # fmt: skip
    """Answer a question, with noise, and charge what is new in it.

    QUESTION is SQL or the name of one of the policy's queries. Say how good the answer shall be in
    one way: --within, --relative, --sigma, --spend, or --epsilon and --delta. The questions of a --file have an
    outcome each: one that fails does not affect the others, and the command then ends with 1.

    Example:  noisebank ask "SELECT COUNT(*) FROM survey WHERE age > 60" --within 25
    """
    if (question is None) == (file is None):
        raise BadRequest("question", question or None, "ask one question, or those of a --file")
    if atomic and file is None:
        raise BadRequest("atomic", question, "goes with --file: one question is charged at once anyway")
    if as_csv and (as_json or question is None):
        raise BadRequest("csv", "json" if as_json else file, "goes with one question, without --json")
    with _report_interrupt(folder, analyst) as keys:
        # A key of our own makes an interrupted question one that can be asked again.
        key = _make_key() if key is None else key
        if file is not None:
            questions, accuracy = read_questions(file), collect_accuracy(**options)
            keys += [key, *make_keys(key, len(questions), atomic)]
            with open_recovered_bank(folder) as bank:
                outcomes = ask_questions(bank, account, questions, accuracy, max_cost, analyst, key, atomic)
            _show_outcomes(questions, outcomes, receipt, as_json)
            return
        assert question is not None
        keys += [key, key]
        with open_recovered_bank(folder) as bank:
            selected = bank.find_account(question, account)
            result = selected.ask(question, max_cost=max_cost, key=key, analyst=analyst, **options)
        _show_result(result, receipt, as_json, as_csv)


def _make_key() -> str:
    from noisebank.core.entropy import SystemEntropy

    return SystemEntropy().token(16).hex()


def _show_result(result: Result, receipt: Path | None, as_json: bool, as_csv: bool) -> None:
    from noisebank.cli.render import show_json, show_result

    if receipt is not None:
        _write_receipts(receipt, result.receipts)
    if as_csv:
        click.echo(result.to_csv(), nl=False)
    elif as_json:
        show_json(result.to_json())
    else:
        show_result(result)


def _show_outcomes(
    questions: Sequence[str], outcomes: Sequence[Result | NoisebankError], receipt: Path | None, as_json: bool
) -> None:
    """Shows what came of each question; ends the command with 1 if one has no answer."""
    from noisebank.cli.render import show_outcomes

    answers = [outcome for outcome in outcomes if not isinstance(outcome, NoisebankError)]
    if receipt is not None:
        _write_receipts(receipt, [each for answer in answers for each in answer.receipts])
    show_outcomes(questions, outcomes, as_json)
    sys.exit(0 if len(answers) == len(questions) else 1)


def _write_receipts(path: Path, receipts: Sequence[Receipt]) -> None:
    """Writes one receipt per question behind a result: to PATH, then PATH.2, PATH.3, ..."""
    for number, receipt in enumerate(receipts, 1):
        target = path if number == 1 else path.with_name(f"{path.name}.{number}")
        target.write_text(receipt.to_canonical_json() + "\n")


@contextmanager
def _report_interrupt(folder: Path, analyst: str) -> Iterator[list[str]]:
    """Ends the command at Ctrl-C, and says whether something was charged and how to get its answer.

    Yields a list for keys: first the one that is said with --key, then those of the questions, made from it. As long as
    it is empty, nothing can have been charged.
    """
    keys: list[str] = []
    try:
        yield keys
    except KeyboardInterrupt:
        if not keys:
            click.echo("interrupted; nothing was charged", err=True)
            sys.exit(INTERRUPTED)
        again = f"ask the same again with --key {shlex.quote(keys[0])}"
        try:
            with open_bank_parts(folder) as parts:
                accounts = [state.account for state in parts.ledger.books.list_accounts()]
                reserved = {
                    ending
                    for ending in ("", " / look 1")
                    if any(_is_reserved(parts, each, analyst, key + ending) for each in accounts for key in keys[1:])
                }
        except (NoisebankError, KeyboardInterrupt):
            click.echo(f"interrupted; whether it was charged is not known: {again}, it is charged once", err=True)
        else:
            outcome = "nothing was charged"
            if "" in reserved:
                outcome = f"the question is charged: {again} to get its answer, at no further cost"
            elif reserved:
                outcome = f"a coarse look is charged: {again} to go on from it, and pay the rest"
            click.echo(f"interrupted; {outcome}", err=True)
        sys.exit(INTERRUPTED)


def _is_reserved(parts: BankParts, account: bytes, analyst: str, key: str) -> bool:
    """Whether the ledger holds a reservation for this key; questions of one SELECT are reserved together."""
    request = parts.vault.find_request_by_key(account, analyst, key)
    if request is not None and "parts" in request.body:
        first = f"{key} / part 1 of {len(request.body['parts'])}"
        request = parts.vault.find_request_by_key(account, analyst, first)
    return request is not None and parts.ledger.find_reservation(account, request.id) is not None
