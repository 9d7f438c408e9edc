"""What commands share: options, the handling of errors with exit codes, and opening a bank."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisebank.core.errors import Misuse, NoisebankError
from noisebank.core.extras import needs_extra

if TYPE_CHECKING:
    from noisebank.bank.bank import Bank
    from noisebank.bank.folder import BankParts

Command = Callable[..., None]
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


def handle_errors(command: Command, extra: str = "bank") -> Command:
    """Turns errors of this package into one message and an exit code: 1 refused, 2 misuse, 130 interrupted.

    `extra` names what to install if a package that the command needs is missing.
    """

    @functools.wraps(command)
    def run_command(*arguments: Any, **options: Any) -> None:
        try:
            with needs_extra(extra, "this command"):
                command(*arguments, **options)
        except NoisebankError as error:
            code = 2 if isinstance(error, Misuse) else 1
            if options.get("as_json"):
                from noisebank.cli.render import show_json

                nearest = getattr(error, "nearest", None)
                show_json({"error": error.kind, "message": str(error)} | ({"nearest": nearest} if nearest else {}))
            click.secho(f"{'refused' if code == 1 else 'error'}: {error}", err=True, fg="red")
            sys.exit(code)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            sys.exit(INTERRUPTED)

    return run_command


handle_device_errors = functools.partial(handle_errors, extra="device")


def combine_options(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def apply_all(command: Command) -> Command:
        for decorate in reversed(decorators):
            command = decorate(command)
        return command

    return apply_all


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
bank_option = click.option(
    "--bank", "-b", "folder", type=click.Path(path_type=Path), default=Path("bank"), show_default=True,
    envvar="NOISEBANK_BANK", help="The bank's folder.",
)  # fmt: skip
account_option = click.option(
    "--account", "-a", help="The account's name; not needed if there is only one, or if a question names it: FROM name."
)
owner_key_option = click.option(
    "--owner-key", type=click.Path(path_type=Path), help="The owner's key, if moved off the bank."
)
header_option = click.option(
    "--header", type=click.Choice(["yes"]), help="The file's first line are names, though it looks like a row."
)
accuracy_options = combine_options(
    click.option("--epsilon", "-e", metavar="E", help="Epsilon of this answer alone (with --delta)."),
    click.option("--delta", "-d", metavar="D", help="Delta of this answer alone."),
    click.option("--within", "-w", metavar="H", help="Or: within this distance of the truth, at --confidence."),
    click.option("--relative", "-r", metavar="R", help="Or: within this share of the true value, e.g. 2%."),
    click.option("--floor", "-f", metavar="F",
                 help="With --relative: the smallest true value for which that is promised; unless said otherwise a "
                      "tenth of the largest that the policy allows."),
    click.option("--confidence", "-c", metavar="C", help="Of intervals, --within and --relative; 0.95 if not said."),
    click.option("--sigma", "-s", metavar="S", help="Or: the noise's standard deviation, in the answer's unit."),
    click.option("--spend", metavar="P",
                 help="Or: the most accurate answer for this share of the budget, e.g. 1%; with --file, all answers "
                      "together."),
    click.option("--groups", type=click.Choice(["each", "all"]),
                 help="Whether --confidence holds for each number or for all of them at once; each unless said "
                      "otherwise."),
    click.option("--calibration", type=click.Choice(["analytic", "classical"]),
                 help="How epsilon and delta name a noise level; analytic unless said otherwise."),
)  # fmt: skip


@contextmanager
def open_bank_parts(folder: Path, key: Path | None = None) -> Iterator[BankParts]:
    """Opens ledger and vault of the bank at `folder` without its tables: what a device needs."""
    from noisebank.bank.folder import lock_folder, open_parts

    with lock_folder(folder), open_parts(folder, key) as parts:
        yield parts


def open_recovered_bank(folder: Path, key: Path | None = None) -> Bank:
    """Opens the bank at `folder`; prints what recovery did after a crash."""
    from noisebank.bank.bank import open_bank

    bank = open_bank(folder, key)
    for name, counts in bank.recovered.items():
        if counts.finished or counts.waiting or counts.unknown or counts.lost:
            click.secho(
                f"recovered {name}: {counts.finished} finished, {counts.waiting} waiting for the table, "
                f"{counts.unknown} unknown to the vault, {counts.lost} lost", err=True, fg="yellow",
            )  # fmt: skip
    return bank
