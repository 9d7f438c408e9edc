"""Pages as they are sent, without a browser: what they say is what the books say, and whoever looks is known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from support.internals import SESSION_COOKIE, AccountSpending
from support.service import COUNT, Counter, counter

DAY = 86_400


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """Two analysts have asked: a first look, a finer one, a repeat, a blurred one, and another question."""
    folder: Path = tmp_path_factory.mktemp("pages")
    with counter(folder) as made:
        assert AccountSpending(made.bank.account("people")).update().estimate_life(2e9) is None
        for who, epsilon, sql in (
            ("maria", "0.2", COUNT), ("maria", "0.3", COUNT), ("noor", "0.3", COUNT), ("noor", "0.1", COUNT),
            ("noor", "0.1", "SELECT count(*) FROM people WHERE NOT smoker"),
        ):  # fmt: skip
            assert made.ask(who, f"{who} {epsilon} {sql}", sql, epsilon=epsilon).status_code == 200
        yield made


def read_page(desk: Counter, path: str, who: str | None, status: int = 200) -> str:
    """The text of a page, without its marks."""
    response = desk.client.get(path, headers=desk.headers(who) | {"accept": "text/html"})
    assert response.status_code == status and response.headers["content-type"].startswith("text/html")
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", response.text)))


@pytest.mark.parametrize("path", ["/no/such/page", "/d/nobody"])
def test_whoever_takes_a_wrong_turn_is_still_signed_in(desk: Counter, path: str) -> None:
    assert " maria " in read_page(desk, path, "maria", status=404)
    assert " maria " not in read_page(desk, path, None, status=404)


def test_a_session_that_has_ended_is_nobody_and_a_key_that_has_ended_is_refused(desk: Counter) -> None:
    ended = desk.client.get("/", headers={"cookie": f"{SESSION_COOKIE}=nbs_ended"})
    assert ended.status_code == 200 and "Sign in" in ended.text
    for path in ("/v1/datasets", "/"):
        refused = desk.client.get(path, headers={"authorization": "Bearer nbk_ended"}, follow_redirects=False)
        assert refused.status_code in (401, 303)


def test_the_statement_says_what_the_books_say(desk: Counter) -> None:
    text, account = read_page(desk, "/d/people/statement", "owner"), desk.bank.account("people")
    state = account.state
    left = 100 * (1 - account.share(state.spent))
    (shown,) = re.findall(r"([\d.]+)\s?% left", text)
    assert abs(float(shown) - left) <= 0.51
    assert f"On the ledger: {float(state.spent):.4g} of {float(state.budget):.4g} precision" in text
    assert "5 answers from 3 measurements" in text
    (rows,) = re.findall(r"By analyst .*? last \(UTC\) (.*?) Cells|By analyst .*? last \(UTC\) (.*?) Roles", text)
    answers = dict(re.findall(r"\b(maria|noor) (\d+)", "".join(rows)))
    assert answers == {"maria": "2", "noor": "3"}


def test_the_life_of_a_budget_follows_from_what_was_spent_lately(desk: Counter) -> None:
    account = desk.bank.account("people")
    spending = AccountSpending(account).update()
    spent, left = float(account.state.spent), float(account.state.remaining_budget)
    for days in (2.0, 10.0):
        life = spending.estimate_life(spending.first_time + days * DAY)
        assert life == pytest.approx((spent / days, days, left * days / spent))
    hour = spending.estimate_life(spending.first_time + 60)
    assert hour is not None and hour[0] == pytest.approx(spent * 24)  # the first minute says little: an hour's pace
    assert spending.estimate_life(spending.first_time) is None
    assert spending.estimate_life(spending.first_time + 1_000 * DAY) is None  # nothing was spent lately
