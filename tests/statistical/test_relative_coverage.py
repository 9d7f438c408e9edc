"""Relative accuracy through the whole bank: what is claimed holds as often as promised; wrong noise would be seen."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from pathlib import Path

import pytest

from noisebank import Result
from research.papers.seeded import SeededEntropy
from support.banks import memory_account, write_people
from support.internals import RelativeTarget

RUNS, TRUTH, RELATIVE, CONFIDENCE = 600, 2_000, Fraction(1, 10), Fraction(8, 10)
TIGHT = TRUTH * (1 + 2 * RELATIVE)
"""The floor for which R times the true value is the interval's half width: there the promise holds with equality."""


def asked(folder: Path, floor: Fraction) -> list[Result]:
    """600 different counts of one true value. The noise is seeded."""
    account = memory_account(write_people(folder, rows=TRUTH, epsilon="20"), SeededEntropy(5))
    # Everybody is between 20 and 79 and earns less than 900: different queries, one true value.
    texts = [
        f"SELECT COUNT(*) FROM people WHERE income < {901 + number % 99} AND age < {90 + number % 30}"
        for number in range(RUNS)
    ]
    return [account.ask(sql, relative=RELATIVE, confidence=CONFIDENCE, floor=floor) for sql in texts]


def outcomes(answers: list[Result], noise: Fraction = Fraction(1)) -> tuple[int, int, int]:
    """How many are near the true value, reached, and reached but not near, with so many times the noise."""
    near = reached = wrong = 0
    for answer in answers:
        value = TRUTH + noise * (answer.exact - TRUTH)
        close = abs(value - TRUTH) <= RELATIVE * TRUTH
        assert answer.verdict is not None
        target = RelativeTarget(RELATIVE, CONFIDENCE, Fraction(answer.verdict.floor))
        claimed = target.is_reached(value, answer.stddev)
        assert noise != 1 or claimed is answer.verdict.reached
        near, reached, wrong = near + close, reached + claimed, wrong + (claimed and not close)
    return near, reached, wrong


def agrees(count: int, chance: float) -> bool:
    """Within 5 standard deviations of a binomial: for a right bank a false alarm would be rarer than 1e-6."""
    return abs(count - RUNS * chance) <= 5 * sqrt(RUNS * chance * (1 - chance))


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    return asked(tmp_path_factory.mktemp("tight"), TIGHT)


def test_the_promise_holds_with_equality_where_it_is_tight(tight: list[Result]) -> None:
    near, reached, wrong = outcomes(tight)
    assert agrees(near, 0.8)
    assert agrees(wrong, 0.1) and reached == wrong  # one side of the interval: below 1 - confidence


@pytest.mark.parametrize("noise", [Fraction(7, 10), Fraction(13, 10)])
def test_wrong_noise_would_be_seen(tight: list[Result], noise: Fraction) -> None:
    near, _, _ = outcomes(tight, noise)
    assert not agrees(near, 0.8)


def test_a_true_value_at_the_floor_is_reached_and_right(tmp_path: Path) -> None:
    _, reached, wrong = outcomes(asked(tmp_path, Fraction(TRUTH)))
    assert agrees(reached, 0.9)  # only the lower side of the interval can miss
    assert agrees(wrong, 0.0620)  # beyond 1.2 z above: less than what the lower side leaves of 1 - confidence
    assert reached - wrong >= RUNS * CONFIDENCE
