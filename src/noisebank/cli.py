"""The command line. Exit codes: 0 done, 1 refused (nothing spent), 2 misuse (nothing happened).

Everything heavy is imported inside the command that needs it: `--help` stays light.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from noisebank.errors import Misuse, NoisebankError

if TYPE_CHECKING:
    from noisebank.bank import Bank
    from noisebank.path import Wished

Command = Callable[..., None]


def _guarded(command: Command) -> Command:
    """Errors of ours become one clear message and the right exit code."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except NoisebankError as error:
            code = 2 if isinstance(error, Misuse) else 1
            if options.get("as_json"):
                from noisebank.console import show_json

                show_json({"error": type(error).__name__, "message": str(error)})
            click.secho(f"{'refused' if code == 1 else 'error'}: {error}", err=True, fg="red")
            sys.exit(code)

    return run


def _options(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def apply(command: Command) -> Command:
        for decorate in reversed(decorators):
            command = decorate(command)
        return command

    return apply


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
in_bank = click.option(
    "--bank", "-b", "folder", type=click.Path(path_type=Path), default=Path("bank"), show_default=True,
    envvar="NOISEBANK_BANK", help="The bank's folder.",
)  # fmt: skip
of_account = click.option("--account", "-a", help="The account's name; not needed if there is only one.")
owner_key = click.option("--owner-key", type=click.Path(path_type=Path), help="The owner's key, if moved off the bank.")
wished = _options(
    click.option("--epsilon", "-e", metavar="E", help="Epsilon of this answer alone (with --delta)."),
    click.option("--delta", "-d", metavar="D", help="Delta of this answer alone."),
    click.option("--within", "-w", metavar="H", help="Or: within this distance of the truth, at --confidence."),
    click.option("--relative", "-r", metavar="R", help="Or: within this share of the true value, e.g. 2%."),
    click.option("--confidence", "-c", metavar="C", help="For --within and --relative; 0.95 unless said otherwise."),
    click.option("--sigma", "-s", metavar="S", help="Or: the noise's standard deviation, in the answer's unit."),
    click.option("--calibration", type=click.Choice(["analytic", "classical"]),
                 help="How epsilon and delta name a noise level; analytic unless said otherwise."),
)  # fmt: skip


def _bank(folder: Path, key: Path | None = None) -> Bank:
    from noisebank.bank import open_bank

    bank = open_bank(folder, key)
    for name, found in bank.recovered.items():
        if found.finished or found.waiting or found.unknown or found.lost:
            click.secho(
                f"recovered {name}: {found.finished} finished, {found.waiting} waiting for the table, "
                f"{found.unknown} unknown to the vault, {found.lost} lost", err=True, fg="yellow",
            )  # fmt: skip
    return bank


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="noisebank")
def main() -> None:
    """A privacy bank: noisy answers, an enforced budget, books that anyone can check.

    Start with:  noisebank demo
    """
    if os.environ.get("NO_COLOR"):
        click.get_current_context().color = False


@main.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("noisebank-demo"),
    show_default=True,
    help="Where table, bank and charts go; a number is added if it exists.",
)
@click.option(
    "--seed", type=int, default=5, show_default=True, help="Of the made-up table and requests, not of the noise."
)
@as_json
@_guarded
def demo(folder: Path, seed: int, as_json: bool) -> None:
    """Make a survey and a bank, ask 150 questions, verify the books.

    Example:  noisebank demo --folder /tmp/demo
    """
    from noisebank import console
    from noisebank.experiments.demo import demonstrate, free_folder

    with console.progress("asking", quiet=as_json) as moved:
        shown = demonstrate(free_folder(folder), seed, moved)
    console.show_json(shown.plain()) if as_json else console.show_demo(shown)
    sys.exit(0 if shown.report.passed else 1)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("bank"))
@owner_key
@as_json
@_guarded
def init(folder: Path, owner_key: Path | None, as_json: bool) -> None:
    """Make a bank in FOLDER, with an owner's and a curator's key.

    The curator's key must stay with the bank. The owner's opens accounts and changes budgets: move
    it to a safe place, or write it there at once with --owner-key, and keep a copy of both.

    Example:  noisebank init bank --owner-key /media/usb/owner.key
    """
    from noisebank import console
    from noisebank.bank import KEYS, create_bank, open_bank

    create_bank(folder, owner_key)
    key = owner_key or folder / KEYS / "owner.key"
    with open_bank(folder, owner_key) as bank:
        made = {"bank": str(folder), "owner_key": str(key), "curator_key": str(folder / KEYS / "curator.key"),
                "contract": bank.ledger.contract, "chain_id": bank.ledger.chain_id,
                "head": bank.head().digest.hex()}  # fmt: skip
    console.show_json(made) if as_json else console.facts("A new bank", [(k, str(v)) for k, v in made.items()])


@main.command("open")
@click.argument("policy", type=click.Path(path_type=Path))
@in_bank
@owner_key
@as_json
@_guarded
def open_(policy: Path, folder: Path, owner_key: Path | None, as_json: bool) -> None:
    """Open an account for the table that POLICY describes.

    Example:  noisebank open survey.toml --bank bank
    """
    from noisebank import console

    with _bank(folder, owner_key) as bank:
        account, found = bank.open_and_inspect(policy)
        state = account.state
        made: dict[str, Any] = {"name": account.name, "account": account.id.hex(), "budget": state.budget,
                "epsilon": float(account.policy.epsilon), "delta": float(account.policy.delta), "rows": found.rows,
                "clipped": {name: n for name, n in found.outside.items() if n},
                "none_of_the_keys": {name: n for name, n in found.unkeyed.items() if n},
                "queries": dict(account.policy.queries)}  # fmt: skip
    if as_json:
        console.show_json(made)
        return
    rows = [("account", str(made["account"])[:16]), ("rows", str(found.rows)),
            ("budget", f"{state.budget} precision = epsilon {made['epsilon']:g} at delta {made['delta']:g}"),
            *((f"clipped in {name}", f"{n} values lie beyond the bounds") for name, n in made["clipped"].items()),
            *((f"other in {name}", f"{n} values are none of the keys") for name, n in made["none_of_the_keys"].items()),
            *((f"query {name}", sql) for name, sql in account.policy.queries.items())]  # fmt: skip
    console.facts(f"Opened {account.name}", rows)


@main.command()
@click.argument("question")
@wished
@click.option("--at-most", metavar="P", help="With --relative: the most precision that may be spent.")
@click.option("--curve", is_flag=True, help="Show price against error around this wish, as a table and a chart.")
@click.option(
    "--chart", type=click.Path(path_type=Path), help="With --curve: also draw it into this .png or .svg file."
)
@in_bank
@of_account
@as_json
@_guarded
def quote(
    question: str, at_most: str | None, curve: bool, chart: Path | None, folder: Path, account: str | None,
    as_json: bool, relative: str | None, **wish: Any,
) -> None:  # fmt: skip
    """Say what an answer would cost. Spends nothing, opens no data.

    QUESTION is SQL or the name of one of the policy's queries.

    Example:  noisebank quote over_60 --within 0.01 --confidence 0.95 --curve
    """
    from noisebank import console, quotes

    with _bank(folder) as bank:
        found = bank.account(account)
        if relative is not None:
            offer = quotes.quote_relative(found, question, relative, at_most, cast("Wished", wish))
            console.show_json(console.plain_offer(offer)) if as_json else console.show_offer(
                offer, float(found.policy.delta)
            )
            return
        price = found.quote(question, **wish)
        points = quotes.curve(found, question, price) if curve or chart else ()
        if chart is not None:
            quotes.draw_curve(price.sql, points, chart)
    if as_json:
        extra = {"curve": [console.plain_quote(point) for point in points]} if points else {}
        console.show_json({**console.plain_quote(price), **extra})
        return
    console.show_quote(price, float(found.policy.delta))
    if points:
        console.show_curve(points, price)


@main.command()
@click.argument("question")
@wished
@click.option("--at-most", metavar="P", help="The most precision that may be spent on it.")
@click.option("--key", help="Idempotency key: asking again with it gives the same answer and charges once.")
@click.option("--receipt", type=click.Path(path_type=Path), help="Write the receipt to this file.")
@in_bank
@of_account
@as_json
@_guarded
def ask(
    question: str, at_most: str | None, key: str | None, receipt: Path | None, folder: Path, account: str | None,
    as_json: bool, relative: str | None, **wish: Any,
) -> None:  # fmt: skip
    """Answer a question, with noise, and charge what is new in it.

    QUESTION is SQL or the name of one of the policy's queries. Say how good the answer shall be in
    one way: --epsilon and --delta, --within, --relative, or --sigma.

    Example:  noisebank ask "SELECT COUNT(*) FROM survey WHERE age > 60" --within 25
    """
    from noisebank import console

    with _bank(folder) as bank:
        answer = bank.account(account).ask(question, relative=relative, at_most=at_most, key=key, **wish)
        if receipt is not None:
            receipt.write_text(answer.receipt.text() + "\n")
    console.show_json(console.plain_answer(answer)) if as_json else console.show_answer(answer)


@main.command()
@click.argument("question", required=False)
@in_bank
@of_account
@as_json
@_guarded
def explain(question: str | None, folder: Path, account: str | None, as_json: bool) -> None:
    """Turn epsilon into error, for this table: how good is an answer for its price?

    QUESTION is SQL or the name of a query; without it, all named queries are explained.

    Example:  noisebank explain over_60
    """
    from noisebank import console, quotes

    with _bank(folder) as bank:
        found = bank.account(account)
        rows = quotes.explained(found, [question] if question else list(found.policy.queries))
        delta, left = float(found.policy.delta), found.state.left
    shown = {"delta": delta, "left": left, "queries": [row.plain() for row in rows]}
    console.show_json(shown) if as_json else console.show_explained(rows, delta)


@main.command()
@in_bank
@of_account
@click.option("--last", type=int, default=10, show_default=True, help="How many entries to show.")
@click.option("--journal", type=click.Path(path_type=Path), help="Write the journal: all that a verifier needs.")
@click.option(
    "--openings",
    "opened",
    type=click.Path(path_type=Path),
    help="Write questions, answers and salts: with them every charge can be recomputed.",
)
@as_json
@_guarded
def statement(
    folder: Path, account: str | None, last: int, journal: Path | None, opened: Path | None, as_json: bool
) -> None:
    """Show an account's history and balance, and export the books.

    Example:  noisebank statement --journal journal.jsonl --openings openings.json
    """
    import json

    from noisebank import console
    from noisebank.statement import openings
    from noisebank.statement import statement as make

    with _bank(folder) as bank:
        found = bank.account(account)
        made = make(found)
        if journal is not None:
            journal.write_text("\n".join(bank.export()) + "\n")
        if opened is not None:
            opened.write_text(json.dumps(openings(found), indent=1) + "\n")
        head = bank.head()
    if as_json:
        console.show_json({**console.plain_statement(made), "head": head.digest.hex()})
        return
    console.show_statement(made, last)
    console.say(f"head of the journal: {head.digest.hex()} (block {head.number}); keep it somewhere else")


@main.command()
@click.argument("journal", type=click.Path(path_type=Path))
@click.option("--head", help="Digest of a block that you pinned earlier.")
@click.option("--receipt", "receipts", multiple=True, type=click.Path(path_type=Path), help="A receipt that you hold.")
@click.option(
    "--openings", "opened", multiple=True, type=click.Path(path_type=Path), help="Records opened by the owner."
)
@as_json
@_guarded
def verify(
    journal: Path, head: str | None, receipts: tuple[Path, ...], opened: tuple[Path, ...], as_json: bool
) -> None:
    """Recompute the books from JOURNAL, an exported journal or a bank's folder. Trusts nobody.

    Example:  noisebank verify journal.jsonl --head 5f1c... --receipt receipt.json
    """
    from noisebank import console
    from noisebank.answers import read_receipt
    from noisebank.audit.openings import read_openings
    from noisebank.audit.verifier import verify as check
    from noisebank.errors import BadBank

    held = []
    for path in receipts:
        fields = read_receipt(path.read_text()) if path.is_file() else None
        if fields is None:
            raise BadBank(f"{path} holds no receipt")
        held.append(fields)
    lines = _journal_lines(journal)
    with console.progress("verifying", quiet=as_json) as moved:
        report = check(
            lines, head=head, receipts=held, openings=[read_openings(path) for path in opened],
            progress=lambda done: moved(done, len(lines) - 1),
        )  # fmt: skip
    console.show_json(report.plain()) if as_json else console.show_report(report)
    sys.exit(0 if report.passed else 1)


def _journal_lines(source: Path) -> list[str]:
    """From an export, or straight from a bank's journal file without opening the bank."""
    from noisebank.errors import BadBank
    from noisebank.ledger.journal import Journal, read_lines

    if source.is_dir():
        from noisebank.bank import JOURNAL

        if not (source / JOURNAL).is_file():
            raise BadBank(f"{source} is no bank and no journal")
        journal = Journal(source / JOURNAL)
        try:
            return list(journal.lines())
        finally:
            journal.close()
    return list(read_lines(source))


@main.group()
def budget() -> None:
    """Lower or raise an account's budget (the owner's key is needed)."""


@budget.command("lower")
@click.argument("epsilon")
@in_bank
@of_account
@owner_key
@as_json
@_guarded
def lower(epsilon: str, folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """Lower the budget to EPSILON at the account's delta, at once; never below what is spent.

    Lowering to 0 closes the account: what is spent stays, nothing more can be.

    Example:  noisebank budget lower 4
    """
    from noisebank import console
    from noisebank.privacy.calibration import budget_precision
    from noisebank.units import exact

    with _bank(folder, owner_key) as bank:
        found = bank.account(account)
        value = exact(epsilon, "epsilon")
        units = budget_precision(value, found.policy.delta).units if value else found.state.spent.units
        bank.ledger.lower_budget(found.id, units)
        state = found.state
    shown = {"budget": state.budget, "spent": state.spent}
    console.show_json(shown) if as_json else console.say(f"the budget is now {state.budget}; {state.left} is left")


@budget.command("raise")
@click.argument("epsilon")
@in_bank
@of_account
@owner_key
@as_json
@_guarded
def raise_(epsilon: str, folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """Announce a raise to EPSILON. It can be finished after the policy's delay, for a week.

    Example:  noisebank budget raise 10
    """
    from datetime import UTC, datetime

    from noisebank import console
    from noisebank.privacy.calibration import budget_precision
    from noisebank.units import exact

    with _bank(folder, owner_key) as bank:
        found = bank.account(account)
        event = bank.ledger.propose_raise(
            found.id, budget_precision(exact(epsilon, "epsilon"), found.policy.delta).units
        )
    ready = datetime.fromtimestamp(int(event.arguments["ready"]), UTC)
    shown = {"budget_units": event.arguments["budget"], "ready": ready.isoformat()}
    console.show_json(shown) if as_json else console.say(
        f"announced; from {ready:%Y-%m-%d %H:%M} UTC: noisebank budget finish"
    )


@budget.command("finish")
@in_bank
@of_account
@owner_key
@as_json
@_guarded
def finish(folder: Path, account: str | None, owner_key: Path | None, as_json: bool) -> None:
    """Put an announced raise into effect.

    Example:  noisebank budget finish
    """
    from noisebank import console

    with _bank(folder, owner_key) as bank:
        found = bank.account(account)
        bank.ledger.finish_raise(found.id)
        state = found.state
    shown = {"budget": state.budget, "spent": state.spent}
    console.show_json(shown) if as_json else console.say(f"the budget is now {state.budget}; {state.left} is left")


@main.command()
@click.argument("name", type=click.Choice(["table2"]))
@as_json
@_guarded
def reproduce(name: str, as_json: bool) -> None:
    """Reproduce a table of the papers through the product's own planner and contract.

    Example:  noisebank reproduce table2
    """
    from noisebank import console
    from noisebank.experiments.table2 import table2

    made = table2()
    console.show_json(made.plain()) if as_json else console.show_table2(made)
