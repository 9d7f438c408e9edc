"""Retries, errors and looks of the SDK, without a network."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from noisebank import Precision, Result
from noisebank.core import errors
from support.internals import (
    BANK_PROBLEMS,
    ERRORS,
    TRANSIENT,
    ApiError,
    AsyncAccount,
    AsyncClient,
    Client,
    Facts,
    RemoteAccount,
    build_problem,
    error_from_problem,
    list_problems,
)

RECEIPT = {
    "format": "noisebank receipt 1", "account": "aa" * 32, "id": "bb" * 32, "answer": {"value": [25, 1]},
    "salt": "cc" * 32, "chain_id": 7, "contract": "0x" + "1" * 40, "block": 3, "block_digest": "dd" * 32,
}  # fmt: skip
CHARGE = {
    "case": "FIRST", "in_words": "first", "cost": "0.25", "remaining": "1.75", "budget": "2", "share": 0.125,
    "share_left": 0.875, "epsilon": 2.1, "delta": 1e-6,
}  # fmt: skip
NUMBER = {"value": 12.5, "low": 8.58, "high": 16.42, "stddev": 2.0, "exact": "25/2"}
PLAIN = {
    "sql": "SELECT count(*) AS n FROM t", "columns": ["n"], "by": [], "rows": [{"n": NUMBER}], "confidence": 0.95,
    "notes": [], "charge": CHARGE,
    "parts": [{"id": "bb" * 32, "sql": "SELECT count(*) AS n FROM t", "case": "FIRST", "cost": "0.25", "wanted": "0.25",
               "inferred": None, "receipt": RECEIPT}],
}  # fmt: skip


def problem(name: str, status: int, wait: str | None = None) -> httpx.Response:
    body = {
        "type": f"urn:noisebank:problem:{name}",
        "title": "",
        "status": status,
        "detail": f"said {name}",
        "request": "r",
    }
    return httpx.Response(status, json=body, headers={"retry-after": wait} if wait else {})


class Script:
    """Answers in a fixed order, and keeps what it was asked."""

    def __init__(self, *turns: httpx.Response | Exception) -> None:
        self.turns, self.asked, self.waits = list(turns), [], []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        turn = self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]
        if isinstance(turn, Exception):
            raise turn
        return turn

    def account(self, patience: float = 60.0) -> RemoteAccount:
        client = Client("http://bank", "nbk_x", None, patience, 1.0, httpx.MockTransport(self), self.waits.append)
        return client.account("people")

    def keys(self) -> set[str]:
        return {request.headers["idempotency-key"] for request in self.asked}


def test_a_retry_carries_the_same_key_and_waits_as_long_as_it_is_told() -> None:
    script = Script(
        httpx.ConnectError("no"), httpx.ReadError("lost"), problem("too-many-requests", 429, "3"),
        problem("overloaded", 503, "2"), httpx.Response(502, text="proxy"), httpx.Response(200, json=PLAIN),
    )  # fmt: skip
    answer = script.account().ask("SELECT count(*) FROM t", epsilon=0.5, delta="1e-6")
    assert answer.value == 12.5 and len(script.asked) == 6 and len(script.keys()) == 1
    assert script.waits[2] >= 3 and script.waits[3] >= 2
    bodies = {request.content for request in script.asked}
    assert len(bodies) == 1 and json.loads(bodies.pop())["epsilon"] == "0.5"


def test_two_asks_have_two_keys_and_a_given_key_is_kept() -> None:
    script = Script(httpx.Response(200, json=PLAIN))
    account = script.account()
    account.ask("q", sigma=5)
    account.ask("q", sigma=5)
    account.ask("q", sigma=5, key="mine")
    keys = [request.headers["idempotency-key"] for request in script.asked]
    assert keys[0] != keys[1] and keys[2] == "mine" and len(keys[0]) == 32


def test_patience_ends() -> None:
    script = Script(httpx.ConnectError("no"))
    with pytest.raises(errors.Unreachable, match="cannot be reached"):
        script.account(patience=0.2).ask("q", sigma=5)
    busy = Script(problem("overloaded", 503, "30"))
    with pytest.raises(errors.TooBusy) as raised:
        busy.account(patience=5.0).ask("q", sigma=5)
    assert len(busy.asked) == 1 and raised.value.status == 503 and raised.value.problem == "overloaded"


def test_what_is_not_passing_is_not_tried_again() -> None:
    for name, status in (("budget-exhausted", 409), ("ledger-halted", 503), ("tampered", 500), ("failed", 500)):
        script = Script(problem(name, status))
        with pytest.raises(ERRORS[name]):
            script.account().ask("q", sigma=5)
        assert len(script.asked) == 1


def test_what_has_no_key_is_not_sent_twice_when_it_may_have_arrived() -> None:
    script = Script(httpx.ReadError("lost"))
    client = Client("http://bank", "k", None, 60.0, 1.0, httpx.MockTransport(script), script.waits.append)
    with pytest.raises(errors.Unreachable, match="not sent twice"):
        client.add_analyst("maria")
    assert len(script.asked) == 1


def raised_by(kind: type[errors.NoisebankError]) -> errors.NoisebankError:
    made: dict[type, Callable[[], errors.NoisebankError]] = {
        errors.BadPolicy: lambda: errors.BadPolicy(()),
        errors.UnsupportedQuery: lambda: errors.UnsupportedQuery("JOIN", "one table"),
        errors.BadRequest: lambda: errors.BadRequest("sigma", -1, "must be above 0"),
        errors.BudgetExhausted: lambda: errors.BudgetExhausted(
            Precision(10**18), Precision(5 * 10**17), Precision(10**18)
        ),
        errors.ViewExhausted: lambda: errors.ViewExhausted(Precision(10**18), Precision(5 * 10**17), Precision(10**18)),
        errors.DrawsExhausted: lambda: errors.DrawsExhausted(2**20, 2**20),
        errors.LooksExhausted: lambda: errors.LooksExhausted(Precision(10**18)),
        errors.PriceMoved: lambda: errors.PriceMoved(Precision(10**17), Precision(10**18), Precision(10**19)),
        errors.KeyReused: lambda: errors.KeyReused("k"),
        errors.LedgerRefused: lambda: errors.LedgerRefused("ledger: no"),
    }
    return made.get(kind, lambda: kind("something"))()


@pytest.mark.parametrize("kind", list(BANK_PROBLEMS))
def test_every_error_of_the_bank_arrives_as_itself_with_its_fields(kind: type[errors.NoisebankError]) -> None:
    sent = raised_by(kind)
    row, body, _ = build_problem(sent, "r")
    got = error_from_problem(row.status, body)
    # What is wrong with a table is for its operator: the SDK learns the kind of the error alone.
    assert type(got) is kind and str(got) == (body["detail"] if kind is errors.BadTable else str(sent))
    for name, value in vars(sent).items():
        assert hasattr(got, name)
        if isinstance(value, Precision):
            assert abs(float(getattr(got, name)) - float(value)) <= 1e-5 * float(value)


def test_every_problem_has_a_class_and_those_of_the_service_spend_nothing() -> None:
    assert {row.name for row in list_problems()} == set(ERRORS)
    assert set(ERRORS) >= TRANSIENT
    row, body, _ = build_problem(ApiError("not-allowed", "no"), "r")
    assert isinstance(error_from_problem(row.status, body), errors.NotAllowed)
    assert isinstance(error_from_problem(500, None), errors.OutcomeUnknown)
    assert isinstance(error_from_problem(418, {"type": "about:blank"}), errors.OutcomeUnknown)
    assert isinstance(error_from_problem(418, {"type": 5}), errors.OutcomeUnknown)


def test_the_async_client_has_the_same_verbs_and_arguments() -> None:
    for one, other in ((Client, AsyncClient), (RemoteAccount, AsyncAccount)):
        names = {name for name in vars(one) if not name.startswith("_")}
        assert names == {name for name in vars(other) if not name.startswith("_")}
        for name in names:
            assert str(inspect.signature(getattr(one, name)).parameters) == str(
                inspect.signature(getattr(other, name)).parameters
            ), name


def test_async_retries_too() -> None:
    script = Script(httpx.ReadError("lost"), problem("overloaded", 503, "1"), httpx.Response(200, json=PLAIN))

    async def sleep(seconds: float) -> None:
        script.waits.append(seconds)

    async def run() -> Result:
        async with AsyncClient("http://bank", "k", None, 60.0, 1.0, httpx.MockTransport(script), sleep) as client:
            account = await client.account("people")
            return await account.ask("q", sigma=5)

    assert asyncio.run(run()).value == 12.5
    assert len(script.keys()) == 1 and len(script.asked) == 3 and script.waits[1] >= 1


def test_results_are_frozen_and_show_themselves() -> None:
    answer = Result.from_json(PLAIN)
    assert "12.5 ± 3.9 (95%: 8.6 to 16.4; standard deviation 2.0)" in repr(answer) and "FIRST" in repr(answer)
    assert "12% of the budget; 88% left (epsilon" in repr(answer)
    assert answer.interval() == (8.58, 16.42)
    assert answer.interval(0.5)[0] == pytest.approx(12.5 - 0.6745 * 2, abs=1e-3)
    assert float(answer) == 12.5 and answer.exact * 2 == 25 and answer.to_json()["rows"] == PLAIN["rows"]
    with pytest.raises(AttributeError):
        answer.sql = ""  # type: ignore[misc]
    assert "12.5" in answer._repr_html_()


def grouped(keys: list[str]) -> dict[str, Any]:
    rows = [{"town": key, "n": {**NUMBER, "value": 2.0 * place}} for place, key in enumerate(keys)]
    return {**PLAIN, "columns": ["town", "n"], "by": ["town"], "rows": rows}


def test_nothing_from_the_wire_is_html() -> None:
    answer = Result.from_json(grouped(["<script>alert(1)</script>"]))
    assert "<script>" not in answer._repr_html_() and "&lt;script&gt;" in answer._repr_html_()
    assert "<b>" not in Facts("Dataset", {"name": "<b>x</b>"})._repr_html_()


def test_group_bys_become_tables() -> None:
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    answer = Result.from_json(grouped(["north", "south"]))
    frame = answer.to_pandas()
    assert list(frame.columns) == ["town", "n", "n_low", "n_high", "n_stddev"] and list(frame["n"]) == [0.0, 2.0]
    assert isinstance(frame, pandas.DataFrame)
    table = answer.to_arrow()
    assert isinstance(table, arrow.Table) and table.column("town").to_pylist() == ["north", "south"]
    assert Result.from_json(PLAIN).to_pandas().shape == (1, 4)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(errors.BadRequest, match=r"noisebank\[client\]"):
        Result.from_json(PLAIN).to_pandas()


def test_misspelt_wishes_are_refused_here() -> None:
    script = Script(httpx.Response(200, json=PLAIN))
    with pytest.raises(TypeError, match="epsilom"):
        script.account().ask("q", epsilom=1)  # type: ignore[call-arg]
    with pytest.raises(errors.BadRequest, match="sigma"):
        script.account().ask("q", sigma=float("nan"))
    assert not script.asked
