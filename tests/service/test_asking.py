"""Asking over HTTP: what is charged, what is repeated, who sees what."""

from __future__ import annotations

import json
import re
import time
from decimal import Decimal

import pytest

from noisebank import verify
from support.patience import patience
from support.results import single
from support.service import COUNT, counter

TWENTY = [
    "SELECT count(*) FROM people WHERE age >= 30 AND age < 50",
    "select COUNT(*) from people where age<50 and age>=30",
    "SELECT count(*) FROM people WHERE age BETWEEN 30 AND 49",
    "SELECT count(1) FROM people WHERE age BETWEEN 30 AND 49",
    "SELECT count(*) AS n FROM people WHERE (age >= 30) AND (age <= 49)",
    "SELECT count(*) FROM people AS p WHERE p.age >= 30 AND p.age <= 49",
    "SELECT count(*) FROM people WHERE NOT (age < 30 OR age >= 50)",
    "SELECT count(*) FROM people WHERE NOT age < 30 AND NOT age > 49",
    "SELECT count(*) FROM people WHERE 30 <= age AND 50 > age",
    "SELECT count(*) FROM people WHERE age > 29 AND age < 50",
    "SELECT count(*) FROM people WHERE age > 29 AND age <= 49",
    "SELECT count(*) FROM people WHERE (age >= 30 AND age < 40) OR (age >= 40 AND age < 50)",
    "SELECT count(*) FROM people WHERE age >= 30 AND age < 50 AND age >= 10",
    "SELECT count(*) FROM people WHERE age >= 30 AND age < 50 AND true",
    "SELECT count(*) FROM people WHERE age >= 30.0 AND age < 50.0",
    "SELECT count(*) FILTER (WHERE age BETWEEN 30 AND 49) FROM people",
    "SELECT count(*) FROM people WHERE age > 29.5 AND age < 49.5",
    "SELECT count(*) FROM people WHERE age IN (30,31,32,33,34,35,36,37,38,39) OR age BETWEEN 40 AND 49",
    "SELECT\n  count(*)\nFROM people\nWHERE age >= 30\n  AND age < 50",
    "SELECT count(*) FROM people WHERE age < 50 AND NOT (age < 30)",
]


@pytest.fixture
def desk(tmp_path):
    with counter(tmp_path) as made:
        yield made


def test_twenty_spellings_by_twenty_analysts_cost_once(desk):
    from noisebank.service.roles import Role

    assert len(set(TWENTY)) == 20
    app = desk.app
    values, costs = set(), []
    for number, sql in enumerate(TWENTY):
        name = f"analyst{number}"
        desk.access.add_person(name, Role.ANALYST)
        app.state.operations.set_limit("people", desk.access.find_person(name), "1")
        desk.keys[name] = desk.access.make_key(name)[0]
        said = desk.ask(name, "mine", sql)
        assert said.status_code == 200, (sql, said.text)
        values.add(single(said.json())["exact"])
        costs.append(said.json()["charge"]["cost"])
    assert len(values) == 1 and sum(cost != "0" for cost in costs) == 1
    assert desk.bank.account("people").state.measurements == 1


def test_the_log_and_the_metrics_say_how_long_a_request_took(desk):
    began = time.perf_counter()
    assert desk.ask("maria", "k").status_code == 200
    shown = desk.client.get("/v1/metrics", headers=desk.headers("owner")).text
    most = time.perf_counter() - began
    (line,) = (line for line in desk.lines() if line["event"] == "request" and line["method"] == "POST")
    (total,) = re.findall(r'^noisebank_request_seconds_sum\{.*answers"\} (\S+)$', shown, re.MULTILINE)
    assert 0 < line["ms"] <= 1e3 * most and 0 < float(total) <= most


def test_the_same_key_gives_the_same_answer_and_another_body_is_refused(desk):
    first, spent = single(desk.ask("maria", "k1").json()), desk.spent
    assert single(desk.ask("maria", "k1").json())["exact"] == first["exact"] and desk.spent == spent
    other = desk.ask("maria", "k1", "SELECT sum(age) FROM people")
    assert other.status_code == 422 and other.json()["type"].endswith("key-reused") and desk.spent == spent
    # an analyst's keys are their own
    assert desk.ask("noor", "k1", "SELECT sum(age) FROM people").status_code == 200


def test_views_are_each_analysts_own(tmp_path):
    with counter(tmp_path, limits="0.6") as desk:
        assert desk.ask("maria", "a").status_code == 200
        refused = desk.ask("maria", "b", "SELECT sum(age) FROM people")
        assert refused.status_code == 409 and refused.json()["type"].endswith("view-exhausted")
        spent = desk.spent
        assert single(desk.ask("noor", "a").json())["case"] == "REPEAT" and desk.spent == spent


def test_best_gives_more_if_it_is_free_and_the_view_has_room(desk):
    fine = single(desk.ask("owner", "fine", epsilon="1.5").json())
    spent = desk.spent
    best = single(desk.ask("maria", "b", epsilon="0.1", mode="best").json())
    assert best["exact"] == fine["exact"] and best["case"] == "REPEAT" and desk.spent == spent
    exact = single(desk.ask("noor", "e", epsilon="0.1").json())
    assert exact["stddev"] > 3 * best["stddev"] and exact["case"] == "BLUR"
    # the same key again, after something better has come: what it got before
    desk.ask("owner", "finer", epsilon="2.5")
    assert single(desk.ask("maria", "b", epsilon="0.1", mode="best").json())["exact"] == best["exact"]


def test_best_stays_within_the_view(tmp_path):
    with counter(tmp_path, limits="0.5") as desk:
        desk.ask("owner", "fine", epsilon="3")
        spent = desk.spent
        best = desk.ask("maria", "b", epsilon="0.05", mode="best")
        assert best.status_code == 200 and best.json()["charge"]["case"] == "BLUR" and desk.spent == spent
        view = desk.bank.account("people").view("maria")
        assert view.used <= view.limit and view.used.units > view.limit.units * 0.99


def test_own_answers_only(desk):
    mine = single(desk.ask("maria", "m").json())
    path = f"/v1/datasets/people/answers/{mine['id']}"
    again = single(desk.client.get(path, headers=desk.headers("maria")).json())
    assert again["exact"] == mine["exact"] and again["receipts"] == mine["receipts"]
    theirs = desk.client.get(path, headers=desk.headers("noor"))
    assert theirs.status_code == 404 and theirs.json()["type"].endswith("not-found")
    assert desk.client.get(path, headers=desk.headers("owner")).status_code == 200


def test_history_by_cursors(desk):
    for number in range(7):
        desk.ask("maria", f"k{number}", f"SELECT count(*) FROM people WHERE age > {number + 30}", epsilon="0.05")
        desk.ask("noor", f"k{number}", f"SELECT count(*) FROM people WHERE age > {number + 30}", epsilon="0.05")
    seen, cursor = [], None
    while True:
        address = "/v1/datasets/people/answers?limit=3" + (f"&cursor={cursor}" if cursor else "")
        page = desk.client.get(address, headers=desk.headers("maria")).json()
        assert len(page["answers"]) <= 3
        seen += [row["sql"] for row in page["answers"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == [f"SELECT count(*) FROM people WHERE age > {number + 30}" for number in reversed(range(7))]


def test_receipts_and_journal_check_out(desk, tmp_path):
    made = single(desk.ask("maria", "m").json())
    receipt = made["receipts"][0]
    assert desk.client.post("/v1/receipts/check", json={"receipt": receipt}).json()["holds"]
    for name, wrong in (("salt", "00" * 32), ("block", 1), ("account", "11" * 32), ("chain_id", 5)):
        assert not desk.client.post("/v1/receipts/check", json={"receipt": receipt | {name: wrong}}).json()["holds"]
    for wrong in ("null", "[]", "1e400", "-1e400", '"x"', '{"a":1.5}', "1" + "0" * 400):
        for name in receipt:
            body = json.dumps({"receipt": receipt | {name: "HERE"}}).replace('"HERE"', wrong)
            said = desk.client.post("/v1/receipts/check", content=body, headers={"content-type": "application/json"})
            assert said.status_code in (200, 422) and (said.status_code == 422 or not said.json()["holds"]), (
                name,
                wrong,
            )
    journal = desk.client.get("/v1/ledger/journal").text.splitlines()
    report = verify(journal, receipts=[receipt], head=desk.client.get("/v1/ledger/head").json()["digest"])
    assert report.passed and report.accounts[0].spent == desk.spent


def test_statements_have_tags(desk):
    desk.ask("maria", "m")
    path, headers = "/v1/datasets/people/statement", desk.headers("carl")
    first = desk.client.get(path, headers=headers)
    assert first.json()["entries"][0]["analyst"] == "maria" and first.json()["entries"][0]["sql"] == COUNT
    tag = {"if-none-match": first.headers["etag"]}
    assert desk.client.get(path, headers=headers | tag).status_code == 304
    desk.ask("noor", "m")
    assert desk.client.get(path, headers=headers | tag).status_code == 200


def test_the_balance_is_live(desk):
    path = "/v1/datasets/people/events"
    with desk.client.stream("GET", path, headers=desk.headers("maria"), timeout=patience()) as stream:
        spent = (json.loads(line[6:])["spent"] for line in stream.iter_lines() if line.startswith("data: "))
        before = next(spent)
        desk.ask("noor", "n")
        assert Decimal(next(spent)) > Decimal(before)


def test_several_results_groups_and_derived_numbers(desk):
    sql = "SELECT count(*) AS n, avg(age) AS mean FROM people WHERE smoker"
    several = desk.ask("maria", "s", sql, epsilon="0.5").json()
    assert several["columns"] == ["n", "mean"] and several["by"] == [] and len(several["rows"]) == 1
    assert len(several["parts"]) == 2 and several["rows"][0]["mean"]["stddev"] is None  # both need the same count
    groups = desk.ask("maria", "g", "SELECT town, count(*) AS n FROM people GROUP BY town", epsilon="0.5").json()
    assert groups["by"] == ["town"] and {row["town"] for row in groups["rows"]} >= {"north", "south"}
    assert all(row["n"]["low"] < row["n"]["value"] < row["n"]["high"] for row in groups["rows"])
    relative = desk.ask("owner", "r", "SELECT sum(income) FROM people", relative="50%", floor="20000").json()
    verdict = single(relative)["verdict"]
    assert verdict["floor"] == 20000 and verdict["reached"] is False and verdict["next_cost"]
    path = f"/v1/datasets/people/answers/{relative['parts'][0]['id']}"
    assert desk.client.get(path, headers=desk.headers("owner")).json() == relative
    both = desk.ask("owner", "b", "SELECT sum(income), sum(age) FROM people", relative="50%", floor="20000").json()
    assert all("verdict" in both["rows"][0][name] for name in both["columns"]) and len(both["columns"]) == 2


@pytest.mark.parametrize("floor", ["1e309", "1e400"])
def test_a_floor_that_no_double_holds_is_refused_and_costs_nothing(desk, floor):
    """It was charged and published, and could then not be shown."""
    before = desk.spent
    said = desk.ask("maria", f"floor {floor}", relative="0.1", confidence="0.95", floor=floor)
    assert said.status_code == 422 and said.json()["parameter"] == "floor" and desk.spent == before
