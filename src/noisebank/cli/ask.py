"""`noisebank quote`, `ask` and `explain`: prices, answers, and what an epsilon means for a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from noisebank.cli.options import as_json, guarded, in_bank, of_account, opened_bank, wished


@click.command("quote")
@click.argument("question")
@wished
@click.option("--curve", is_flag=True, help="Show price against error around this wish, as a table and a chart.")
@click.option(
    "--chart", type=click.Path(path_type=Path), help="With --curve: also draw it into this .png or .svg file."
)
@in_bank
@of_account
@as_json
@guarded
def quote(
    question: str, curve: bool, chart: Path | None, folder: Path, account: str | None, as_json: bool, **wish: Any,
) -> None:  # fmt: skip
    """Say what an answer would cost. Spends nothing, opens no data.

    QUESTION is SQL or the name of one of the policy's queries.

    Example:  noisebank quote over_60 --within 0.01 --confidence 0.95 --curve
    """
    from noisebank.account import quotes
    from noisebank.cli import render as console

    with opened_bank(folder) as bank:
        selected = bank.account(account)
        price = selected.quote(question, **wish)
        points = quotes.curve(selected, question, price) if curve or chart else ()
        if chart is not None:
            quotes.draw_curve(price.sql, points, chart)
    if as_json:
        extra = {"curve": [console.plain_quote(point) for point in points]} if points else {}
        console.show_json({**console.plain_quote(price), **extra})
        return
    console.show_quote(price)
    if points:
        console.show_curve(points, price)


@click.command("ask")
@click.argument("question")
@wished
@click.option("--at-most", "max_cost", metavar="P", help="The most precision that may be spent on it.")
@click.option("--key", help="Idempotency key: asking again with it gives the same answer and charges once.")
@click.option("--receipt", type=click.Path(path_type=Path), help="Write the receipt to this file.")
@click.option("--analyst", default="owner", show_default=True, help="On whose behalf; see `noisebank analyst`.")
@in_bank
@of_account
@as_json
@guarded
def ask(
    question: str, max_cost: str | None, key: str | None, receipt: Path | None, analyst: str, folder: Path,
    account: str | None, as_json: bool, **wish: Any,
) -> None:  # fmt: skip
    """Answer a question, with noise, and charge what is new in it.

    QUESTION is SQL or the name of one of the policy's queries. Say how good the answer shall be in
    one way: --epsilon and --delta, --within, --relative, or --sigma.

    Example:  noisebank ask "SELECT COUNT(*) FROM survey WHERE age > 60" --within 25
    """
    from noisebank.cli.render import show_json
    from noisebank.cli.render_results import plain_result, show_result, write_receipts

    with opened_bank(folder) as bank:
        selected = bank.account(account)
        answer = selected.ask(question, at_most=max_cost, key=key, analyst=analyst, **wish)
        if receipt is not None:
            write_receipts(receipt, answer)
    show_json(plain_result(answer)) if as_json else show_result(answer)


@click.command("explain")
@click.argument("question", required=False)
@in_bank
@of_account
@as_json
@guarded
def explain(question: str | None, folder: Path, account: str | None, as_json: bool) -> None:
    """Turn epsilon into error, for this table: how good is an answer for its price?

    QUESTION is SQL or the name of a query; without it, all named queries are explained.

    Example:  noisebank explain over_60
    """
    from noisebank.account import quotes
    from noisebank.account.advice import suggested
    from noisebank.cli import render as console

    with opened_bank(folder) as bank:
        selected = bank.account(account)
        rows = quotes.explained(selected, [question] if question else list(selected.policy.queries))
        delta, left, cubes = float(selected.policy.delta), selected.state.left, suggested(selected)
    suggestions = [{"columns": list(names), "cells": cells, "questions": count} for names, cells, count in cubes]
    facts = {"delta": delta, "left": left, "queries": [row.plain() for row in rows], "suggested_cubes": suggestions}
    if as_json:
        console.show_json(facts)
        return
    console.show_explained(rows, delta)
    for names, cells, count in cubes:
        console.say(f"a cube over {', '.join(names)} ({cells} cells) would have served {count} of the questions so far")
