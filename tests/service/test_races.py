"""Many clients at once, over real sockets: one winner for the last unit, one measurement for one question."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from noisebank import verify
from support.patience import patience, wait_until
from support.results import single
from support.service import EASY, counter, make_bank, served

CLIENTS = 50


def _race(tmp_path, races: int) -> None:
    """Fifty clients want what is left of the budget, each its own question; exactly one gets it, every time."""
    with counter(tmp_path, EASY, epsilon="4") as desk:
        account = desk.bank.account("people")
        address, start = str(desk.client.base_url), threading.Barrier(CLIENTS)
        with (
            httpx.Client(base_url=address, timeout=patience(), limits=httpx.Limits(max_connections=CLIENTS)) as client,
            ThreadPoolExecutor(CLIENTS) as pool,
        ):
            for race in range(races):
                # more than half of what is left: two of these can never both be paid
                units = account.state.remaining_budget.units * 6 // 10
                sigma = (10**18 / units) ** 0.5

                def ask(number: int, race: int = race, sigma: float = sigma) -> httpx.Response:
                    start.wait(patience())
                    body = {"sql": f"SELECT count(*) FROM people WHERE age > {number + 10}", "sigma": f"{sigma:.12g}"}
                    return client.post(
                        "/v1/datasets/people/answers", json=body, headers=desk.headers("owner", f"{race} {number}")
                    )

                said = list(pool.map(ask, range(CLIENTS)))
                won = [each for each in said if each.status_code == 200 and each.json()["charge"]["cost"] != "0"]
                refused = [each for each in said if each.status_code == 409]
                assert len(won) == 1, [each.text for each in said][:3]
                free = [each for each in said if each.status_code == 200 and each.json()["charge"]["cost"] == "0"]
                assert len(refused) + len(won) + len(free) == CLIENTS
                assert all(each.json()["type"].endswith("budget-exhausted") for each in refused)
        state = account.state
        assert state.spent <= state.budget
        report = verify(desk.bank.export())
        assert report.passed and report.accounts[0].spent == state.spent.units


def test_one_of_fifty_gets_the_last_unit(tmp_path):
    _race(tmp_path, 4)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("round", range(10))
def test_one_of_fifty_gets_the_last_unit_every_time(tmp_path, round):
    """Two hundred races in all."""
    _race(tmp_path, 20)


def test_one_question_by_many_at_once_is_measured_once(tmp_path):
    with counter(tmp_path) as desk, ThreadPoolExecutor(24) as pool:
        said = list(pool.map(lambda n: single(desk.ask("maria" if n % 2 else "noor", f"k{n}").json()), range(24)))
        assert len({each["exact"] for each in said}) == 1
        assert desk.bank.account("people").state.measurements == 1
        total = "SELECT sum(age) FROM people"
        same = list(pool.map(lambda n: single(desk.ask("maria", "one key", total).json()), range(24)))
        assert len({each["id"] for each in same}) == 1 and len({each["exact"] for each in same}) == 1


def test_a_shutdown_finishes_what_is_reserved(tmp_path):
    """SIGTERM in the middle: whoever got in gets an answer, and the books agree with what was said."""
    bank = make_bank(tmp_path)
    key = _owner_key(bank)
    acknowledged: list[dict[str, str]] = []
    with served(bank) as process:
        client = httpx.Client(base_url=process.address, timeout=patience(), headers={"authorization": f"Bearer {key}"})

        def ask(number: int) -> None:
            body = {"sql": f"SELECT count(*) FROM people WHERE age > {number}", "epsilon": "0.01", "delta": "1e-6"}
            try:
                said = client.post("/v1/datasets/people/answers", json=body, headers={"idempotency-key": str(number)})
            except httpx.TransportError:
                return
            if said.status_code == 200:
                acknowledged.append(single(said.json()))

        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(ask, number) for number in range(10, 110)]
            wait_until(lambda: len(acknowledged) >= 10 or process.process.poll() is not None, "ten answers")
            assert process.process.poll() is None, process.log.read_text()
            assert process.stop() == 0, process.log.read_text()
            for each in asked:
                each.result()
        client.close()
        said = [json.loads(line) for line in process.log.read_text().splitlines()]  # nothing but lines of ours
        assert {line["event"] for line in said} == {"request"}
    from noisebank import open_bank

    with open_bank(bank) as opened:
        assert not any(found.finished for found in opened.recovered.values()), "something was left in the middle"
        reserved = {each.id.hex() for each in opened.ledger.list_reservations(opened.account("people").id)}
        assert {each["id"] for each in acknowledged} <= reserved


def _owner_key(bank) -> str:
    from noisebank.service.auth import ACCESS_FILE
    from support.internals import AccessControl, SystemEntropy

    access = AccessControl(bank / ACCESS_FILE, SystemEntropy())
    secret, _ = access.make_key("owner")
    access.close()
    return secret
