"""`noisebank ask` at the terminal: FROM names the account, and Ctrl-C says what became of the money."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from noisebank import create_bank, open_bank
from noisebank.cli.main import main
from support.banks import write_people
from support.paths import SOURCES
from support.patience import patience

WISH = ("--epsilon", "0.01", "--delta", "1e-6")
COUNT = "SELECT COUNT(*) FROM {} WHERE smoker"
STOPPED_AT = """
import sys
from noisebank.{module} import {owner}
from noisebank.cli.main import main
real = {owner}.{step}
def stop(*arguments):
    if {before}:
        print("here", flush=True)
        sys.stdin.read()
    real(*arguments)
    print("here", flush=True)
    sys.stdin.read()
{owner}.{step} = stop
main()
"""
"""A `noisebank` that waits at one step of the path, before or after it, until it is interrupted."""


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    create_bank(tmp_path / "bank")
    with open_bank(tmp_path / "bank") as bank:
        for name in ("north", "South"):
            path = write_people(tmp_path / name, epsilon="2")
            text = path.read_text().replace('name = "people"', f'name = "{name}"')
            path.write_text(text + f'\n[queries]\nsmokers_{name} = "{COUNT.format(name)}"\n')
            bank.open_account(path)
    return tmp_path / "bank"


def run(bank: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words], env={"NOISEBANK_BANK": str(bank), "COLUMNS": "200"})


@pytest.mark.parametrize("command", ["ask", "quote", "explain"])
def test_from_names_the_account(bank: Path, command: str) -> None:
    wish = () if command == "explain" else WISH
    for question in (COUNT.format("north"), COUNT.format("SOUTH"), "smokers_South", "SELECT SUM(age)\nFROM 'South'"):
        done = run(bank, command, question.replace("'", '"'), *wish, "--json")
        assert done.exit_code == 0, done.output
    for question in (COUNT.format("west"), "nothing", "SELECT 1", "SELECT 'FROM", ""):
        done = run(bank, command, question, *wish)
        assert done.exit_code == 2 and "South" in done.stderr and "north" in done.stderr, done.output


def test_the_account_that_is_named_by_an_option_counts(bank: Path) -> None:
    assert run(bank, "ask", COUNT.format("north"), *WISH, "-a", "South").exit_code == 2


def interrupt(bank: Path, question: str, before: bool, wish: tuple[str, ...] = WISH) -> tuple[int, str]:
    """Asks in a process of its own, and interrupts it before or after the reservation: its exit code and errors."""
    script = STOPPED_AT.format(module="ledger.chain", owner="Ledger", step="reserve_many", before=before)
    process = subprocess.Popen(
        [sys.executable, "-c", script, "ask", question, *wish, "--bank", str(bank)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "here\n", process.stderr.read()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=patience())
    finally:
        process.kill()
    return process.returncode, errors


@pytest.mark.parametrize("question", [COUNT.format("north"), "SELECT AVG(age), COUNT(*) FROM north WHERE smoker"])
def test_an_interrupted_question_says_what_it_cost(bank: Path, question: str) -> None:
    def spent() -> int:
        with open_bank(bank) as opened:
            return opened.account("north").state.spent.units

    code, errors = interrupt(bank, question, before=True)
    assert (code, errors) == (130, "interrupted; nothing was charged\n") and spent() == 0
    code, errors = interrupt(bank, question, before=False)
    assert code == 130 and "the question is charged" in errors, errors
    paid = spent()
    assert paid > 0
    key = errors.split("--key ")[1].split()[0]
    answer = json.loads(run(bank, "ask", question, *WISH, "--key", key, "--json").stdout)
    assert answer["rows"] and spent() == paid


def test_an_interrupted_look_says_that_only_it_is_charged(bank: Path) -> None:
    question, wish = "SELECT AVG(age) FROM north WHERE smoker", ("--within", "50")

    def spent() -> int:
        with open_bank(bank) as opened:
            return opened.account("north").state.spent.units

    code, errors = interrupt(bank, question, before=False, wish=wish)
    assert code == 130 and "a coarse look is charged" in errors, errors
    looked = spent()
    key = errors.split("--key ")[1].split()[0]
    answer = json.loads(run(bank, "ask", question, *wish, "--key", key, "--json").stdout)
    assert answer["rows"] and spent() >= looked > 0
    assert run(bank, "ask", question, *wish, "--key", key, "--json").exit_code == 0
    with open_bank(bank) as opened:
        paid = sum(entry.cost.units for entry in opened.account("north").statement().entries)
    assert paid == spent()  # nothing twice


def test_an_interrupt_while_the_command_is_loaded_says_nothing_else() -> None:
    script = """
import builtins, signal
real = builtins.__import__
def stop(name, *rest):
    if name == "click":
        signal.raise_signal(signal.SIGINT)
    return real(name, *rest)
builtins.__import__ = stop
from noisebank.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script, "ask", "anything"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted; nothing was charged\n")
