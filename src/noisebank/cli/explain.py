"""`noisebank explain`: what the account's named questions would cost, from the policy alone."""

from __future__ import annotations

from pathlib import Path

import click

from noisebank.cli.options import (
    account_option,
    bank_option,
    handle_errors,
    json_option,
    open_recovered_bank,
)


@click.command("explain")
@click.argument("question", required=False)
@bank_option
@account_option
@json_option
@handle_errors
def explain_questions(question: str | None, folder: Path, account: str | None, as_json: bool) -> None:
    """Turn epsilon into error, for this table: how good is an answer for its price?

    QUESTION is SQL or the name of a query; without it, all named queries are explained.

    Example:  noisebank explain over_60
    """
    from noisebank.account import quotes
    from noisebank.account.advice import suggest_cubes
    from noisebank.cli import render

    with open_recovered_bank(folder) as bank:
        selected = bank.find_account(question or "", account)
        rows = quotes.explain_queries(selected, [question] if question else list(selected.policy.queries))
        delta, left, cubes = (
            float(selected.policy.delta),
            selected.state.remaining_budget,
            suggest_cubes(selected.context),
        )
    suggestions = [{"columns": list(names), "cells": cells, "questions": count} for names, cells, count in cubes]
    facts = {"delta": delta, "left": left, "queries": [row.to_json() for row in rows], "suggested_cubes": suggestions}
    if as_json:
        render.show_json(facts)
        return
    render.show_explanations(rows, delta)
    for names, cells, count in cubes:
        render.print_line(
            f"a cube over {', '.join(names)} ({cells} cells) would have served {count} of the questions so far"
        )
