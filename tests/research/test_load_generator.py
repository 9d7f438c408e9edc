"""The load generator asks what it says it asks, at the rate that it says; the whole benchmark runs."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from noisebank import Precision, Receipt, Result
from research.benches.load_generator import ANSWER_OF_BATCH, Came, Crowd, Load, requests_of
from research.benches.service import Counterpart, bench_service, sustained
from support.internals import ZERO_PRECISION, Case, Charge, ChargedQuestion, Row, make_estimate, result_to_bytes

FRESH = '{"sql": "SELECT count(*) FROM readings WHERE site <= %d AND level <= %d", "sigma": "4000"}'


def load(mix: str, port: int = 1, **more: object) -> Load:
    given: dict[str, object] = {"connections": 4, "seconds": 0.5, "keys": ("a", "b"), "known": ("{}",), "fresh": FRESH}
    return Load(port, mix, **{**given, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(("mix", "share"), [("reuse", 0.0), ("mixed", 0.1), ("paid", 1.0)])
def test_mixes_have_their_share_of_new_questions_and_every_request_its_key(mix: str, share: float) -> None:
    made = [requests_of(load(mix, first=7))(number) for number in range(7, 3_007)]
    bodies = [request.partition(b"\r\n\r\n")[2] for request in made]
    new = [body for body in bodies if b"site" in body]
    assert len(new) == share * len(made) and len(set(new)) == len(new)
    assert all(json.loads(body) is not None for body in bodies)
    keys = [re.search(rb"idempotency-key: (\S+)", request) for request in made]
    assert len({key.group(1) for key in keys if key}) == len(made)
    assert all(
        int(re.search(rb"content-length: (\d+)", r).group(1)) == len(b) for r, b in zip(made, bodies, strict=True)
    )  # type: ignore[union-attr]


@pytest.mark.parametrize("mix", ["reuse", "paid"])
def test_batches_have_as_many_questions_and_none_twice(mix: str) -> None:
    made = [requests_of(load(mix, first=5, batch=30))(number) for number in range(5, 25)]
    bodies = [json.loads(request.partition(b"\r\n\r\n")[2])["questions"] for request in made]
    assert all(b"/answers:batch HTTP" in request for request in made) and {len(body) for body in bodies} == {30}
    new = [question["sql"] for body in bodies for question in body if question]
    assert len(new) == len(set(new)) == (600 if mix == "paid" else 0)


class Slow(asyncio.Protocol):
    """Answers after a while, whatever it is asked; one at a time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        def answer() -> None:
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 17\r\n\r\n" + b'{"case":"REPEAT"}')  # type: ignore[attr-defined]

        asyncio.get_running_loop().call_later(0.02, answer)


@pytest.mark.timing
@pytest.mark.parametrize(("connections", "behind"), [(8, False), (1, True)])
def test_latency_counts_from_the_scheduled_time(connections: int, behind: bool) -> None:
    """One connection gives at most 50 answers a second: at 100 arrivals a second it falls behind, and that shows."""

    async def run() -> object:
        server = await asyncio.get_running_loop().create_server(Slow, "127.0.0.1", 0)
        wanted = load("reuse", server.sockets[0].getsockname()[1], connections=connections, rate=100.0, seconds=1.0)
        came = await Crowd(wanted, requests_of(wanted)).run()
        server.close()
        return came

    came = asyncio.run(run())
    assert came.asked == 100 and came.answered == 100 and came.cases == {"REPEAT": 100} and not came.lost  # type: ignore[attr-defined]
    assert came.p50_ms >= 20  # type: ignore[attr-defined]
    if behind:
        assert came.p50_ms > 200 and came.per_s < 60  # type: ignore[attr-defined]


@pytest.mark.parametrize("closed", [500, 700, 950, 1_000, 1_300, 1_800])
def test_the_search_finds_what_a_server_bears(closed: float) -> None:
    """Wherever it begins; up to one step, and what counts as keeping up."""

    class Bears(Counterpart):
        def load(self, mix: str, connections: int, seconds: float, rate: float = 0.0) -> Came:
            came = Came(asked=int((rate or closed) * seconds))
            came.statuses["200"] = came.answers = came.asked
            came.seconds = came.asked / min(rate, 1_000) if rate else seconds
            return came

    found = sustained(Bears(0, 0, (), ()), "reuse", 256, 5.0)
    assert found["kept_up"] and found["closed_loop_per_s"] == closed
    assert 850 <= found["sustained_per_s"] <= 1_000


def test_a_server_that_answers_nothing_does_not_keep_up() -> None:
    class Dead(Counterpart):
        def load(self, mix: str, connections: int, seconds: float, rate: float = 0.0) -> Came:
            return Came(asked=256, lost=256, seconds=1e-9)

    found = sustained(Dead(0, 0, (), ()), "reuse", 256, 5.0)
    assert not found["kept_up"] and not found["sustained_per_s"]


def test_answers_of_a_batch_are_counted_once() -> None:
    receipt = Receipt(b"a" * 32, b"i" * 32, {"value": [1, 2]}, b"s" * 32, 7, "0x" + "1" * 40, 3, b"d" * 32)
    asked = ChargedQuestion("n", Case.REPEAT, ZERO_PRECISION, ZERO_PRECISION, receipt)
    row = Row((), (make_estimate(1.0, 0.0, 2.0, 0.5),), ("n",))
    charge = Charge(Case.REPEAT, ZERO_PRECISION, ZERO_PRECISION, Precision(10**18), 1e-6)
    answer = result_to_bytes(Result("n", ("n",), (), ("n",), (row,), charge, (asked,)))
    assert answer.count(b'"answer":{') == 1 and (b'{"outcomes":[{"answer":%b}]}' % answer).count(ANSWER_OF_BATCH) == 1


@pytest.mark.slow
def test_the_benchmark_runs_and_the_books_balance() -> None:
    found = bench_service(quick=True)
    assert set(found["mixes"]) == {"reuse", "mixed", "paid"} and found["bare_endpoint_per_s"] > 0
    assert set(found["mixes"]["reuse"]["cases"]) == {"REPEAT"} and set(found["mixes"]["paid"]["cases"]) == {"FIRST"}
    assert set(found["overload"]["statuses"]) <= {"200", "429", "503"} and found["overload"]["books_balance"]
