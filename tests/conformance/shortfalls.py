"""What comes out otherwise than it should, of lists of questions: shared by the lists of analysts and of reviewers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

from conformance.analysts.questions import AnalystQuestion, find_difference
from conformance.sixty.banks import ExampleBank
from conformance.sixty.test_sensitivity import parse
from examples.questions import ExampleQuestion, Expectation
from noisebank import Account, NoisebankError
from support.internals import BadQuery, UnsupportedQuery

ACCURACY = {"epsilon": "4", "delta": "1e-9"}
Oracle = Callable[[AnalystQuestion], list[tuple[Any, ...]]]
"""Returns the exact rows of a question."""


def list_shortfalls(bank: ExampleBank, oracle: Oracle, questions: Sequence[AnalystQuestion]) -> list[str]:
    """Returns which questions come out otherwise than they should, and how."""
    texts = ((question, find_shortfall(bank, oracle, question)) for question in questions)
    return [f"{question.name}: {text}" for question, text in texts if text]


def find_shortfall(bank: ExampleBank, oracle: Oracle, question: AnalystQuestion) -> str:
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
    return find_difference(question, result, oracle(question))


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
    """Returns the account whose table a question reads."""
    names = "|".join(bank.world.policies)
    table = re.search(rf'(?i)FROM\s+"?(?:public\.)?({names})\b', question.sql)
    assert table is not None, question.name
    return bank.account_for(ExampleQuestion("", Expectation.ANSWER, f"FROM {table[1].lower()}"))


def list_changes(
    bank: ExampleBank, questions: Sequence[ExampleQuestion], before: Sequence[Any], after: Sequence[Any]
) -> list[float]:
    """Returns by how much each part of each question differs between neighbours, as a share of its sensitivity. None
    may differ by more."""
    shares = []
    for question, own, other in zip(questions, before, after, strict=True):
        account = bank.account_for(question)
        for (plain, _), first, second in zip(parse(account, question).questions, own, other, strict=True):
            change = sqrt(sum((a - b) ** 2 for a, b in zip(first, second, strict=True)))
            allowed = float(account.context.sensitivity_of(plain.query))
            assert change <= allowed * (1 + 1e-12), (plain.sql, change, allowed)
            shares.append(change / allowed)
    return shares
