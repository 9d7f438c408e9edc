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


def cut_off(account: Account, steps: int, seen: list[Answer]) -> bool:
    """Asks until `steps` steps are acknowledged, then dies before the next one; False where there is no next one."""
    whole = Account.answer

    def answer(self: Account, *arguments: object, **options: object) -> Answer:
        if len(seen) == steps:
            raise Crash
        seen.append(whole(self, *arguments, **options))  # type: ignore[arg-type]
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Account, "answer", answer)
        try:
            account.ask(SQL, **WISH)  # type: ignore[call-overload]
        except Crash:
            return True
    return False


def test_every_cut_is_resumed_with_the_same_bits_and_one_charge(tmp_path: Path) -> None:
    """How many steps a request takes is for its noise to say: the cuts go on until one comes after the last step."""
    policy = write_people(tmp_path, rows=2_000)
    crashed = True
    for steps in range(12):
        folder = create_bank(tmp_path / f"bank {steps}")
        seen: list[Answer] = []
        with open_bank(folder) as bank:
            crashed = cut_off(bank.open_account(policy), steps, seen)
        with open_bank(folder) as bank:
            account = bank.account()
            resumed = account.ask(SQL, **WISH)  # type: ignore[call-overload]
            assert resumed.reached and len(resumed.steps) >= len(seen)
            assert crashed or len(resumed.steps) == len(seen)
            assert [step.exact for step in resumed.steps[: len(seen)]] == [answer.exact for answer in seen]
            assert resumed.cost == account.state.spent
            again = account.ask(SQL, **WISH)  # type: ignore[call-overload]
            assert (again.exact, again.cost) == (resumed.exact, resumed.cost) and account.state.spent == resumed.cost
        if not crashed:
            break
    assert not crashed and steps >= 3, "too few cuts were tried"
