"""An account says and does the same, whether it is asked in its own process or over HTTP: one bank, both doors."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import noisebank
from noisebank import Ask, Result
from support.internals import RemoteAccount
from support.service import Counter, counter

SMOKERS = "SELECT COUNT(*) FROM people WHERE smoker"
GROUPED = "SELECT town, COUNT(*) AS n, AVG(income) FROM people GROUP BY town"
SEVERAL = "SELECT COUNT(*), SUM(children) FROM people WHERE age < 50"
COMPUTED = [
    "SELECT town, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS share FROM people GROUP BY town ORDER BY share DESC",
    "SELECT town, smoker, COUNT(*) AS n, AVG(income) / 12 AS m FROM people GROUP BY CUBE (town, smoker) HAVING n > 1",
    "WITH t AS (SELECT * FROM people WHERE smoker) SELECT SUM(income) / COUNT_IF(age > 119) AS unbounded FROM t",
    "SELECT COUNT(*) AS n FROM people WHERE smoker HAVING COUNT(*) > 1000000",
]
"""Results with intervals that are bounds or have none, with keys that stand for all, and without rows."""
NONSENSE = "SELECT COUNT(*) FROM strangers"
ACCURACIES: list[Any] = [{"epsilon": "0.05", "delta": "1e-6"}, {"sigma": 60}]


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    with counter(tmp_path_factory.mktemp("same")) as served:
        yield served


@pytest.fixture(scope="module")
def local(bank: Counter) -> noisebank.Account:
    return bank.bank.account("people")


@pytest.fixture(scope="module")
def remote(bank: Counter) -> Iterator[Any]:
    with noisebank.connect(str(bank.client.base_url), bank.keys["owner"]) as client:
        yield client.account("people")


def describe(outcome: object) -> object:
    """An outcome as it can be compared: errors by class and text."""
    if isinstance(outcome, Exception):
        return type(outcome).__name__, str(outcome)
    assert isinstance(outcome, Result)
    return json.loads(json.dumps(outcome.to_json())), outcome


@pytest.mark.parametrize("local_first", [True, False], ids=["local first", "http first"])
@pytest.mark.parametrize("sql", [SMOKERS, GROUPED])
def test_the_same_answer_under_the_same_key(local: Any, remote: Any, sql: str, local_first: bool) -> None:
    doors = [local, remote] if local_first else [remote, local]
    first, second = (door.ask(sql, **ACCURACIES[0], key=f"{sql} {local_first}") for door in doors)
    assert first == second and type(first) is type(second)
    assert local.recall(first.parts[0].id) == remote.recall(first.parts[0].id)


@pytest.mark.parametrize("sql", COMPUTED)
def test_the_same_computed_results(local: Any, remote: Any, sql: str) -> None:
    first, second = (door.ask(sql, **ACCURACIES[0], key=sql) for door in (local, remote))
    assert describe(first) == describe(second) and first.to_csv() == second.to_csv()
    json.dumps(first.to_json(), allow_nan=False)
    assert first.to_arrow().to_pydict() == second.to_arrow().to_pydict()


def test_the_same_prices(local: Any, remote: Any) -> None:
    assert local.quote(SEVERAL, **ACCURACIES[0]) == remote.quote(SEVERAL, **ACCURACIES[0])
    asks = [Ask(SMOKERS, ACCURACIES[1]), Ask(NONSENSE, ACCURACIES[1]), Ask(GROUPED, ACCURACIES[0])]
    ours, theirs = local.quote_many(asks), remote.quote_many(asks)
    assert ours[::2] == theirs[::2]
    assert type(ours[1]) is type(theirs[1]) and str(ours[1]) == str(theirs[1])
    assert local.quote_together(asks[::2]) == remote.quote_together(asks[::2])


@pytest.mark.parametrize("atomic", [False, True])
def test_the_same_outcomes_of_a_batch(local: Any, remote: Any, atomic: bool) -> None:
    texts = [SEVERAL, "SELECT COUNT(*) FROM people WHERE age < 33", SEVERAL]
    texts += [] if atomic else [NONSENSE]
    keys = ["one"] * 3 if atomic else [f"many {number}" for number in range(4)]
    asks = [Ask(sql, ACCURACIES[0], key=key) for sql, key in zip(texts, keys, strict=True)]
    ours = local.ask_many(asks, atomic=atomic)
    theirs = remote.ask_many(asks, atomic=atomic, **({"key": "one"} if atomic else {}))
    assert list(map(describe, ours)) == list(map(describe, theirs))


@pytest.mark.parametrize("atomic", [False, True])
def test_the_same_outcomes_of_a_batch_that_spends_a_share(local: Any, remote: Any, atomic: bool) -> None:
    texts = [SEVERAL, GROUPED, SMOKERS] + ([] if atomic else [NONSENSE])
    asks = [Ask(sql, key="share" if atomic else f"share {place}") for place, sql in enumerate(texts)]
    before, budget = local.state.spent, local.state.budget
    assert local.quote_many(asks[:3], spend="2%") == remote.quote_many(asks[:3], spend="2%")
    assert local.quote_together(asks[:3], spend=0.02) == remote.quote_together(asks[:3], spend=0.02)
    theirs = remote.ask_many(asks, spend="2%", atomic=atomic, **({"key": "share"} if atomic else {}))
    ours = local.ask_many(asks, spend="2%", atomic=atomic)
    assert list(map(describe, ours)) == list(map(describe, theirs))
    assert 0 <= local.state.spent.exact - before.exact <= budget.exact * 2 / 100
    for door in (local, remote):
        with pytest.raises(noisebank.NoisebankError, match="spend"):
            door.ask_many(asks, spend="200%")
        with pytest.raises(noisebank.NoisebankError, match=r"costs 2% of the budget and may cost 1%"):
            door.ask("SELECT SUM(age) FROM people WHERE age < 44", spend="2%", max_cost="1%")


def test_the_same_errors(local: Any, remote: Any) -> None:
    for sql, options in ((NONSENSE, ACCURACIES[0]), (SMOKERS, {"sigma": -1}), (SMOKERS, {"sigma": "0.001"})):
        caught = []
        for door in (local, remote):
            with pytest.raises(noisebank.NoisebankError) as error:
                door.ask(sql, **options)
            caught.append((type(error.value), str(error.value), getattr(error.value, "nearest", None)))
        assert caught[0] == caught[1]
        assert caught[0][2] is None or sql == NONSENSE


def test_the_same_verbs_and_options() -> None:
    verbs = (
        "ask",
        "ask_many",
        "quote",
        "quote_many",
        "quote_together",
        "recall",
        "history",
        "statement",
        "policy",
        "verify",
    )
    for verb in verbs:
        ours, theirs = (inspect.signature(getattr(kind, verb)) for kind in (noisebank.Account, RemoteAccount))
        mine = {name: each.default for name, each in ours.parameters.items() if name != "analyst"}  # a key says who
        others = {name: each.default for name, each in theirs.parameters.items()}
        others.pop("key", None) if verb == "ask_many" else None  # of a batch over HTTP: one key for a retry of all
        assert mine == others, verb
        assert ours.return_annotation == theirs.return_annotation or verb == "ask_many", verb


def test_the_same_policy(local: Any, remote: Any) -> None:
    ours, theirs = local.policy(), remote.policy()
    assert type(ours) is type(theirs) and ours.digest == theirs.digest and ours.to_json() == theirs.to_json()
    assert theirs == replace(ours, source=Path())  # where the table is, is the bank's business
    facts = remote.describe()
    assert facts.policy == theirs.to_json() and facts.spent == local.state.spent


def test_the_same_statement_and_history(local: Any, remote: Any) -> None:
    for number in range(3):
        local.ask(SMOKERS, **ACCURACIES[0], key=f"again {number}")
    for last in (None, 0, 1, 2, 10_000):
        assert local.statement(last) == remote.statement(last)
    whole = local.statement()
    assert [entry.case.name for entry in local.statement(2).entries] == ["REPEAT", "REPEAT"]
    assert whole.entries[-2:] == local.statement(2).entries and whole.spent == local.state.spent
    history = list(local.history())
    assert history == list(remote.history()) and history[0].case.name == "REPEAT" and history[0].sql == SMOKERS
    assert len(history) == len(whole.entries) and local.recall(history[0].id) == remote.recall(history[0].id)


def test_a_history_has_ones_own_answers_only(bank: Counter, local: Any) -> None:
    with noisebank.connect(str(bank.client.base_url), bank.keys["maria"]) as client:
        account = client.account("people")
        account.ask(SMOKERS, sigma=500)
        assert list(account.history()) == list(local.history("maria")) and len(list(account.history())) == 1
    assert not list(local.history("noor")) and local.statement(1).entries[0].analyst == "maria"


def test_pages_of_a_statement_are_put_together(local: Any, remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noisebank.client.verbs.PAGE_ENTRIES", 2)
    for number in range(5):
        local.ask(SMOKERS, sigma=900, key=f"page {number}")
    for last in (None, 0, 1, 2, 3, 5):
        assert local.statement(last) == remote.statement(last)


def test_the_same_verdict(local: Any, remote: Any, tmp_path: Path) -> None:
    held = local.ask(SMOKERS, sigma=300)
    head = local.ledger.head().digest.hex()
    ours, theirs = (door.verify(head=head, receipts=[held.receipt]) for door in (local, remote))
    assert ours == theirs and ours.passed
    forged = {**held.receipt.to_json(), "answer": {**held.receipt.answer, "value": [7, 0]}}
    ours, theirs = (door.verify(receipts=[forged]) for door in (local, remote))
    assert ours == theirs and not ours.passed
    assert not local.verify(head="00" * 32).passed and not remote.verify(head="00" * 32).passed
