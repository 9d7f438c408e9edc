"""A rehearsal charges what the questions would be charged, without a table; an explanation compares policies by it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from noisebank.bank.budget_explanation import explain
from noisebank.bank.opening import open_account
from noisebank.bank.rehearsal import rehearse
from noisebank.core.asks import Ask
from noisebank.core.entropy import workload_rng
from noisebank.core.errors import BadRequest
from noisebank.policy.expectations import Workload
from noisebank.policy.file import parse_policy
from noisebank.policy.model import Policy
from noisebank.queries.question_list import split_questions
from support.banks import memory_rooms

POLICY = """\
name = "people"
source = "people.csv"
neighbours = "add-remove"
row_cap = 1000
cubes = [["age", "town"]]
[budget]
epsilon = 1
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, 31]
bins = [8, 16, 24]
[columns.town]
type = "text"
keys = ["east", "north", "south"]
[columns.ill]
type = "boolean"
[columns.income]
type = "integer"
bounds = [0, 100]
[queries]
ill = "SELECT COUNT(*) FROM people WHERE ill"
"""
TOWN = "SELECT COUNT(*) FROM people WHERE town = 'east' AND age < 16"
QUESTIONS = [
    "ill", TOWN, "SELECT town, COUNT(*) FROM people GROUP BY town", "SELECT AVG(income) FROM people",
    "SELECT COUNT(*) FROM people WHERE town = 'east'", "ill", "SELECT SUM(income) FROM people WHERE age < 8",
]  # fmt: skip


def policy(folder: Path = Path("nowhere")) -> Policy:
    return parse_policy(POLICY, folder)


def test_a_rehearsal_is_charged_as_the_real_thing(tmp_path: Path):
    pick = workload_rng(1)
    towns = ("east", "north", "mars")
    lines = [f"{pick.randrange(32)},{pick.choice(towns)},true,{pick.randrange(99)}" for _ in range(50)]
    (tmp_path / "people.csv").write_text("\n".join(["age,town,ill,income", *lines]) + "\n")
    account, _ = open_account(memory_rooms(), policy(tmp_path))
    requests = [Ask(text, {"epsilon": "0.2", "delta": "1e-6"}) for text in QUESTIONS]
    results = [account.ask(request.sql, **request.accuracy) for request in requests]
    rehearsed = rehearse(policy(), requests)  # there is no table
    assert rehearsed.spent == account.state.spent and rehearsed.answered == rehearsed.asked == len(QUESTIONS)
    assert rehearsed.free == sum(not result.cost for result in results) > 0


def test_a_budget_that_does_not_suffice_answers_what_it_can():
    requests = [Ask(text, {"epsilon": "0.9", "delta": "1e-6"}) for text in ["ill", TOWN, "ill", "SELECT COUNT(age)"]]
    rehearsed = rehearse(policy(), requests)
    assert (rehearsed.asked, rehearsed.answered, rehearsed.free) == (3, 2, 1)
    ((sql, why),) = rehearsed.refused
    assert sql == "SELECT COUNT(age)" and "FROM people" in why


def test_an_explanation_compares_and_advises():
    towns = [f"SELECT COUNT(*) FROM people WHERE town = '{town}'" for town in ("east", "north", "south")]
    explanation = explain(replace(policy(), cubes=()), [*towns, *towns], epsilon="0.5")
    plain, *others = explanation.arrangements
    assert plain.name == "plainly" and {each.policy.cubes for each in others} == {(("town",),)}
    assert others[-1].policy.complete_columns == ("town",) and "complete keys of town" in others[-1].name
    assert plain.rehearsal.free == 3 and others[0].rehearsal.free == 5  # towns share nobody: one price for all
    assert others[0].rehearsal.rank > plain.rehearsal.rank
    assert any(line.startswith('cubes = [["town"]]') for line in explanation.advice)
    assert json.loads(json.dumps(explanation.to_json()))["arrangements"][0]["answered"] == plain.rehearsal.answered
    assert repr(explanation).splitlines()[1].startswith("plainly") and explanation.accuracy["delta"] == "1e-06"


def test_a_policy_without_cubes_is_told_what_expect_and_complete_keys_would_do():
    found = explain(replace(policy(), cubes=()), [TOWN, *QUESTIONS[2:5]], epsilon="0.2")
    names = [each.name for each in found.arrangements]
    assert names[0] == "plainly" and names[-2].endswith("] with expect = these questions")
    assert names[-1].endswith("] with complete keys of town")
    assert found.advice and all(
        len(set(re.findall(r"[\d.]+%", line))) == 2 for line in found.advice
    )  # no "16% for 16%"
    assert any(", complete = true for town if its keys are all there are: spends " in line for line in found.advice)


def test_what_is_expected_is_an_arrangement_of_its_own():
    expecting = replace(policy(), expect=(Workload.MARGINALS,))
    names = [each.name for each in explain(expecting, [TOWN]).arrangements]
    assert names[:3] == ["plainly", "with the policy's cubes", "with its expect"]
    assert [each.name for each in explain(policy()).arrangements][2] == "with these as expect"
    with pytest.raises(BadRequest, match="name questions"):
        explain(replace(policy(), queries={}))


@pytest.mark.parametrize(
    ("cubes", "texts", "suggested"),
    [
        ((("age", "town"),), [TOWN], []),  # the policy's own cube answers it already
        ((("age", "town", "ill"),), [TOWN, "ill"], []),
        ((("town",),), [TOWN], [(("town",), ("age", "town")), (("age", "town"),)]),
        ((), [TOWN, "ill"], [(("age", "town"), ("ill",)), (("age", "ill", "town"),)]),
        ((), [TOWN, "SELECT COUNT(*) FROM people WHERE age < 8"], [(("age", "town"),)]),  # one holds the other
        ((("ill",),), ["ill"], []),
        ((), ["SELECT COUNT(*) FROM people WHERE income < 3"], []),  # no bins
    ],
)
def test_cubes_are_suggested_for_what_no_cube_can_answer(cubes, texts, suggested):
    explanation = explain(replace(policy(), cubes=cubes), texts)
    own = {(), cubes}
    others = [each.policy.cubes for each in explanation.arrangements if each.policy.cubes not in own]
    assert list(dict.fromkeys(others)) == suggested


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ("", []), ("-- nothing", []), ("a\nb", ["a", "b"]), ("a; b;", ["a", "b"]), ("a;\n\nb -- c; d", ["a", "b"]),
        ("x = 'a;b' -- it's;\n; y", ["x = 'a;b'", "y"]), ("x = 'it''s; so'; \"a;b\"", ["x = 'it''s; so'", '"a;b"']),
        ("1 - 2; -1", ["1 - 2", "-1"]),
    ],
)  # fmt: skip
def test_questions_in_a_text(text: str, questions: list[str]):
    assert split_questions(text) == questions
