"""What needs torch and Opacus: the same network, DP-SGD with its price, and a whole sound task."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from noisebank.core.entropy import SystemEntropy, simulation_rng
from noisebank.core.errors import BudgetExhausted, Refused
from noisebank.federated.blockfl.charges import DeviceAccount, find_unpaid_models
from noisebank.federated.blockfl.dev_chain import create_dev_chain
from noisebank.federated.blockfl.json_rpc import JsonRpcServer
from noisebank.federated.blockfl.member import NO_RECEIPT, CrowdMember
from noisebank.federated.blockfl.member_book import MemberBook
from noisebank.federated.blockfl.network import (
    DIGITS_SHAPE,
    NORMS,
    SMALL_SHAPE,
    Classifier,
    FeatureExtractor,
    initialize_weights,
    split_weights,
)
from noisebank.federated.blockfl.registry import ModelRegistry, find_own_contract
from noisebank.federated.blockfl.sortition import SortitionKey
from noisebank.federated.blockfl.store import FolderStore
from noisebank.federated.blockfl.task_posting import TaskRules, post_task
from noisebank.federated.blockfl.terms import TaskTerms
from noisebank.ledger.signing import Key
from support.crowd_member import glyphs
from support.patience import join_threads, wait_until

pytestmark = pytest.mark.extras
SOUND = TaskTerms(
    "sound", SMALL_SHAPE, norm="fixed", mode="sound", epsilon="8", delta="1e-3", batch=64, epochs=3, rate="0.5",
    momentum="0.5", clip="1",
)  # fmt: skip


@pytest.mark.parametrize("norm", NORMS)
def test_torch_and_numpy_are_the_same_network(norm: str):
    import torch

    from noisebank.federated.blockfl.torch_network import TorchNetwork

    weights = initialize_weights(DIGITS_SHAPE, norm, simulation_rng(2))
    images = simulation_rng(3).random((9, 8, 8)).astype(np.float32)
    network = TorchNetwork(DIGITS_SHAPE, norm, 3.0, None, None)
    network.load_weights(weights)
    assert network.export_weights() == pytest.approx(weights, abs=1e-6)
    for training in (True, False):
        network.train(training)
        network.load_weights(weights)
        extractor = FeatureExtractor(
            DIGITS_SHAPE,
            norm,
            3.0,
            split_weights(weights[: DIGITS_SHAPE.device_weight_count], DIGITS_SHAPE.device_shapes),
        )
        classifier = Classifier(split_weights(weights[DIGITS_SHAPE.device_weight_count :], DIGITS_SHAPE.edge_shapes))
        plain = classifier.compute_scores(extractor.extract_features(images[:, None], training) / np.float32(3))
        with torch.no_grad():
            found = network(torch.as_tensor(images)[:, None]).numpy()
        assert found == pytest.approx(plain, abs=2e-3)


def test_dp_sgd_costs_what_was_said_and_no_round_twice():
    from noisebank.federated.blockfl.dp_sgd import DpSgdTrainer, compute_epsilon

    trainer = DpSgdTrainer(SOUND, glyphs(1, 256), 3)
    assert (
        compute_epsilon(SOUND, 256, 3, trainer.noise_multiplier)
        <= 8.0
        < compute_epsilon(SOUND, 256, 3, 0.9 * trainer.noise_multiplier)
    )
    weights = initialize_weights(SMALL_SHAPE, "fixed", simulation_rng(1))
    first = trainer.train(weights, 1)
    assert np.abs(first - weights).max() > 1e-3
    for round in (1, 4):
        with pytest.raises(Refused):
            trainer.train(weights, round)


def test_a_sound_task_is_charged_before_it_trains(tmp_path: Path, request: pytest.FixtureRequest):
    """Five devices; one has too small a budget and never trains. Nobody can submit without having paid."""
    from noisebank.federated.blockfl.dp_sgd import DpSgdTrainer

    ahead = 0.0  # put forward when all who can submit have; how long that takes is the machine's affair
    chain = create_dev_chain(tmp_path / "chain", SystemEntropy(), lambda: time.time() + ahead)
    request.addfinalizer(chain.close)
    door = JsonRpcServer(chain)
    request.addfinalizer(door.close)
    store = FolderStore(tmp_path / "models")
    registry = ModelRegistry(door.url)
    ledger = find_own_contract(registry.node, "budget_ledger")
    terms = TaskTerms(
        **{**{name: getattr(SOUND, name) for name in SOUND.__dataclass_fields__}, "ledger": ledger, "epochs": 1}
    )
    keys = [Key(SystemEntropy().token()) for _ in range(5)]
    poor = DeviceAccount(door.url, ledger, keys[4], tmp_path / "poor")
    poor.open_budget("1", "1e-2")
    poster = Key(SystemEntropy().token())
    task, secret = post_task(
        registry, store, poster, terms, TaskRules(round_count=1, byzantine=0, expected_seats=25, patience_seconds=600),
        [(key.address, 5) for key in keys],
    )  # fmt: skip
    with pytest.raises(BudgetExhausted):
        poor.charge_task(task, 1, terms)
    poor.close()
    refused: list[BaseException] = []

    def member(number: int) -> None:
        def receipt(terms: TaskTerms, books: object) -> bytes:
            if number == 3:
                return NO_RECEIPT  # trains without paying
            account = DeviceAccount(door.url, ledger, keys[number], tmp_path / str(number))
            try:
                account.open_budget("1" if number == 4 else "10", "1e-2")
                return account.charge_task(task, 1, terms).id
            finally:
                account.close()

        made = CrowdMember(
            ModelRegistry(door.url), store, keys[number], SortitionKey(bytes([number + 1]) * 32), task,
            lambda terms, books: DpSgdTrainer(terms, glyphs(number, 128), 1), make_receipt=receipt,
            book=MemberBook(tmp_path / f"book-{number}"),
        )  # fmt: skip
        try:
            made.run(600)
        except BaseException as error:
            refused.append(error)

    threads = [threading.Thread(target=member, args=(number,), daemon=True) for number in range(5)]
    for thread in threads:
        thread.start()

    def count_joined() -> int:
        return sum(one.public_key is not None for one in registry.read_books(task).members.values())

    wait_until(lambda: refused or count_joined() == 5, "all have joined")
    assert not refused
    registry.send_call(poster, "begin", task, secret)
    wait_until(
        lambda: len(refused) > 1 or (refused and registry.read_stage(task).submission_count >= 4),
        "all who can have submitted",
        seconds=240,
    )
    assert len(refused) == 1, refused
    ahead = 600.0
    registry.move_on(poster, task)
    join_threads(threads)
    books = registry.read_books(task)
    assert [type(error) for error in refused] == [BudgetExhausted]
    assert {one.member for one in books.rounds[0].submissions} == {key.address for key in keys[:4]}
    wrong = find_unpaid_models(registry.node, terms, books)
    assert wrong == [f"round 1: nothing pays for the model of {keys[3].address}"]


def test_some_of_the_recorded_trainings_again():
    """A part of `reproduce crowd --quick`, one seed; and what three attackers can do."""
    from research.blockfl.attacks import attacks
    from research.blockfl.chapter5 import CHANGES, REFERENCE, CrowdResult
    from research.blockfl.experiments import DIGITS
    from research.blockfl.training import train

    made = {
        name: train(DIGITS.shape, DIGITS.data(1), replace(DIGITS.base, **changes), 1)
        for name, changes in CHANGES.items() if "10" not in name
    }  # fmt: skip
    rows = {name: {"clean": one.clean[1], "noisy": one.noisy[1]} for name, one in made.items()}
    for name in ("ours, no noise", "ours, epsilon 2"):
        assert abs(rows[name]["clean"] - REFERENCE[name][0]) < 0.05
    rows["ours, epsilon 10"] = dict(zip(("clean", "noisy"), REFERENCE["ours, epsilon 10"], strict=True))
    found = CrowdResult(rows, 1, attacks(3)).checks()
    assert all(passed for name, passed in found.items() if "within" not in name), found


@pytest.mark.parametrize("norm", ["bounded", "batch"])
@pytest.mark.parametrize("divided", [True, False])
def test_the_lean_network_has_the_scores_and_gradients_of_torch(norm: str, divided: bool):
    import torch

    from noisebank.federated.blockfl.torch_network import TorchNetwork
    from research.blockfl.lean_network import LeanNetwork

    images = simulation_rng(3).random((9, 8, 8)).astype(np.float32)
    images[:, :3, :3] = 0  # a blank corner: equal maxima
    labels = simulation_rng(4).integers(0, 10, 9)
    lean = LeanNetwork(SMALL_SHAPE, norm, 3.0, None, divided)
    lean.initialize(simulation_rng(1))
    first, second = SMALL_SHAPE.channels
    network = TorchNetwork(SMALL_SHAPE, norm, 3.0, None, None)
    if not divided:

        class Multiplied(torch.nn.Module):
            def forward(self, features):
                return features * 3.0

        network.layers.insert(0, Multiplied())

    def arranged(parts: list[np.ndarray]) -> list[np.ndarray]:
        """In torch's order: taps after channels, features by channel."""
        layers = [part.T if part.ndim == 2 else part for part in parts[4:]]
        layers[0] = layers[0].reshape(-1, 4, second).transpose(0, 2, 1).reshape(-1, 4 * second)
        return [
            parts[0].T.reshape(first, 1, 3, 3), parts[1],
            parts[2].reshape(9, first, second).transpose(2, 1, 0).reshape(second, first, 3, 3), parts[3], *layers,
        ]  # fmt: skip

    with torch.no_grad():
        for part, values in zip(network.parameters(), arranged(lean.weights), strict=True):
            part.copy_(torch.as_tensor(np.ascontiguousarray(values)))
    network.train()
    scores = network(torch.as_tensor(images)[:, None], noise=False)
    torch.nn.functional.cross_entropy(scores, torch.as_tensor(labels)).backward()
    gradient = np.zeros_like(lean.flat)
    lean.compute_gradients(lean.prepare(images), labels, None, gradient)
    assert lean.compute_scores(lean.prepare(images), True, None) == pytest.approx(scores.detach().numpy(), abs=1e-5)
    for part, found in zip(network.parameters(), arranged(lean.views(gradient)[0]), strict=True):
        assert found == pytest.approx(part.grad.numpy(), abs=1e-5 * float(part.grad.abs().max() + 1e-3))


def test_steps_are_those_of_torch():
    import torch

    from research.blockfl.lean_network import Descent

    source = simulation_rng(5)
    for optimiser, clip in (("momentum", 0.5), ("sgd", None), ("adam", 2.0)):
        ours = source.normal(size=20).astype(np.float32)
        theirs = torch.nn.Parameter(torch.as_tensor(ours.copy()))
        steps = Descent(optimiser, 0.05, 0.9, clip, 20)
        kinds = {"momentum": 0.9, "sgd": 0.0}
        descent = (
            torch.optim.Adam([theirs], lr=0.05) if optimiser == "adam"
            else torch.optim.SGD([theirs], lr=0.05, momentum=kinds[optimiser])
        )  # fmt: skip
        for _ in range(5):
            gradient = source.normal(size=20).astype(np.float32)
            theirs.grad = torch.as_tensor(gradient.copy())
            if clip is not None:
                torch.nn.utils.clip_grad_norm_([theirs], clip)
            descent.step()
            steps.step(ours, gradient)
        assert ours == pytest.approx(theirs.detach().numpy(), abs=2e-6)
