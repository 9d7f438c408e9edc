"""A process that dies at any durable step of a request with looks: the retry goes on, and nothing is drawn twice."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from noisebank import read_policy
from noisebank.account import plain
from support.banks import memory_rooms, write_people
from support.internals import CoarseLookCounter, load_accounts, open_account, recover_account

ASKED = (
    ("SELECT AVG(age) FROM people WHERE smoker", {"within": 3}),
    ("SELECT SQRT(COUNT(*)) AS root FROM people WHERE smoker", {"within": "0.03", "max_cost": "12"}),
)
STEPS = (("vault", "save_requests"), ("ledger", "reserve_many"), ("vault", "seal_many"), ("ledger", "publish_many"))


class Crash(BaseException):
    """The process is gone."""


class Countdown:
    """Dies before or after the n-th durable step."""

    def __init__(self, number: int, after: bool) -> None:
        self.left, self.after = number, after

    def watch(self, owner: Any, name: str) -> AbstractContextManager[Any]:
        real = getattr(owner, name)

        def step(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == -1 and not self.after:
                raise Crash
            outcome = real(*arguments, **named)
            if self.left == -1 and self.after:
                raise Crash
            return outcome

        return patch.object(owner, name, step)


@pytest.mark.parametrize(("sql", "wish"), ASKED, ids=["average", "two looks"])
def test_a_retry_after_any_crash_goes_on(sql: str, wish: dict[str, Any], tmp_path: Path) -> None:
    policy, points = read_policy(write_people(tmp_path, rows=900, epsilon="40")), 0
    while _crashes_at(points, sql, wish, policy):
        points += 1
    assert points >= 10, "two steps at least, with five durable moments each"


def _crashes_at(number: int, sql: str, wish: dict[str, Any], policy: Any) -> bool:
    rooms = memory_rooms()
    account = open_account(rooms, policy)[0]
    countdown = Countdown(number, after=bool(number % 2))
    with ExitStack() as watched:
        for owner, name in STEPS:
            watched.enter_context(countdown.watch(getattr(rooms, owner), name))
        watched.enter_context(countdown.watch(plain, "measure"))
        try:
            account.ask(sql, key="k", **wish)
            return False
        except Crash:
            pass
    (account,) = load_accounts(rooms)
    recover_account(account)
    before = [(entry.id, rooms.vault.find_answer(entry.id)) for entry in account.ledger.list_reservations(account.id)]
    result, again = (account.ask(sql, key="k", **wish) for _ in range(2))
    entries = account.ledger.list_reservations(account.id)
    assert again.rows == result.rows and len(entries) == len(result.parts)
    for id, sealed in before:
        assert sealed is not None and rooms.vault.find_answer(id) == sealed, "an answer never changes"
    assert sum(entry.cost.units for entry in entries) == account.state.spent.units
    assert account.context.looks.total == CoarseLookCounter(account.id, account.ledger, rooms.vault).total
    assert account.verify().passed
    return True
