"""Thousands of requests made up from the OpenAPI: no 5xx, nothing that the description does not promise."""

from __future__ import annotations

from collections import Counter as Counted
from dataclasses import replace

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.internals import learn_model, list_tasks, open_task
from support.learning import table, task
from support.patience import patience
from support.service import EASY, counter

FEW, MANY = 12, 800
"""A route; there are 31, and some of them have only a few requests that differ: 400 made 7,609."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with counter(tmp_path_factory.mktemp("schema"), replace(EASY, stream_seconds=0.01), epsilon="8") as made:
        account = open_task(made.bank.parts, task())
        learn_model(account.task, *table(20), account)
        yield made


def _try(desk, cases: int) -> int:
    schema = schemathesis.openapi.from_url(f"{desk.client.base_url}/v1/openapi.json")
    done, seen, learned = 0, Counted[int](), list_tasks(desk.bank.parts)[0].id.hex()
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(max_examples=cases, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @_given(operation)
        def one(case):
            nonlocal done
            done += 1
            who = ("owner", "maria", "carl", None)[done % 4]
            for name, value in (
                ("dataset", "people"),
                ("name", "noor"),
                ("task", learned),
            ):  # half of them reach the bank
                if name in (case.path_parameters or {}) and done % 2:
                    case.path_parameters[name] = value
            headers = dict(case.headers or {}) | desk.headers(who)
            said = case.call(headers=headers, timeout=patience(300))
            assert said.status_code < 500, (said.status_code, said.text)
            seen[said.status_code] += 1
            case.validate_response(said, checks=CHECKS)

        one()
    assert min(seen[200], seen[401], seen[403], seen[404], seen[422]) > done // 100, seen  # every kind was reached
    return done


def _given(operation):
    from hypothesis import given

    return given(case=operation.as_strategy())


CHECKS = [not_a_server_error, response_schema_conformance, content_type_conformance, status_code_conformance]


def test_a_few_hundred_made_up_requests(desk):
    assert _try(desk, FEW) >= 150


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_made_up_requests(desk):
    assert _try(desk, MANY) >= 10_000
    assert desk.bank.account("people").state.spent <= desk.bank.account("people").state.budget
