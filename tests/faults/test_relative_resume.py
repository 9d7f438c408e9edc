"""A relative request that is cut off after any of its steps goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from noisebank.answers import Answer
from noisebank.bank import create_bank, open_bank
from noisebank.path import Account
from support import write_people

SQL = "SELECT COUNT(*) FROM people WHERE age > 30"
WISH = {"relative": "20%", "confidence": 0.9, "key": "resume"}


class Crash(BaseException):
    """The process is gone."""


def crashing(account: Account, steps: int, seen: list[Answer]) -> None:
    """Asks until `steps` steps are acknowledged, then dies before the next one."""
    whole = Account.answer

    def answer(self: Account, *arguments: object, **options: object) -> Answer:
        if len(seen) == steps:
            raise Crash
        seen.append(whole(self, *arguments, **options))  # type: ignore[arg-type]
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Account, "answer", answer)
        account.ask(SQL, **WISH)  # type: ignore[call-overload]


def test_every_cut_is_resumed_with_the_same_bits_and_one_charge(tmp_path: Path) -> None:
    policy = write_people(tmp_path, rows=2_000)
    for steps in range(6):
        folder = create_bank(tmp_path / f"bank {steps}")
        seen: list[Answer] = []
        with open_bank(folder) as bank, pytest.raises(Crash):
            crashing(bank.open_account(policy), steps, seen)
        with open_bank(folder) as bank:
            account = bank.account()
            resumed = account.ask(SQL, **WISH)  # type: ignore[call-overload]
            assert resumed.reached and len(resumed.steps) >= steps
            assert [step.exact for step in resumed.steps[:steps]] == [answer.exact for answer in seen]
            assert resumed.cost == account.state.spent
            again = account.ask(SQL, **WISH)  # type: ignore[call-overload]
            assert (again.exact, again.cost) == (resumed.exact, resumed.cost) and account.state.spent == resumed.cost
