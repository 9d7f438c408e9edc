"""Each door of the built wheel, used in an empty environment: what it weighs, how fast it imports, that it works.

Run by `tools/package-test ROOM`, where ROOM has the environments `light`, `device` and `bank`. The bank makes books and
serves them; the light environment verifies them and asks; the device reports. Every number is printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEGABYTE = 10**6
INSTALLERS = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "wheel")
MAX_LIGHT_MEGABYTES = 110
MAX_DEVICE_MEGABYTES = 190
"""numpy alone has 71 of them: docs/adr/0027-light-doors.md."""
MAX_BANK_MEGABYTES = 700
MAX_IMPORT_SECONDS = 0.2
"""Of CPU, with the interpreter's own start; the least of several runs, since other work on the machine slows some."""
RUNS = 7
LIGHT_MODULES = (
    "noisebank", "noisebank.client.sync_client", "noisebank.client.async_client", "noisebank.verifier.verification",
    "noisebank.cli.main",
)  # fmt: skip
HEAVY_PACKAGES = ("numpy", "apsw", "duckdb", "fastapi", "flint", "matplotlib", "opendp", "sqlglot", "uvicorn")
MEASURE = """
import resource, sys
import {module}
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""
SCHEMA = '[attributes.age]\nlow = 0\nhigh = 100\n\n[attributes.smokes]\nvalues = ["yes", "no"]\n'
ASK = """
import json, sys
import noisebank
address, key = sys.argv[1:]
with noisebank.connect(address, key) as bank:
    account = bank.account()
    price = account.quote(sys.stdin.readline(), within=60)
    answer = account.ask(price.sql, within=60)
    again = account.ask(price.sql, within=60)
    report = noisebank.verify(list(bank.journal()), receipts=[answer.receipt])
print(json.dumps([price.cost.units, answer.cost.units, again.cost.units, answer.value == again.value, report.passed]))
"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel in it. Commands run in `folder`, without the checkout on the path."""

    root: Path
    folder: Path

    def run(self, *command: str, code: int = 0, text: str | None = None) -> str:
        """Runs a program of the environment, checks its exit code, returns its standard output and error."""
        done = subprocess.run(
            [self.root / "bin" / command[0], *command[1:]], cwd=self.folder, input=text, capture_output=True, text=True,
            timeout=300,
        )  # fmt: skip
        output = done.stdout if code == 0 else done.stdout + done.stderr
        assert done.returncode == code, f"{command} gave {done.returncode}: {done.stdout}{done.stderr}"
        assert "Traceback" not in output, output
        return output

    def run_json(self, *command: str, code: int = 0) -> dict[str, Any]:
        """Runs `noisebank ... --json`, returns what it prints."""
        facts: dict[str, Any] = json.loads(self.run("noisebank", *command, "--json", code=code))
        return facts

    def megabytes(self) -> float:
        """Returns what is installed, without what installs."""
        (site,) = self.root.glob("lib/python3*/site-packages")
        parts = [part for part in site.iterdir() if not part.name.partition("-")[0].startswith(INSTALLERS)]
        files = [file for part in parts for file in ([part] if part.is_file() else part.rglob("*"))]
        return sum(file.stat().st_size for file in files if file.is_file()) / MEGABYTE

    def import_seconds(self, module: str) -> float:
        """Returns the CPU seconds of a fresh interpreter that imports a module."""
        return min(float(self.run("python", "-c", MEASURE.format(module=module))) for _ in range(RUNS))

    def has_package(self, name: str) -> bool:
        """Whether a package can be imported."""
        probe = f"import importlib.util as u; print(u.find_spec({name!r}) is not None)"
        return self.run("python", "-c", probe).strip() == "True"


def check_weights(light: Environment, device: Environment, bank: Environment) -> None:
    """Checks sizes and import times of the doors."""
    for name, environment, most in (
        ("noisebank", light, MAX_LIGHT_MEGABYTES), ("noisebank[device]", device, MAX_DEVICE_MEGABYTES),
        ("noisebank[bank]", bank, MAX_BANK_MEGABYTES),
    ):  # fmt: skip
        size = environment.megabytes()
        print(f"{name}: {size:.1f} MB installed (at most {most})")
        assert size <= most
    assert not [name for name in HEAVY_PACKAGES if light.has_package(name)]
    for module in LIGHT_MODULES:
        seconds = light.import_seconds(module)
        print(f"import {module}: {seconds:.3f} s of CPU (at most {MAX_IMPORT_SECONDS})")
        assert seconds <= MAX_IMPORT_SECONDS


def make_books(bank: Environment) -> str:
    """Makes a bank with books in `demo`, a receipt and exports beside it; returns one of its questions."""
    shown = bank.run_json("demo", "--folder", "demo")
    assert shown["verified"] and shown["answered"] == 150 and shown["seconds"] < 60, shown
    print(f"noisebank demo: verified in {shown['seconds']} s")
    question = "SELECT COUNT(*) FROM survey WHERE age > 61"
    bank.run_json("ask", question, "--within", "90", "--receipt", "receipt.json", "--bank", "demo/bank")
    bank.run_json("statement", "--bank", "demo/bank", "--journal", "journal.jsonl", "--openings", "openings.json")
    return question


def check_auditor(light: Environment, bank: Environment) -> None:
    """Verifies exported books with a receipt; forged ones are caught; opened records need their extra."""
    report = light.run_json("verify", "journal.jsonl", "--receipt", "receipt.json")
    assert report["passed"] and len(report["compared_with"]) == 1, report
    light.run("python", "-m", "noisebank.verifier", "journal.jsonl")
    lines = (light.folder / "journal.jsonl").read_text().splitlines()
    (light.folder / "cut.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    assert not light.run_json("verify", "cut.jsonl", "--receipt", "receipt.json", code=1)["passed"]
    forged = lines[5].replace('"time":', '"time":1', 1)
    assert forged != lines[5]
    (light.folder / "forged.jsonl").write_text("\n".join([*lines[:5], forged, *lines[6:]]) + "\n")
    assert light.run_json("verify", "forged.jsonl", code=1)["block"] == 4
    for command, extra in (
        (("verify", "journal.jsonl", "--openings", "openings.json"), "openings"), (("verify", "demo/bank"), "bank"),
        (("ask", "SELECT COUNT(*) FROM survey", "--bank", "demo/bank"), "bank"), (("demo",), "bank"),
        (("serve", "--bank", "demo/bank"), "bank"), (("local", "status", "--bank", "demo/bank"), "device"),
    ):  # fmt: skip
        message = light.run("noisebank", *command, code=2).strip()  # a progress bar leaves an empty line
        assert "\n" not in message and f'pip install "noisebank[{extra}]"' in message, message
    opened = bank.run_json("verify", "journal.jsonl", "--openings", "openings.json")
    assert opened["passed"] and "records opened" in opened["level"], opened
    print(f"auditor: {report['blocks']} blocks verified with a receipt; a cut and a forged journal were caught")


@contextmanager
def serve_bank(bank: Environment) -> Iterator[tuple[str, str]]:
    """Serves the bank from its own environment; yields its address and the owner's key."""
    key = bank.run_json("key", "make", "owner", "--bank", "demo/bank")["secret"]
    command = [bank.root / "bin" / "noisebank", "serve", "--bank", "demo/bank", "--port", "0", "--json"]
    with subprocess.Popen(
        command, cwd=bank.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            text = ""
            while not text.endswith("}\n"):
                line = server.stdout.readline()
                assert line, "the service ended"
                text += line
            yield json.loads(text)["address"], key
        finally:
            server.terminate()


def check_analyst(light: Environment, bank: Environment, question: str) -> None:
    """Asks the served bank from the light environment, and verifies its journal there with the answer's receipt."""
    with serve_bank(bank) as (address, key):
        price, cost, again, same, passed = json.loads(light.run("python", "-c", ASK, address, key, text=question))
    assert cost == price and again == 0 and same and passed, (price, cost, again, same, passed)
    print(f"analyst: asked for {cost / 10**18:.3g} precision, again for nothing, and verified the journal")


def check_device(device: Environment) -> None:
    """Enrols and reports in the device's environment: charged once, the same bits again, books that verify."""
    (device.folder / "schema.toml").write_text(SCHEMA)
    (device.folder / "record.json").write_text(json.dumps({"age": 41, "smokes": "no"}))
    device.run_json("init", "phone")
    device.run_json("local", "enrol", "phone-7", "--epsilon", "4", "--bank", "phone")
    order = (
        "local",
        "report",
        "phone-7",
        "record.json",
        "--schema",
        "schema.toml",
        "--epsilon",
        "1",
        "--bank",
        "phone",
    )
    first, again = (device.run_json(*order, "--round", "monday") for _ in range(2))
    other = device.run_json(*order, "--round", "tuesday")
    assert first["report"] == again["report"] and len(bytes.fromhex(first["report"])) > 16, (first, again)
    assert (first["left"], again["left"], other["left"]) == ("3", "3", "2"), (first, again, other)
    assert device.run_json("verify", "phone")["passed"]
    print("device: two rounds reported, each charged once; its books verify")


def main(room: Path) -> None:
    """Uses every door; raises if one of them is too heavy or does not work."""
    light, device, bank = (Environment(room / name, room) for name in ("light", "device", "bank"))
    check_weights(light, device, bank)
    question = make_books(bank)
    check_auditor(light, bank)
    check_analyst(light, bank, question)
    check_device(device)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
