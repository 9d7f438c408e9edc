"""Requests are read and answered while a table, the vault or the journal is slow."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.internals import KEEP_ALIVE_SECONDS
from support.patience import patience, wait_until
from support.service import Counter, counter


def _slow_table(desk: Counter, gate: threading.Event) -> None:
    engine: Any = desk.bank.account("people").engine
    real = engine._run_sql
    engine._run_sql = lambda sql: gate.wait(patience()) and real(sql)


def _slow_vault(desk: Counter, gate: threading.Event) -> None:
    vault: Any = desk.bank.parts.vault
    real = vault._insert_rows
    vault._insert_rows = lambda statements: gate.wait(patience()) and real(statements)


def _slow_journal(desk: Counter, gate: threading.Event) -> None:
    journal: Any = desk.bank.ledger._journal  # type: ignore[attr-defined]
    real = journal._database

    class Slow:
        def execute(self, *given: Any) -> Any:
            assert gate.wait(patience())
            return real.execute(*given)

        def close(self) -> None:
            real.close()

    journal._database = Slow()


@pytest.mark.parametrize("slow", [_slow_table, _slow_vault, _slow_journal])
def test_others_are_answered_while_one_waits(tmp_path: Path, slow: Callable[[Counter, threading.Event], None]) -> None:
    with counter(tmp_path) as desk, ThreadPoolExecutor(8) as pool:
        gate = threading.Event()
        slow(desk, gate)
        asked = [
            pool.submit(desk.ask, "maria", f"k{n}", f"SELECT sum(age) FROM people WHERE age > {n}") for n in range(4)
        ]
        try:
            wait_until(lambda: desk.app.state.answers.active_questions == 4, "four wait inside")
            for path in ("/v1/health", "/v1/datasets/people", "/v1/datasets/people/balance", "/v1/ledger/head"):
                headers = {"authorization": f"Bearer {desk.keys['noor']}"}
                assert desk.client.get(path, headers=headers).status_code == 200
            assert not any(each.done() for each in asked)
        finally:
            gate.set()
        answers = [each.result(patience()) for each in asked]
        assert [answer.status_code for answer in answers] == [200] * 4
        assert {answer.json()["charge"]["case"] for answer in answers} == {"FIRST"}


@pytest.mark.timing
def test_an_idle_connection_outlives_that_of_clients(tmp_path: Path) -> None:
    """httpx keeps idle ones for five seconds. A server that did, too, would now and then close one in use."""
    with counter(tmp_path) as desk:
        link = http.client.HTTPConnection(desk.client.base_url.host, desk.client.base_url.port or 0, timeout=patience())
        for wait in (0.0, 6.0):
            time.sleep(wait)
            link.request("GET", "/v1/health")
            assert link.getresponse().read()
        link.close()
    assert KEEP_ALIVE_SECONDS > 60  # what proxies are set to
