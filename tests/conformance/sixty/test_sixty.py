"""Each of the sixty questions: answered with the right value on exact data, or refused with one that is answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.sixty.banks import ExampleBank, make_bank
from conformance.sixty.exact import ExactTables, find_difference
from conformance.sixty.shortfalls import SHORTFALLS
from conformance.stores import Store
from examples.questions import ExampleQuestion, Expectation, read_questions
from examples.worlds import WORLDS
from noisebank import Account, NoisebankError
from support.internals import BadQuery, UnsupportedQuery

ACCURACY = {"epsilon": "4", "delta": "1e-9"}


def find_shortfall(bank: ExampleBank, tables: ExactTables, question: ExampleQuestion) -> str:
    """Returns how a question comes out otherwise than it should; nothing if it does as it should."""
    answered = question.expect in (Expectation.ANSWER, Expectation.DECLARED)
    try:
        result = bank.account_for(question).ask(question.sql, **ACCURACY)
    except (BadQuery, UnsupportedQuery) as refusal:
        return f"refused: {refusal}" if answered else find_missing_help(bank.account_for(question), refusal)
    except NoisebankError as error:
        return f"{type(error).__name__}: {error}"
    if not answered:
        return "answered, which it should not be"
    return find_difference(question, result, tables.evaluate(question.name, question.sql))


def find_missing_help(account: Account, refusal: BadQuery | UnsupportedQuery) -> str:
    """Returns what is missing in a refusal: a question that can be answered, as SQL to paste."""
    if refusal.nearest is None:
        return "no question that can be answered is named"
    try:
        account.ask(refusal.nearest, **ACCURACY)
    except NoisebankError as error:
        return f"the question that is named is refused: {error}"
    return ""


@pytest.mark.parametrize("name", WORLDS)
def test_each_question_comes_out_as_it_should(name: str, bank_store: Store, tmp_path: Path) -> None:
    bank = make_bank(name, tmp_path, bank_store)
    tables = ExactTables.load(bank.world, bank.folder)
    found = {question.name: find_shortfall(bank, tables, question) for question in read_questions(name)}
    shortfalls = {question: text for question, text in found.items() if text}
    expected = {question for question in SHORTFALLS if question[0] == name[0].upper()}
    assert shortfalls.keys() == expected, "\n".join(f"{question}: {text}" for question, text in shortfalls.items())
