"""docs/reference/sql.md is held to the parser."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest

from noisebank.core.errors import Misuse
from noisebank.policy.file import parse_policy
from noisebank.queries.current_time import write_moment
from noisebank.queries.selects import parse_select_aggregates
from support.paths import ROOT

PAGE = (ROOT / "docs" / "reference" / "sql.md").read_text()
POLICY = parse_policy(re.search(r"```toml policy\n(.*?)```", PAGE, re.DOTALL)[1], Path())  # type: ignore[index]


def lines(kind: str) -> list[str]:
    blocks = re.findall(rf"```sql {kind}\n(.*?)```", PAGE, re.DOTALL)
    return [line for block in blocks for line in block.strip().splitlines()]


@pytest.mark.parametrize("sql", lines("answered"))
def test_what_the_page_says_is_answered(sql: str) -> None:
    fixed = write_moment(sql, datetime(2026, 11, 18))
    assert all(item.questions for item in parse_select_aggregates(fixed, POLICY))


@pytest.mark.parametrize("line", lines("refused"))
def test_what_the_page_says_is_refused_with_the_word(line: str) -> None:
    sql, _, word = line.partition(" -- ")
    with pytest.raises(Misuse) as refused:
        parse_select_aggregates(sql, POLICY)
    assert word.lower() in str(refused.value).lower()


def test_there_is_enough_on_the_page() -> None:
    assert len(lines("answered")) >= 20 and len(lines("refused")) >= 20
