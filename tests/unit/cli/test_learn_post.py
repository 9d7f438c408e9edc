"""`learn post`: the terms that end up in the store are those that were typed, and sound ones name their ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from noisebank.cli.main import main
from noisebank.core.entropy import SystemEntropy
from noisebank.federated.blockfl.dev_chain import create_dev_chain
from noisebank.federated.blockfl.json_rpc import JsonRpcServer
from noisebank.federated.blockfl.registry import ModelRegistry, find_own_contract
from noisebank.federated.blockfl.store import FolderStore
from noisebank.federated.blockfl.terms import TaskTerms
from noisebank.federated.blockfl.views import find_terms
from noisebank.ledger.signing import Key

POSTER = Key(b"\1" * 32)
MEMBERS = [Key(bytes([number]) * 32).address for number in range(11, 17)]


@pytest.fixture
def door(tmp_path: Path) -> Iterator[JsonRpcServer]:
    chain = create_dev_chain(tmp_path / "chain", SystemEntropy())
    door = JsonRpcServer(chain)
    yield door
    door.close()
    chain.close()


def post(door: JsonRpcServer, folder: Path, *words: str) -> TaskTerms:
    """The stored terms of the task that these words post. Nobody joins, so it is not begun."""
    POSTER.save(folder / "poster.key")
    members = [word for address in MEMBERS for word in ("--member", address)]
    command = ["learn", "post", "--rpc", door.url, "--store", str(folder / "models"), "--wait", "0"]
    done = CliRunner().invoke(
        main, [*command, "--network", "small", "--key", str(folder / "poster.key"), *members, *words]
    )
    registry = ModelRegistry(door.url)
    assert registry.list_tasks(), done.output
    assert "Multi-KRUM refuses 1 of 6 submissions" in " ".join(done.output.split())
    terms = find_terms(registry.read_books(registry.list_tasks()[-1]), FolderStore(folder / "models"))
    assert terms is not None
    return terms


@pytest.mark.parametrize("norm", ["bounded", "batch"])
@pytest.mark.parametrize("mode", ["paper", "none"])
def test_a_task_without_a_charge_has_the_norm_that_was_typed_and_no_ledger(
    door: JsonRpcServer, tmp_path: Path, mode: str, norm: str
) -> None:
    terms = post(door, tmp_path, "--mode", mode, "--norm", norm, "--batch", "16", "--epsilon", "3", "--clip", "4")
    assert (terms.mode, terms.norm, terms.ledger) == (mode, norm, "")
    assert (terms.batch, terms.epsilon, terms.clip) == (16, "3", "4")


def test_a_sound_task_is_normalised_per_example_and_charged_on_the_chains_own_ledger(
    door: JsonRpcServer, tmp_path: Path
) -> None:
    terms = post(door, tmp_path, "--mode", "sound")
    own = find_own_contract(ModelRegistry(door.url).node, "budget_ledger")
    assert (terms.mode, terms.norm, terms.ledger) == ("sound", "fixed", own.lower())


def test_a_sound_task_is_charged_on_the_ledger_that_was_typed(door: JsonRpcServer, tmp_path: Path) -> None:
    terms = post(door, tmp_path, "--mode", "sound", "--ledger", "0x" + "AB" * 20)
    assert terms.ledger == "0x" + "ab" * 20
