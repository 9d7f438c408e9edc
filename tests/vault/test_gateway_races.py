"""Two gateways on one PostgreSQL vault: a limit, the points of one bridge, and somebody shut out meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import cycle
from threading import Event
from typing import Any

import httpx
import pytest

from support.internals import ACCESS, AccessControl, Precision, SystemEntropy, make_openings, verify_chain
from support.patience import patience
from support.service import served
from vault.gateways import Gateway
from vault.town import Town

SMOKERS = "SELECT COUNT(*) FROM {} WHERE smoker"
OLDER = "SELECT COUNT(*) FROM {} WHERE age > {}"
SIGMAS = ("9", "3", "7", "4", "5", "8", "6", "3.5")
"""Coarse and fine in turn: each is a point of the same bridge, before, after or between the others."""


@pytest.mark.timeout(900)
def test_one_limit_and_one_bridge_for_two_processes(town: Town) -> None:
    with town.bank() as bank:
        limited = bank.open_account(town.policy("limited"))
        plenty = bank.open_account(town.policy("bridged", epsilon="20"))
        price = limited.quote(OLDER.format("limited", 20), sigma="5").cost
        finest = plenty.quote(SMOKERS.format("bridged"), sigma="3").cost
        for account, units in ((limited, price.units * 3 // 2), (plenty, plenty.state.budget.units)):
            account.ledger.set_limit(account.id, account.analyst("eve"), units)
    with ExitStack() as ending:
        gateways = [Gateway(town.folder) for _ in range(2)]
        for gateway in gateways:
            ending.callback(gateway.close)
        one, two = (gateway.ready() for gateway in gateways)
        _race_for_a_limit(one, two)
        _race_on_a_bridge(one, two, finest)
    with town.bank() as bank:
        limited = bank.account("limited")
        assert limited.state.spent == limited.view("eve").used == price
        for name in ("limited", "bridged"):
            account = bank.account(name)
            assert account.state.spent <= account.state.budget
            report = verify_chain(town.node.url, bank.ledger.contract, openings=[make_openings(account)])
            assert report.passed, report


def _race_for_a_limit(one: Gateway, two: Gateway) -> None:
    """Each question costs two thirds of what the analyst may learn; the account itself has plenty."""
    requests = [
        (gateway, gateway.tell("ask", sql=OLDER.format("limited", age), sigma="5", account="limited", analyst="eve"))
        for gateway, age in zip(cycle((one, two)), range(20, 60, 5), strict=False)
    ]
    answers = [gateway.hear(number) for gateway, number in requests]
    assert sum("exact" in answer for answer in answers) == 1, answers


def _race_on_a_bridge(one: Gateway, two: Gateway, price: Precision) -> None:
    """One question at eight precisions, by the owner and an analyst, at both doors at once, twice over."""
    sql = SMOKERS.format("bridged")
    requests = [
        (sigma, analyst, gateway, gateway.tell("ask", sql=sql, sigma=sigma, account="bridged", **analyst))
        for _ in range(2)
        for sigma in SIGMAS
        for gateway in (one, two)
        for analyst in ({}, {"analyst": "eve"})
    ]
    answers = [(sigma, gateway.hear(number)) for sigma, _, gateway, number in requests]
    for sigma in SIGMAS:
        values = {answer["exact"] for each, answer in answers if each == sigma}
        assert len(values) == 1, (sigma, answers)
    # However they interleaved, all of them together cost what the finest costs alone.
    assert sum(answer["cost"] for _, answer in answers) == price.units


@pytest.mark.timeout(900)
def test_who_is_disabled_at_one_door_is_shut_out_of_both(town: Town) -> None:
    """Eve asks at both doors all the time; once the owner was told that she is disabled, nothing of hers begins."""
    with town.bank() as bank:
        account = bank.open_account(town.policy("guarded", epsilon="20"))
        account.ledger.set_limit(account.id, account.analyst("eve"), account.state.budget.units)
    with closing(AccessControl(town.folder / ACCESS, SystemEntropy())) as access:
        owner = {"authorization": f"Bearer {access.make_key('owner')[0]}"}
    with served(town.folder) as one, served(town.folder) as two, httpx.Client(timeout=patience(200)) as client:
        doors = [one.address, two.address]
        made = client.post(f"{doors[0]}/v1/analysts", json={"name": "eve"}, headers=owner)
        assert made.status_code < 300, made.text
        secret = client.post(f"{doors[0]}/v1/analysts/eve/keys", json={}, headers=owner).json()["secret"]
        eve = {"authorization": f"Bearer {secret}"}

        def ask(door: str, age: int) -> httpx.Response:
            body = {"sql": OLDER.format("guarded", age), "sigma": "9"}
            headers = {**eve, "idempotency-key": f"{door} {age}"}
            return client.post(f"{door}/v1/datasets/guarded/answers", json=body, headers=headers)

        for round_number in range(4):
            disabled, answered = Event(), [Event(), Event()]

            def keep_asking(place: int, disabled: Event, answered: list[Event]) -> list[tuple[bool, int]]:
                seen: list[tuple[bool, int]] = []
                for age in range(20, 80):
                    after = disabled.is_set()
                    seen.append((after, ask(doors[place], age).status_code))
                    answered[place].set()
                    if after:
                        return seen
                raise AssertionError(seen)

            with ThreadPoolExecutor(2) as pool:
                runs = [pool.submit(keep_asking, place, disabled, answered) for place in range(2)]
                for event in answered:
                    assert event.wait(patience(200))
                door = doors[round_number % 2]
                done = client.post(f"{door}/v1/analysts/eve/disable", headers=owner)
                assert done.status_code < 300, done.text
                disabled.set()
                for run in runs:
                    outcome: list[tuple[bool, Any]] = run.result()
                    assert outcome[0] == (False, 200), outcome
                    assert outcome[-1] == (True, 401), outcome
            assert client.post(f"{door}/v1/analysts/eve/enable", headers=owner).status_code < 300
            assert [ask(door, 20).status_code for door in doors] == [200, 200]
