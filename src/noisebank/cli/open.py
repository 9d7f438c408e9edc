"""`noisebank init`, `open` and `budget`: make a bank, open accounts, change their budgets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisebank.cli.options import (
    account_option,
    bank_option,
    handle_errors,
    header_option,
    json_option,
    open_recovered_bank,
    owner_key_option,
)

if TYPE_CHECKING:
    from noisebank.account.account import Account
    from noisebank.ledger.chain_config import ChainConfig


@click.command("init")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("bank"))
@owner_key_option
@click.option("--rpc", metavar="URL", envvar="NOISEBANK_RPC", help="A node: the ledger shall be a contract there.")
@click.option("--contract", metavar="ADDRESS", help="With --rpc: what `noisebank deploy` gave.")
@click.option("--from-block", type=int, default=0, help="With --rpc: the block of its deployment.")
@click.option("--confirmations", type=int, default=3, show_default=True, help="With --rpc: when a block is final.")
@click.option("--vault", metavar="ADDRESS", help="A PostgreSQL database for the vault; or set NOISEBANK_VAULT.")
@json_option
@handle_errors
def init_bank(
    folder: Path,
    owner_key: Path | None,
    rpc: str | None,
    contract: str | None,
    from_block: int,
    confirmations: int,
    vault: str | None,
    as_json: bool,
) -> None:
    """Make a bank in FOLDER, with an owner's and a curator's key.

    The curator's key must stay with the bank. The owner's opens accounts and changes budgets: move
    it to a safe place, or write it there at once with --owner-key, and keep a copy of both. Keys in
    NOISEBANK_CURATOR_KEY and NOISEBANK_OWNER_KEY are used and written nowhere.

    With --rpc and --contract the ledger is that contract on that chain. Without, it is embedded: no
    node is needed.

    With --vault the vault is in a PostgreSQL database, postgresql://user@host/database. If it holds
    one already, this bank is a further gateway to it. An address in NOISEBANK_VAULT is used and
    written nowhere; one after --vault is kept in a file for the bank's eyes only.

    Example:  noisebank init bank --owner-key /media/usb/owner.key
    """
    from noisebank.bank.bank import KEYS, create_bank, open_bank
    from noisebank.cli import render

    create_bank(folder, owner_key, where=_chain_location(rpc, contract, from_block, confirmations), vault=vault)
    key = owner_key or folder / KEYS / "owner.key"
    with open_bank(folder, owner_key) as bank:
        facts = {"bank": str(folder), "owner_key": str(key), "curator_key": str(folder / KEYS / "curator.key"),
                **{str(role.value): holder for role, holder in bank.ledger.key_addresses().items()},
                "contract": bank.ledger.contract, "chain_id": bank.ledger.chain_id,
                "head": bank.head().digest.hex()}  # fmt: skip
    render.show_json(facts) if as_json else render.show_facts("A new bank", [(k, str(v)) for k, v in facts.items()])


def _chain_location(rpc: str | None, contract: str | None, first: int, confirmations: int) -> ChainConfig | None:
    from noisebank.core.errors import BadRequest
    from noisebank.ledger.abi import ADDRESS_PATTERN
    from noisebank.ledger.chain_config import ChainConfig
    from noisebank.ledger.node import Node

    if contract is None:
        return None
    if rpc is None or not ADDRESS_PATTERN.fullmatch(contract):
        raise BadRequest("contract", contract, "a contract is an address of 40 hexadecimal digits, reached with --rpc")
    return ChainConfig(rpc, contract.lower(), Node(rpc).chain_id(), first, confirmations)


@click.command("open")
@click.argument("policy", type=click.Path(path_type=Path))
@click.option(
    "--limits",
    type=click.Path(path_type=Path),
    help="Limits that people set for themselves, one epsilon a line: the smallest counts.",
)
@click.option(
    "--next", "following", metavar="ACCOUNT", help="The table of this account changed: open the next version of it."
)
@click.option("--same", is_flag=True, help="With --next: its rows are the same, and so shall be its version.")
@header_option
@click.option("--yes", is_flag=True, help="Also if lines say FILL IN, or a column has mostly none of its keys.")
@bank_option
@owner_key_option
@json_option
@handle_errors
def open_account(
    policy: Path,
    limits: Path | None,
    following: str | None,
    same: bool,
    header: str | None,
    yes: bool,
    folder: Path,
    owner_key: Path | None,
    as_json: bool,
) -> None:
    """Open an account for the table that POLICY describes.

    When its table has changed, --next opens the next version of the same account: what is spent
    stays spent, earlier answers are not reused. Versions are public, so there is a new one whether or
    not the rows differ. If the table was only written again, --same stays in the version.

    It stops, before anything is on the ledger, at what is probably not meant: a file whose first line
    looks like a row and not like a header (its names would be public, and the row lost), a draft that
    is not filled in, a column with mostly none of its keys. --header yes and --yes say that it is.

    Example:  noisebank open survey.toml --bank bank
    Example:  noisebank open survey.toml --next survey
    """
    from noisebank.bank.opening import Confirmed
    from noisebank.cli import render
    from noisebank.core.errors import BadRequest
    from noisebank.policy.file import read_policy
    from noisebank.policy.limits import apply_limits, read_limits
    from noisebank.queries.cells import policy_cubes

    if same and following is None:
        raise BadRequest("same", "yes", "goes with --next ACCOUNT")
    with open_recovered_bank(folder, owner_key) as bank:
        before = bank.account(following).state.version if following else 0
        rules = read_policy(policy)
        if limits is not None:
            rules = apply_limits(rules, read_limits(limits))
        with render.show_progress("looking at the table", quiet=as_json) as moved:
            account, inspected = bank.open_and_inspect(
                rules, following, moved, Confirmed(header is not None, yes, same)
            )
        state = account.state
        cubes = [(", ".join(cube.columns), cube.cell_count) for cube in policy_cubes(account.policy)]
        facts: dict[str, Any] = {"name": account.name, "version": state.version, "cubes": dict(cubes),
                "account": account.id.hex(), "budget": state.budget, "spent": state.spent,
                "epsilon": float(account.policy.epsilon), "delta": float(account.policy.delta), "rows": inspected.rows,
                "clipped": {name: n for name, n in inspected.outside.items() if n},
                "none_of_the_keys": {name: n for name, n in inspected.unkeyed.items() if n},
                "queries": dict(account.policy.queries)}  # fmt: skip
    if as_json:
        render.show_json(facts)
        return
    version = (
        f"{state.version}; spent so far: {state.spent}"
        if state.version != before
        else (f"{state.version}, as before: the rows are the same, and answers are still reused")
    )
    rows = [("account", str(facts["account"])[:16]), ("rows", str(inspected.rows)),
            *([("version", version)] if following else []),
            *((f"cube over {columns}", f"{cells} cells") for columns, cells in cubes),
            *([("first looks", f"{state.spent} precision, bought now")] if state.spent and not following else []),
            ("budget", f"{state.budget} precision = epsilon {facts['epsilon']:g} at delta {facts['delta']:g}"),
            *((f"clipped in {name}", f"{n} values lie beyond the bounds") for name, n in facts["clipped"].items()),
            *((f"other in {name}", f"{n} values are none of the keys") for name, n in inspected.unkeyed.items() if n),
            *((f"query {name}", sql) for name, sql in account.policy.queries.items())]  # fmt: skip
    render.show_facts(f"Opened {account.name}", rows)


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
        units = budget_precision(value, selected.policy.delta).units if value else selected.state.spent.units
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

    with open_recovered_bank(folder, owner_key) as bank:
        selected = bank.account(account)
        granted = selected.raise_to(parse_exact(epsilon, "epsilon"))
        event = bank.ledger.propose_raise(selected.id, granted.units)
        answered = bool(selected.state.measurements)
    ready = datetime.fromtimestamp(int(str(event.arguments["ready"])), UTC)
    facts = {"budget_units": event.arguments["budget"], "ready": ready.isoformat()}
    why = f": epsilon {epsilon} at every moment, whatever decided the raise" if answered else ""
    render.show_json(facts) if as_json else render.print_line(
        f"announced, to {granted} precision{why}; from {ready:%Y-%m-%d %H:%M} UTC: noisebank budget finish"
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
        "delta": float(account.policy.delta),
    }  # fmt: skip


def _describe_budget(budget: dict[str, Any]) -> str:
    return (
        f"the budget is now {budget['budget']}; {budget['left']} is left. "
        f"All answers together promise epsilon {budget['epsilon']:.6g} at delta {budget['delta']:g}"
    )
