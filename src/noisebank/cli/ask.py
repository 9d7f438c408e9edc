"""`noisebank quote`, `ask` and `explain`: prices, answers, and what an epsilon means for a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from noisebank.cli.options import (
    account_option,
    accuracy_options,
    bank_option,
    handle_errors,
    json_option,
    open_recovered_bank,
)


@click.command("quote")
@click.argument("question")
@accuracy_options
@click.option("--curve", is_flag=True, help="Show price against error around this wish, as a table and a chart.")
@click.option(
    "--chart", type=click.Path(path_type=Path), help="With --curve: also draw it into this .png or .svg file."
)
@bank_option
@account_option
@json_option
@handle_errors
def quote_question(
    question: str, curve: bool, chart: Path | None, folder: Path, account: str | None, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Say what an answer would cost. Spends nothing, opens no data.

    QUESTION is SQL or the name of one of the policy's queries.

    Example:  noisebank quote over_60 --within 0.01 --confidence 0.95 --curve
    """
    from noisebank.account import quotes
    from noisebank.cli import render

    with open_recovered_bank(folder) as bank:
        selected = bank.account(account)
        price = selected.quote(question, **options)
        points = quotes.quote_curve(selected, question, price) if curve or chart else ()
        if chart is not None:
            quotes.draw_curve(price.sql, points, chart)
    if as_json:
        extra = {"curve": [render.quote_to_json(point) for point in points]} if points else {}
        render.show_json({**render.quote_to_json(price), **extra})
        return
    render.show_quote(price)
    if points:
        render.show_curve(points, price)


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
    from noisebank.cli.render import show_json
    from noisebank.cli.render_results import result_to_json, show_result, write_receipts

    with open_recovered_bank(folder) as bank:
        selected = bank.account(account)
        answer = selected.ask(question, max_cost=max_cost, key=key, analyst=analyst, **options)
        if receipt is not None:
            write_receipts(receipt, answer)
    show_json(result_to_json(answer)) if as_json else show_result(answer)


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
        selected = bank.account(account)
        rows = quotes.explain_queries(selected, [question] if question else list(selected.policy.queries))
        delta, left, cubes = float(selected.policy.delta), selected.state.remaining_budget, suggest_cubes(selected)
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
