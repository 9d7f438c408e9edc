"""Fresh banks err as they say, for five kinds of questions; a scale of 0.7 or 1.3 would be noticed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noisebank import Account, read_policy
from research.benches.planner_coverage import KINDS, cover_banks
from support.banks import memory_rooms
from support.internals import open_account


@contextmanager
def open_in_memory(policy: Path) -> Iterator[Account]:
    yield open_account(memory_rooms(), read_policy(policy))[0]


def test_sixty_fresh_banks_cover_five_kinds_of_questions() -> None:
    found = cover_banks(60, 4, open_in_memory)
    for kind in KINDS:  # each by itself: answers of one bank share noise, so the scatter is that over banks
        assert abs(found[kind]["mean_square"] - 1) < 4.5 * found[kind]["error_of_mean_square"], (kind, found[kind])
        assert abs(found[kind]["covered_95"] - 0.95) < 4.5 * found[kind]["error_of_covered"], (kind, found[kind])
    square, reach = found["all"]["mean_square"], 4.5 * found["all"]["error_of_mean_square"]
    assert abs(square - 1) < reach, found["all"]
    assert 1.3**2 * square > 1 + reach and 0.7**2 * square < 1 - reach, found["all"]
