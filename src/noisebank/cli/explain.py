"""`noisebank explain`: how good answers are for their price, and what a budget answers, from the policy alone."""

from __future__ import annotations

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
    from noisebank.account.account import Account
    from noisebank.account.price_curves import QueryExplanation


@click.command("explain")
@click.argument("question", nargs=-1)
@click.option(
    "--questions",
    "file",
    type=click.Path(path_type=Path),
    help="Questions in a file: each with a semicolon, or on a line of its own.",
)
@click.option(
    "--policy", type=click.Path(path_type=Path), help="Of this policy instead of an account; no bank is needed."
)
@accuracy_options
@bank_option
@account_option
@json_option
@handle_errors
def explain_questions(
    question: tuple[str, ...], file: Path | None, policy: Path | None, folder: Path, account: str | None, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Turn epsilon into error, and a budget into answers.

    QUESTION is SQL or the name of a query, once or more; without any, all named queries are explained. The last
    part asks each once, with one accuracy (epsilon 0.1 unless said otherwise), of a whole budget in a bank in memory:
    plainly, with the policy's cubes, with what it expects, and with what would help. It reads the policy, never
    the table.

    Example:  noisebank explain over_60
    Example:  noisebank explain --policy survey.toml --questions expected.sql --epsilon 0.2
    """
    from noisebank.account.advice import suggest_cubes
    from noisebank.bank.budget_explanation import explain
    from noisebank.bank.rehearsal import open_rehearsal
    from noisebank.cli import render
    from noisebank.cli.question_file import read_questions
    from noisebank.policy.file import read_policy

    texts = [*question, *([] if file is None else read_questions(file))]
    if policy is not None:
        selected = open_rehearsal(read_policy(policy))
        rows, cubes = _explain_rows(selected, question, file), []
        left = selected.state.remaining_budget
    else:
        with open_recovered_bank(folder) as bank:
            selected = bank.find_account(texts[0] if texts else "", account)
            rows, cubes = _explain_rows(selected, question, file), suggest_cubes(selected.context)
            left = selected.state.remaining_budget
    rules = selected.policy()
    budget = explain(rules, texts, **options) if texts or rules.queries else None
    if as_json:
        suggestions = [{"columns": list(names), "cells": cells, "questions": count} for names, cells, count in cubes]
        render.show_json({
            "delta": float(rules.delta), "left": left, "queries": [row.to_json() for row in rows],
            "suggested_cubes": suggestions, "budget": None if budget is None else budget.to_json(),
        })  # fmt: skip
        return
    if rows:
        render.show_explanations(rows, float(rules.delta))
    for names, cells, count in cubes:
        render.print_line(
            f"a cube over {', '.join(names)} ({cells} cells) would have served {count} of the questions so far"
        )
    if budget is not None:
        render.show_budget_explanation(budget)


def _explain_rows(account: Account, question: tuple[str, ...], file: Path | None) -> list[QueryExplanation]:
    """Explains the questions one by one, but for those of a file, which may be many."""
    from noisebank.account.price_curves import explain_queries

    names = list(question) or ([] if file is not None else list(account.context.policy.queries))
    return explain_queries(account, names)
