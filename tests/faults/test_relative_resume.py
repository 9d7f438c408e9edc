"""A relative request is one measurement: cut off anywhere, it is finished with the same bits and one charge."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from noisebank import create_bank, open_bank
from support.banks import write_people

SQL = "SELECT COUNT(*) FROM people WHERE age > {}"
WISH = {"relative": "20%", "confidence": 0.9, "key": "resume"}
STAGES = ("save_requests", "plan_charges", "reserve_charges", "settle_charges", "make_answers")
CUTS = (
    *(f"noisebank.account.pipeline.{stage}" for stage in STAGES),
    "noisebank.account.plain.measure",
    "noisebank.vault.sqlite_vault.SqliteVault.seal_many",
    "noisebank.account.account.Account._judge_answer",
)


class Crash(BaseException):
    """The process is gone."""


def _after(whole: Callable[..., object]) -> Callable[..., object]:
    def cut(*arguments: object, **options: object) -> object:
        whole(*arguments, **options)
        raise Crash

    return cut


@pytest.mark.parametrize("cut", CUTS)
def test_every_cut_is_resumed_with_the_same_bits_and_one_charge(tmp_path: Path, cut: str) -> None:
    """After each step of the path, for a count of nearly everybody and of nobody: the ledger shows the same."""
    shown = []
    policy = write_people(tmp_path, rows=2_000)
    for older in (10, 119):
        folder, sql = create_bank(tmp_path / f"bank {older}"), SQL.format(older)
        with open_bank(folder) as bank:
            account = bank.open_account(policy)
            with patch(cut, _after(pkgutil.resolve_name(cut))), pytest.raises(Crash):
                account.ask(sql, **WISH)  # type: ignore[arg-type]
        with open_bank(folder) as bank:
            account = bank.account()
            answer = account.ask(sql, **WISH)  # type: ignore[arg-type]
            again = account.ask(sql, **WISH)  # type: ignore[arg-type]
            assert again.exact == answer.exact and account.state.spent == answer.cost
            assert answer.verdict is not None and answer.verdict.reached is (older == 10)
            (entry,) = account.ledger.list_reservations(account.id)
            shown.append((entry.target, entry.cost, entry.case, entry.block, entry.published_block))
    assert shown[0] == shown[1]
