"""`noisebank local`: budgets of devices and groups, their noisy reports, and estimates from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisebank.cli.options import bank_option, handle_device_errors, json_option, open_bank_parts, owner_key_option

if TYPE_CHECKING:
    from noisebank.federated.ldp import LdpEstimate


@click.group("local")
def local_group() -> None:
    """Report without a trusted bank: each device adds its noise. Its budget is on the ledger."""


@local_group.command("enrol")
@click.argument("name")
@click.option("--epsilon", "-e", required=True, metavar="E", help="Pure epsilon for all rounds together.")
@bank_option
@owner_key_option
@json_option
@handle_device_errors
def enrol_device(name: str, epsilon: str, folder: Path, owner_key: Path | None, as_json: bool) -> None:
    """Open a budget for a device or group NAME.

    Example:  noisebank local enrol phone-7 --epsilon 4
    """
    from noisebank.cli import render
    from noisebank.federated.enrolment import enrol as open_budget

    with open_bank_parts(folder, owner_key) as parts:
        account = open_budget(parts, name, epsilon)
        facts = {"name": name, "account": account.id.hex(), "epsilon": str(account.state.budget)}
    render.show_json(facts) if as_json else render.show_facts("Enrolled", list(facts.items()))


@local_group.command("report")
@click.argument("name")
@click.argument("record", type=click.Path(path_type=Path))
@click.option("--schema", type=click.Path(path_type=Path), required=True, help="What is asked for (TOML).")
@click.option("--round", "round_", required=True, metavar="R", help="Which round; each is charged once.")
@click.option("--epsilon", "-e", required=True, metavar="E", help="Epsilon of this round.")
@click.option("--mechanism", default="best", show_default=True, help="One of the local mechanisms.")
@bank_option
@json_option
@handle_device_errors
def report_record(
    name: str, record: Path, schema: Path, round_: str, epsilon: str, mechanism: str, folder: Path, as_json: bool
) -> None:
    """Report RECORD (one JSON object) for device NAME: charged first, then read and noised.

    Prints the report as one hexadecimal line, which `local estimate` reads; what is left goes to standard error.
    Numbers outside their range are clipped. What is missing or does not fit is replaced without a word, since a refusal
    would tell the collector about it: `local check` tells you.

    Example:  noisebank local report phone-7 record.json --schema schema.toml --round monday -e 1 >> reports.txt
    """
    from noisebank.cli import render
    from noisebank.core.units import parse_exact
    from noisebank.federated.enrolment import RoundOrder, local_account
    from noisebank.federated.record_file import check_record_path, read_record
    from noisebank.federated.schema_file import read_schema

    order = RoundOrder(round_, read_schema(schema), parse_exact(epsilon, "epsilon"), mechanism)
    path = check_record_path(record)
    with open_bank_parts(folder) as parts:
        account = local_account(parts, name)
        noisy = account.answer_order(order, lambda: order.schema.encode_record(read_record(path) or {}))
        state = account.state
    if as_json:
        render.show_json({"report": noisy.hex(), "spent": str(state.spent), "left": str(state.remaining_budget)})
        return
    click.echo(noisy.hex())
    click.secho(f"spent epsilon {state.spent} of {state.budget}; {state.remaining_budget} is left", err=True, dim=True)


@local_group.command("check")
@click.argument("record", type=click.Path(path_type=Path))
@click.option("--schema", type=click.Path(path_type=Path), required=True, help="What is asked for (TOML).")
@json_option
@handle_device_errors
def check_record(record: Path, schema: Path, as_json: bool) -> None:
    """Say which values of RECORD a report would replace. For you alone: do not pass it on.

    Example:  noisebank local check record.json --schema schema.toml
    """
    from noisebank.cli import render
    from noisebank.core.errors import BadRequest
    from noisebank.federated.record_file import check_record_path, read_record
    from noisebank.federated.schema_file import read_schema

    expected, values = read_schema(schema), read_record(check_record_path(record))
    if values is None:
        raise BadRequest("record", record, "holds no JSON object: a report would replace every value")
    replaced = expected.find_misfits(values)
    facts = {part.name: "would be replaced" if part.name in replaced else "fits" for part in expected.attributes}
    render.show_json({"replaced": list(replaced)}) if as_json else render.show_facts("Values", list(facts.items()))


@local_group.command("estimate")
@click.argument("reports", type=click.Path(path_type=Path))
@click.option("--schema", type=click.Path(path_type=Path), required=True, help="What was asked for (TOML).")
@click.option("--confidence", default=0.95, show_default=True, help="Of the intervals.")
@json_option
@handle_device_errors
def estimate_reports(reports: Path, schema: Path, confidence: float, as_json: bool) -> None:
    """Estimate means and shares from REPORTS, one hexadecimal report per line, as `local report` prints them.

    Example:  noisebank local estimate reports.txt --schema schema.toml
    """
    from noisebank.cli import render
    from noisebank.core.errors import BadRequest
    from noisebank.federated.ldp import estimate_attributes as estimate_all
    from noisebank.federated.schema_file import read_schema

    try:
        raw = [bytes.fromhex(line) for line in reports.read_text().split()]
    except (OSError, ValueError):
        raise BadRequest("reports", reports, "holds no hexadecimal lines") from None
    estimates = estimate_all(raw, read_schema(schema), confidence)
    flat = {name: part if isinstance(part, dict) else {"": part} for name, part in estimates.items()}
    rows: dict[str, LdpEstimate] = {
        f"{name} = {value}" if value else name: part for name, parts in flat.items() for value, part in parts.items()
    }
    if as_json:
        render.show_json({name: _estimate_to_json(row) for name, row in rows.items()})
        return
    render.show_facts(f"{len(raw)} reports", [
        (name, f"{row.value:.6g} ({row.interval[0]:.6g} to {row.interval[1]:.6g}; standard deviation {row.stddev:.3g})")
        for name, row in rows.items()
    ])  # fmt: skip


def _estimate_to_json(result: LdpEstimate) -> dict[str, float]:
    low, high = result.interval
    return {"value": result.value, "stddev": result.stddev, "low": low, "high": high, "reports": result.report_count}


@local_group.command("status")
@bank_option
@json_option
@handle_device_errors
def show_budgets(folder: Path, as_json: bool) -> None:
    """Show every device's and group's budget.

    Example:  noisebank local status
    """
    from noisebank.cli import render
    from noisebank.federated.enrolment import list_enrolled

    with open_bank_parts(folder) as parts:
        rows = [
            {
                "name": account.name,
                "epsilon": str(account.state.budget),
                "spent": str(account.state.spent),
                "rounds": len(parts.ledger.list_reservations(account.id)),
            }
            for account in list_enrolled(parts)
        ]
    if as_json:
        render.show_json({"enrolled": rows})
        return
    nobody = [("nobody", "enrol somebody with `noisebank local enrol NAME --epsilon E`")]
    lines = [(str(r["name"]), f"spent {r['spent']} of epsilon {r['epsilon']} in {r['rounds']} rounds") for r in rows]
    render.show_facts("Local budgets", lines or nobody)
