"""The HTTP service on a real server: openapi.json, shapes of answers, problems, metrics, log lines, live events.

One visit in a fixed order; the tests compare its parts, in any order.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from snapshots.comparing import hold_json, shape_of
from snapshots.doors import copy_bank, served
from support.patience import patience

WISH = {"epsilon": "0.01", "delta": "1e-6"}
COUNT = "SELECT COUNT(*) FROM people WHERE age > 44"
AT = "/v1/datasets/people"
GOOD = {"sql": COUNT, **WISH}
PARTS = ("openapi", "entries", "shapes", "problems", "metrics", "events", "log")


class Visitor:
    """Somebody at the service, with one key for each role."""

    def __init__(self, client: httpx.Client, keys: dict[str, str], log: Path) -> None:
        self.client, self.keys, self.log = client, keys, log

    def send(self, who: str | None, method: str, path: str, body: Any = None, key: str | None = None) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.keys[who]}"} if who else {}
        headers |= {"idempotency-key": key} if key else {}
        return self.client.request(method, path, json=body, headers=headers)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    shell = copy_bank(tmp_path_factory.mktemp("served"))
    for name in ("people", "clinic"):
        shell.json("open", f"tables/{name}.toml", "--next", name, "--same")
    keys = {name: shell.json("key", "make", name)["secret"] for name in ("owner", "maria")}
    for role in ("curator", "auditor"):
        keys[role] = shell.json("key", "make", role, "--role", role)["secret"]
    settings = {"rate": 1000, "burst": 1000, "max_body": 4096}
    with served(shell, **settings) as (address, log), httpx.Client(base_url=address, timeout=patience()) as client:
        visitor = Visitor(client, keys, log)
        return {
            "openapi": visitor.send(None, "GET", "/v1/openapi.json").json(),
            "entries": visitor.send("owner", "GET", f"{AT}/entries?limit=60").json(),
            "shapes": see_shapes(visitor),
            "problems": see_problems(visitor),
            "metrics": see_metrics(visitor),
            "events": see_events(visitor),
            "log": see_log(visitor),
        }


@pytest.mark.parametrize("part", PARTS)
def test_what_the_service_says(seen: dict[str, Any], part: str) -> None:
    """`entries` holds the ids of queries as the ledger has them."""
    hold_json(f"service/{part}.json", seen[part])


def see_shapes(visitor: Visitor) -> dict[str, Any]:
    known = visitor.send("owner", "GET", f"{AT}/entries").json()["entries"][-1]["id"]
    asks = {
        "number": COUNT,
        "groups": "SELECT town, COUNT(*) FROM people GROUP BY town",
        "derived": "SELECT AVG(income) FROM people WHERE smoker",
        "several": "SELECT MEDIAN(age), MODE(town) FROM people",
    }
    got: dict[str, httpx.Response] = {}
    for name, sql in asks.items():
        body = {"sql": sql, **WISH}
        got[f"ask {name}"] = visitor.send("owner", "POST", f"{AT}/answers", body, name)
        got[f"quote {name}"] = visitor.send("owner", "POST", f"{AT}/quotes", body)
    relative = {"sql": "SELECT SUM(income) FROM people", "relative": "0.9", "floor": "40000", "confidence": "0.6"}
    got["ask relative"] = visitor.send("owner", "POST", f"{AT}/answers", relative, "relative")
    cube = {"sql": "SELECT COUNT(*) FROM clinic WHERE age < 48", **WISH}
    got["ask cube"] = visitor.send("owner", "POST", "/v1/datasets/clinic/answers", cube, "cube")
    got["POST analysts"] = visitor.send("owner", "POST", "/v1/analysts", {"name": "noor", "role": "analyst"})
    got["POST keys"] = visitor.send("owner", "POST", "/v1/analysts/noor/keys", {"label": "one"})
    got["PUT limits"] = visitor.send("owner", "PUT", "/v1/analysts/noor/limits/people", {"epsilon": "0.5"})
    got["PUT wallet"] = visitor.send("owner", "PUT", "/v1/analysts/noor/wallet", {"wallet": "0x" + "11" * 20})
    got["POST disable"] = visitor.send("owner", "POST", "/v1/analysts/noor/disable")
    got["POST enable"] = visitor.send("owner", "POST", "/v1/analysts/noor/enable")
    got["POST nonce"] = visitor.send(None, "POST", "/v1/sign-in/nonce", {"address": "0x" + "11" * 20})
    for path in (
        "/v1/health", "/v1/ready", "/v1/datasets", AT, "/v1/me", f"{AT}/balance", f"{AT}/entries", f"{AT}/statement",
        f"{AT}/answers", f"{AT}/answers/{known}", "/v1/ledger/head", "/v1/analysts", "/v1/analysts/maria",
        "/v1/analysts/maria/keys", "/v1/sessions", "/v1/learning",
    ):  # fmt: skip
        got[f"GET {path.replace(known, 'ID')}"] = visitor.send("owner", "GET", path)
    receipt = got["ask number"].json()["parts"][0]["receipt"]
    got["POST receipts/check"] = visitor.send("owner", "POST", "/v1/receipts/check", {"receipt": receipt})
    return {name: [answer.status_code, shape_of(answer.json())] for name, answer in got.items()}


def see_problems(visitor: Visitor) -> list[Any]:
    asked = [
        ("owner", {}),
        ("owner", {**GOOD, "sql": "x" * 5000}),
        ("owner", {**GOOD, "more": 1}),
        ("owner", {**GOOD, "sql": "nonsense"}),
        ("owner", {**GOOD, "sql": "SELECT COUNT(*) FROM people LIMIT 1"}),
        ("owner", {**GOOD, "epsilon": "0"}),
        ("owner", {**GOOD, "epsilon": "50"}),
        ("maria", {**GOOD, "epsilon": "2"}),
        ("owner", {**GOOD, "epsilon": "0.4", "max_cost": "0.00001"}),
        ("auditor", GOOD),
        (None, GOOD),
    ]
    tries: list[tuple[str | None, str, str, Any]] = [
        (None, "GET", "/v1/nonsense", None),
        (None, "DELETE", "/v1/health", None),
        (None, "GET", f"{AT}/balance", None),
        ("curator", "POST", f"{AT}/quotes", GOOD),
        ("maria", "GET", "/v1/analysts", None),
        ("owner", "POST", f"{AT}/answers", GOOD),
        ("owner", "GET", f"{AT}/answers/{'00' * 32}", None),
        ("owner", "POST", "/v1/analysts", {"name": "maria"}),
        ("owner", "POST", "/v1/analysts", {"name": "a b"}),
        ("owner", "GET", "/v1/analysts/stranger", None),
        ("owner", "PUT", "/v1/analysts/maria/limits/people", {"epsilon": "-1"}),
        ("owner", "DELETE", "/v1/analysts/maria/keys/none", None),
        ("owner", "DELETE", "/v1/sessions/none", None),
        (None, "POST", "/v1/sign-in", {"message": "m", "signature": "0x00"}),
        ("owner", "POST", "/v1/receipts/check", {"receipt": {}}),
        ("owner", "GET", "/v1/learning/none", None),
    ]
    found = [(path, visitor.send(who, method, path, body)) for who, method, path, body in tries]
    found += [("ask", visitor.send(who, "POST", f"{AT}/answers", body, f"p{n}")) for n, (who, body) in enumerate(asked)]
    other = {**GOOD, "sql": "SELECT COUNT(*) FROM people WHERE age > 45"}
    found += [("reused key", visitor.send("owner", "POST", f"{AT}/answers", other, "number"))]
    found += [("nowhere", visitor.send("owner", "POST", "/v1/datasets/nowhere/answers", GOOD, "q"))]
    return [
        [path, got.status_code, got.headers["content-type"], {k: v for k, v in got.json().items() if k != "request"}]
        for path, got in found
    ]


def see_metrics(visitor: Visitor) -> dict[str, Any]:
    lines = visitor.send("owner", "GET", "/v1/metrics").text.splitlines()
    names = {(line.split("{")[0].split()[0], *re.findall(r'(\w+)="', line)) for line in lines if line[:1] != "#"}
    return {"names": sorted(names), "described": sorted(line for line in lines if line[:1] == "#")}


def see_events(visitor: Visitor) -> list[Any]:
    headers = {"authorization": f"Bearer {visitor.keys['owner']}"}
    with visitor.client.stream("GET", f"{AT}/events", headers=headers) as stream:
        lines = stream.iter_lines()
        event, data = next(lines), next(lines)
        return [stream.headers["content-type"], event, shape_of(json.loads(data.removeprefix("data: ")))]


def see_log(visitor: Visitor) -> list[Any]:
    """Keys of the lines. The newest may still be on their way: those of this request are waited for."""
    told = visitor.send(None, "GET", "/v1/nonsense").json()["request"]
    while told not in (text := visitor.log.read_text()):
        visitor.send(None, "GET", "/v1/health")
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
    return sorted({(line["event"], *line) for line in lines})
