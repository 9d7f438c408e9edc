"""Requests with looks at two gateways at once, and a gateway that is killed between a look and what follows it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from support.banks import write_people
from support.internals import make_openings, verify_chain
from vault.gateways import Gateway
from vault.town import Town

QUESTIONS = (
    ("SELECT AVG(age) FROM {} WHERE smoker", "8"),
    ("SELECT SQRT(COUNT(*)) AS s FROM {} WHERE age > 30", "1"),
    ("SELECT town, AVG(income) FROM {} GROUP BY town", "150"),
    ("SELECT AVG(income) FROM {} WHERE age > 25", "90"),
    ("SELECT AVG(age) FROM {} WHERE town = 'north'", "9"),
    ("SELECT AVG(age) FROM {} WHERE town = 'south'", "9"),
)
DEATHS = (("reserve", 1), ("seal", 1), ("reserve", 2), ("seal", 2))
"""After the charge or the seal of the look, and of what follows it; each while another question is asked."""
TWICE = 2


@pytest.mark.timeout(900)
def test_one_course_for_each_key_whoever_is_asked_and_whoever_dies(town: Town) -> None:
    policy = write_people(town.tables / "looked", rows=900, epsilon="30")
    policy.write_text(policy.read_text().replace('name = "people"', 'name = "looked"'))
    with town.bank() as bank:
        bank.open_account(policy)
    with ExitStack() as ending:
        gateways = [Gateway(town.folder) for _ in range(3)]
        for gateway in gateways:
            ending.callback(gateway.close)
        one, two, mortal = (gateway.ready() for gateway in gateways)
        for number, (step, calls) in enumerate(DEATHS):
            _ask_while_one_dies(mortal, one, number, step, calls)
            mortal = Gateway(town.folder).ready()
            ending.callback(mortal.close)
        answers: dict[str, list[dict[str, Any]]] = {}
        requests = [
            (f"k{number}-{copy}", gateway, gateway.tell("ask", **_request(number), key=f"k{number}-{copy}"))
            for _ in range(TWICE)
            for number in range(len(QUESTIONS))
            for copy in range(2)
            for gateway in (one, two)
        ]
        for key, gateway, number in requests:
            answers.setdefault(key, []).append(gateway.hear(number))
        for key, found in answers.items():
            assert all("rows" in each for each in found), (key, found)
            assert len({(each["rows"], tuple(each["parts"])) for each in found}) == 1, (key, found)
    with town.bank() as first, town.bank() as second:
        account = first.account("looked")
        totals = [bank.account("looked").context.looks.total for bank in (first, second)]
        assert totals[0] == totals[1] <= account.context.looks.limit
        assert all(reservation.is_finished for reservation in account.ledger.list_reservations(account.id))
        report = verify_chain(town.node.url, first.ledger.contract, openings=[make_openings(account)])
        assert report.passed, report


def _request(number: int) -> dict[str, str]:
    sql, within = QUESTIONS[number]
    return {"sql": sql.format("looked"), "within": within, "account": "looked"}


def _ask_while_one_dies(mortal: Gateway, other: Gateway, question: int, step: str, calls: int) -> None:
    """One gateway dies right after it has charged, or sealed, a step; the other answers the same key, once."""
    request = {**_request(question), "key": f"died {question}"}
    mortal.hear(mortal.tell("die", step=step, calls=calls))
    mortal.tell("ask", **request)
    mortal.died()
    answer = other.ask(**request)
    assert len(answer["parts"]) > 1, answer  # not only a look
    again = other.ask(**request)
    assert (again["rows"], again["parts"]) == (answer["rows"], answer["parts"])
