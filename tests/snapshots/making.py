"""Makes the committed bank and what it exports, through command line and SDK: `python -m snapshots --bank`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import noisebank
from snapshots.comparing import DATA
from snapshots.corpus import CORPUS, WISH
from snapshots.doors import Shell

SGD = (
    "learn", "sgd", "tables/devices.csv", "--schema", "tables/schema.toml", "--target", "buys", "--task", "offers",
    "--epsilon", "1", "--group", "10",
)  # fmt: skip
REPORT = (
    "local", "report", "phone-7", "tables/record.json", "--schema", "tables/schema.toml", "--round", "monday",
    "--epsilon", "0.1",
)  # fmt: skip
CASES = (
    ("people", "smokers", "1", "FIRST"),
    ("people", "SELECT COUNT(*) FROM people WHERE smoker", "1", "REPEAT"),
    ("people", "smokers", "1.5", "REFINE"),
    ("people", "smokers", "0.5", "BLUR"),
    ("clinic", "SELECT COUNT(*) FROM clinic WHERE age < 32", "0.5", "FIRST"),
    ("clinic", "SELECT COUNT(*) FROM clinic WHERE age >= 32 AND age < 48", "0.5", "FIRST"),
    ("clinic", "SELECT COUNT(*) FROM clinic WHERE age < 48", "0.1", "INFER"),
    ("clinic", "SELECT ward, COUNT(*) FROM clinic GROUP BY ward", "0.1", "FIRST"),
)
"""Account, question, epsilon, and the case that the answer must have."""


def make_bank() -> None:
    """Replaces data/bank and data/exports. The keys in it are for tests: they guard nothing."""
    with TemporaryDirectory(prefix="noisebank-snapshots-") as folder:
        shell = Shell(Path(folder))
        shutil.copytree(DATA / "tables", shell.folder / "tables")
        (shell.folder / "exports").mkdir()
        _fill(shell)
        for part in ("bank", "exports"):
            shutil.rmtree(DATA / part, ignore_errors=True)
            shutil.copytree(shell.folder / part, DATA / part)


def _fill(shell: Shell) -> None:
    shell.json("init", "bank")
    shell.json("open", "tables/people.toml")
    shell.json("open", "tables/clinic.toml")
    shell.json("analyst", "limit", "maria", "1", "--account", "people")
    for number, (account, question, epsilon, case) in enumerate(CASES):
        receipt = ("--receipt", f"exports/receipt-{number}.json")
        made = shell.json("ask", question, "-e", epsilon, "-d", "1e-6", "--account", account, *receipt)
        assert made["case"] == case, (question, made["case"])
    shell.json("ask", "SELECT COUNT(*) FROM people WHERE town = 'north'", "-e", "0.3", "-d", "1e-6",
               "--analyst", "maria", "--account", "people", "--key", "monday")  # fmt: skip
    with noisebank.open_bank(shell.folder / "bank") as bank:
        for spellings in CORPUS:
            bank.account("people").ask(spellings[0], **WISH)
    shell.json("local", "enrol", "phone-7", "--epsilon", "4")
    rounds = ("monday", *(f"round {number}" for number in range(35)))
    reports = [shell.json(*(name if word == "monday" else word for word in REPORT))["report"] for name in rounds]
    (shell.folder / "exports" / "reports.txt").write_text("\n".join(reports) + "\n")
    shell.json(*SGD)
    shell.json("key", "make", "maria", "--label", "snapshots")
    shell.json("statement", "--account", "people", "--bundle", "exports/bundle.zip")
    (shell.folder / "bank" / "lock").unlink(missing_ok=True)
    assert json.loads((shell.folder / "exports" / "receipt-0.json").read_text())
