"""What posters, chain keepers and crashes got out of a crowd's member, through `noisebank learn`."""

from __future__ import annotations

import threading
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile.crowd_poster import SOUND, Noisy, scene
from noisebank import Precision
from noisebank.federated.blockfl.terms import TaskTerms
from noisebank.ledger.protocol import Role
from support.crowd_member import glyphs
from support.internals import (
    AccountOpening,
    BadRequest,
    ChainConfig,
    ChainLedger,
    EdgeWorker,
    Key,
    MemberBook,
    NetworkShape,
    Refused,
    SplitTrainer,
    Transaction,
    Unit,
    budget_ledger,
    find_own_contract,
    first_edition_policy,
    initialize_weights,
    keccak,
    model_registry,
    parse_exact,
    read_terms,
    simulation_rng,
)

SPELLINGS = ("0.01", "1e-2", "10e-3", "1", "1.0", "2", "0.5", "5e-1", "7")
STRANGER = Key(b"\x66" * 32)


def test_a_budget_is_one_however_delta_is_spelled(tmp_path: Path):
    """Six spellings of 1e-5 were six budgets: epsilon 12 of a budget of 2."""
    with scene(tmp_path) as found:
        for delta in ("1e-5", "0.00001", "10e-6"):
            found.join(found.post(delta=delta), "--budget", "2")
        assert 0 < found.charged() <= 2


def test_a_budget_is_one_whatever_ledger_a_poster_names(tmp_path: Path):
    """Anybody can deploy another budget ledger. A member's folder belongs to one, and its book counts all."""
    with scene(tmp_path) as found:
        other = found.chain.send_transaction(
            Transaction(found.chain.state.genesis.chain_id, 0, "", budget_ledger().initcode).sign_with(STRANGER).raw
        ).created_contract
        for ledger in (found.ledger, other):
            found.join(found.post(ledger=ledger), "--budget", "2")
        assert 0 < found.charged(other) <= 2


def test_a_chain_that_begins_anew_is_no_new_budget(tmp_path: Path):
    """The keeper of a chain can throw it away; the member's folder still knows what it has spent."""
    spent = 0.0
    for name in ("one", "two"):
        with scene(tmp_path / name) as found:
            found.keys = tmp_path / "victim"
            if name == "one":
                found.key.save(found.keys / "member.key")
                found.lot.save(found.keys / "lot.key")
            else:
                found.key, found.lot = Key.load(found.keys / "member.key"), type(found.lot).load(found.keys / "lot.key")
            found.join(found.post(), "--budget", "2")
            spent += found.charged()
    assert 0 < spent <= 2


def test_a_crash_before_submitting_leaves_one_model(tmp_path: Path):
    """The model was in the store, not on the ledger: it was trained again, two noisy models for one charge."""
    with scene(tmp_path) as found:
        task = found.post()
        assert found.crash_and_return(task) == 1
        assert found.verify(task).exit_code == 0


def test_verify_sees_two_models_for_one_charge(tmp_path: Path):
    with scene(tmp_path) as found:
        task = found.post()
        found.join(task, "--budget", "2")
        assert found.verify(task).exit_code == 0
        found.forge(task)
        said = found.verify(task)
        assert said.exit_code == 1


def test_a_task_that_protects_nobody_is_not_trained_by_a_member_with_a_budget(tmp_path: Path):
    with scene(tmp_path) as found:
        found.join(found.post(), "--budget", "4")
        task = found.post(SOUND, mode="none", norm="bounded", ledger="")
        worker = EdgeWorker()
        threading.Thread(target=worker.serve_devices, daemon=True).start()
        found.join(task, "--edge", worker.endpoint)
        worker.close()
        assert found.submitted(task) == 0 and not found.models(task)


@pytest.mark.parametrize("name", ["budget_ledger", "model_registry"])
def test_a_strangers_contract_is_not_the_chains_own(tmp_path: Path, name: str):
    """Whoever deployed the same code last was taken for the chain's own contract."""
    with scene(tmp_path) as found:
        before = find_own_contract(found.registry.node, name)
        code = {"budget_ledger": budget_ledger(), "model_registry": model_registry()}[name].initcode
        made = found.chain.send_transaction(
            Transaction(found.chain.state.genesis.chain_id, 0, "", code).sign_with(STRANGER).raw
        ).created_contract
        assert made and find_own_contract(found.registry.node, name) == before


def test_labels_that_a_task_does_not_list_are_no_error():
    """A poster's number of classes decided whether a member could train at all: a question that nothing charged."""
    shape = NetworkShape(8, (4, 8), (16,), classes=2)
    terms = TaskTerms("two classes", shape, mode="none", batch=16, epochs=1)
    weights = initialize_weights(shape, "bounded", simulation_rng(1))
    assert len(SplitTrainer(terms, glyphs(3, 32), "").train(weights, 1)) == shape.weight_count


@pytest.mark.parametrize(
    "change",
    [
        {"clip": "1e-400"},
        {"clip": "1e38"},
        {"rate": "1e30"},
        {"rate": "0"},
        {"epsilon": "1e-400"},
        {"delta": "0.9"},
        {"momentum": "1"},
        {"batch": 1},
        {"batch": True},
        {"batch": 2.5},
        {"epochs": 0},
        {"ledger": "0x1"},
        {"delta": "1E-5"},
        {"delta": " 1e-5"},
        {"rate": "1_0"},
        {"clip": "1/3"},
        {"name": 7},
        {"shape": NetworkShape(8, (4, 8), (16,), classes=1)},
        {"shape": NetworkShape(8, (4, 8), (1,) * 40)},
        {"shape": NetworkShape(8, (4, 8), (16,), classes="4")},
        {"batch": 4096, "shape": NetworkShape(8, (8, 80), (600,))},
    ],
)
def test_a_posters_numbers_have_a_range(change: dict[str, Any]):
    """Each is refused by whoever would make or read such terms, before anything is charged or read."""
    with pytest.raises(BadRequest):
        replace(SOUND, **change)
    assert read_terms(SOUND.to_bytes()) == SOUND


def test_accounts_of_the_first_edition_are_named_and_not_charged(tmp_path: Path):
    with scene(tmp_path) as found:
        where = ChainConfig(found.url, found.ledger, found.registry.chain_id, 0)
        chain = ChainLedger(where, {Role.OWNER: found.key, Role.CURATOR: found.key}, found.keys / "outbox.sqlite")
        data = keccak(b"noisebank device\n", bytes.fromhex(found.key.address[2:]))
        chain.open_account(
            AccountOpening(Precision.floor(Fraction(2)), first_edition_policy("1e-5"), data, 86_400, Unit.EPSILON)
        )
        chain.close()
        said = found.join(found.post(), "--budget", "2")
        assert said.exit_code == 1 and "first edition" in " ".join(said.output.split())
        assert found.charged() == 0


def test_a_lost_book_is_no_new_budget_and_no_second_model(tmp_path: Path):
    with scene(tmp_path) as found:
        first, second = found.post(), found.post()
        found.join(first, "--budget", "3")
        for name in ("trainings.sqlite", "trainings.sqlite-wal", "trainings.sqlite-shm"):
            (found.keys / name).unlink(missing_ok=True)
        before = Noisy.trained
        for task in (first, second):
            found.join(task, "--budget", "3")
        assert Noisy.trained == before and found.charged() == 2


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.fractions(Fraction(1, 100), 20), st.sampled_from(["1e-4", "1e-6", "0.01"]),
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from(SPELLINGS), st.sampled_from(SPELLINGS)), max_size=12),
)  # fmt: skip
def test_whatever_is_posted_sums_stay_in_the_budget(budget: Fraction, delta: str, posted: list[tuple[int, str, str]]):
    """Basic composition over all tasks that were ever charged, in both numbers; a task has one charge and one work."""
    paid: dict[int, tuple[Fraction, Fraction]] = {}
    with TemporaryDirectory() as folder:
        book = MemberBook(Path(folder))
        book.set_budget(budget, delta)
        for task, epsilon, chance in posted:
            price = (parse_exact(epsilon), parse_exact(chance) / 10**6)
            work = f"{epsilon} {chance}".encode()
            try:
                book.charge_task(bytes([task]), work, *price)
            except Refused:
                continue
            assert paid.setdefault(task, price) == price
        book.close()
    assert sum(one for one, _ in paid.values()) <= budget
    assert sum(one for _, one in paid.values()) <= parse_exact(delta)


def test_a_round_that_was_sealed_is_never_trained_again(tmp_path: Path):
    with scene(tmp_path) as found:
        task = found.post()
        before = Noisy.trained
        for _ in range(3):
            found.join(task, "--budget", "2")
        assert Noisy.trained == before + 1 and len(found.models(task)) == 1
