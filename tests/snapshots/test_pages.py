"""Every page of the service as it is sent to somebody in each role; the file takes about five seconds.

One visit to a small bank in which neither time nor chance moves, so that pages are compared to the byte: numbers,
pictures and forms too. What is random is not: identifiers and digests are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from noisebank.service.roles import Role
from snapshots.comparing import compact_json, hold_text
from snapshots.doors import NOW, Repeatable, form_token, still_bank
from support.internals import AccessControl, RequestLog, make_app
from support.patience import patience
from support.service import EASY, running

TOWNS = ("north", "south", "west")
ROWS = [
    f"{18 + 7 * i % 60},{37 * i % 900},{'true' if i % 3 else 'false'},{TOWNS[i % 3]},{i % 4 if i % 5 else ''}"
    for i in range(300)
]
POLICY = """\
name = "people"
source = "people.csv"
neighbours = "replace-one"
rows = 300
cubes = [["town", "age"]]
[budget]
epsilon = 4
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, 120]
bins = [30, 40, 50, 60]
[columns.income]
type = "integer"
bounds = [-100, 1000]
[columns.smoker]
type = "boolean"
[columns.town]
type = "text"
keys = ["north", "south"]
[columns.children]
type = "integer"
bounds = [0, 10]
nullable = true
[queries]
smokers = "SELECT COUNT(*) FROM people WHERE smoker"
income = "SELECT AVG(income) FROM people"
"""
CONSOLE, LEDGER, STATEMENT = "/d/people/console", "/d/people/ledger", "/d/people/statement"
BUILT = {"how": "built", "function": "count", "by": "privacy", "epsilon": "0.2", "delta": "1e-6", "confidence": "0.95"}
ASKED = {
    "count": {**BUILT, "where1_column": "smoker", "where1_sign": "=", "where1_value": "true"},
    "sum": {**BUILT, "function": "sum", "column": "income", "where1_column": "age", "where1_sign": ">=",
            "where1_value": "40"},
    "average": {**BUILT, "how": "named", "named": "income", "epsilon": "0.5"},
    "groups": {**BUILT, "group": "town", "where2_column": "children", "where2_sign": "<", "where2_value": "3"},
    "within": {**BUILT, "by": "accuracy", "within": "60", "moved": "within", "where1_column": "smoker",
               "where1_sign": "=", "where1_value": "true"},
    "slider": {**BUILT, "by": "accuracy", "slide": "30", "moved": "slide", "confidence": "0.9"},
    "relative": {**BUILT, "by": "relative", "percent": "60", "sure": "0.9", "floor": "9000", "function": "sum",
                 "column": "income"},
    "share": {**BUILT, "by": "spend", "share": "2", "surely": "0.99", "where1_column": "town", "where1_sign": "<>",
              "where1_value": "north"},
    "sql": {**BUILT, "how": "sql", "sql": "SELECT smoker, MEDIAN(age), COUNT(*) FROM people GROUP BY smoker"},
    "again": {**BUILT, "epsilon": "0.1", "where1_column": "smoker", "where1_sign": "=", "where1_value": "true"},
}  # fmt: skip
"""What the console's form holds when it is sent, in this order."""
WRONG = {
    "no column": {**BUILT, "function": "sum"},
    "no bounds": {**BUILT, "function": "avg", "column": "town"},
    "another function": {**BUILT, "function": "max"},
    "no such column": {**BUILT, "where1_column": "shoe", "where1_sign": "=", "where1_value": "1"},
    "a sign for numbers": {**BUILT, "where1_column": "town", "where1_sign": "<", "where1_value": "north"},
    "no value": {**BUILT, "where1_column": "age", "where1_sign": "<", "where1_value": ""},
    "no number": {**BUILT, "where1_column": "age", "where1_sign": "<", "where1_value": "old"},
    "no key": {**BUILT, "where1_column": "town", "where1_sign": "=", "where1_value": "east"},
    "no groups": {**BUILT, "group": "income"},
    "no question": {**BUILT, "how": "sql", "sql": "  "},
    "bad sql": {**BUILT, "how": "sql", "sql": "SELECT COUNT(*) FROM people WHERE shoe > 3"},
    "no named one": {**BUILT, "how": "named", "named": "x"},
    "no epsilon": {**BUILT, "epsilon": "", "delta": "2"},
    "too dear": {**BUILT, "epsilon": "30"},
    "no share": {**BUILT, "by": "spend", "share": "-1", "surely": "0.5"},
    "no percent": {**BUILT, "by": "relative", "percent": "100", "floor": "x"},
    "no place": {**BUILT, "by": "accuracy", "moved": "slide", "slide": "left"},
}  # fmt: skip
SEEN = {
    "nobody": ("/", "/sign-in?next=/d/people", "/d/people", LEDGER, "/nothing", "/learning"),
    "owner": (
        "/", STATEMENT, LEDGER, f"{LEDGER}?cursor=4", CONSOLE, "/sessions", f"{STATEMENT}/curve.json",
        f"{STATEMENT}/entries.csv", f"{STATEMENT}/statement.json", f"{STATEMENT}/nothing", "/d/nowhere",
        "/v1/analysts", "/v1/datasets/people/statement", "/v1/datasets/people/entries?limit=5", "/v1/datasets",
    ),
    "curator": (STATEMENT, "/sessions", CONSOLE),
    "auditor": (LEDGER, STATEMENT),
    "maria": (
        CONSOLE, f"{CONSOLE}/history", f"{CONSOLE}/history.csv", "/sessions", "/v1/me", "/v1/datasets/people/balance",
        "/v1/datasets/people/answers?limit=4",
    ),
}  # fmt: skip
COUNT, PLAIN = "SELECT COUNT(*) FROM people WHERE smoker", {"epsilon": "0.1", "delta": "1e-6"}
AT, ANALYSTS = "/v1/datasets/people", "/v1/analysts"
SENT: tuple[tuple[str, str, str, Any], ...] = (
    ("maria", "POST", f"{AT}/quotes", {"sql": COUNT, "within": "9"}),
    ("maria", "POST", f"{AT}/quotes", {"sql": COUNT, "epsilon": "0.15", "delta": "1e-6"}),
    ("owner", "POST", f"{AT}/quotes", {"sql": "SELECT AVG(income) FROM people WHERE age < 50", "within": "90"}),
    ("maria", "POST", f"{AT}/answers", {"sql": COUNT, **PLAIN, "mode": "best"}),
    ("maria", "POST", f"{AT}/answers", {"sql": COUNT, "epsilon": "0.6", "delta": "1e-6", "max_cost": "1%"}),
    ("maria", "POST", f"{AT}/answers", {"sql": COUNT, "epsilon": "0.6", "delta": "1e-6", "max_cost": "0.00001"}),
    ("maria", "POST", f"{AT}/answers", {"sql": "SELECT MIN(age), STDDEV(age) FROM people WHERE smoker", **PLAIN}),
    ("maria", "POST", f"{AT}/answers", {"sql": "SELECT AVG(income) FROM people WHERE town = 'north'", "within": "300"}),
    ("owner", "POST", f"{AT}/answers", {"sql": "income", "relative": "0.9", "floor": "400", "confidence": "0.6"}),
    ("maria", "POST", f"{AT}/quotes:batch", {"questions": [{"sql": COUNT, **PLAIN}, {"sql": "x", **PLAIN}]}),
    ("maria", "POST", f"{AT}/quotes:batch",
     {"questions": [{"sql": "SELECT COUNT(*) FROM people WHERE age > 20"}, {"sql": "income"}], "spend": "1%"}),
    ("maria", "POST", f"{AT}/quotes:batch", {"atomic": True, "questions": [
        {"sql": "SELECT COUNT(*) FROM people WHERE age > 33", **PLAIN}, {"sql": "income", **PLAIN}]}),
    ("maria", "POST", f"{AT}/answers:batch", {"questions": [
        {"sql": COUNT, **PLAIN}, {"sql": "SELECT COUNT(*) FROM nobody", **PLAIN},
        {"sql": "SELECT SUM(children) FROM people", **PLAIN, "key": "own"}]}),
    ("maria", "POST", f"{AT}/answers:batch", {"atomic": True, "questions": [
        {"sql": "SELECT COUNT(*) FROM people WHERE age > 33", **PLAIN}, {"sql": "income", **PLAIN}]}),
    ("maria", "POST", f"{AT}/answers:batch", {"atomic": True, "questions": [{"sql": COUNT, **PLAIN, "key": "k"}]}),
    ("maria", "POST", f"{AT}/answers:batch",
     {"questions": [{"sql": "SELECT COUNT(*) FROM people WHERE age > 44"}, {"sql": "income"}], "spend": "2%"}),
    ("maria", "GET", f"{AT}/balance", None), ("owner", "GET", f"{AT}/balance", None), ("owner", "GET", AT, None),
    ("maria", "GET", f"{AT}/answers?limit=3", None), ("maria", "GET", f"{AT}/answers?limit=3&cursor=6", None),
    ("maria", "GET", f"{AT}/answers?cursor=x", None), ("maria", "GET", f"{AT}/answers/12", None),
    ("maria", "GET", f"{AT}/answers/{'12' * 32}", None), ("owner", "GET", f"{AT}/statement?limit=3", None),
    ("nobody", "GET", f"{AT}/entries?limit=2&cursor=3", None), ("nobody", "GET", "/v1/ledger/head", None),
    ("nobody", "GET", "/v1/health", None), ("nobody", "GET", "/v1/ready", None), ("auditor", "GET", "/v1/me", None),
    ("owner", "POST", ANALYSTS, {"name": "zoe", "role": "analyst", "wallet": "0x" + "5a" * 20, "must_sign": True}),
    ("owner", "POST", ANALYSTS, {"name": "zoe"}), ("owner", "POST", ANALYSTS, {"name": "owner"}),
    ("owner", "POST", ANALYSTS, {"name": "ann", "must_sign": True}),
    ("owner", "PUT", f"{ANALYSTS}/zoe/limits/people", {"epsilon": "1"}),
    ("owner", "PUT", f"{ANALYSTS}/zoe/limits/people", {"epsilon": "-1"}),
    ("owner", "PUT", f"{ANALYSTS}/curator/limits/people", {"epsilon": "1"}),
    ("owner", "PUT", f"{ANALYSTS}/maria/limits/people", {"epsilon": "0"}),
    ("owner", "POST", f"{ANALYSTS}/zoe/keys", {"label": "laptop", "scopes": ["quote"], "days": 3}),
    ("owner", "POST", f"{ANALYSTS}/zoe/keys", {"scopes": ["manage"]}), ("owner", "GET", f"{ANALYSTS}/zoe/keys", None),
    ("owner", "PUT", f"{ANALYSTS}/zoe/wallet", {"wallet": None}), ("owner", "POST", f"{ANALYSTS}/zoe/disable", None),
    ("owner", "GET", f"{ANALYSTS}/zoe", None), ("owner", "POST", f"{ANALYSTS}/zoe/enable", None),
    ("owner", "DELETE", f"{ANALYSTS}/zoe/keys/none", None), ("owner", "GET", ANALYSTS, None),
    ("owner", "GET", "/v1/sessions", None), ("maria", "DELETE", "/v1/sessions/none", None),
    ("maria", "POST", f"{AT}/answers", {"sql": "SELECT COUNT(*) FROM people WHERE age > 70", **PLAIN}),
    ("nobody", "POST", "/v1/sign-in/nonce", {"address": "0x" + "11" * 20}),
    ("nobody", "POST", "/v1/sign-in", {"message": "no", "signature": "0x" + "00" * 65}),
    ("nobody", "POST", "/v1/receipts/check", {"receipt": {"format": 1}}), ("owner", "GET", "/v1/metrics", None),
)  # fmt: skip
"""To the API, in this order; what a request says comes back in the answers that follow."""
WHOLE = {("nobody", "/"), ("owner", "/"), ("maria", CONSOLE)}
"""Of the others, only what differs from page to page is compared."""
MOVING = re.compile(r"^#|_bucket|_sum|_created|process_|python_|seconds|in_flight|version")
"""Lines of metrics that say how long something took, or what they are."""
MAIN = re.compile("<main.*?</main>", re.DOTALL)


class Visitor:
    """Sends requests for people by name, and tidies what comes back."""

    def __init__(self, client: httpx.Client, keys: dict[str, str]) -> None:
        self.client, self.keys = client, keys

    def read(self, who: str, path: str, form: dict[str, str] | None = None, part: bool = False) -> str:
        """A page, or with a form what comes of sending it; `part` is what htmx asks for."""
        headers = {"authorization": f"Bearer {self.keys[who]}"} if who != "nobody" else {}
        headers |= {"cookie": "noisebank_form=visitor"} | ({"hx-request": "true"} if part else {})
        if form is None:
            response = self.client.get(path, headers=headers)
        else:
            response = self.client.post(path, data={"token": form_token("visitor"), **form}, headers=headers)
        place = f" to {response.headers['location']}" if "location" in response.headers else ""
        kind = response.headers.get("content-type", "nothing")
        text = response.text if (who, path) in WHOLE else "\n".join(MAIN.findall(response.text)) or response.text
        return f"== {who} {path}: {response.status_code}{place}, {kind}\n{tidy_page(text)}"

    def send(self, number: int, who: str, method: str, path: str, body: Any) -> str:
        """What the API replies; JSON on few lines."""
        headers = {"authorization": f"Bearer {self.keys[who]}"} if who != "nobody" else {}
        response = self.client.request(method, path, json=body, headers=headers | {"idempotency-key": f"sent {number}"})
        is_json = "json" in response.headers.get("content-type", "")
        text = compact_json(without_receipts(response.json())) if is_json and response.text else response.text
        if path == "/v1/metrics":
            text = "\n".join(line for line in text.splitlines() if not MOVING.search(line))
        return f"== {who} {method} {path}: {response.status_code}\n{tidy_page(text)}"


def act(visitor: Visitor) -> Iterator[str]:
    """What people do on pages besides asking: verify, check receipts, look again, download, sign in and out."""
    newest = visitor.client.get(f"{AT}/answers?limit=1", headers={"authorization": f"Bearer {visitor.keys['maria']}"})
    id = newest.json()["answers"][0]["id"]
    receipt = visitor.client.get(f"{AT}/answers/{id}", headers={"authorization": f"Bearer {visitor.keys['maria']}"})
    good: dict[str, Any] = receipt.json()["parts"][0]["receipt"]
    for head in ("", "?head=abc"):
        yield visitor.read("owner", f"{LEDGER}/verify{head}")
    altered = {**good, "answer": {**good["answer"], "unit": "2"}}
    for text in ("", "{", "[]", "[1]", json.dumps(good), json.dumps([good, altered])):
        yield visitor.read("nobody", f"{LEDGER}/receipt", {"receipt": text}, part=bool(text))
    for path in (f"answers/{id}", f"answers/{id}/answer.csv", f"answers/{id}/nothing", "shown/groups/answer.csv",
                 "shown/none/answer.csv", "answers/12"):  # fmt: skip
        yield visitor.read("maria", f"{CONSOLE}/{path}")
    yield visitor.read("maria", f"{CONSOLE}/answers/{id}", part=True)
    yield visitor.read("maria", f"{CONSOLE}/to-sign", {**ASKED["count"], "key": "signed"})
    yield visitor.read("maria", f"{CONSOLE}/to-sign", {**WRONG["no column"], "key": "signed"})
    yield visitor.read("maria", f"{CONSOLE}/ask", {**ASKED["count"], "key": ""})
    yield visitor.read("maria", f"{CONSOLE}/ask", {**ASKED["count"], "key": "k", "max_cost": "0", "epsilon": "2"})
    yield visitor.read("maria", f"{CONSOLE}/ask", {**ASKED["count"], "key": "k", "token": "of somebody else"})
    for key in ("", "a word", "nbk_nobody", f" {visitor.keys['auditor']} "):
        yield visitor.read("nobody", "/sign-in", {"key": key, "next": "//elsewhere"})
    yield visitor.read("nobody", "/sign-in", {"key": visitor.keys["maria"], "next": "/d/people"})
    yield visitor.read("nobody", "/sign-in/wallet", {"message": "me", "signature": "0x"})
    yield visitor.read("nobody", "/sign-out", {})
    for path in ("of/noor/disable", "of/noor/enable", "of/nobody/disable", "none/end"):
        yield visitor.read("owner", f"/sessions/{path}", {})
    yield visitor.read("maria", "/sessions/of/noor/disable", {})


def without_receipts(value: Any) -> Any:
    """They repeat the rest."""
    if isinstance(value, dict):
        return {name: without_receipts(part) for name, part in value.items() if name not in ("receipt", "request")}
    return [without_receipts(part) for part in value] if isinstance(value, list) else value


def tidy_page(text: str) -> str:
    """Without identifiers, digests, and digits that another processor may compute differently."""
    text = re.sub(r"(\?v=)?(0x)?[0-9a-f]{12,}(…[0-9a-f]+)?|\b[0-9a-f]{10}…", "(id)", text)
    text = re.sub(r"-?\d+\.\d{6,}(e-?\d+)?", lambda number: f"{float(number[0]):.5g}", text)
    text = re.sub(r"\bnbk_[\w-]+", "(key)", text)
    text = re.sub(r"noisebank \d+\.\d+\.\d+\S*", "noisebank (version)", text)
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder: Path = tmp_path_factory.mktemp("pages")
    (folder / "people.csv").write_text("\n".join(["age,income,smoker,town,children", *ROWS]) + "\n")
    (folder / "people.toml").write_text(POLICY)
    entropy = Repeatable()
    with still_bank(folder / "bank", entropy) as bank:
        account = bank.open_account(folder / "people.toml")
        settings = replace(EASY, bank=bank.folder, origin="http://testserver")
        access = AccessControl(bank.folder / "access.sqlite", entropy, lambda: float(NOW))
        app = make_app(bank, settings, RequestLog(), entropy, access)
        keys = {"owner": access.make_key("owner")[0]}
        for name, role in (("curator", Role.CURATOR), ("auditor", Role.AUDITOR), ("maria", Role.ANALYST)):
            access.add_person(name, role)
            keys[name] = access.make_key(name)[0]
        access.add_person("noor", Role.ANALYST)
        access.make_session("maria", 3600, access.list_keys("maria")[0].id)
        app.state.operations.set_limit("people", access.find_person("maria"), "3")
        with running(app) as address, httpx.Client(base_url=address, timeout=patience()) as client:
            yield dict(visit(Visitor(client, keys), account.id.hex()))


def visit(visitor: Visitor, account: str) -> Iterator[tuple[str, str]]:
    yield "empty", "\n".join(visitor.read("owner", path) for path in (STATEMENT, LEDGER, "/d/people"))
    quotes, answers = [], []
    for name, form in ASKED.items():
        quotes.append(f"-- {name}\n" + visitor.read("maria", f"{CONSOLE}/quote", form))
        answers.append(f"-- {name}\n" + visitor.read("maria", f"{CONSOLE}/ask", {**form, "key": name}, part=True))
    yield "quotes", "\n".join(quotes)
    yield "answers", "\n".join(answers)
    yield "answer-page", visitor.read("owner", f"{CONSOLE}/ask", {**ASKED["groups"], "key": "owner"})
    wrong = [f"-- {name}\n" + visitor.read("maria", f"{CONSOLE}/quote", form) for name, form in WRONG.items()]
    wrong += [visitor.read("maria", f"{CONSOLE}/ask", {**WRONG[name], "key": "w"}) for name in ("no value", "too dear")]
    yield "wrong-forms", "\n".join(wrong)
    yield "actions", "\n".join(act(visitor))
    yield "replies", "\n".join(visitor.send(number, *request) for number, request in enumerate(SENT))
    for who, paths in SEEN.items():
        yield f"pages-{who}", "\n".join(visitor.read(who, path) for path in paths)


@pytest.mark.parametrize(
    "part",
    [
        "empty",
        "quotes",
        "answers",
        "answer-page",
        "wrong-forms",
        "actions",
        "replies",
        *(f"pages-{who}" for who in SEEN),
    ],
)
def test_pages_are_sent_as_they_were(seen: dict[str, str], part: str) -> None:
    hold_text(f"pages/{part}.txt", seen[part])
