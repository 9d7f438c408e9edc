"""`noisebank open`: open an account for a table by its policy, or its next version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisebank.cli.options import (
    bank_option,
    handle_errors,
    header_option,
    json_option,
    open_recovered_bank,
    owner_key_option,
)
from noisebank.cli.policy import read_checked_policy

if TYPE_CHECKING:
    from noisebank.account.account import Account
    from noisebank.engines.engine import Inspection


@click.command("open")
@click.argument("policy", type=click.Path(path_type=Path))
@click.option(
    "--limits",
    type=click.Path(path_type=Path),
    help="Limits that people set for themselves, one epsilon per line: the smallest counts.",
)
@click.option(
    "--next", "following", metavar="ACCOUNT", help="The table of this account changed: open the next version of it."
)
@click.option("--same", is_flag=True, help="With --next: its rows are the same, and so shall be its version.")
@header_option
@click.option("--yes", is_flag=True, help="Also if a column has mostly none of its keys, or rows count nowhere.")
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
    looks like a row and not like a header (its names would be public, and the row lost), a column with
    mostly none of its keys, rows that count nowhere because of a complete column. --header yes and
    --yes say that it is. A draft must be filled in.

    Example:  noisebank open survey.toml --bank bank
    Example:  noisebank open survey.toml --next survey
    """
    from noisebank.bank.opening import Confirmed
    from noisebank.cli import render
    from noisebank.core.errors import BadRequest
    from noisebank.policy.limits import apply_limits, read_limits

    if same and following is None:
        raise BadRequest("same", "yes", "goes with --next ACCOUNT")
    with open_recovered_bank(folder, owner_key) as bank:
        before = bank.account(following).state.version if following else 0
        rules = read_checked_policy(policy)
        if limits is not None:
            rules = apply_limits(rules, read_limits(limits))
        with render.show_progress("looking at the table", quiet=as_json) as moved:
            account, inspected = bank.open_and_inspect(
                rules, following, moved, Confirmed(header is not None, yes, same)
            )
        facts = _opening_to_json(account, inspected)
        rows = _list_rows(account, inspected, before)
    if as_json:
        render.show_json(facts)
    else:
        render.show_facts(f"Opened {account.name}", rows)


def _opening_to_json(account: Account, inspected: Inspection) -> dict[str, Any]:
    """Returns an account that was just opened, and what was found in its table, for --json."""
    from noisebank.queries.cells import policy_cubes

    state, policy = account.state, account.policy()
    return {
        "name": account.name, "version": state.version,
        "cubes": {", ".join(cube.columns): cube.cell_count for cube in policy_cubes(policy)},
        "account": account.id.hex(), "budget": state.budget, "spent": state.spent,
        "epsilon": float(policy.epsilon), "delta": float(policy.delta), "rows": inspected.rows,
        "clipped": {name: n for name, n in inspected.outside.items() if n},
        "none_of_the_keys": {name: n for name, n in inspected.unkeyed.items() if n},
        "count_nowhere": inspected.uncounted,
        "queries": dict(policy.queries),
    }  # fmt: skip


def _list_rows(account: Account, inspected: Inspection, before: int) -> list[tuple[str, str]]:
    """Returns the same in words. `before` is the version that there was before, 0 for a new account."""
    from noisebank.core.wording import describe_promise, describe_share
    from noisebank.queries.cells import policy_cubes

    state, policy, count = account.state, account.policy(), inspected.rows
    spent_share = describe_share(state.spent, state.budget)
    rows = [("account", account.id.hex()[:16]), ("rows", str(count))]
    if before:
        same = f"{state.version}, as before: the rows are the same, and answers are still reused"
        rows.append(("version", same if state.version == before else f"{state.version}; {spent_share} is spent so far"))
    rows += [(f"cube over {', '.join(cube.columns)}", f"{cube.cell_count} cells") for cube in policy_cubes(policy)]
    if state.spent and not before:
        rows.append(("first looks", f"{spent_share}, bought now"))
    promise = describe_promise(account.epsilon, float(policy.delta), None if before else state.budget)
    rows.append(("budget", f"{promise}, for all answers together"))
    outside = {name: n for name, n in inspected.outside.items() if n}
    unkeyed = {name: n for name, n in inspected.unkeyed.items() if n}
    rows += [(f"clipped in {name}", _describe_clipped(n, count)) for name, n in outside.items()]
    rows += [(f"other in {name}", f"{n} of {count} values are none of the keys") for name, n in unkeyed.items()]
    if inspected.uncounted:
        rows.append(("count nowhere", f"{inspected.uncounted} rows, by complete columns"))
    if outside or unkeyed:
        rows.append(("if not meant", f"correct the policy, then say --next {account.name}"))
    return rows + [(f"query {name}", sql) for name, sql in policy.queries.items()]


def _describe_clipped(outside: int, rows: int) -> str:
    """Says how many values are clipped; if that is most of them, that the bounds may be mistaken."""
    warning = ": are the bounds meant so?" if 2 * outside > rows else ""
    return f"{outside} of {rows} values lie beyond the bounds{warning}"
