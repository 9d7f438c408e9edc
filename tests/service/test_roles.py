"""Who may do what: every route of the OpenAPI, every role. A route that nobody thought of fails here."""

from __future__ import annotations

import pytest

from support.service import COUNT, Counter, counter

NOBODY, EVERYBODY = frozenset(), frozenset({None, "owner", "carl", "aude", "maria"})
SIGNED_IN = EVERYBODY - {None}
ASKERS, READERS, OWNER = frozenset({"owner", "maria"}), frozenset({"owner", "carl"}), frozenset({"owner"})
WISH = {"sql": COUNT, "epsilon": "0.1", "delta": "1e-6"}

MATRIX = {
    ("GET", "/v1/health"): (EVERYBODY, None),
    ("GET", "/v1/ready"): (EVERYBODY, None),
    ("GET", "/v1/datasets"): (EVERYBODY, None),
    ("GET", "/v1/datasets/{dataset}"): (EVERYBODY, None),
    ("GET", "/v1/me"): (SIGNED_IN, None),
    ("GET", "/v1/metrics"): (READERS, None),
    ("POST", "/v1/datasets/{dataset}/quotes"): (ASKERS, WISH),
    ("POST", "/v1/datasets/{dataset}/answers"): (ASKERS, WISH),
    ("POST", "/v1/datasets/{dataset}/quotes:batch"): (ASKERS, {"questions": [WISH]}),
    ("POST", "/v1/datasets/{dataset}/answers:batch"): (ASKERS, {"questions": [WISH]}),
    ("GET", "/v1/datasets/{dataset}/answers"): (ASKERS, None),
    ("GET", "/v1/datasets/{dataset}/answers/{id}"): (ASKERS, None),
    ("GET", "/v1/datasets/{dataset}/balance"): (SIGNED_IN, None),
    ("GET", "/v1/datasets/{dataset}/events"): (SIGNED_IN, None),
    ("GET", "/v1/datasets/{dataset}/entries"): (EVERYBODY, None),
    ("GET", "/v1/datasets/{dataset}/statement"): (READERS, None),
    ("GET", "/v1/ledger/head"): (EVERYBODY, None),
    ("GET", "/v1/ledger/journal"): (EVERYBODY, None),
    ("POST", "/v1/receipts/check"): (EVERYBODY, {"receipt": {}}),
    ("GET", "/v1/learning"): (EVERYBODY, None),
    ("GET", "/v1/learning/{task}"): (EVERYBODY, None),
    ("GET", "/v1/learning/{task}/rounds/{number}"): (EVERYBODY, None),
    ("GET", "/v1/analysts"): (OWNER, None),
    ("POST", "/v1/analysts"): (OWNER, {"name": "new"}),
    ("GET", "/v1/analysts/{name}"): (OWNER, None),
    ("PUT", "/v1/analysts/{name}/wallet"): (OWNER, {"wallet": None}),
    ("PUT", "/v1/analysts/{name}/limits/{dataset}"): (OWNER, {"epsilon": "1"}),
    ("GET", "/v1/analysts/{name}/keys"): (OWNER, None),
    ("POST", "/v1/analysts/{name}/keys"): (OWNER, {}),
    ("DELETE", "/v1/analysts/{name}/keys/{id}"): (OWNER, None),
    ("POST", "/v1/analysts/{name}/disable"): (OWNER, None),
    ("POST", "/v1/analysts/{name}/enable"): (OWNER, None),
    ("GET", "/v1/sessions"): (SIGNED_IN, None),
    ("DELETE", "/v1/sessions/{id}"): (SIGNED_IN, None),
    ("POST", "/v1/sign-in/nonce"): (EVERYBODY, {"address": "0x" + "11" * 20}),
    ("POST", "/v1/sign-in"): (EVERYBODY, {"message": "no", "signature": "0x"}),
    ("DELETE", "/v1/sign-in"): (SIGNED_IN, None),
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    from dataclasses import replace

    from support.service import EASY

    with counter(tmp_path_factory.mktemp("roles"), replace(EASY, stream_seconds=0.01)) as made:
        yield made


def _routes(desk: Counter) -> list[tuple[str, str]]:
    paths = desk.client.get("/v1/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def test_the_matrix_knows_every_route(desk):
    assert sorted(_routes(desk)) == sorted(MATRIX)


@pytest.mark.parametrize(("method", "path"), sorted(MATRIX))
def test_only_who_may(desk, method, path):
    allowed, body = MATRIX[method, path]
    address = path.replace("{dataset}", "people").replace("{name}", "noor").replace("{id}", "00" * 32)
    for who in (None, "owner", "carl", "aude", "maria"):
        spent = desk.spent
        said = desk.client.request(method, address, json=body, headers=desk.headers(who, f"{who} {path}"))
        turned_away = said.status_code in (401, 403) and said.json()["type"].endswith(("not-signed-in", "not-allowed"))
        assert turned_away == (who not in allowed), (who, said.status_code, said.text)
        assert said.status_code < 500
        if turned_away:
            assert desk.spent == spent
            assert said.headers["content-type"] == "application/problem+json"
            assert said.status_code == (401 if who is None else 403)


def test_a_key_opens_only_its_scopes(desk):
    secret, _ = desk.access.make_key("maria", _scopes("quote"))
    headers = {"authorization": f"Bearer {secret}", "idempotency-key": "k"}
    assert desk.client.post("/v1/datasets/people/quotes", json=WISH, headers=headers).status_code == 200
    assert desk.client.post("/v1/datasets/people/answers", json=WISH, headers=headers).status_code == 403


def test_the_owner_sees_what_each_analyst_may_learn_and_has_learned(tmp_path):
    with counter(tmp_path) as desk:
        cost = desk.ask("maria", "a").json()["charge"]["cost"]
        people = desk.client.get("/v1/analysts", headers=desk.headers("owner")).json()["analysts"]
        views = {person["name"]: person["views"] for person in people}
        assert [views[name] for name in ("owner", "carl", "aude")] == [[], [], []]
        (maria,), (noor,) = views["maria"], views["noor"]
        assert (maria["dataset"], maria["used"], noor["used"]) == ("people", cost, "0")
        assert maria["limit"] == noor["limit"] != "0"
        by_name = desk.client.get("/v1/analysts/maria", headers=desk.headers("owner")).json()
        assert by_name["views"] == [maria] and by_name["role"] == "analyst" and by_name["disabled"] is None


def _scopes(*names: str):
    from support.internals import Scope

    return [Scope(name) for name in names]
