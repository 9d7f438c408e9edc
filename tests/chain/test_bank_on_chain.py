"""A whole bank on a real node, by the commands that a user types."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.node import Node, node_or_skip
from support.banks import write_people
from support.internals import Key
from support.patience import patience
from support.results import single

DEPLOYER = "11" * 32
OVER_30 = "SELECT COUNT(*) FROM people WHERE age > 30"


class Shell:
    def __init__(self, folder: Path, node: Node) -> None:
        self.folder, self.node = folder, node

    def run(self, *arguments: str, code: int = 0) -> dict[str, object]:
        environment = {**os.environ, "NOISEBANK_DEPLOYER_KEY": DEPLOYER}
        done = subprocess.run(
            [sys.executable, "-m", "noisebank", *arguments, "--json"],
            cwd=self.folder, capture_output=True, text=True, env=environment, timeout=patience(),
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert DEPLOYER not in done.stdout + done.stderr
        return dict(json.loads(done.stdout))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with node_or_skip() as node:
        write_people(tmp_path / "table")
        yield Shell(tmp_path, node)


def test_deploy_init_open_ask_and_verify(shell: Shell) -> None:
    url, node = shell.node.url, shell.node
    poor = shell.run("deploy", "--rpc", url, code=2)
    assert poor["error"] == "BadLedger"
    node.rpc("anvil_setBalance", Key(bytes.fromhex(DEPLOYER)).address, hex(10**20))
    made = shell.run("deploy", "--rpc", url)
    contract = str(made["contract"])
    bank = shell.run("init", "bank", "--rpc", url, "--contract", contract, "--confirmations", "1")
    for role in ("owner", "curator"):
        node.rpc("anvil_setBalance", str(bank[role]), hex(10**20))
    shell.run("open", "table/people.toml")
    first = shell.run("ask", OVER_30, "-e", "1", "-d", "1e-6", "--receipt", "receipt.json", "--key", "k")
    again = shell.run("ask", OVER_30, "-e", "1", "-d", "1e-6", "--key", "k")
    repeat = shell.run("ask", OVER_30, "-e", "1", "-d", "1e-6")
    first, again, repeat = (single(each) for each in (first, again, repeat))
    assert (first["case"], again["case"], repeat["case"]) == ("FIRST", "FIRST", "REPEAT")
    assert first["value"] == again["value"] == repeat["value"]
    shell.run("analyst", "limit", "maria", "0.5")
    refused = shell.run("ask", OVER_30, "-e", "0.8", "-d", "1e-6", "--analyst", "maria", code=1)
    assert refused["error"] == "ViewExhausted"
    assert shell.run("ask", OVER_30, "-e", "0.4", "-d", "1e-6", "--analyst", "maria")["charge"]["case"] == "BLUR"
    stranger = shell.run("ask", OVER_30, "-e", "0.4", "-d", "1e-6", "--analyst", "otto", code=1)
    assert "without a limit" in str(stranger["message"])
    shell.run("pause")
    assert "paused" in str(shell.run("ask", OVER_30, "-e", "2", "-d", "1e-6", code=1)["message"])
    shell.run("resume")
    shell.run("statement", "--openings", "openings.json")
    report = shell.run(
        "verify", "--rpc", url, "--contract", contract, "--receipt", "receipt.json", "--openings", "openings.json"
    )
    assert report["passed"] and "3 of 3 records opened" in str(report["level"])
    assert shell.run("verify", code=2)["error"] == "BadRequest"
    assert shell.run("verify", "--rpc", url, code=2)["error"] == "BadRequest"
    assert shell.run("verify", "--rpc", url, "--contract", "0x" + "12" * 20, code=2)["error"] == "BadLedger"
    node.kill()
    assert "does not answer" in str(shell.run("ask", OVER_30, "-e", "1", "-d", "1e-6", code=1)["message"])


def test_an_embedded_bank_is_anchored_and_its_bundle_verified(shell: Shell) -> None:
    url, node = shell.node.url, shell.node
    bank = shell.run("init", "bank")
    shell.run("open", "table/people.toml")
    shell.run("ask", OVER_30, "-e", "1", "-d", "1e-6")
    assert shell.run("anchor", "--rpc", url, code=2)["error"] == "BadLedger"
    node.rpc("anvil_setBalance", str(bank["curator"]), hex(10**20))
    pinned = shell.run("anchor", "--rpc", url)
    shell.run("ask", OVER_30, "-e", "2", "-d", "1e-6")
    shell.run("anchor", "--rpc", url, "--contract", str(pinned["contract"]))
    shell.run("statement", "--bundle", "bundle.zip")
    report = shell.run("verify", "bundle.zip", "--anchors", url)
    assert report["passed"] and "2 of 2 records opened" in str(report["level"])
    assert any("2 anchors" in line for line in report["compared_with"])  # type: ignore[union-attr]
    shell.run("roles", "curator")
    assert shell.run("ask", OVER_30, "-e", "3", "-d", "1e-6")["charge"]["case"] == "REFINE"
    assert shell.run("verify", "bank", "--anchors", url)["passed"]
