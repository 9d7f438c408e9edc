"""Two `noisebank serve` on one bank: the same answers at both doors, one budget, also after a kill -9."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import httpx
import pytest

from support.internals import ACCESS, AccessControl, SystemEntropy
from support.patience import patience
from support.service import served
from vault.town import Town


@pytest.mark.timeout(900)
def test_two_servers_and_one_budget(town: Town) -> None:
    with town.bank() as bank:
        bank.open_account(town.policy("doors", epsilon="1"))
    with closing(AccessControl(town.folder / ACCESS, SystemEntropy())) as doors:
        key = doors.make_key("owner")[0]
    with served(town.folder) as one, served(town.folder) as two, httpx.Client(timeout=patience(200)) as client:

        def ask(where: Any, sql: str, sigma: str, name: str) -> httpx.Response:
            headers = {"authorization": f"Bearer {key}", "idempotency-key": name}
            body = {"sql": sql, "sigma": sigma}
            return client.post(f"{where.address}/v1/datasets/doors/answers", json=body, headers=headers)

        smokers, sevens = "SELECT COUNT(*) FROM doors WHERE smoker", "SELECT COUNT(*) FROM doors WHERE age > 70"
        with ThreadPoolExecutor(4) as pool:
            same = list(pool.map(lambda where: ask(where, smokers, "12", "same"), (one, two, one, two)))
            assert {each.status_code for each in same} == {200}, [each.text for each in same]
            assert len({each.json()["rows"][0]["COUNT(*)"]["value"] for each in same}) == 1
            # 0.007 of 0.056 is spent; each of these wants 0.04: one of the two doors must refuse.
            race = list(pool.map(lambda at: ask(at[0], at[1], "5", at[2]), ((one, sevens, "a"), (two, smokers, "b"))))
        assert sorted(each.status_code for each in race) == [200, 409], [each.text for each in race]
        one.kill()
        again = ask(two, smokers, "12", "same")
        assert again.json()["rows"][0]["COUNT(*)"]["value"] == same[0].json()["rows"][0]["COUNT(*)"]["value"]
        winner = next(place for place, each in enumerate(race) if each.status_code == 200)
        kept = ask(two, (sevens, smokers)[winner], "5", "ab"[winner])
        assert kept.json()["rows"][0]["COUNT(*)"]["value"] == race[winner].json()["rows"][0]["COUNT(*)"]["value"]
        assert two.stop() == 0
    with town.bank() as bank:
        state = bank.account("doors").state
        assert state.measurements == 2 and state.spent <= state.budget
