"""Sessions end with what made them: key, wallet, limit, person; at once, at every door, also what is open."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import apsw
import httpx
import pytest
from click.testing import CliRunner
from eth_account import Account
from eth_account.messages import encode_defunct

from assurance.revoked_person import revoked_person
from noisebank.cli.main import main
from noisebank.service.auth import ACCESS_FILE
from noisebank.service.roles import Role
from support.internals import MAX_SESSIONS, AccessControl, ApiError, SystemEntropy
from support.patience import patience, wait_until
from support.results import single
from support.service import COUNT, EASY, Counter, counter


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with counter(tmp_path_factory.mktemp("revoking"), EASY) as made:
        yield made


class Wanda:
    """Somebody new with a wallet, a key and a limit."""

    count = 0

    def __init__(self, desk: Counter) -> None:
        Wanda.count += 1
        self.desk, self.name = desk, f"wanda{Wanda.count}"
        self.account = Account.from_key(bytes([Wanda.count]) * 32)
        self._owner("POST", "", {"name": self.name, "wallet": self.account.address})
        self._owner("PUT", f"/{self.name}/limits/people", {"epsilon": "1"})
        made = self._owner("POST", f"/{self.name}/keys", {})
        self.key, self.key_id = made["secret"], made["id"]

    def _owner(self, method: str, path: str, body: object = None) -> dict:
        said = self.desk.client.request(
            method, f"/v1/analysts{path}", json=body, headers=self.desk.headers("owner", "any")
        )
        assert said.status_code < 300, said.text
        return said.json() if said.content else {}

    def by_wallet(self) -> dict[str, str]:
        """A bearer token from the API's sign-in."""
        made = self.desk.client.post("/v1/sign-in/nonce", json={"address": self.account.address}).json()
        signature = self.account.sign_message(encode_defunct(text=made["message"])).signature
        body = {"message": made["message"], "signature": "0x" + bytes(signature).hex()}
        said = self.desk.client.post("/v1/sign-in", json=body)
        assert said.status_code == 200, said.text
        return {"authorization": f"Bearer {said.json()['token']}"}

    def by_cookie(self) -> dict[str, str]:
        """A cookie from the sign-in page, made with the key."""
        with httpx.Client(base_url=self.desk.client.base_url) as browser:
            token = re.search(r'name="token" value="([0-9a-f]+)"', browser.get("/sign-in").text)[1]
            assert browser.post("/sign-in", data={"token": token, "key": self.key}).status_code == 303
            return {"cookie": f"noisebank_session={browser.cookies['noisebank_session']}"}

    def opens(self, headers: dict[str, str]) -> bool:
        """Whether it opens the API, the console and an answer; all or none."""
        me = self.desk.client.get("/v1/me", headers=headers)
        page = self.desk.client.get("/d/people/console", headers=headers)
        body = {"sql": COUNT, "epsilon": "0.001", "delta": "1e-6"}
        quote = self.desk.client.post("/v1/datasets/people/quotes", json=body, headers=headers)
        ask = self.desk.client.post(
            "/v1/datasets/people/answers", json=body, headers=headers | {"idempotency-key": f"free {self.name}"}
        )
        said = [each.status_code for each in (me, page, quote, ask)]
        assert said in ([200] * 4, [401, 303, 401, 401]), said
        return said[0] == 200


@pytest.fixture
def wanda(desk):
    return Wanda(desk)


def test_a_session_ends_with_its_wallet_and_not_with_another(wanda):
    wallet, cookie = wanda.by_wallet(), wanda.by_cookie()
    assert wanda.opens(wallet) and wanda.opens(cookie)
    wanda._owner("PUT", f"/{wanda.name}/wallet", {"wallet": None})
    assert not wanda.opens(wallet)
    assert wanda.opens(cookie)  # made with a key, which is still good
    wanda._owner("PUT", f"/{wanda.name}/wallet", {"wallet": wanda.account.address})
    assert not wanda.opens(wallet)  # over is over
    second = wanda.by_wallet()
    wanda._owner("PUT", f"/{wanda.name}/wallet", {"wallet": "0x" + "99" * 20})
    assert not wanda.opens(second)


def test_a_session_ends_with_its_key(wanda):
    wallet, cookie = wanda.by_wallet(), wanda.by_cookie()
    assert wanda.opens(cookie)
    wanda._owner("DELETE", f"/{wanda.name}/keys/{wanda.key_id}")
    assert not wanda.opens(cookie) and wanda.opens(wallet)


def test_a_lowered_limit_ends_sessions_and_a_raised_one_does_not(wanda):
    wallet, cookie = wanda.by_wallet(), wanda.by_cookie()
    wanda._owner("PUT", f"/{wanda.name}/limits/people", {"epsilon": "1.5"})
    assert wanda.opens(wallet) and wanda.opens(cookie)
    again = wanda.by_wallet()
    wanda._owner("PUT", f"/{wanda.name}/limits/people", {"epsilon": "0.5"})
    wanda._owner("PUT", f"/{wanda.name}/limits/people", {"epsilon": "1.5"})
    assert not wanda.opens(again) and not wanda.opens(cookie)
    assert wanda.opens(wanda.by_wallet())  # limits are the ledger's to hold; signing in is not
    last = wanda.by_wallet()
    account = wanda.desk.bank.account("people")  # as another gateway would do it, which does not know this one's file
    account.ledger.set_limit(account.id, account.analyst(wanda.name), account.view(wanda.name).used.units)
    assert not wanda.opens(last)


def test_disabling_ends_everything_and_enabling_brings_keys_back(wanda):
    wallet, cookie, key = wanda.by_wallet(), wanda.by_cookie(), {"authorization": f"Bearer {wanda.key}"}
    assert all(wanda.opens(each) for each in (wallet, cookie, key))
    assert wanda._owner("POST", f"/{wanda.name}/disable")["disabled"] is not None
    assert not any(wanda.opens(each) for each in (wallet, cookie, key))
    with pytest.raises(AssertionError, match="not-allowed"):
        wanda.by_wallet()
    assert wanda._owner("POST", f"/{wanda.name}/enable")["disabled"] is None
    assert not wanda.opens(wallet) and not wanda.opens(cookie) and wanda.opens(key)
    assert wanda.opens(wanda.by_wallet())


def test_the_owner_cannot_be_disabled_and_nobody_is_not_found(desk):
    said = desk.client.post("/v1/analysts/owner/disable", headers=desk.headers("owner"))
    assert said.status_code == 422 and said.json()["parameter"] == "name"
    assert desk.client.post("/v1/analysts/nobody/disable", headers=desk.headers("owner")).status_code == 404


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_a_page_of_another_origin_cannot_use_the_owners_cookie(desk, wanda, site):
    """SameSite=Strict lets other ports and subdomains through, and a POST without a body is sent without asking us."""
    wanda.key = desk.keys["owner"]
    cookie, path = wanda.by_cookie(), f"/v1/analysts/{wanda.name}"
    for way in ("disable", "enable"):
        said = desk.client.post(
            f"{path}/{way}", headers=cookie | {"sec-fetch-site": site, "content-type": "text/plain"}
        )
        assert said.status_code == 403, said.text
    assert desk.access.find_person(wanda.name).disabled_since is None
    assert desk.client.get("/v1/me", headers=cookie | {"sec-fetch-site": site}).status_code == 200
    assert desk.client.post(f"{path}/disable", headers=cookie | {"sec-fetch-site": "same-origin"}).status_code == 200
    bearer = desk.headers("owner") | {"sec-fetch-site": site}  # a page that knows a key is let in by it
    assert desk.client.post(f"{path}/enable", headers=bearer).status_code == 200


def test_everybody_sees_and_ends_their_own_and_the_owner_all(desk, wanda):
    mine, other, theirs = wanda.by_wallet(), wanda.by_cookie(), Wanda(desk).by_wallet()

    def seen(headers: dict[str, str]) -> list[dict]:
        return desk.client.get("/v1/sessions", headers=headers).json()["sessions"]

    listed = seen(mine)
    assert [each["person"] for each in listed] == [wanda.name] * 2 and [each["current"] for each in listed] == [1, 0]
    assert (listed[0]["wallet"], listed[1]["key"]) == (wanda.account.address.lower(), wanda.key_id)
    assert len(seen(desk.headers("owner"))) > 2 and not any("token" in each for each in listed)
    strange = seen(theirs)[0]["id"]
    assert desk.client.delete(f"/v1/sessions/{strange}", headers=mine).status_code == 404
    assert desk.client.delete(f"/v1/sessions/{listed[1]['id']}", headers=mine).status_code == 204
    assert not wanda.opens(other) and wanda.opens(mine)
    assert desk.client.delete(f"/v1/sessions/{strange}", headers=desk.headers("owner")).status_code == 204
    assert desk.client.get("/v1/me", headers=theirs).status_code == 401
    assert desk.client.delete(f"/v1/sessions/{listed[0]['id']}", headers=mine).status_code == 204  # the one at hand
    assert not wanda.opens(mine)


def test_an_open_stream_ends_with_the_session(desk, wanda):
    headers = wanda.by_wallet()
    with desk.client.stream("GET", "/v1/datasets/people/events", headers=headers) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: balance"
        wanda._owner("POST", f"/{wanda.name}/disable")
        assert desk.ask("maria", "moves the balance", epsilon="0.01").status_code == 200
        assert "event: balance" not in list(lines)  # it ended, and nothing was told after the end


def test_what_is_under_way_is_finished_for_the_owner_and_what_waits_is_not_begun(desk, monkeypatch):
    wanda, let_go, charged = Wanda(desk), threading.Event(), threading.Event()
    answers, order = desk.app.state.answers, []
    account = desk.bank.account("people")
    real = account.ask_many

    def slow(requests, *, atomic=False):
        outcomes = real(requests, atomic=atomic)
        order.extend(request.key for request in requests)
        charged.set()
        assert let_go.wait(patience())
        return outcomes

    headers, before = {"authorization": f"Bearer {wanda.key}"}, desk.spent

    def ask(key: str, epsilon: str) -> httpx.Response:
        body = {"sql": COUNT, "epsilon": epsilon, "delta": "1e-6"}
        with httpx.Client(base_url=desk.client.base_url, timeout=patience()) as client:
            return client.post("/v1/datasets/people/answers", json=body, headers=headers | {"idempotency-key": key})

    monkeypatch.setattr(account, "ask_many", slow)
    with ThreadPoolExecutor(3) as pool:
        working = pool.submit(ask, "working", "0.6")
        assert charged.wait(patience())
        waiting = [pool.submit(ask, f"waiting {each}", f"0.{each}") for each in (7, 9)]
        wait_until(lambda: answers.active_questions == 3, "two wait for the next batch")
        spent = desk.spent
        assert spent > before
        wanda._owner("POST", f"/{wanda.name}/disable")
        let_go.set()
        said = [each.result() for each in (working, *waiting)]
    assert [each.status_code for each in said] == [401] * 3
    assert all(each.json()["type"].endswith("access-ended") for each in said), [each.text for each in said]
    assert desk.spent == spent and order == ["working"]
    rows = desk.client.get("/v1/datasets/people/statement", headers=desk.headers("owner")).json()["entries"]
    (mine,) = [row for row in rows if row["analyst"] == wanda.name]
    assert mine["published"]
    kept = desk.client.get(f"/v1/datasets/people/answers/{mine['id']}", headers=desk.headers("owner")).json()
    read = single(kept)["value"]
    wanda._owner("POST", f"/{wanda.name}/enable")
    monkeypatch.undo()
    assert single(ask("working", "0.6").json())["value"] == read and desk.spent == spent


def test_the_command_line_ends_them_in_a_service_that_runs(desk, wanda):
    folder = str(desk.bank.folder)

    def run(*arguments: str, code: int = 0) -> dict:
        done = CliRunner().invoke(main, ["key", *arguments, "--bank", folder, "--json"])
        assert done.exit_code == code, done.output
        return json.loads(done.stdout) if code == 0 else {}

    headers, cookie = wanda.by_wallet(), wanda.by_cookie()
    listed = run("sessions", wanda.name)["sessions"]
    assert [each["wallet"] is None for each in listed] == [False, True]
    assert run("end", listed[1]["id"]) == {"ended": listed[1]["id"]} and not wanda.opens(cookie)
    assert run("disable", wanda.name) == {"disabled": wanda.name} and not wanda.opens(headers)
    assert run("sessions", wanda.name) == {"sessions": []}
    run("enable", wanda.name)
    run("end", listed[0]["id"], code=1)
    assert not wanda.opens(headers)
    # A wallet or role that would be ignored is an error, and makes no key.
    keys = len(run("list", wanda.name)["keys"])
    run("make", wanda.name, "--wallet", "0x" + "77" * 20, code=2)
    run("make", wanda.name, "--role", "curator", code=2)
    assert len(run("list", wanda.name)["keys"]) == keys
    run("make", wanda.name, "--wallet", wanda.account.address)


# -- the file ------------------------------------------------------------------------------------------


def test_a_session_ends_when_its_key_expires_and_never_outlives_itself(tmp_path):
    clock = [1_000.0]
    with closing(AccessControl(tmp_path / ACCESS_FILE, SystemEntropy(), lambda: clock[0])) as access:
        access.add_person("maria", Role.ANALYST)
        _, key = access.make_key("maria", seconds=50)
        session, facts = access.make_session("maria", 100, key=key.id)
        assert access.find_caller(session).session_id == facts.id
        clock[0] += 50
        assert access.find_caller(session) is None and access.list_sessions() == ()
        with pytest.raises(ApiError):
            access.make_session("maria", 100, key=key.id)
        _, owners = access.make_key("owner")
        with pytest.raises(ApiError):
            access.make_session("maria", 100, key=owners.id)  # somebody else's
        with pytest.raises(apsw.ConstraintError):
            access.make_session("maria", 100)  # of no origin


def test_two_processes_see_each_others_endings(tmp_path):
    with (
        closing(AccessControl(tmp_path / ACCESS_FILE, SystemEntropy())) as here,
        closing(AccessControl(tmp_path / ACCESS_FILE, SystemEntropy())) as there,
    ):
        here.add_person("maria", Role.ANALYST, "0x" + "11" * 20)
        session, facts = here.make_session("maria", 100, wallet="0x" + "11" * 20)
        assert there.find_caller(session) is not None
        there.end_session_by_id("maria", facts.id)
        assert here.find_caller(session) is None
        session, _ = here.make_session("maria", 100, wallet="0x" + "11" * 20)
        secret, _ = here.make_key("maria")
        assert here.find_caller(secret) is not None  # and cached: the next look may not wait
        there.disable_person("maria")
        assert here.find_caller(secret) is None and here.find_caller(session) is None
        with pytest.raises(ApiError):
            here.make_session("maria", 100, wallet="0x" + "11" * 20)


def test_sessions_of_one_person_are_few_and_the_oldest_ends(tmp_path):
    with closing(AccessControl(tmp_path / ACCESS_FILE, SystemEntropy())) as access:
        access.add_person("maria", Role.ANALYST)
        _, key = access.make_key("maria")
        _, owners = access.make_key("owner")
        kept, _ = access.make_session("owner", 100, key=owners.id)
        first, _ = access.make_session("maria", 100, key=key.id)
        for _ in range(MAX_SESSIONS):
            last, _ = access.make_session("maria", 100, key=key.id)
        assert access.find_caller(first) is None and access.find_caller(last) and access.find_caller(kept)
        assert len(access.list_sessions("maria")) == MAX_SESSIONS


def test_a_file_of_the_first_version_is_read_and_its_sessions_end(tmp_path):
    old = apsw.Connection(str(tmp_path / ACCESS_FILE))
    old.execute(
        "CREATE TABLE people (name TEXT PRIMARY KEY, role TEXT NOT NULL, wallet TEXT UNIQUE, "
        "must_sign INTEGER NOT NULL, made INTEGER NOT NULL) STRICT; "
        "CREATE TABLE sessions (digest BLOB PRIMARY KEY, person TEXT NOT NULL, key TEXT, expires INTEGER NOT NULL) "
        "STRICT; "
        "INSERT INTO people VALUES ('maria', 'analyst', NULL, 0, 5); "
        "INSERT INTO sessions VALUES (x'00', 'maria', NULL, 99999999999)"
    )
    old.close()
    for _ in range(2):
        with closing(AccessControl(tmp_path / ACCESS_FILE, SystemEntropy())) as access:
            assert access.find_person("maria").disabled_since is None and access.list_sessions() == ()
            assert [each.name for each in access.list_people()] == ["maria", "owner"]


def test_the_row_of_the_assurance_table_at_a_small_share():
    finding = revoked_person(0.001)
    assert finding.passed, (finding.figure, finding.planted)
