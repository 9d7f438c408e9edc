"""Verifying a task: a report passes only without any difference, and a second model for one charge is one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from noisebank.federated.blockfl import verification
from noisebank.federated.blockfl.models import Model
from noisebank.federated.blockfl.network import SMALL_SHAPE
from noisebank.federated.blockfl.store import FolderStore
from noisebank.federated.blockfl.terms import TaskTerms
from noisebank.federated.blockfl.verification import RoundCheck, TaskReport, find_duplicate_models, verify_task

ANNA, BERT = "0x" + "0a" * 20, "0x" + "0b" * 20
TASK = b"\7" * 32
SOUND = TaskTerms("x", SMALL_SHAPE, norm="fixed", mode="sound", ledger="0x" + "0c" * 20)


@pytest.mark.parametrize("wrong", ["nothing", "the task", "a round"])
def test_one_difference_anywhere_is_enough(wrong: str) -> None:
    rounds = [RoundCheck(1, "m"), RoundCheck(2, "m", differences=["votes"] if wrong == "a round" else [])]
    report = TaskReport("t", rounds, ["terms"] if wrong == "the task" else [])
    assert report.passed is report.to_json()["passed"] is (wrong == "nothing")


def model_of(author: str, round: int, weight: int) -> bytes:
    return Model(TASK.hex(), round, author, np.full(SMALL_SHAPE.weight_count, weight)).to_bytes()


def duplicates(folder: Path, submitted: list[tuple[int, str, bytes]], stored: list[bytes], mode: str) -> list[str]:
    """For a task of two rounds in which these models were submitted and those only stored."""
    store = FolderStore(folder)
    terms = SOUND if mode == "sound" else TaskTerms("x", SMALL_SHAPE, mode=mode)
    for content in stored:
        store.put(content)
    rounds = [
        SimpleNamespace(
            number=number,
            submissions=[
                SimpleNamespace(member=member, digest=digest) for round, member, digest in submitted if round == number
            ],
        )
        for number in (1, 2)
    ]
    setup = SimpleNamespace(terms_digest=store.put(terms.to_bytes()), task_id=TASK)
    return find_duplicate_models(store, cast(Any, SimpleNamespace(setup=setup, rounds=rounds, members=[ANNA, BERT])))


def test_a_second_model_for_one_charge_is_found_wherever_it_is(tmp_path: Path) -> None:
    one, other, next_round = model_of(ANNA, 1, 1), model_of(ANNA, 1, 2), model_of(ANNA, 2, 3)
    gone = b"\5" * 32
    text = f"round 1: {ANNA} has 2 different models for one charge"
    assert duplicates(tmp_path / "a", [(1, ANNA, gone)], [one, next_round, model_of(BERT, 1, 1)], "sound") == [text]
    assert duplicates(tmp_path / "b", [], [one, other], "sound") == [text]
    assert duplicates(tmp_path / "c", [(1, ANNA, gone), (2, ANNA, gone)], [], "sound") == []
    assert duplicates(tmp_path / "d", [], [one, other], "paper") == []  # nothing is charged there


@pytest.mark.parametrize(
    ("only", "verified", "wrong"),
    [
        (None, [1, 2], []),
        (1, [1], []),
        (2, [2], []),
        (3, [], ["round 3 is not finished"]),
        (9, [], ["round 9 is not finished"]),
    ],
)
def test_a_single_round_is_verified_if_it_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, only: int | None, verified: list[int], wrong: list[str]
) -> None:
    store = FolderStore(tmp_path)
    rounds = [
        SimpleNamespace(number=number, model_digest=digest, submissions=[], verdicts=[], average_reputation=0)
        for number, digest in ((1, b"m"), (2, b"m"), (3, None))
    ]
    setup = SimpleNamespace(terms_digest=store.put(SOUND.to_bytes()), task_id=TASK)
    books = SimpleNamespace(setup=setup, rounds=rounds, members={})
    monkeypatch.setattr(
        verification, "_verify_round", lambda registry, store, books, round: RoundCheck(round.number, "m")
    )
    monkeypatch.setattr(verification, "_check_reputations", lambda books: [])
    steps: list[tuple[int, int]] = []
    report = verify_task(
        cast(Any, SimpleNamespace(read_books=lambda task: books)), store, TASK, only, lambda *step: steps.append(step)
    )
    assert [row.number for row in report.rounds] == verified and report.differences == wrong
    assert report.passed is (not wrong) and report.task == TASK.hex()
    assert steps == [*((done, len(verified)) for done in range(len(verified))), (1, 1)]
    unpaid = verify_task(
        cast(Any, SimpleNamespace(read_books=lambda task: books)), store, TASK, 1, find_unpaid=lambda _: ["x"]
    )
    assert unpaid.differences == ["x"] and not unpaid.passed
