"""Random SQL over hostile files: read or refused, never an error, additive, within its sensitivity."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

from assurance.sensitivity_audit import unclipped
from conformance.fuzzed import Found, run_trial
from support.internals import BadTable, Field, l2_sensitivity

SEEDS, SELECTS = range(4), 15


def test_whatever_is_asked_adds_up_and_stays_within_its_sensitivity(tmp_path: Path) -> None:
    found = Found()
    for seed in SEEDS:
        run_trial(seed, tmp_path, SELECTS, found)
    assert not found.wrong
    assert found.counts["queries"] > 40 and found.counts["moved"] > 15, found.counts


def test_a_claim_that_is_a_little_too_small_is_caught(tmp_path: Path) -> None:
    found = Found()
    for seed in SEEDS:
        run_trial(seed, tmp_path, SELECTS, found, lambda query, policy: l2_sensitivity(query, policy) * Fraction(9, 10))
        if any("sensitivity" in each for each in found.wrong):
            return
    raise AssertionError("nothing was caught")


def test_values_that_are_not_clipped_are_caught(tmp_path: Path) -> None:
    """By a sum that is too large, or by an error of the engine that clipped values would not have given."""
    found = Found()
    with patch.object(Field, "step_sql", unclipped), suppress(BadTable):
        for seed in SEEDS:
            run_trial(seed, tmp_path, SELECTS, found)
            if found.wrong:
                return
        raise AssertionError("nothing was caught")
