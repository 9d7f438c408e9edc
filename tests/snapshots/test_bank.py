"""A bank that an earlier version left behind: it opens, says the same, repeats the same bits, and verifies."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import noisebank
from snapshots.comparing import DATA, hold_json, hold_text
from snapshots.corpus import CORPUS, WISH
from snapshots.doors import Shell, copy_bank, run_module
from snapshots.making import CASES, REPORT, SGD
from support.internals import standard_deviation

RECEIPTS = sorted(path.name for path in (DATA / "exports").glob("receipt-*.json"))
HEAD = ("--head", json.loads((DATA / "exports" / "receipt-0.json").read_text())["block_digest"])


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Read only."""
    return copy_bank(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def reopened(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """With its tables where the copy has them: the owner says that the rows are the same."""
    made = copy_bank(tmp_path_factory.mktemp("reopened"))
    for name in ("people", "clinic"):
        made.json("open", f"tables/{name}.toml", "--next", name, "--same")
    return made


READING = {
    "statement-people": ("statement", "--account", "people"),
    "statement-clinic": ("statement", "--account", "clinic"),
    "analysts": ("analyst", "list", "--account", "people"),
    "local-status": ("local", "status"),
    "roles": ("roles", "show", "--account", "people"),
    "keys": ("key", "list", "maria"),
    "verify-bank": ("verify", "bank"),
    "verify-journal": ("verify", "exports/journal.jsonl", *HEAD, *(f"--receipt=exports/{name}" for name in RECEIPTS)),
    "verify-bundle": ("verify", "exports/bundle.zip"),
    "estimate": ("local", "estimate", "exports/reports.txt", "--schema", "tables/schema.toml"),
    "policy-people": ("policy", "check", "tables/people.toml"),
    "policy-clinic": ("policy", "check", "tables/clinic.toml"),
    "quote": ("quote", "SELECT COUNT(*) FROM people WHERE age > 33", "-e", "0.1", "-d", "1e-6", "-a", "people"),
    "quote-reused": ("quote", "smokers", "-e", "2", "-d", "1e-6", "-a", "people"),
    "quote-derived": ("quote", "SELECT AVG(age) FROM people WHERE smoker", "-e", "0.1", "-d", "1e-6", "-a", "people"),
    "quote-curve": ("quote", "SELECT SUM(income) FROM people", "-e", "0.1", "-d", "1e-6", "--curve", "-a", "people"),
    "quote-relative": ("quote", "SELECT SUM(income) FROM people", "-r", "50%", "-f", "30000", "-a", "people"),
    "quote-cube": ("quote", "SELECT COUNT(*) FROM clinic WHERE age < 56", "-e", "0.1", "-d", "1e-6", "-a", "clinic"),
    "explain": ("explain", "-a", "people"),
    "policy-draft": ("policy", "draft", "tables/people.csv"),
}  # fmt: skip
"""What reading commands say about the bank, to the byte."""


@pytest.mark.parametrize("name", READING)
def test_what_is_read_is_unchanged(shell: Shell, name: str) -> None:
    words = READING[name]
    said, told = shell.run(*words), shell.run(*words, "--json")
    assert (said.code, told.code) == (0, 0), said.err + told.err
    facts = json.loads(told.out)
    if "first_look" in facts:  # its strategy is optimised in floats: from the eighth digit, the machine's BLAS decides
        facts["first_look"] = f"{float(facts['first_look']):.6g}"
    hold_json(f"bank/{name}.json", facts)
    hold_text(f"bank/{name}.txt", said.out)


def test_exports_are_the_same_to_the_byte(shell: Shell) -> None:
    shell.json("statement", "--account", "people", "--journal", "again.jsonl", "--bundle", "again.zip")
    assert (shell.folder / "again.jsonl").read_bytes() == (shell.folder / "exports" / "journal.jsonl").read_bytes()
    shell.json("statement", "--account", "clinic", "--openings", "clinic.json")
    hold_text("bank/openings-clinic.json", (shell.folder / "clinic.json").read_text())


@pytest.mark.parametrize("place", [0.3, 0.6, 0.95])
def test_an_altered_byte_is_seen(shell: Shell, tmp_path: Path, place: float) -> None:
    raw = bytearray((shell.folder / "exports" / "journal.jsonl").read_bytes())
    at = raw.index(b'"', int(len(raw) * place)) + 1
    raw[at] = ord("0") if raw[at] != ord("0") else ord("1")
    (tmp_path / "journal.jsonl").write_bytes(raw)
    done = run_module("noisebank", "verify", "journal.jsonl", "--json", cwd=tmp_path)
    assert done.code == 1 and not json.loads(done.out)["passed"]


def test_an_altered_receipt_is_seen(shell: Shell, tmp_path: Path) -> None:
    receipt = json.loads((DATA / "exports" / "receipt-0.json").read_text())
    receipt["answer"]["case"] = "REPEAT"
    (tmp_path / "receipt.json").write_text(json.dumps(receipt))
    journal = str(shell.folder / "exports" / "journal.jsonl")
    done = run_module("noisebank", "verify", journal, "--receipt", "receipt.json", "--json", cwd=tmp_path)
    hold_json("bank/altered-receipt.json", [done.code, json.loads(done.out)["problem"]])


def test_a_repeat_gives_the_same_bits(reopened: Shell) -> None:
    seen = [
        reopened.json("ask", question, "-e", epsilon, "-d", "1e-6", "--account", account)
        for account, question, epsilon, _ in CASES
    ]
    key = ("--key", "monday", "--analyst", "maria")
    seen.append(reopened.json("ask", "SELECT COUNT(*) FROM people WHERE 'north' = town", "-e", "0.3", "-d", "1e-6",
                              "-a", "people", *key))  # fmt: skip
    costs = [answer["charge"]["cost"] for answer in seen]
    assert set(costs[:-1]) == {"0"}  # the last has a key: all of it is as recorded
    for answer in seen:
        for part in answer["parts"]:
            receipt, _ = part.pop("receipt"), part.pop("id")  # of a new answer, the id is a new one
            query = receipt["answer"].get("query")
            part["receipt"] = {"format": receipt["format"], "query": query, "keys": list(receipt)}
    hold_json("bank/repeats.json", seen)


def facts_of(result: noisebank.Result) -> Any:
    """What was released for each question of a result, and its cost; a single number as the result states it."""
    facts = []
    for part in result.parts:
        sealed: Any = part.receipt.answer
        unit, groups = Fraction(sealed["unit"]), "values" in sealed
        pairs = sealed["values"] if groups else [sealed["value"]]
        exact = [str(Fraction(numerator, 1 << shift) * unit) for numerator, shift in pairs]
        stddev = standard_deviation(Fraction(sealed["sensitivity"]), unit, part.target)
        if len(result.parts) == 1 and not groups:
            exact, stddev = [str(result.exact)], result.stddev
        facts.append({
            "query": sealed["query"], "exact": exact if groups else exact[0], "stddev": repr(stddev),
            "cost": str(part.cost),
        })  # fmt: skip
    single = len(facts) == 1 and result.rows[0].estimates[0].exact is not None
    return facts[0] if single else facts


def test_every_spelling_is_the_recorded_question(reopened: Shell) -> None:
    """A changed canonical form, digest or salt would make one of them a new question, which costs."""
    seen: dict[str, Any] = {}
    with noisebank.open_bank(reopened.folder / "bank") as bank:
        account = bank.account("people")
        for spellings in CORPUS:
            before = account.state.spent
            first = account.ask(spellings[0], **WISH)
            parts = [part.receipt.answer.get("query") for part in first.parts]
            # The bank is of a time when parts of one answer had even shares of its precision: some are refined.
            assert first.cost <= first.parts[0].target and (account.state.spent == before or len(parts) > 1), spellings
            paid = account.state.spent
            answers = [facts_of(account.ask(sql, **WISH)) for sql in spellings]
            assert account.state.spent == paid, spellings
            assert all(answer == answers[0] for answer in answers), spellings
            # A blur of a part is drawn anew each time.
            is_blurred = len(parts) > 1 and any(part.case.name == "BLUR" for part in first.parts)
            is_recorded = paid == before and not is_blurred
            seen[spellings[0]] = answers[0] if is_recorded else parts
    hold_json("bank/corpus.json", seen)


def test_the_same_round_and_task_go_on_where_they_were(reopened: Shell) -> None:
    """Schema and task digests are those of the ledger: otherwise this would be charged again, or refused."""
    assert reopened.json(*REPORT)["report"] == (DATA / "exports" / "reports.txt").read_text().split()[0]
    hold_json("bank/learn-sgd.json", reopened.json(*SGD))
