"""A bank to copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from noisebank import create_bank, open_bank
from support.banks import write_people

SMOKERS = "SELECT COUNT(*) FROM people WHERE smoker"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bank with a few answers, of each case."""
    policy = write_people(tmp_path / "table", neighbours="add-remove", epsilon="8")
    with open_bank(create_bank(tmp_path / "bank")) as bank:
        account = bank.open_account(policy)
        for sigma in ("6", "4", "4", "5"):
            account.ask(SMOKERS, sigma=sigma, key=f"first {sigma}")
    return tmp_path / "bank"
