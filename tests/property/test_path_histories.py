"""Random histories come out as they did when they were recorded: see `path_histories` and ADR 26."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from property.path_histories import play_history, to_line

RECORDED = [json.loads(line) for line in Path(__file__).with_name("path_histories.jsonl").read_text().splitlines()]
"""Recorded anew when looks became strategies (ADR 31): prices in cubes and of parts of averages changed then."""


@pytest.mark.parametrize("recorded", RECORDED[:12], ids=lambda recorded: str(recorded["seed"]))
def test_a_history_comes_out_as_it_did(recorded: dict[str, object]) -> None:
    seed = recorded["seed"]
    assert isinstance(seed, int)
    assert json.loads(to_line(seed, play_history(seed), full=False)) == recorded


def test_another_history_does_not() -> None:
    line = json.loads(to_line(RECORDED[0]["seed"], play_history(RECORDED[1]["seed"]), full=False))
    assert line["outcome"] != RECORDED[0]["outcome"]
