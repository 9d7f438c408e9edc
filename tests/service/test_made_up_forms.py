"""Forms that no browser would send: each gets its page back, none is a failure of ours, bad ones cost nothing."""

from __future__ import annotations

import random
import re
from collections import Counter as Counted

import pytest

from support.service import EASY, Counter, counter

FORMS, MANY = 250, 5_000
NASTY = (
    "", "0", "-1", "-0", "NaN", "inf", "1e400", "1e-400", "9" * 40, "1_000", "0x10", "1/3", "10%", "+5", "  ", "\x00",
    "\u202e", "\u0661\u0662", "\U0001d7d9", "'", "\"", "<script>", "a" * 9_000, "SELECT " + "(" * 3_000,
    "SELECT COUNT(*) FROM people WHERE " + "NOT " * 3_000 + "smoker", "SELECT AVG(age) FROM people WHERE age > 30",
    "SELECT smoker, COUNT(*) FROM people GROUP BY smoker", "named", "built", "sql", "accuracy", "privacy", "relative",
    "sum", "avg", "age", "smoker", "=", "<", "within", "slide", "2026-01-01",
)  # fmt: skip
PLACES = ("quote", "ask", "to-sign")


def _good(made: random.Random, number: int) -> dict[str, str]:
    return {
        "how": made.choice(("built", "sql")), "function": "count", "column": "", "group": "",
        "by": made.choice(("accuracy", "privacy", "relative")), "slide": "50", "within": "40", "confidence": "0.95",
        "epsilon": "0.01", "delta": "1e-6", "moved": "within", "key": f"form {number}", "where1_column": "age",
        "where1_sign": "<", "where1_value": "39", "sql": "SELECT COUNT(*) FROM people WHERE age < 40",
        "percent": "40", "sure": "0.9", "floor": "9",
    }  # fmt: skip


def _try(desk: Counter, forms: int) -> Counted[int]:
    made, seen, client = random.Random(7), Counted[int](), desk.client
    token = re.compile(r'name="token" value="([^"]+)"')
    client.post("/sign-in", data={"key": desk.keys["maria"], "token": token.findall(client.get("/sign-in").text)[0]})
    page = client.get("/d/people/console").text
    names = sorted(set(re.findall(r'<(?:input|select|textarea)[^>]* name="([^"]+)"', page)) - {"token"})
    assert {"sql", "within", "confidence", "where1_value"} <= set(names)
    for number in range(forms):
        form = _good(made, number) | {name: made.choice(NASTY) for name in made.sample(names, made.randint(0, 3))}
        before, place = desk.spent, made.choice(PLACES)
        headers = {"hx-request": "true"} if number % 2 else {}
        said = client.post(f"/d/people/console/{place}", data=form | {"token": token.findall(page)[0]}, headers=headers)
        seen[said.status_code] += 1
        assert said.status_code < 500, (place, form)
        assert desk.spent == before or (place == "ask" and said.status_code == 200), (place, form)
    return seen


@pytest.fixture
def desk(tmp_path):
    with counter(tmp_path, EASY, epsilon="8", limits="8") as made:
        yield made


def test_made_up_forms(desk: Counter) -> None:
    seen = _try(desk, FORMS)
    assert seen[200] > FORMS // 3 and seen[422] > FORMS // 20, seen


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_thousands_of_made_up_forms(desk: Counter) -> None:
    _try(desk, MANY)
