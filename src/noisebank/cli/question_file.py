"""Reads the questions of a file, and asks them, for `noisebank ask --file`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from noisebank.core.asks import AccuracyOptions, Ask
from noisebank.core.errors import BadRequest, NoisebankError
from noisebank.queries.question_list import split_questions

if TYPE_CHECKING:
    from noisebank.account.account import Account
    from noisebank.bank.bank import Bank
    from noisebank.core.result import Result


def read_questions(path: Path) -> list[str]:
    """Returns the questions of a file, "-" for standard input."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest("file", path, f"cannot be read: {error}") from None
    questions = split_questions(text)
    if not questions:
        raise BadRequest("file", path, "holds no question: write one per line, or SQL with a semicolon after each")
    return questions


def ask_questions(
    bank: Bank, name: str | None, questions: Sequence[str], accuracy: AccuracyOptions, max_cost: str | None,
    analyst: str, key: str, atomic: bool,
) -> list[Result | NoisebankError]:  # fmt: skip
    """Asks questions, each of the account that it names; returns one outcome each, in their order.

    A `spend` is for all questions of an account together.
    """
    keys, accuracy = make_keys(key, len(questions), atomic), accuracy.copy()
    spend = accuracy.pop("spend", None)
    asks = [
        Ask(question, accuracy, max_cost, own_key, analyst) for question, own_key in zip(questions, keys, strict=True)
    ]
    outcomes: dict[int, Result | NoisebankError] = {}
    batches: dict[str, tuple[Account, list[int]]] = {}
    for index, question in enumerate(questions):
        try:
            account = bank.find_account(question, name)
            batches.setdefault(account.name, (account, []))[1].append(index)
        except NoisebankError as error:
            outcomes[index] = error
    errors = [(index, outcome) for index, outcome in outcomes.items() if isinstance(outcome, NoisebankError)]
    if atomic and errors:
        index, mistake = errors[0]
        mistake.place_in_batch(index + 1, len(questions))
        return [mistake] * len(questions)
    if atomic and len(batches) > 1:
        names = ", ".join(sorted(batches))
        raise BadRequest("atomic", f"questions to {names}", "together they are asked of one account")
    for account, indices in batches.values():
        results = account.ask_many([asks[index] for index in indices], atomic=atomic, spend=spend)
        outcomes |= zip(indices, results, strict=True)
    return [outcomes[index] for index in range(len(questions))]


def make_keys(key: str, count: int, atomic: bool) -> list[str]:
    """Returns the idempotency key of each question: that of the file, with its number unless all are one request."""
    return [key if atomic else f"{key} #{number}" for number in range(1, count + 1)]
