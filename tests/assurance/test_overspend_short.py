"""A short run of the races that `make assurance` runs in full."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assurance.overspend import BUDGET_CHECK, THREADS, Race, overspend, variant

FAIR = Race(budget=10, before=4, after=10, won=(6,), lost=THREADS - 1, recorded=(6,))


def test_no_race_overspends_and_planted_bugs_are_caught():
    finding = overspend(0.02)
    assert finding.passed
    assert finding.planted and all(finding.planted.values())
    assert finding.tried.startswith("20 races")


def test_fair_race_is_sound():
    assert FAIR.sound


@pytest.mark.parametrize(
    "unfair",
    [
        {"won": (), "lost": THREADS, "after": 4, "recorded": ()},
        {"won": (3, 3), "lost": THREADS - 2, "recorded": (3, 3)},
        {"won": (7,), "after": 11, "recorded": (7,)},
        {"after": 9},
        {"lost": THREADS - 2},
        {"recorded": (6, 1)},
        {"recorded": ()},
    ],
)
def test_unfair_race_is_not_sound(unfair: dict[str, object]):
    assert not replace(FAIR, **unfair).sound


def test_variant_needs_lines_that_exist():
    with pytest.raises(ValueError, match="no line"):
        variant("    assert True\n")
    assert BUDGET_CHECK.strip().startswith("assert ")
