"""Questions that analysts write, in five worlds: the right value without noise, or a refusal that helps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance.analysts.questions import HEADLINE, read_questions
from conformance.analysts.worlds import ALL_WORLDS, HERE, TYPES
from conformance.shortfalls import Oracle, list_shortfalls
from conformance.sixty import banks
from conformance.sixty.banks import NOW, ExampleBank
from conformance.sixty.exact import ExactTables
from conformance.stores import Store


@pytest.fixture
def november(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the day of the examples, by every clock."""
    monkeypatch.setattr("noisebank.queries.current_time.clock_now", lambda zone: NOW.replace(tzinfo=None))
    for name, types in TYPES.items():
        monkeypatch.setitem(banks.TYPES, name, types)


def oracle_of(tables: ExactTables) -> Oracle:
    return lambda question: tables.evaluate(question.name, question.exact_sql)


@pytest.mark.parametrize("name", ALL_WORLDS)
@pytest.mark.usefixtures("november")
def test_analysts_get_the_right_value_or_help(name: str, tmp_path: Path) -> None:
    bank = ExampleBank(ALL_WORLDS[name], tmp_path)
    tables = ExactTables.load(bank.world, bank.folder)
    shortfalls = list_shortfalls(bank, oracle_of(tables), read_questions(HERE / name / "questions.sql"))
    assert not shortfalls, "\n".join(shortfalls)


@pytest.mark.parametrize("bank_store", ["postgresql", pytest.param("spark", marks=pytest.mark.extras)], indirect=True)
@pytest.mark.usefixtures("november")
def test_other_engines_work_out_the_same(bank_store: Store, tmp_path: Path) -> None:
    """The web shop: differences of days and clocks, texts of dates and keys, codes, missing values."""
    bank = ExampleBank(ALL_WORLDS["shop"], tmp_path, bank_store)
    tables = ExactTables.load(bank.world, bank.folder)
    questions = [each for each in read_questions(HERE / "shop" / "questions.sql") if each.is_answered]
    shortfalls = list_shortfalls(bank, oracle_of(tables), questions)
    assert not shortfalls, "\n".join(shortfalls)


def test_most_questions_are_answered() -> None:
    """The lists do not become lists of refusals: four of five are answered, and every headline is read."""
    texts = [(HERE / name / "questions.sql").read_text(encoding="utf-8") for name in ALL_WORLDS]
    questions = [each for name in ALL_WORLDS for each in read_questions(HERE / name / "questions.sql")]
    assert len(questions) == sum(len(re.findall(r"(?m)^-- [A-Z]\d{3}", text)) for text in texts)
    assert len(questions) == sum(bool(HEADLINE.fullmatch(line)) for text in texts for line in text.splitlines())
    assert len({question.name for question in questions}) == len(questions) > 400
    assert sum(question.is_answered for question in questions) > 0.8 * len(questions)
