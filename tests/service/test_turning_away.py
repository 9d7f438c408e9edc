"""Bad input, wrong keys, wrong clocks, too fast, too much: a clear problem each, and nothing spent."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from noisebank.service import errors
from support.internals import make_sign_in_message
from support.patience import patience, wait_until
from support.results import single
from support.service import COUNT, EASY, WALLET, counter

WISH = {"sql": COUNT, "epsilon": "0.5", "delta": "1e-6"}
ASK = "/v1/datasets/people/answers"
WINDOW = 600.0
"""Seconds that clocks may differ, and that a nonce lives: however long a test takes, it is inside."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with counter(tmp_path_factory.mktemp("away"), replace(EASY, nonce_seconds=WINDOW, skew_seconds=WINDOW)) as made:
        yield made


def _turned(said, name):
    assert said.headers["content-type"] == "application/problem+json", said.text
    body = said.json()
    assert body["type"] == errors.TYPE_PREFIX + name and body["status"] == said.status_code, body
    assert body["detail"] and body["title"] and body["request"] == said.headers["x-request-id"]
    assert "Traceback" not in said.text
    return body


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"sql": "SELEKT", "epsilon": "1", "delta": "1e-6"}, "bad-query"),
        ({"sql": "SELECT median_of_it(age) FROM people", "epsilon": "1", "delta": "1e-6"}, "unsupported-query"),
        ({"sql": "SELECT * FROM people", "epsilon": "1", "delta": "1e-6"}, "unsupported-query"),
        ({**WISH, "epsilon": "-1"}, "bad-request"),
        ({**WISH, "epsilon": "NaN"}, "bad-request"),
        ({**WISH, "epsilon": "1e999"}, "bad-request"),
        ({**WISH, "within": "5"}, "bad-request"),
        ({**WISH, "max_cost": "-1"}, "bad-request"),
        ({"sql": COUNT}, "bad-request"),
        ({**WISH, "epsilom": "1"}, "bad-body"),
        ({**WISH, "sql": ""}, "bad-body"),
        ({**WISH, "sql": "x" * 10_001}, "bad-body"),
        ({**WISH, "mode": "better"}, "bad-body"),
        ([], "bad-body"),
        (None, "wrong-media"),
    ],
)
def test_bodies(desk, body, name):
    spent = desk.spent
    _turned(desk.client.post(ASK, json=body, headers=desk.headers("maria", f"bad {body}"[:100])), name)
    assert desk.spent == spent


def test_forms_media_and_sizes(desk):
    headers = desk.headers("maria", "k")
    _turned(desk.client.post(ASK, content=json.dumps(WISH), headers=headers), "wrong-media")
    _turned(desk.client.post(ASK, data={"sql": COUNT}, headers=headers), "wrong-media")
    typed = headers | {"content-type": "application/json"}
    _turned(desk.client.post(ASK, content=b"{not json", headers=typed), "bad-body")
    _turned(desk.client.post(ASK, content=b"\xff\xfe", headers=typed), "bad-body")
    _turned(desk.client.post(ASK, content=b"[" * 30_000, headers=typed), "bad-body")
    _turned(desk.client.post(ASK, content=b" " * 70_000, headers=typed), "too-large")
    chunks = (b" " * 1_000 for _ in range(100))
    _turned(desk.client.post(ASK, content=chunks, headers=typed), "too-large")
    _turned(desk.client.post(ASK, json=WISH, headers=desk.headers("maria")), "key-missing")
    _turned(desk.client.post(ASK, json=WISH, headers=desk.headers("maria", "k" * 200)), "bad-body")
    _turned(desk.client.delete("/v1/datasets/people"), "method-not-allowed")
    _turned(desk.client.get("/v1/nothing"), "not-found")
    _turned(desk.client.get("/v1/datasets/nothing"), "not-found")
    _turned(desk.client.get("/v1/datasets/people/entries?limit=0"), "bad-body")
    _turned(desk.client.get("/v1/datasets/people/entries?cursor=abc"), "bad-request")
    assert desk.spent == 0


def test_keys_that_open_nothing(desk):
    for secret in ("nonsense", "nbk_", "nbk_" + "A" * 43, "nbs_" + "A" * 43, "nbk_\u00e9"):
        said = desk.client.post(
            ASK, json=WISH, headers={"authorization": f"Bearer {secret}".encode(), "idempotency-key": "k"}
        )
        body = _turned(said, "not-signed-in")
        assert said.headers["www-authenticate"].startswith("Bearer") and secret not in body["detail"]
    secret, facts = desk.access.make_key("maria")
    headers = {"authorization": f"Bearer {secret}"}
    assert desk.client.get("/v1/me", headers=headers).status_code == 200
    revoke = f"/v1/analysts/maria/keys/{facts.id}"
    assert desk.client.delete(revoke, headers=desk.headers("owner")).status_code == 204
    _turned(desk.client.get("/v1/me", headers=headers), "not-signed-in")
    secret, _ = desk.access.make_key("maria", seconds=1)
    desk.access._now = lambda: time.time() + 5
    try:
        _turned(desk.client.get("/v1/me", headers={"authorization": f"Bearer {secret}"}), "not-signed-in")
    finally:
        desk.access._now = time.time


def test_secrets_are_kept_as_digests_only(desk):
    secret = desk.keys["maria"]
    for path in desk.bank.folder.glob("access.sqlite*"):
        assert secret.encode() not in path.read_bytes() and secret[4:].encode() not in path.read_bytes()
    listed = desk.client.get("/v1/analysts/maria/keys", headers=desk.headers("owner"))
    assert secret[4:] not in listed.text


# -- wallets ---------------------------------------------------------------------------------


def _account():
    from eth_account import Account

    return Account.from_key(WALLET)


def _signed(text: str) -> str:
    from eth_account.messages import encode_defunct

    return "0x" + bytes(_account().sign_message(encode_defunct(text=text)).signature).hex()


@pytest.fixture(scope="module")
def wallet(desk):
    from noisebank.service.roles import Role

    desk.access.add_person("wanda", Role.ANALYST, _account().address)
    desk.app.state.operations.set_limit("people", desk.access.find_person("wanda"), "1")
    return _account().address


def _nonce(desk, address):
    return desk.client.post("/v1/sign-in/nonce", json={"address": address}).json()


def _sign_in(desk, message, signature=None):
    body = {"message": message, "signature": signature or _signed(message)}
    return desk.client.post("/v1/sign-in", json=body)


def test_a_wallet_signs_in_and_out(desk, wallet):
    made = _nonce(desk, wallet)
    session = _sign_in(desk, made["message"]).json()
    headers = {"authorization": f"Bearer {session['token']}"}
    assert desk.client.get("/v1/me", headers=headers).json()["name"] == "wanda"
    _turned(_sign_in(desk, made["message"]), "bad-signature")  # replayed
    assert desk.client.delete("/v1/sign-in", headers=headers).status_code == 204
    _turned(desk.client.get("/v1/me", headers=headers), "not-signed-in")


def test_messages_that_do_not_hold(desk, wallet):
    chain = desk.bank.ledger.chain_id
    settings = desk.app.state.settings

    def message(domain=settings.domain, uri=settings.address, address=wallet, chain=chain, when=0.0, nonce=None):
        nonce = nonce or _nonce(desk, wallet)["nonce"]
        return make_sign_in_message(domain, uri, address, chain, nonce, time.time() + when)

    assert _sign_in(desk, message()).status_code == 200
    for wrong in (
        message(domain="evil.example"), message(uri="https://evil.example"), message(chain=chain + 1),
        message(when=3 * WINDOW), message(when=-3 * WINDOW), message(nonce="0" * 32),
        message().replace("Version: 1", "Version: 2"), message() + "\nResources:\n- x", "", "x" * 1_900,
        message().replace("Issued At: 2", "Issued At: x"),
    ):  # fmt: skip
        _turned(_sign_in(desk, wrong), "bad-signature")
    good = message()
    _turned(_sign_in(desk, good, "0x" + "00" * 65), "bad-signature")
    _turned(_sign_in(desk, good, "0x12"), "bad-signature")
    _turned(_sign_in(desk, good, "zz"), "bad-signature")
    other = message(address="0x" + "11" * 20)
    _turned(_sign_in(desk, other), "bad-signature")
    late = _nonce(desk, wallet)["message"]
    desk.access._now = lambda: time.time() + 3 * WINDOW
    try:
        _turned(_sign_in(desk, late), "bad-signature")
    finally:
        desk.access._now = time.time


def test_a_wallet_that_nobody_has(desk, wallet):
    from eth_account import Account
    from eth_account.messages import encode_defunct

    stranger = Account.from_key(b"\x09" * 32)
    text = _nonce(desk, stranger.address)["message"]
    signature = "0x" + bytes(stranger.sign_message(encode_defunct(text=text)).signature).hex()
    _turned(_sign_in(desk, text, signature), "not-allowed")


def _agreed(desk, key, max_cost, deadline, sql=COUNT, signer=WALLET):
    from eth_account import Account

    from support.internals import QuoteIn, Spend, signed_accuracy, typed_spend

    account = desk.bank.account("people")
    spend = Spend(account.id, sql, signed_accuracy(QuoteIn(**{**WISH, "sql": sql})), key, max_cost, deadline)
    typed = typed_spend(spend, account.ledger.chain_id, account.ledger.contract)
    signature = "0x" + bytes(Account.sign_typed_data(signer, full_message=typed).signature).hex()
    return {"max_cost_units": str(max_cost), "deadline": deadline, "signature": signature}


def test_spending_agreed_to_by_a_wallet(desk, wallet):
    """The reference signer of the field and ours agree on what is signed (EIP-712)."""
    secret, _ = desk.access.make_key("wanda")
    soon = int(time.time() + WINDOW)

    def ask(key, agreed, **more):
        headers = {"authorization": f"Bearer {secret}", "idempotency-key": key}
        return desk.client.post(ASK, json={**WISH, **more, "agreed": agreed}, headers=headers)

    spent = desk.spent
    _turned(ask("a", _agreed(desk, "a", 1, soon)), "price-moved")
    _turned(ask("b", _agreed(desk, "other", 10**18, soon)), "bad-signature")
    _turned(ask("c", _agreed(desk, "c", 10**18, soon - int(3 * WINDOW))), "bad-signature")
    _turned(ask("d", _agreed(desk, "d", 10**18, soon, signer=b"\x09" * 32)), "bad-signature")
    _turned(ask("e", _agreed(desk, "e", 10**18, soon) | {"max_cost_units": str(2 * 10**18)}), "bad-signature")
    _turned(ask("f", _agreed(desk, "f", 10**18, soon), epsilon="0.6"), "bad-signature")
    assert desk.spent == spent
    assert ask("g", _agreed(desk, "g", 10**18, soon)).status_code == 200
    desk.access._write_row("UPDATE people SET must_sign = 1 WHERE name = ?", ("wanda",))
    headers = {"authorization": f"Bearer {secret}", "idempotency-key": "h"}
    _turned(desk.client.post(ASK, json=WISH, headers=headers), "bad-signature")


# -- too fast, too much ----------------------------------------------------------------------


def test_too_fast(tmp_path):
    with counter(tmp_path, replace(EASY, rate=0.5, burst=3, open_rate=0.5, open_burst=2)) as desk:
        for limiter in (desk.app.state.authenticator._key_limiter, desk.app.state.authenticator._address_limiter):
            limiter._now = lambda: 0.0  # nothing becomes due, however long a request takes
        for who, free in (("maria", 3), (None, 2)):
            for _ in range(free):
                assert desk.client.get("/v1/datasets", headers=desk.headers(who)).status_code == 200
            said = desk.client.get("/v1/datasets", headers=desk.headers(who))
            _turned(said, "too-many-requests")
            assert said.status_code == 429 and 1 <= int(said.headers["retry-after"]) <= 3
        assert desk.client.get("/v1/datasets", headers=desk.headers("noor")).status_code == 200
        assert desk.client.get("/v1/health").status_code == 200


def test_too_much_at_once(tmp_path):
    with counter(tmp_path, replace(EASY, batch=1, queue=1)) as desk:
        gate = threading.Event()
        account = desk.bank.account("people")
        real = account.ask_many

        def ask_many(requests, *, atomic=False):
            assert gate.wait(patience())
            return real(requests, atomic=atomic)

        account.ask_many = ask_many
        with ThreadPoolExecutor(6) as pool:
            asked = [pool.submit(desk.ask, "maria", f"k{number}") for number in range(6)]
            wait_until(lambda: sum(each.done() for each in asked) >= 4, "four are turned away")
            quote = desk.client.post(ASK.replace("answers", "quotes"), json=WISH, headers=desk.headers("maria"))
            nobody = desk.client.post(ASK, content=b"{not json")
            batch = desk.client.post(f"{ASK}:batch", content=b"{not json", headers=desk.headers("maria", "b"))
            gate.set()
            said = sorted(each.result().status_code for each in asked)
        assert said == [200, 200, 503, 503, 503, 503]
        refused = next(each.result() for each in asked if each.result().status_code == 503)
        assert quote.status_code == 200  # prices need no table
        for each in (refused, nobody, batch):  # turned away unread
            assert _turned(each, "overloaded") | {"request": ""} == _turned(refused, "overloaded") | {"request": ""}
            assert each.headers["retry-after"] == "2" and each.headers["cache-control"] == "no-store"


def test_nothing_secret_in_logs_or_errors(tmp_path):
    """Canaries: a value only the table has, the keys, the question, the noise."""
    with counter(tmp_path, limits="1") as desk:
        question = "SELECT sum(income) FROM people WHERE town = 'north' AND age > 77"
        answer = desk.ask("maria", "k", question)
        texts = [
            desk.ask("maria", f"x{n}", sql).text
            for n, sql in enumerate(
                (
                    "SELECT income FROM people",
                    "'; DROP",
                    "SELECT sum(income/0) FROM people",
                    "SELECT count(*) FROM people WHERE income = 'canary7'",
                )
            )
        ]
        desk.ask("maria", "more", "SELECT sum(age) FROM people", epsilon="3.9")
        account = desk.bank.account("people")
        account.engine.identity = lambda: 1 / 0  # a mistake of ours, in the middle of the path
        failed = desk.ask("noor", "f", "SELECT sum(age) FROM people WHERE age > 33")
        assert failed.status_code == 500 and _turned(failed, "failed")
        log = desk.log.getvalue()
        assert len(desk.lines()) >= 6 and any(line["event"] == "failure" for line in desk.lines())
        rows = (tmp_path / "people.csv").read_text().splitlines()
        for canary in (
            "age >",
            "income",
            "canary7",
            "north",
            "division by zero",
            single(answer.json())["exact"],
            *desk.keys.values(),
            *rows[1:4],
        ):
            assert canary not in log.replace("0x", ""), canary
        for canary in (*desk.keys.values(), "division", "Traceback", "site-packages"):
            assert canary not in failed.text and not any(canary in text for text in texts)
