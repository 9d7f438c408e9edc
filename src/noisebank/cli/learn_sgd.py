"""`noisebank learn sgd`: LDP-FedSGD over a table whose rows are devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisebank.cli.options import bank_option, handle_errors, json_option, open_recovered_bank, owner_key_option

if TYPE_CHECKING:
    from noisebank.federated.fedsgd import LearnedModel, LearningAccount, Task


@click.command("sgd")
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--schema", type=click.Path(path_type=Path), required=True, help="Public ranges and values (TOML).")
@click.option("--target", required=True, metavar="NAME", help="The attribute to be predicted from the others.")
@click.option("--task", "name", required=True, metavar="NAME", help="The task's name; the same again goes on with it.")
@click.option("--epsilon", "-e", required=True, metavar="E", help="Pure epsilon of a device's one report.")
@click.option("--model", type=click.Choice(["linear", "logistic", "hinge"]), default="logistic", show_default=True,
              help="linear predicts a number; the others one of two values.")  # fmt: skip
@click.option("--mechanism", default="best", show_default=True, help="One of the local mechanisms.")
@click.option("--levels", type=int, default=1000, show_default=True, help="Reports are rounded to 2m + 1 outputs.")
@click.option("--group", type=int, default=1000, show_default=True, help="Devices that report on one model.")
@click.option("--rate", metavar="R", help="First step; 1, or 1.5/d for a linear model. Later ones: R/sqrt(t).")
@click.option("--shrink", metavar="L", default="0.0001", show_default=True, help="Pull of the weights towards 0.")
@click.option("--radius", metavar="R", default="10", show_default=True, help="Weights stay within this distance of 0.")
@click.option(
    "--tolerance", metavar="T", default="0", show_default=True, help="Stop when a step moves no farther; 0: never."
)
@click.option("--test", type=click.Path(path_type=Path), help="A table of the server's own, to measure the model on.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the model to this JSON file.")
@click.option("--rehearse", is_flag=True, help="No bank, nothing charged: for data that needs no protection.")
@bank_option
@owner_key_option
@json_option
@handle_errors
def learn_sgd(
    table: Path, schema: Path, target: str, test: Path | None, out: Path | None, rehearse: bool, folder: Path,
    owner_key: Path | None, as_json: bool, **terms: Any,
) -> None:  # fmt: skip
    """Learn from TABLE (CSV or Parquet): each row is a device that sends one noisy gradient, once.

    Every group is charged on the ledger before its reports are drawn, one cell a device; the contract refuses a
    second participation. A task that was cut off goes on with the same command and the same file: one that has changed,
    or has its rows in another order, is refused.

    Example:  noisebank learn sgd people.csv --schema schema.toml --target buys --task offers --epsilon 1
    """
    from noisebank.cli import render
    from noisebank.core.errors import TableChanged
    from noisebank.federated.fedsgd import Design, open_or_resume_task
    from noisebank.federated.fedsgd import learn_model as run
    from noisebank.federated.fedsgd.table_file import file_digest, read_columns
    from noisebank.federated.schema_file import read_schema

    design = Design(read_schema(schema), target)
    source = file_digest(table)
    rows, targets = design.build_rows(read_columns(table, design))
    if file_digest(table) != source:
        raise TableChanged(f"{table.name} was written while it was read; try again. Nothing was charged")
    task = _make_task(design, len(rows), **terms)
    with render.show_progress("learning", quiet=as_json) as moved:
        if rehearse:
            learned, books = run(task, rows, targets, None, moved), {}
        else:
            with open_recovered_bank(folder, owner_key) as bank:
                account = open_or_resume_task(bank.parts, task)
                learned = run(task, rows, targets, account, moved, source)
                books = _books_to_json(account)
    plain = {**learned.to_json(), **_task_to_json(task), **books}
    if test is not None:
        plain["test"] = {task.model_kind.error_name: learned.mean_error(*design.build_rows(read_columns(test, design)))}
    if out is not None:
        out.write_text(json.dumps({**learned.to_json(), "task": task.to_json()}, indent=2) + "\n")
    render.show_json(plain) if as_json else _show_learned(task, learned, plain)


def _make_task(design: Any, devices: int, name: str, rate: str | None, group: int, **terms: Any) -> Task:
    from noisebank.federated.fedsgd import Task, get_model

    usual = rate or get_model(terms["model"]).default_rate(design.dimension)
    return Task(name, design, rate=usual, group=min(group, devices), devices=devices, **terms)


def _task_to_json(task: Task) -> dict[str, Any]:
    return {
        "task": task.name, "digest": task.digest.hex(), "guarantee": task.guarantee,
        "epsilon": task.epsilon, "delta": 0, "never_asked": task.devices - task.group_count * task.group,
    }  # fmt: skip


def _books_to_json(account: LearningAccount) -> dict[str, Any]:
    state = account.state
    return {
        "account": account.id.hex(),
        "spent_per_device": {"units": state.spent.units, "epsilon": float(state.spent)},
        "groups_on_the_ledger": len(account.charged_ranges()),
    }


def _show_learned(task: Task, learned: LearnedModel, plain: dict[str, Any]) -> None:
    from noisebank.cli import render

    rows = [
        (
            "devices",
            f"{learned.device_count:,} in {learned.group_count} groups; {plain['never_asked']:,} were never asked",
        ),
        ("guarantee", task.guarantee),
    ]
    if "account" in plain:
        spent = (
            f"epsilon {plain['spent_per_device']['epsilon']:g} of each device, {plain['groups_on_the_ledger']} groups"
        )
        rows.append(("ledger", f"{spent}, account {plain['account'][:16]}"))
    else:
        rows.append(("ledger", "none: a rehearsal, nothing was charged"))
    rows += [(f"test: {name}", f"{value:.4f}") for name, value in plain.get("test", {}).items()]
    render.show_facts(f"{task.model} model of {task.design.target}", rows)
    render.show_facts("Weights", [(name, f"{weight:+.4f}") for name, weight in plain["weights"].items()])
