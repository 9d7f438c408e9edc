"""docs/explanation/threat-model.md names every public field: those of the open routes, of events, metrics and log."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.internals import LibraryLog, RequestLog
from support.paths import ROOT
from support.service import Counter, counter

PAGE = (ROOT / "docs" / "explanation" / "threat-model.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## Field by field\n")[1].split("\n## ")[0]
HTTP, LEDGER, LEARNING, INSIDE = re.split(r"\n\*\*(?:On the ledger|Of learning|For owner)", SECTION)
OPEN = (
    "/v1/health", "/v1/ready", "/v1/datasets", "/v1/datasets/{dataset}", "/v1/ledger/head", "/v1/receipts/check",
    "/v1/datasets/{dataset}/entries", "/v1/learning", "/v1/learning/{task}", "/v1/learning/{task}/rounds/{number}",
)  # fmt: skip
UNDESCRIBED = {"/v1/openapi.json", "/v1/ledger/journal"}
"""Open as well: the description itself, and the events line by line."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    with counter(tmp_path_factory.mktemp("threats")) as made:
        yield made


def names_in(part: str) -> set[str]:
    return set(re.findall(r"`([A-Za-z_]+)`", part))


def list_fields(description: dict[str, Any], schema: Any, seen: set[str]) -> Iterator[str]:
    """All fields of a schema and of those that it refers to."""
    for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schema)):
        if name not in seen:
            seen.add(name)
            properties = description["components"]["schemas"][name].get("properties", {})
            yield from properties
            yield from list_fields(description, properties, seen)


def test_the_open_routes_are_those_that_are_listed(desk: Counter) -> None:
    """Whoever has no key gets 401 everywhere else."""
    description = desk.client.get("/v1/openapi.json").json()
    for path, operations in description["paths"].items():
        for method in operations:
            if path in OPEN or path in UNDESCRIBED or path.startswith("/v1/sign-in"):
                continue
            address = re.sub(r"\{dataset\}", "people", path)
            said = desk.client.request(method, re.sub(r"\{\w+\}", "x", address), json={})
            assert said.status_code == 401, (method, path, said.status_code)


def test_every_field_of_an_open_route_is_named(desk: Counter) -> None:
    description = desk.client.get("/v1/openapi.json").json()
    for path in OPEN:
        for operation in description["paths"][path].values():
            fields = set(list_fields(description, operation["responses"]["200"], set()))
            assert fields
            part = LEARNING if "learning" in path else HTTP
            assert fields <= names_in(part), (path, fields - names_in(part))
    for path in ("/v1/datasets", "/v1/datasets/people", "/v1/ledger/head", "/v1/datasets/people/entries"):
        shown = desk.client.get(path).json()
        assert set(shown) <= names_in(HTTP), path
    problem = desk.client.get("/v1/datasets/nobody").json()
    assert set(problem) <= names_in(HTTP)


@pytest.mark.parametrize(
    ("name", "part"), [("budget_ledger", LEDGER), ("anchors", LEDGER), ("model_registry", LEARNING)]
)
def test_every_event_and_its_values_are_named(name: str, part: str) -> None:
    raw = json.loads((ROOT / "src" / "noisebank" / "ledger" / f"{name}.json").read_text())
    events = [entry for entry in raw["abi"] if entry["type"] == "event"]
    assert events
    for event in events:
        rows = [row for row in part.splitlines() if f"`{event['name']}`" in row]
        assert len(rows) == 1, event["name"]
        values = {value["name"] for value in event["inputs"]}
        assert values <= names_in(rows[0]), (event["name"], values - names_in(rows[0]))


def test_every_metric_label_and_fact_of_the_log_is_named(desk: Counter) -> None:
    desk.ask("maria", "k")
    desk.client.get("/v1/datasets/nobody")
    text = desk.client.get("/v1/metrics", headers=desk.headers("owner")).text
    metrics = {re.sub(r"_total$", "", name) for name in re.findall(r"^# HELP (\w+)", text, re.MULTILINE)}
    labels = {label for labels in re.findall(r"\{(.*?)\} ", text) for label in re.findall(r"(\w+)=", labels)} - {"le"}
    assert metrics and {re.sub(r"_created$", "", name) for name in metrics} | labels <= names_in(INSIDE)
    stream = io.StringIO()
    log = RequestLog(stream)
    log.write_failure("r", ValueError("secret"))
    LibraryLog(log).emit(logging.LogRecord("other", logging.WARNING, "x.py", 1, "secret", None, None))
    lines = [*desk.lines(), *map(json.loads, stream.getvalue().splitlines())]
    assert {line["event"] for line in lines} >= {"request", "failure", "library"}
    assert {fact for line in lines for fact in line} <= names_in(INSIDE)
    assert "secret" not in stream.getvalue()
