"""`noisebank policy draft` and `check`: policies before an account is opened."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from noisebank.cli.options import handle_errors, header_option, json_option

if TYPE_CHECKING:
    from noisebank.policy.model import Policy


@click.group("policy")
def policy_group() -> None:
    """Draft and check policies."""


@policy_group.command("draft")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Write it here instead of showing it; never overwrites.")
@click.option("--column-names", metavar="NAMES", help="Of a CSV file without a header: its columns, comma-separated.")
@click.option("--table", "table_name", metavar="NAME", help="Of a .duckdb file: the table.")
@header_option
@json_option
@handle_errors
def write_draft(
    file: Path, out: Path | None, column_names: str | None, table_name: str | None, header: str | None, as_json: bool
) -> None:
    """Write a commented policy for the table in FILE (CSV, Parquet or DuckDB).

    A sample of the rows tells types and steps: numbers, dates, truth values, categories. Identifiers, free text
    and what cannot be read are left out, with the reason. Nothing else of the rows is written, since a policy
    becomes public; what only a person can know (bounds, keys, unit, budget) says FILL IN.

    It stops at a file whose first line looks like a row and not like a header.

    Example:  noisebank policy draft survey.parquet --out survey.toml
    Example:  noisebank policy draft survey.csv --column-names age,town,income
    """
    from noisebank.bank.policy_draft import draft_policy
    from noisebank.cli import render
    from noisebank.core.errors import BadRequest

    names = () if column_names is None else tuple(name.strip() for name in column_names.split(","))
    draft = draft_policy(file, None if out is None else out.parent, names, header is not None, table_name)
    if out is not None:
        try:
            with out.open("x", encoding="utf-8") as target:
                target.write(draft.text)
        except OSError as error:
            more = "; a draft overwrites nothing: choose another name" if isinstance(error, FileExistsError) else ""
            raise BadRequest("out", out, f"cannot be written ({error.strerror}){more}") from None
    if as_json:
        render.show_json({"policy": draft.text, "written": None if out is None else str(out)})
    elif out is None:
        render.print_line(draft.text)
    else:
        omitted = f", {len(draft.omitted)} left out for the reasons in it" if draft.omitted else ""
        render.print_line(f"{out}: {len(draft.declared)} columns{omitted}.")
        render.print_line(f"Replace each FILL IN in it, then: noisebank policy check {quote(str(out))}")


@policy_group.command("check")
@click.argument("path", type=click.Path(path_type=Path))
@header_option
@json_option
@handle_errors
def check_policy_file(path: Path, header: str | None, as_json: bool) -> None:
    """Check the policy at PATH and its named queries; all mistakes and every FILL IN are listed with their lines.

    The table need not be there. If it is a file, its first line must not look like a row.

    Example:  noisebank policy check survey.toml
    """
    from noisebank.cli import render
    from noisebank.core.wording import describe_promise
    from noisebank.engines.headers import check_header
    from noisebank.policy.model import Table
    from noisebank.privacy.calibration import budget_precision

    checked = read_checked_policy(path)
    file = checked.source.path if isinstance(checked.source, Table) else checked.source
    if header is None and file is not None and file.exists():
        check_header(checked.source)
    budget = budget_precision(checked.epsilon, checked.delta)
    facts = {
        "name": checked.name,
        "columns": len(checked.columns),
        "queries": sorted(checked.queries),
        "budget": str(budget),
        "digest": checked.digest.hex(),
    }
    if as_json:
        render.show_json(facts)
        return
    promise = describe_promise(float(checked.epsilon), float(checked.delta), budget)
    rows = [
        ("name", checked.name),
        ("columns", ", ".join(checked.columns)),
        ("queries", ", ".join(sorted(checked.queries)) or "none"),
        ("budget", f"{promise}, for all answers together"),
        ("digest", checked.digest.hex()),
    ]
    render.show_facts(f"{path} is a valid policy", rows)


def read_checked_policy(path: Path) -> Policy:
    """Returns the policy at `path`, its named queries parsed; mistakes in them have their lines, too."""
    from noisebank.core.errors import BadPolicy
    from noisebank.policy.file import locate_mistakes, read_policy
    from noisebank.queries.selects import check_named_queries

    policy = read_policy(path)
    try:
        check_named_queries(policy)
    except BadPolicy as error:
        raise locate_mistakes(error, path) from None
    return policy
