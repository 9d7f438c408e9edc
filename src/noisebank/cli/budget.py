"""`noisebank budget lower|raise|finish`: change an account's budget, as its owner."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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


@click.group("budget")
def budget_group() -> None:
    """Lower or raise an account's budget (the owner's key is needed)."""


@budget_group.command("lower")
@click.argument("epsilon")
@bank_option
@account_option
@owner_key_option
@json_option
@handle_errors
def lower_budget(epsilon: str, folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """Lower the budget to EPSILON at the account's delta, at once; never below what is spent.

    Lowering to 0 closes the account: what is spent stays, nothing more can be. Once answers were given, the account's
    promise stays that of the larger budget: when it is lowered may depend on them.

    Example:  noisebank budget lower 4
    """
    from noisebank.cli import render
    from noisebank.core.units import parse_exact
    from noisebank.privacy.calibration import budget_precision

    with open_recovered_bank(folder, owner_key) as bank:
        selected = bank.account(account)
        value = parse_exact(epsilon, "epsilon")
        units = budget_precision(value, selected.policy().delta).units if value else selected.state.spent.units
        bank.ledger.lower_budget(selected.id, units)
        facts = _budget_to_json(selected)
    render.show_json(facts) if as_json else render.print_line(_describe_budget(facts))


@budget_group.command("raise")
@click.argument("epsilon")
@bank_option
@account_option
@owner_key_option
@json_option
@handle_errors
def raise_budget(epsilon: str, folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """Announce a raise to EPSILON. It can be finished after the policy's delay, for a week.

    Once answers were given, EPSILON buys less than it did at opening: a raise may depend on the answers, and what the
    account promises then must hold at every moment.

    Example:  noisebank budget raise 10
    """
    from datetime import UTC, datetime

    from noisebank.cli import render
    from noisebank.core.units import parse_exact
    from noisebank.core.wording import describe_share

    with open_recovered_bank(folder, owner_key) as bank:
        selected = bank.account(account)
        granted = selected.raise_to(parse_exact(epsilon, "epsilon"))
        event = bank.ledger.propose_raise(selected.id, granted.units)
        answered, budget = bool(selected.state.measurements), selected.state.budget
    ready = datetime.fromtimestamp(int(str(event.arguments["ready"])), UTC)
    facts = {"budget_units": event.arguments["budget"], "ready": ready.isoformat()}
    why = f": epsilon {epsilon} at every moment, whatever decided the raise" if answered else ""
    size = f"{describe_share(granted, budget)} as it is now"
    render.show_json(facts) if as_json else render.print_line(
        f"announced, to {size}{why}; from {ready:%Y-%m-%d %H:%M} UTC: noisebank budget finish"
    )


@budget_group.command("finish")
@bank_option
@account_option
@owner_key_option
@json_option
@handle_errors
def finish_raise(folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """Put an announced raise into effect.

    Example:  noisebank budget finish
    """
    from noisebank.cli import render

    with open_recovered_bank(folder, owner_key) as bank:
        selected = bank.account(account)
        bank.ledger.finish_raise(selected.id)
        facts = _budget_to_json(selected)
    render.show_json(facts) if as_json else render.print_line(_describe_budget(facts))


def _budget_to_json(account: Account) -> dict[str, Any]:
    state = account.state
    return {
        "budget": state.budget, "spent": state.spent, "left": state.remaining_budget, "epsilon": account.epsilon,
        "delta": float(account.context.policy.delta),
    }  # fmt: skip


def _describe_budget(budget: dict[str, Any]) -> str:
    from noisebank.core.wording import describe_balance

    return describe_balance(budget["spent"], budget["budget"], budget["epsilon"], budget["delta"])
