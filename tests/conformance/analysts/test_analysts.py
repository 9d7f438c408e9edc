"""Questions that analysts write, in five worlds: the right value without noise, or a refusal that helps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance.analysts.questions import HEADLINE, AnalystQuestion, find_difference, read_questions
from conformance.analysts.worlds import ALL_WORLDS, HERE, TYPES
from conformance.sixty import banks
from conformance.sixty.banks import NOW, ExampleBank
from conformance.sixty.exact import ExactTables
from conformance.stores import Store
from examples.questions import ExampleQuestion, Expectation
from noisebank import Account, NoisebankError
from support.internals import BadQuery, UnsupportedQuery

ACCURACY = {"epsilon": "4", "delta": "1e-9"}


@pytest.fixture
def november(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the day of the examples, by every clock."""
    monkeypatch.setattr("noisebank.queries.current_time.clock_now", lambda zone: NOW.replace(tzinfo=None))
    for name, types in TYPES.items():
        monkeypatch.setitem(banks.TYPES, name, types)


def list_shortfalls(bank: ExampleBank, tables: ExactTables, questions: list[AnalystQuestion]) -> list[str]:
    """Returns which questions come out otherwise than they should, and how."""
    texts = ((question, find_shortfall(bank, tables, question)) for question in questions)
    return [f"{question.name}: {text}" for question, text in texts if text]


def find_shortfall(bank: ExampleBank, tables: ExactTables, question: AnalystQuestion) -> str:
    """Returns how a question comes out otherwise than it should; nothing if it does as it should."""
    account = account_of(bank, question)
    try:
        result = account.ask(question.sql, **ACCURACY)
    except (BadQuery, UnsupportedQuery) as refusal:
        if question.is_answered:
            return f"refused: {refusal}"
        return "" if question.expect == "public" else find_missing_help(account, refusal)
    except NoisebankError as error:
        return f"{type(error).__name__}: {error}"
    if not question.is_answered:
        return "answered, which it should not be"
    return find_difference(question, result, tables.evaluate(question.name, question.exact_sql))


def find_missing_help(account: Account, refusal: BadQuery | UnsupportedQuery) -> str:
    """Returns what is missing in a refusal: a question that can be answered, as SQL to paste."""
    if refusal.nearest is None:
        return f"no question that can be answered is named: {refusal}"
    try:
        account.ask(refusal.nearest, **ACCURACY)
    except NoisebankError as error:
        return f"{refusal.nearest} is refused: {error}"
    return ""


def account_of(bank: ExampleBank, question: AnalystQuestion) -> Account:
    names = "|".join(bank.world.policies)
    table = re.search(rf'(?i)FROM\s+"?(?:public\.)?({names})\b', question.sql)
    assert table is not None, question.name
    return bank.account_for(ExampleQuestion("", Expectation.ANSWER, f"FROM {table[1].lower()}"))


@pytest.mark.parametrize("name", ALL_WORLDS)
@pytest.mark.usefixtures("november")
def test_analysts_get_the_right_value_or_help(name: str, tmp_path: Path) -> None:
    bank = ExampleBank(ALL_WORLDS[name], tmp_path)
    tables = ExactTables.load(bank.world, bank.folder)
    shortfalls = list_shortfalls(bank, tables, read_questions(HERE / name / "questions.sql"))
    assert not shortfalls, "\n".join(shortfalls)


@pytest.mark.parametrize("bank_store", ["postgresql", pytest.param("spark", marks=pytest.mark.extras)], indirect=True)
@pytest.mark.usefixtures("november")
def test_other_engines_work_out_the_same(bank_store: Store, tmp_path: Path) -> None:
    """The web shop: differences of days and clocks, texts of dates and keys, codes, missing values."""
    bank = ExampleBank(ALL_WORLDS["shop"], tmp_path, bank_store)
    tables = ExactTables.load(bank.world, bank.folder)
    questions = [each for each in read_questions(HERE / "shop" / "questions.sql") if each.is_answered]
    shortfalls = list_shortfalls(bank, tables, questions)
    assert not shortfalls, "\n".join(shortfalls)


def test_most_questions_are_answered() -> None:
    """The lists do not become lists of refusals: four of five are answered, and every headline is read."""
    texts = [(HERE / name / "questions.sql").read_text(encoding="utf-8") for name in ALL_WORLDS]
    questions = [each for name in ALL_WORLDS for each in read_questions(HERE / name / "questions.sql")]
    assert len(questions) == sum(len(re.findall(r"(?m)^-- [A-Z]\d{3}", text)) for text in texts)
    assert len(questions) == sum(bool(HEADLINE.fullmatch(line)) for text in texts for line in text.splitlines())
    assert len({question.name for question in questions}) == len(questions) > 400
    assert sum(question.is_answered for question in questions) > 0.8 * len(questions)
