"""The SDK against a bank that a process of its own serves: every verb, wallets, and kill -9 in the middle."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import noisebank
from noisebank import Result, open_bank
from noisebank.core import errors
from support.client import COUNT, Server
from support.internals import Case
from support.patience import patience, wait_until

ENDED = (0, -15)
"""uvicorn finishes what is under way and then lets the signal end the process."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("served"), rate=1e6, burst=1_000_000, stream_seconds=0.4) as made:
        yield made
        assert made.end() in ENDED


def test_the_verbs_of_an_analyst(server: Server) -> None:
    with noisebank.connect(server.url, server.keys["maria"]) as client:
        (facts,) = client.datasets()
        assert facts.name == "people" and facts.left <= facts.budget and facts.policy["name"] == "people"
        account = client.account()
        quoted = account.quote(COUNT, epsilon="0.5", delta="1e-6")
        assert quoted.case is Case.FIRST and quoted.affordable and quoted.cost == quoted.target
        before = account.balance()
        answer = account.ask(COUNT, epsilon="0.5", delta="1e-6")
        assert answer.case is Case.FIRST and answer.cost == quoted.cost and answer.stddev == quoted.stddev
        assert answer.remaining == before.left - answer.cost == account.balance().left
        low, high = answer.interval(0.9)
        assert low < answer.value < high
        again = account.ask(COUNT, epsilon="0.5", delta="1e-6", best=True)
        assert again.case is Case.REPEAT and again.exact == answer.exact and not again.cost
        grouped = account.ask("SELECT town, count(*) FROM people GROUP BY town", epsilon="0.2", delta="1e-6")
        assert {row.keys for row in grouped} >= {("north",), ("south",)}
        several = account.ask(
            "SELECT sum(age), count(*) FILTER (WHERE smoker) FROM people", epsilon="0.2", delta="1e-6"
        )
        assert len(several.items) == 2 == len(several.receipts)
        derived = account.ask("SELECT avg(income) FROM people WHERE smoker", epsilon="0.2", delta="1e-6")
        assert derived.estimate.stddev is None and derived.interval()[0] < derived.interval()[1]
        with pytest.raises(errors.BadRequest):
            derived.interval(0.5)
        priced = account.quote(COUNT, relative="0.9", floor=40)
        relative = account.ask(COUNT, relative="0.9", floor=40, max_cost=priced.cost.exact)
        verdict = relative.verdict
        assert verdict is not None and verdict.floor == priced.floor == 40 and relative.cost == priced.cost
        assert verdict.message and verdict.reached in (True, False) and verdict.next_cost
        rows = list(account.history())
        assert rows[-1].id == answer.parts[0].id and len(rows) >= 6 and rows[-1].sql == COUNT
        assert len(list(account.entries())) >= len(rows)
        assert account.recall(answer.parts[0].id).exact == answer.exact
        assert account.receipt(answer.parts[0].id) == answer.receipt
        assert client.check(answer.receipt).holds and not client.check({"format": "no"}).holds
        head = client.head()
        report = noisebank.verify(client.journal(), head=head.digest, receipts=[answer.receipt, grouped.receipt])
        assert report.passed
        assert [balance.left for balance in account.watch()] == [account.balance().left]
        assert client.me().name == "maria" and client.ready().ready


def test_typed_errors_over_the_wire(server: Server) -> None:
    with noisebank.connect(server.url, server.keys["maria"]) as client:
        account = client.account("people")
        with pytest.raises(errors.UnsupportedQuery) as unsupported:
            account.ask("SELECT DISTINCT count(*) FROM people", sigma=5)
        assert unsupported.value.clause == "DISTINCT"
        with pytest.raises(errors.BadQuery):
            account.quote("SELECT count(*) FROM nobody", sigma=5)
        with pytest.raises(errors.BadRequest) as bad:
            account.ask(COUNT, sigma=-5)
        assert bad.value.parameter == "sigma"
        with pytest.raises((errors.BudgetExhausted, errors.ViewExhausted)) as refused:
            account.ask("SELECT sum(income) FROM people", sigma="2")
        left, right = ("asked", "left") if isinstance(refused.value, errors.BudgetExhausted) else ("limit", "used")
        assert getattr(refused.value, left) > getattr(refused.value, right)
        with pytest.raises(errors.PriceMoved):
            account.ask("SELECT sum(children) FROM people", epsilon="0.1", delta="1e-6", max_cost="0.00001")
        account.ask(COUNT, sigma=500, key="once")
        with pytest.raises(errors.KeyReused):
            account.ask(COUNT, sigma=600, key="once")
        with pytest.raises(errors.NotAllowed):
            account.statement()
        with pytest.raises(errors.NotFound):
            client.account("elsewhere").balance()
        with pytest.raises(errors.NotFound):
            account.recall("00" * 32)
    with noisebank.connect(server.url, "nbk_nothing") as stranger, pytest.raises(errors.NotSignedIn):
        stranger.me()


def test_the_verbs_of_an_owner(server: Server) -> None:
    with noisebank.connect(server.url, server.keys["owner"]) as client:
        client.add_analyst("noor")
        assert client.set_limit("noor", "people", "0.5").limit
        made = client.make_key("noor", ["quote"], "for tests", 1.0)
        assert {each.name for each in client.analysts()} >= {"owner", "maria", "noor"}
        with noisebank.connect(server.url, made.secret) as other:
            assert other.account("people").quote(COUNT, sigma=50).target
            with pytest.raises(errors.NotAllowed):
                other.account("people").ask(COUNT, sigma=50)
            client.revoke_key("noor", made.id)
            with pytest.raises(errors.NotSignedIn):
                other.me()
        statement = client.account("people").statement(last=5)
        assert statement.spent <= statement.budget and len(statement.entries) <= 5


def test_a_wallet_signs_in_and_signs_what_it_spends(server: Server) -> None:
    with noisebank.connect(server.url, wallet=server.folder / "wallet.key") as client:
        assert client.me().name == "walt" and client.me().key == "session"
        account = client.account("people")
        answer = account.ask("SELECT count(*) FROM people WHERE age < 40", epsilon="0.3", delta="1e-6")
        assert answer.case is Case.FIRST
        capped = account.ask("SELECT count(*) FROM people WHERE age < 41", sigma=100, max_cost=0.5)
        assert capped.cost.exact <= 1
        client._key = "nbs_gone"  # as if the session had ended
        assert account.balance().left == capped.remaining
    with noisebank.connect(server.url, server.keys["walt"]) as unsigned:
        with pytest.raises(errors.NotSignedIn):
            unsigned.account("people").ask(COUNT, sigma=50)
        (refused,) = unsigned.account("people").ask_many([noisebank.Ask(COUNT, {"sigma": 50})])
        assert isinstance(refused, errors.NotSignedIn)
    with noisebank.connect(server.url, server.keys["walt"], wallet=server.folder / "wallet.key") as signed:
        assert signed.account("people").ask(COUNT, sigma=900).receipt
        asks = [noisebank.Ask(f"SELECT count(*) FROM people WHERE age < {age}", {"sigma": 900}) for age in (42, 43)]
        bad = noisebank.Ask("SELECT nothing FROM people", {"sigma": 900})
        first, failed, second = signed.account("people").ask_many([asks[0], bad, asks[1]])
        assert isinstance(failed, errors.BadQuery) and isinstance(first, Result) and isinstance(second, Result)
        assert len(signed.account("people").ask_many(asks, atomic=True)) == 2


def test_async_does_the_same(server: Server) -> None:
    async def run() -> list[Result]:
        async with noisebank.connect_async(server.url, server.keys["maria"]) as client:
            account = await client.account()
            asked = [account.ask(f"SELECT count(*) FROM people WHERE age < {30 + n % 3}", sigma=400) for n in range(9)]
            found = list(await asyncio.gather(*asked))
            assert [row.id async for row in account.history()]
            lines = [line async for line in client.journal()]
            assert noisebank.verify(lines, receipts=[found[0].receipt]).passed
            assert (await account.quote(COUNT, sigma=400)).left == (await account.balance()).left
            assert [balance.left async for balance in account.watch()]
            return found

    answers = asyncio.run(run())
    for place in range(3):
        assert len({answer.exact for answer in answers[place::3]}) == 1
    with pytest.raises(errors.Unreachable):
        asyncio.run(lost())


async def lost() -> None:
    async with noisebank.connect_async("http://127.0.0.1:1", "k", patience=0.3) as client:
        await client.me()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path, rate=1e6, burst=1_000_000) as server:
        yield server


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_kill_9_in_the_middle_every_acknowledged_answer_is_there_and_none_is_drawn_twice(
    tmp_path: Path, own_server: Server, kills: int
) -> None:
    answers: dict[str, Result] = {}
    stop = threading.Event()

    def work(worker: int) -> None:
        with noisebank.connect(own_server.url, own_server.keys["maria"], patience=patience()) as client:
            account, number = client.account("people"), 0
            while not stop.is_set():
                key = f"{worker}-{number}"
                # Some questions are shared: workers meet in the same query at rising precision.
                sql = (
                    f"SELECT count(*) FROM people WHERE age < {30 + (worker + number) % 7} AND income < {100 + number}"
                )
                answers[key] = account.ask(sql, sigma=900 - worker, key=key)
                number += 1

    with ThreadPoolExecutor(8) as pool:
        workers = [pool.submit(work, worker) for worker in range(8)]
        try:
            for _ in range(kills):
                seen = len(answers)
                wait_until(lambda: len(answers) >= seen + 15 or any(each.done() for each in workers), "more answers")  # noqa: B023
                own_server.kill()
                own_server.start()
            seen = len(answers)
            wait_until(lambda: len(answers) >= seen + 10 or any(each.done() for each in workers), "more answers")
        finally:
            stop.set()
        for each in workers:
            each.result()
    with noisebank.connect(own_server.url, own_server.keys["maria"], patience=patience()) as client:
        account = client.account("people")
        some = dict(list(answers.items())[::4])
        for key, answer in some.items():  # the same key, the same bits
            asked = account.ask(answer.sql, sigma=900 - int(key.split("-")[0]), key=key)
            assert asked.exact == answer.exact and asked.receipt == answer.receipt
        report = noisebank.verify(client.journal(), receipts=[answer.receipt for answer in answers.values()])
        assert report.passed
    assert own_server.end() in ENDED
    with open_bank(tmp_path / "bank") as bank:
        (recovered,) = bank.recovered.values()
        assert recovered.lost == 0
        values: dict[tuple[str, int], set[str]] = {}
        for answer in answers.values():  # one sample for each query and precision
            body = answer.receipt.answer
            values.setdefault((body["query"], body["wanted"]), set()).add(str(body["value"]))
        assert all(len(found) == 1 for found in values.values())
        assert len(answers) >= 15 * kills + 10


def test_many_questions_in_one_request(server: Server) -> None:
    asks = [
        noisebank.Ask(f"SELECT count(*) FROM people WHERE age > {age}", {"epsilon": "0.02", "delta": "1e-6"})
        for age in (60, 70)
    ]
    bad = noisebank.Ask("SELECT DISTINCT count(*) FROM people", {"sigma": 5})
    with noisebank.connect(server.url, server.keys["maria"]) as client:
        account = client.account("people")
        price, refused, _ = account.quote_many([asks[0], bad, asks[1]])
        assert not isinstance(price, errors.NoisebankError) and isinstance(refused, errors.UnsupportedQuery)
        together = account.quote_together(asks)
        assert together.cost == price.cost + price.cost
        first, failed, second = account.ask_many([asks[0], bad, asks[1]], key="many")
        assert isinstance(failed, errors.UnsupportedQuery) and failed.clause == "DISTINCT"
        assert not isinstance(first, errors.NoisebankError) and not isinstance(second, errors.NoisebankError)
        assert first.cost + second.cost == together.cost
        with pytest.raises(errors.UnsupportedQuery):
            account.ask_many([asks[0], bad], atomic=True)

        async def ask_again() -> list[object]:
            async with noisebank.connect_async(server.url, server.keys["maria"]) as other:
                remote = await other.account("people")
                assert (await remote.quote_together(asks)).cost.units == 0
                assert len(await remote.quote_many(asks)) == 2
                both = await remote.ask_many(asks, atomic=True)
                return [*both, *await remote.ask_many([asks[0], bad, asks[1]], key="many")]

        again = asyncio.run(ask_again())
        exact = [getattr(answer, "exact", None) for answer in again]
        assert exact == [first.exact, second.exact, first.exact, None, second.exact]
        assert account.balance().left == second.remaining
