"""Questions in PostgreSQL's own words, typed before looking at the parser: PostgreSQL says what is right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from conformance.analysts.questions import HEADLINE, AnalystQuestion, read_questions
from conformance.reviewers.worlds import ALL_WORLDS, HERE, TYPES
from conformance.server import Server
from conformance.shortfalls import ACCURACY, Oracle, account_of, list_shortfalls
from conformance.sixty import banks
from conformance.sixty.banks import NOW, ExampleBank
from conformance.sixty.exact import fix_clock
from conformance.stores import Store, _write_postgres
from examples.worlds import World

OWN = ("people", "trial", "web")


@pytest.fixture
def november(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the day of the examples, by every clock."""
    monkeypatch.setattr("noisebank.queries.current_time.clock_now", lambda zone: NOW.replace(tzinfo=None))
    for name, types in TYPES.items():
        monkeypatch.setitem(banks.TYPES, name, types)


class ExactTables:
    """The tables of a world in PostgreSQL, in a schema of their own."""

    def __init__(self, server: Server, world: World, folder: Path) -> None:
        self.connection = psycopg.connect(server.where, autocommit=True)
        self.schema = f"exact_{world.name}"
        self.connection.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE".encode())
        self.connection.execute(f"CREATE SCHEMA {self.schema}".encode())
        self.connection.execute(f"SET search_path = {self.schema}".encode())
        for path in sorted(folder.glob("*.csv")):
            types = {name: "decimal" if kind == "double" else kind for name, kind in banks.TYPES[path.stem].items()}
            _write_postgres(server, f"{self.schema}.{path.stem}", types, [], path.read_bytes())

    def evaluate(self, sql: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a question."""
        return self.connection.execute(fix_clock(sql).encode()).fetchall()

    def drop(self) -> None:
        """Takes the tables away."""
        self.connection.execute(f"DROP SCHEMA {self.schema} CASCADE".encode())
        self.connection.close()


@pytest.fixture
def exact(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Iterator[Any]:
    """Loads a world's tables into PostgreSQL; they are gone afterwards."""
    loaded: list[ExactTables] = []

    def load(world: World, folder: Path) -> ExactTables:
        loaded.append(ExactTables(server, world, folder))
        return loaded[-1]

    yield load
    for tables in loaded:
        tables.drop()


def oracle_of(tables: ExactTables) -> Oracle:
    return lambda question: tables.evaluate(question.exact_sql)


@pytest.mark.parametrize("name", ALL_WORLDS)
@pytest.mark.usefixtures("november")
def test_reviewers_get_what_postgresql_says_or_help(name: str, exact: Any, tmp_path: Path) -> None:
    bank = ExampleBank(ALL_WORLDS[name], tmp_path)
    tables = exact(bank.world, bank.folder)
    shortfalls = list_shortfalls(bank, oracle_of(tables), read_list(name))
    assert not shortfalls, "\n".join(shortfalls)


@pytest.mark.parametrize("bank_store", ["postgresql", pytest.param("spark", marks=pytest.mark.extras)], indirect=True)
@pytest.mark.parametrize("name", OWN)
@pytest.mark.usefixtures("november")
def test_other_engines_work_out_the_same(name: str, bank_store: Store, exact: Any, tmp_path: Path) -> None:
    bank = ExampleBank(ALL_WORLDS[name], tmp_path, bank_store)
    tables = exact(bank.world, bank.folder)
    shortfalls = list_shortfalls(bank, oracle_of(tables), [each for each in read_list(name) if each.is_answered])
    assert not shortfalls, "\n".join(shortfalls)


@pytest.mark.usefixtures("november")
def test_what_postgresql_rounds_is_said(tmp_path: Path) -> None:
    bank = ExampleBank(ALL_WORLDS["survey"], tmp_path)
    hinted = {each.name for each in read_list("survey") if each.is_answered and has_hint(bank, each)}
    assert hinted == {"S109", "S113"}


def has_hint(bank: ExampleBank, question: AnalystQuestion) -> bool:
    """Whether an answer says that PostgreSQL divides whole numbers in another way."""
    return any("FLOOR(" in note for note in account_of(bank, question).ask(question.sql, **ACCURACY).notes)


def read_list(name: str) -> list[AnalystQuestion]:
    """Returns the questions to one world."""
    return read_questions(HERE / name / "questions.sql")


def test_most_questions_are_answered() -> None:
    """The list does not become one of refusals: more than four of five are answered, and every headline is read."""
    texts = [(HERE / name / "questions.sql").read_text(encoding="utf-8") for name in ALL_WORLDS]
    questions = [each for name in ALL_WORLDS for each in read_list(name)]
    assert len(questions) == sum(len(re.findall(r"(?m)^-- [A-Z]\d{3}", text)) for text in texts)
    assert len(questions) == sum(bool(HEADLINE.fullmatch(line)) for text in texts for line in text.splitlines())
    assert len({question.name for question in questions}) == len(questions) == 215
    assert sum(question.is_answered for question in questions) > 0.8 * len(questions)
