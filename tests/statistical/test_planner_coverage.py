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
    found = cover_banks(60, 6, open_in_memory)
    for kind in KINDS:
        square, reach = found[kind]["mean_square"], 4.5 * found[kind]["error_of_mean_square"]
        assert abs(square - 1) < reach, (kind, found[kind])
        assert 1.3**2 * square > 1 + reach and 0.7**2 * square < 1 - reach, (kind, found[kind])
        assert 0.92 < found[kind]["covered_95"] < 0.98, (kind, found[kind])
