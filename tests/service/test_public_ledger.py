"""What anybody reads of a relative request over HTTP, without a key, is the same for 600 people as for 60."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from noisebank import create_bank, open_bank
from support.banks import write_people
from support.internals import RequestLog, make_app
from support.patience import patience
from support.service import EASY, running

SALTED = ("id", "query", "analyst", "answer", "time")
SQL = "SELECT COUNT(*) FROM people WHERE smoker"


def public_view(folder: Path, smokers: int) -> dict[str, Any]:
    """Asks twice as the owner over HTTP; then reads what is there for everybody."""
    people = [f"40,100,{'true' if number < smokers else 'false'},north,1" for number in range(2_000)]
    policy = write_people(folder, lines=people, epsilon="20")
    with open_bank(create_bank(folder / "bank")) as bank:
        bank.open_account(policy)
        app = make_app(bank, replace(EASY, bank=bank.folder, origin="http://testserver"), RequestLog(io.StringIO()))
        key = app.state.access.make_key("owner")[0]
        with running(app) as address, httpx.Client(base_url=address, timeout=patience()) as client:
            statuses = [
                client.post(
                    "/v1/datasets/people/answers",
                    json={"sql": SQL, "relative": relative, "confidence": "0.95"},
                    headers={"authorization": f"Bearer {key}", "idempotency-key": relative},
                ).status_code
                for relative in ("10%", "5%")
            ]
            entries = client.get("/v1/datasets/people/entries").json()["entries"]
            facts = client.get("/v1/datasets/people").json()
            journal = client.get("/v1/ledger/journal").text.splitlines()
    return {
        "statuses": statuses,
        "entries": [{name: value for name, value in entry.items() if name not in SALTED} for entry in entries],
        "facts": {name: facts[name] for name in ("spent", "left", "answers", "measurements")},
        "lines": [len(line) for line in journal[1:]],
    }


def test_the_ledger_of_a_relative_request_says_nothing_about_the_data(tmp_path: Path) -> None:
    many, few = (public_view(tmp_path / str(smokers), smokers) for smokers in (600, 60))
    assert many["statuses"] == few["statuses"] == [200, 200]
    assert many["entries"] == few["entries"] and len(many["entries"]) == 2
    assert many == few
