"""CURRENT_DATE and NOW() are fixed when a request is made; a retry with its key is about the same moment."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from unittest.mock import patch

import pytest

from noisebank.account import current_time as present
from noisebank.account.account import Account
from noisebank.core.asks import Ask
from noisebank.core.errors import BadRequest
from noisebank.core.result import Result
from support.banks import memory_account

WISH = {"epsilon": "0.5", "delta": "1e-6"}
LATER = datetime(2026, 12, 24, 8, 0, 0)


@pytest.fixture
def visits(tmp_path: Path) -> Account:
    days = [f"2026-11-{number % 28 + 1:02}" for number in range(200)]
    lines = ["day,moment", *(f"{day},{day} 12:00" for day in days)]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "visits.toml").write_text(
        'name = "visits"\nsource = "visits.csv"\nneighbours = "add-remove"\nrow_cap = 1000\n'
        "[budget]\nepsilon = 8\ndelta = 1e-6\n"
        '[columns.day]\ntype = "date"\nbounds = ["2026-01-01", "2026-12-31"]\n'
        '[columns.moment]\ntype = "timestamp"\nzone = "UTC"\nbounds = ["2026-01-01", "2026-12-31 23:59:59"]\n'
    )
    return memory_account(tmp_path / "visits.toml")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM visits WHERE moment < NOW()",
        "SELECT COUNT(*) FROM visits WHERE CURRENT_DATE - day > 3",
        "SELECT AVG(CURRENT_DATE - day) AS days FROM visits WHERE moment < NOW() - INTERVAL '1 day'",
    ],
)
def test_a_retry_is_about_the_same_moment(visits: Account, sql: str) -> None:
    with patch.object(present, "policy_now", lambda policy: datetime(2026, 11, 18, 13, 5, 7)):
        first = visits.ask(sql, key="k", **WISH)
    with patch.object(present, "policy_now", lambda policy: LATER):
        again, other = visits.ask(sql, key="k", **WISH), visits.ask(sql, key="another", **WISH)
    assert "2026-11-18" in first.sql and (again.sql, again.rows) == (first.sql, first.rows)
    assert "2026-12-24" in other.sql


def test_what_is_no_text_is_refused_alone(visits: Account) -> None:
    good, bad = visits.ask_many([Ask("SELECT COUNT(*) FROM visits WHERE day < CURRENT_DATE", WISH), Ask(5, WISH)])  # type: ignore[arg-type]
    assert isinstance(good, Result) and isinstance(bad, BadRequest)
