"""`noisebank analyst limit|list`: what each analyst may learn, and has learned."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisebank.cli.options import (
    account_option,
    bank_option,
    handle_errors,
    json_option,
    open_recovered_bank,
    owner_key_option,
)

if TYPE_CHECKING:
    from noisebank.account.account import Account


@click.group("analyst")
def analyst_group() -> None:
    """Limit what each analyst may learn, and see what they learned."""


@analyst_group.command("limit")
@click.argument("name")
@click.argument("epsilon")
@bank_option
@account_option
@owner_key_option
@json_option
@handle_errors
def set_limit(
    name: str, epsilon: str, folder: Path, account: str | None, owner_key: Path | None, as_json: bool
) -> None:
    """Let analyst NAME learn as much as EPSILON allows, at the account's delta.

    EPSILON 0 means: no more than was learned so far. The account's budget bounds all analysts together. Less than
    before ends NAME's sessions with a service.

    Example:  noisebank analyst limit maria 1
    """
    from noisebank.cli import render
    from noisebank.core.entropy import SystemEntropy
    from noisebank.core.units import parse_exact
    from noisebank.privacy.calibration import budget_precision
    from noisebank.service.auth import ACCESS_FILE, AccessControl

    with open_recovered_bank(folder, owner_key) as bank:
        selected = bank.account(account)
        value = parse_exact(epsilon, "epsilon")
        before, used = selected.view(name).limit, selected.view(name).used
        units = budget_precision(value, selected.policy().delta).units if value else used.units
        bank.ledger.set_limit(selected.id, selected.analyst(name), units)
        selected.vault.save_analyst(selected.id, selected.analyst(name), name)
        view, words = selected.view(name), _describe_view(selected, name)
    if view.limit < before and (folder / ACCESS_FILE).is_file():
        with closing(AccessControl(folder / ACCESS_FILE, SystemEntropy())) as access:
            access.end_sessions(name)  # a session ends with what made it
    facts = {"analyst": name, "limit": view.limit, "used": view.used}
    render.show_json(facts) if as_json else render.print_line(f"{name} {words}")


@analyst_group.command("list")
@bank_option
@account_option
@json_option
@handle_errors
def list_analysts(folder: Path, account: str | None, as_json: bool) -> None:
    """Show every analyst's limit and use.

    Example:  noisebank analyst list
    """
    from noisebank.cli import render

    with open_recovered_bank(folder) as bank:
        selected = bank.account(account)
        names = selected.vault.list_analysts(selected.id)
        rows = [
            {"analyst": name, "limit": str(selected.view(name).limit), "used": str(selected.view(name).used)}
            for name in names
        ]
        words = [(name, _describe_view(selected, name)) for name in names]
    if as_json:
        render.show_json({"analysts": rows})
        return
    nobody = [("nobody", "only the owner may ask; `noisebank analyst limit NAME EPSILON` lets others")]
    render.show_facts("Analysts", words or nobody)


def _describe_view(account: Account, name: str) -> str:
    """Returns what an analyst may learn and has learned, as shares of the budget."""
    from noisebank.core.wording import budget_share, describe_share, format_epsilon, format_percent, gaussian_epsilon

    view, budget, delta = account.view(name), account.state.budget, float(account.context.policy.delta)
    learned = format_percent(budget_share(view.used, budget))
    alone = f"epsilon {format_epsilon(gaussian_epsilon(view.limit, delta))} at delta {delta:g}"
    return f"may learn as much as {describe_share(view.limit, budget)} ({alone}), and has learned {learned}"
