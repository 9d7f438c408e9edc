"""Noise that 64 bits cannot hold is refused before it is paid for, not after."""

from __future__ import annotations

from pathlib import Path

import pytest

from noisebank.core.errors import BadRequest
from noisebank.core.units import Precision
from noisebank.planning.pricing import PrecisionTarget
from support.banks import memory_account, write_people
from support.released import release_answer

SQL = "SELECT SUM(income) FROM people"


def test_a_tiny_refinement_of_a_very_wide_sum_is_refused_before_it_is_charged(tmp_path: Path) -> None:
    policy = write_people(tmp_path)
    policy.write_text(policy.read_text().replace("bounds = [-100, 1000]", f"bounds = [0, {2**31}]"))
    account = memory_account(policy)
    least = Precision(10**9)
    release_answer(account, SQL, PrecisionTarget(least))
    before = account.state.spent
    finer = PrecisionTarget(Precision(least.units + 1))
    with pytest.raises(BadRequest, match="more noise than 64 bits hold"):
        release_answer(account, SQL, finer)
    with pytest.raises(BadRequest, match="more noise than 64 bits hold"):
        account.quoted(account.parse(SQL), finer)
    assert account.state.spent == before and len(account.ledger.list_reservations(account.id)) == 1
