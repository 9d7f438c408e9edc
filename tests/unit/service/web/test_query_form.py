"""The form's controls as SQL: each of its three conditions counts, alone and together."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from noisebank.account.account import Account
from noisebank.service.web.query_form import QueryForm, build_sql, form_choices
from support.banks import memory_account, write_people

CONDITIONS = {1: ("age", ">=", "30"), 2: ("town", "=", "north"), 3: ("income", "<", "500")}
AS_SQL = {1: "age >= 30", 2: "town = 'north'", 3: "income < 500"}


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return memory_account(write_people(tmp_path))


@pytest.mark.parametrize("chosen", [rows for count in range(4) for rows in combinations((1, 2, 3), count)])
def test_every_condition_that_is_filled_in_is_in_the_question_once(account: Account, chosen: tuple[int, ...]) -> None:
    fields = {"function": "count"}
    for row in chosen:
        fields |= dict(
            zip((f"where{row}_{part}" for part in ("column", "sign", "value")), CONDITIONS[row], strict=True)
        )
    where = " AND ".join(AS_SQL[row] for row in chosen)
    assert build_sql(QueryForm(fields), account) == "SELECT COUNT(*) FROM people" + (f" WHERE {where}" if where else "")


def test_the_page_offers_as_many_conditions_as_are_read(account: Account) -> None:
    assert tuple(form_choices(account)["conditions"]) == (1, 2, 3)
