"""A server that may choose every field, against the device; at full count: `make assurance`, row hostile_server."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assurance.hostile_server import catch_planted, told_apart
from hostile import device_party
from hostile.judging import Attack, Transcript, all_parties, clopper_pearson, judge_attack
from support.internals import LocalAccount, workload_rng

pytestmark = pytest.mark.timeout(300)


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_whatever_is_asked_two_records_are_refused_charged_and_answered_alike(chance: random.Random) -> None:
    assert device_party.play_random(chance) == ""


def test_most_of_these_questions_are_answered_and_many_refused() -> None:
    kinds: list[str] = []
    shape = device_party._shape

    def noting(answer: tuple[object, ...]) -> tuple[object, ...]:
        kinds.append(str(answer[0]))
        return shape(answer)

    with patch.object(device_party, "_shape", noting):
        told_apart(device_party, 60)
    answered = kinds.count("report") / len(kinds)
    assert 0.4 < answered < 0.9, "questions that are all refused, or all sound, would show nothing"


@pytest.mark.parametrize("attack", device_party.ATTACKS, ids=lambda attack: attack.name)
def test_no_known_attack_tells_more_than_is_charged(attack: Attack) -> None:
    assert not judge_attack(attack, 60).refuted


def test_every_bug_that_once_was_there_is_caught() -> None:
    caught = catch_planted(device_party)
    assert len(caught) == 6 and all(caught.values()), caught


def test_drawn_conversations_find_the_bug_too() -> None:
    with device_party._strict_rows():
        assert told_apart(device_party, 40)
    assert LocalAccount.answer_order.__name__ == "answer_order", "the bug is gone again"


def test_the_judge_sees_a_difference_and_invents_none() -> None:
    chance = workload_rng(3)

    def coin(epsilon: float) -> Attack:
        truth = 1 / (1 + math.exp(-epsilon))
        return Attack("coin", lambda which: Transcript((chance.random() < truth) == which, Fraction(1)))

    honest, liar = judge_attack(coin(1.0), 20_000), judge_attack(coin(1.3), 20_000)
    assert 0.8 < honest.lower <= 1.0 and not honest.refuted and liar.refuted


@pytest.mark.parametrize(("hits", "low", "high"), [(0, 0.0, 0.3085), (3, 0.0667, 0.6525), (10, 0.6915, 1.0)])
def test_clopper_pearson_is_that_of_the_tables(hits: int, low: float, high: float) -> None:
    assert clopper_pearson(hits, 10, 0.025, upper=False) == pytest.approx(low, abs=1e-4)
    assert clopper_pearson(hits, 10, 0.025, upper=True) == pytest.approx(high, abs=1e-4)


def test_the_device_is_one_of_the_parties() -> None:
    assert "device" in {party.NAME for party in all_parties()}
