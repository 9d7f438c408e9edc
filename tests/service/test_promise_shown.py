"""What people are shown while answers are given: limits that hold whenever they look, on every page and in the API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noisebank import verify
from support.service import COUNT, Counter, counter

PAGES = ("/", "/d/people")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Counter]:
    with counter(tmp_path) as made:
        yield made


def limits(desk: Counter) -> list[float]:
    """Times in 100, on the page for the people in the data; the coin is left out."""
    text = desk.client.get("/d/people").text
    return [float(number) for number in re.findall(r"([\d.]+) times in 100", text) if number != "50"]


def epsilons(desk: Counter) -> list[float]:
    """Of an account, wherever one is said: pages, data sets, balance, statement."""
    texts = [desk.client.get(page).text for page in PAGES]
    found = [float(number) for text in texts for number in re.findall(r"epsilon\s+([\d.]+)", text)]
    for path in ("/v1/datasets/people", "/v1/datasets/people/balance", "/v1/datasets/people/statement"):
        answer = desk.client.get(path, headers=desk.headers("owner"))
        assert answer.status_code == 200
        found += [value for name, value in answer.json().items() if name.startswith("epsilon")]
    return found


def quoted_epsilon(desk: Counter, epsilon: str) -> float:
    """Of one answer by itself, which a quote says: it follows from the cost, never from the spend."""
    wish = {"sql": COUNT, "epsilon": epsilon, "delta": "1e-6"}
    quote = desk.client.post("/v1/datasets/people/quotes", json=wish, headers=desk.headers("maria"))
    return float(quote.json()["epsilon"])


def test_every_number_is_the_whole_budgets_however_little_is_spent(desk: Counter) -> None:
    """Whoever stops at an extreme answer was guessed right 76 times in 100 where 60 were shown."""
    before, alone = limits(desk), quoted_epsilon(desk, "0.7")
    assert desk.ask("maria", "one").status_code == 200
    assert limits(desk) == before and len(before) == 1
    assert quoted_epsilon(desk, "0.5") == 0 and 0 < quoted_epsilon(desk, "0.7") < alone
    assert epsilons(desk) and set(epsilons(desk)) == {4.0}
    text = desk.client.get("/d/people").text
    assert "so far" not in text and "It is a limit for the whole budget" in text


def test_lowering_after_an_answer_lowers_no_promise(desk: Counter) -> None:
    before = limits(desk)
    desk.ask("maria", "one")
    account = desk.bank.account("people")
    account.ledger.lower_budget(account.id, account.state.spent.units)
    assert max(limits(desk)) >= max(before) and max(epsilons(desk)) >= 4
    assert "still that of the larger budget" in desk.client.get("/d/people").text


def test_the_statement_says_share_and_promise(desk: Counter) -> None:
    desk.ask("maria", "one")
    found: dict[str, Any] = desk.client.get("/v1/datasets/people/statement", headers=desk.headers("owner")).json()
    assert 0 < found["share"] < 1 and found["epsilon"] == 4 and not found["raised"] and not found["lowered"]


def test_the_verifier_says_when_draws_cannot_be_counted(desk: Counter) -> None:
    """A measurement of groups was one to the proof, whatever a person can touch of it."""
    desk.ask("maria", "one", "SELECT COUNT(*) FROM people GROUP BY town")
    report = verify(desk.bank.export())
    assert any("how many draws of noise one person can touch" in what for what in report.cannot_see)
