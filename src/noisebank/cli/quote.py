"""`noisebank quote`: what a question costs and how accurate its answer would be. Spends nothing."""

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
@click.option("--curve", is_flag=True, help="Show price against error around this accuracy, as a table and a chart.")
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
    from noisebank.account import price_curves as quotes
    from noisebank.cli import render

    with open_recovered_bank(folder) as bank:
        selected = bank.find_account(question, account)
        price = selected.quote(question, **options)
        points = quotes.quote_curve(selected, question, price) if curve or chart else ()
        if chart is not None:
            quotes.draw_curve(price.sql, points, chart)
    if as_json:
        extra = {"curve": [point.to_json() for point in points]} if points else {}
        render.show_json({**price.to_json(), **extra})
        return
    render.show_quote(price)
    if points:
        render.show_curve(points, price)
