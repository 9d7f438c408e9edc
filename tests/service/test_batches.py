"""Many questions in one request: each has its own outcome, or all are charged together."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from support.internals import weigh_question
from support.results import single
from support.service import COUNT, EASY, counter

BATCH = "/v1/datasets/people/answers:batch"
QUOTES = "/v1/datasets/people/quotes:batch"
TENTH = {"epsilon": "0.1", "delta": "1e-6"}


def older(age: int) -> str:
    return f"SELECT count(*) FROM people WHERE age > {age}"


@pytest.fixture
def desk(tmp_path):
    with counter(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with counter(tmp_path_factory.mktemp("batches")) as made:
        yield made


def ask_batch(desk, who, key, questions, **more):
    body = {"questions": [{**TENTH, **each} for each in questions], **more}
    return desk.client.post(BATCH, json=body, headers=desk.headers(who, key))


def outcomes_of(response):
    """The outcomes of a batch of single numbers, each answer as its estimate and its charge."""
    return [{**row, "answer": row["answer"] and single(row["answer"])} for row in response.json()["outcomes"]]


def problem_of(row) -> str:
    assert row["answer"] is None
    return row["problem"]["type"].rpartition(":")[2]


def test_a_batch_of_large_answers_is_bounded(tmp_path):
    """What is left when the answers have so many bytes is not asked, and not charged."""
    with counter(tmp_path, replace(EASY, batch=4, max_batch_answers=1_024)) as desk:
        questions = [{"sql": older(age), "epsilon": "0.01"} for age in range(20, 30)]
        response = ask_batch(desk, "maria", "large", questions)
        outcomes = outcomes_of(response)
        assert [row["answer"] is not None for row in outcomes] == [True] * 4 + [False] * 6
        assert {problem_of(row) for row in outcomes[4:]} == {"too-large"} and outcomes[4]["problem"]["status"] == 413
        assert desk.bank.account("people").state.measurements == 4
        again = outcomes_of(ask_batch(desk, "maria", "rest", questions[4:8]))
        assert all(row["answer"] for row in again)


def test_grouped_questions_take_more_of_a_batch(tmp_path):
    grouped = "SELECT town, COUNT(*) FROM people group by town"
    assert weigh_question(grouped) == 16 and weigh_question(COUNT) == 1 and weigh_question("x" * 1_000) == 3
    with counter(tmp_path, replace(EASY, batch=32)) as desk:
        worker = desk.app.state.answers.find_worker("people")
        asks = [SimpleNamespace(body=SimpleNamespace(sql=sql)) for sql in [grouped] * 5 + [COUNT] * 3]
        assert [len(part) for part in worker.split_items(asks)] == [2, 2, 4]


def test_each_question_has_its_own_outcome(desk):
    questions = [{"sql": COUNT}, {"sql": "SELEKT"}, {"sql": COUNT}, {"sql": COUNT, "max_cost": "0"}, {"sql": older(40)}]
    response = ask_batch(desk, "maria", "b", questions)
    assert response.status_code == 200, response.text
    first, bad, again, free, other = outcomes_of(response)
    assert problem_of(bad) == "bad-query" and bad["problem"]["request"] == response.headers["x-request-id"]
    assert first["answer"]["case"] == "FIRST" and again["answer"]["case"] == free["answer"]["case"] == "REPEAT"
    assert again["answer"]["exact"] == first["answer"]["exact"] and other["answer"]["case"] == "FIRST"
    spent = desk.spent
    retry = outcomes_of(ask_batch(desk, "maria", "b", questions))
    assert [row["answer"] and row["answer"]["exact"] for row in retry] == [
        row["answer"] and row["answer"]["exact"] for row in outcomes_of(response)
    ]
    assert desk.spent == spent
    alone = single(desk.ask("maria", "b #5", older(40), **TENTH).json())  # the key that the fifth question had
    assert alone["exact"] == other["answer"]["exact"] and alone["id"] == other["answer"]["id"]


def test_keys_within_a_batch_and_between_analysts(desk):
    same = {"sql": COUNT, "key": "mine"}
    questions = [same, same, {"sql": older(40), "key": "mine"}, {"sql": older(40)}]
    first, again, reused, own = outcomes_of(ask_batch(desk, "maria", "b", questions))
    assert again["answer"]["id"] == first["answer"]["id"] and problem_of(reused) == "key-reused"
    assert own["answer"]["cost"] != "0"
    (theirs,) = outcomes_of(ask_batch(desk, "noor", "b", [{"sql": older(50), "key": "mine"}]))
    assert theirs["answer"]["case"] == "FIRST"  # an analyst's keys are their own
    path = f"/v1/datasets/people/answers/{first['answer']['id']}"
    assert desk.client.get(path, headers=desk.headers("noor")).status_code == 404


def test_an_atomic_batch_is_charged_whole_or_not_at_all(tmp_path):
    with counter(tmp_path, limits="0.3") as desk:
        both = [{"sql": COUNT}, {"sql": older(40)}]
        price = desk.client.post(
            QUOTES,
            json={"questions": [{**TENTH, **each} for each in both], "atomic": True},
            headers=desk.headers("maria"),
        ).json()
        alone = [row["quote"]["cost"] for row in price["outcomes"]]
        dear = ask_batch(desk, "maria", "dear", [{**each, "max_cost": "0.000001"} for each in both], atomic=True)
        assert dear.status_code == 409 and dear.json()["type"].endswith("price-moved") and desk.spent == 0
        large = [{**each, "epsilon": "0.25"} for each in both]  # each alone would be within the view
        refused = ask_batch(desk, "maria", "large", large, atomic=True)
        assert refused.status_code == 409 and refused.json()["type"].endswith("view-exhausted") and desk.spent == 0
        assert ask_batch(desk, "maria", "bad", [*both, {"sql": "SELEKT"}], atomic=True).status_code == 422
        assert desk.spent == 0
        cheap = [{**each, "max_cost": cost} for each, cost in zip(both, alone, strict=True)]
        paid = ask_batch(desk, "maria", "cheap", cheap, atomic=True)
        assert paid.status_code == 200, paid.text
        assert [row["answer"]["cost"] for row in outcomes_of(paid)] == alone
        assert f"{desk.spent / 10**18:.18f}".rstrip("0") == price["together"]["cost"]
        exact = [row["answer"]["exact"] for row in outcomes_of(paid)]
        again = outcomes_of(ask_batch(desk, "maria", "cheap", cheap, atomic=True))
        assert [row["answer"]["exact"] for row in again] == exact
        other = ask_batch(desk, "maria", "cheap", [both[0], {"sql": older(50)}], atomic=True)
        assert other.status_code == 422 and other.json()["type"].endswith("key-reused")


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"questions": []}, "bad-body"),
        ({"questions": [{"sql": COUNT, **TENTH}] * 1_001}, "bad-body"),
        ({"questions": [{"sql": COUNT, **TENTH, "key": "k" * 161}]}, "bad-body"),
        ({"questions": [{"sql": COUNT, **TENTH, "keyy": "k"}]}, "bad-body"),
        ({"questions": [{"sql": COUNT, **TENTH, "key": "k"}], "atomic": True}, "bad-body"),
        ({"questions": [{"sql": older(age), **TENTH} for age in range(17)], "atomic": True}, "bad-request"),
        ([{"sql": COUNT, **TENTH}], "bad-body"),
        (None, "wrong-media"),
    ],
)
def test_bodies(shared, body, name):
    desk = shared
    response = desk.client.post(BATCH, json=body, headers=desk.headers("maria", "k"))
    assert response.json()["type"].endswith(name), response.text
    assert desk.spent == 0 and "Traceback" not in response.text


def test_who_may_and_how_large(tmp_path):
    with counter(tmp_path, replace(EASY, max_batch_body=4_096)) as desk:
        question = {"sql": COUNT, **TENTH}
        assert desk.client.post(BATCH, json={"questions": [question]}).status_code == 401
        assert ask_batch(desk, "carl", "k", [question]).status_code == 403  # a curator asks nothing
        assert desk.client.post(QUOTES, json={"questions": [question]}, headers=desk.headers("aude")).status_code == 403
        missing = desk.client.post(BATCH, json={"questions": [question]}, headers=desk.headers("maria"))
        assert missing.status_code == 400 and missing.json()["type"].endswith("key-missing")
        unknown = desk.client.post(
            BATCH.replace("people", "nobody"), json={"questions": [question]}, headers=desk.headers("maria", "k")
        )
        assert unknown.status_code == 404
        large = ask_batch(desk, "maria", "k", [{"sql": COUNT + " " * 4_000}])
        assert large.status_code == 413 and desk.spent == 0
        nobody = desk.client.post(BATCH, content=(b" " * 1_000 for _ in range(100)))  # turned away before it is read
        assert nobody.status_code == 401


def test_a_batch_counts_as_many_requests(tmp_path):
    with counter(tmp_path, replace(EASY, rate=1.0, burst=3)) as desk:
        now = [0.0]
        desk.app.state.authenticator._key_limiter._now = lambda: now[0]
        rows = ask_batch(desk, "maria", "k", [{"sql": COUNT}] * 10).json()["outcomes"]
        assert len(rows) == 10 and all(row["answer"] for row in rows)  # a full bucket: none is refused
        late = ask_batch(desk, "maria", "l", [{"sql": COUNT}])
        assert late.status_code == 429 and 8 <= int(late.headers["retry-after"]) <= 9  # it owes seven of ten
        assert desk.ask("noor", "k").status_code == 200  # nobody else waits
        now[0] = 7.5
        assert desk.ask("maria", "l").status_code == 429
        now[0] = 8.0
        assert desk.ask("maria", "l").status_code == 200
        quotes = desk.client.post(
            QUOTES, json={"questions": [{"sql": COUNT, **TENTH}] * 5}, headers=desk.headers("noor")
        )
        assert quotes.status_code == 200
        assert desk.client.get("/v1/me", headers=desk.headers("noor")).status_code == 429


def test_a_thousand_questions_come_in_their_order(tmp_path):
    with counter(tmp_path, replace(EASY, batch=64, queue=1)) as desk:
        ages = [(number * 7) % 10 for number in range(1_000)]
        questions = [{"sql": older(30 + age) if age else "SELEKT", "epsilon": "0.01"} for age in ages]
        response = ask_batch(desk, "maria", "k", questions)
        assert response.status_code == 200 and response.headers["transfer-encoding"] == "chunked"
        rows = response.json()["outcomes"]
        assert [row["answer"]["sql"] if row["answer"] else "SELEKT" for row in rows] == [
            each["sql"] for each in questions
        ]
        assert desk.bank.account("people").state.measurements == 9
        assert desk.app.state.answers.active_questions == 0


def test_limits_of_analysts_hold_within_a_batch(tmp_path):
    with counter(tmp_path, limits="0.25") as desk:
        rows = ask_batch(desk, "maria", "k", [{"sql": older(30 + age)} for age in range(20)]).json()["outcomes"]
        paid = [row for row in rows if row["answer"]]
        assert 1 <= len(paid) < 20
        assert {problem_of(row) for row in rows if not row["answer"]} == {"view-exhausted"}
        view = desk.bank.account("people").view("maria")
        assert view.used <= view.limit
        assert outcomes_of(ask_batch(desk, "noor", "k", [{"sql": older(30)}]))[0]["answer"]["case"] == "REPEAT"


def test_quotes_cost_nothing_and_have_their_own_outcomes(desk):
    body = {"questions": [{"sql": COUNT, **TENTH}, {"sql": "SELEKT", **TENTH}, {"sql": COUNT}]}
    response = desk.client.post(QUOTES, json=body, headers=desk.headers("maria")).json()
    first, bad, unsaid = response["outcomes"]
    single = desk.client.post(QUOTES.replace(":batch", ""), json=body["questions"][0], headers=desk.headers("maria"))
    assert first == {"quote": single.json(), "problem": None} and response["together"] is None
    assert bad["problem"]["type"].endswith("bad-query") and unsaid["problem"]["parameter"] == "epsilon"
    assert desk.spent == 0
    whole = desk.client.post(QUOTES, json=body | {"atomic": True}, headers=desk.headers("maria"))
    assert whole.status_code == 422 and json.dumps(whole.json())
