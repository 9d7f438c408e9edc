"""Grouped answers: all keys always, one bridge a group, and nothing but noisy values that depends on the table."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from noisebank.account.account import Account
from noisebank.core.digests import keccak, to_canonical_json
from noisebank.core.errors import BadRequest, NoisebankError
from noisebank.core.records import BridgePoint, Case
from noisebank.core.result import Result
from noisebank.core.units import ZERO_PRECISION, GridValue
from noisebank.planning.reuse import bridge_law
from noisebank.privacy.noise import noise_scale
from noisebank.queries.groups import group_labels
from support.banks import memory_account, write_people

WISH: dict[str, Any] = {"epsilon": "0.5", "delta": "1e-6"}
BY_TOWN = "SELECT town, COUNT(*) FROM people GROUP BY town"
BY_ALL = "SELECT COUNT(*) FROM people GROUP BY town, age, smoker"
SUMS = "SELECT SUM(income) FROM people WHERE age > 30 GROUP BY smoker, town"
BINS = "[20, 40, 60, 80]"


class Scripted:
    """Noise that is known in advance: standard draws from a list, rounded to the grid; the same salts everywhere."""

    def __init__(self, seed: int = 0, noise: float = 1.0) -> None:
        self.random, self.noise, self.tokens = Random(seed), noise, 0
        self.scales: list[float] = []
        self.draws: list[int] = []

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        return [self.discrete_gaussian(scale) for _ in range(count)]

    def discrete_gaussian(self, scale: float) -> int:
        self.scales.append(scale)
        self.draws.append(round(self.noise * self.random.gauss(0.0, scale)))
        return self.draws[-1]

    def token(self, size: int = 32) -> bytes:
        self.tokens += 1
        return keccak(b"salt", self.tokens.to_bytes(8, "big"))[:size]


def people(folder: Path, **facts: Any) -> Path:
    path = write_people(folder, **{"epsilon": "8", **facts})
    path.write_text(path.read_text().replace("bounds = [0, 120]", f"bounds = [0, 120]\nbins = {BINS}"))
    return path


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return memory_account(people(tmp_path), Scripted())


def values_of(answer: Result) -> list[Fraction]:
    return [group.exact for group in answer.rows]


# -- all keys, always, in one order ------------------------------------------------------------------------

NOBODY: list[str] = []
ONE = ["30,5,true,north,"]
ELSEWHERE = ["30,5,true,west,", "50,5,false,west,3"]


@pytest.mark.parametrize("lines", [NOBODY, ONE, ELSEWHERE, None], ids=["nobody", "one", "elsewhere", "many"])
@pytest.mark.parametrize("sql", [BY_TOWN, BY_ALL, SUMS])
def test_every_group_is_there_whoever_is_in_it(tmp_path: Path, lines: list[str] | None, sql: str) -> None:
    account = memory_account(people(tmp_path, lines=lines, neighbours="add-remove"), Scripted())
    answer = account.ask(sql, **WISH)
    query = account.parse(sql).query
    assert answer.by == query.by == tuple(sorted(query.by))
    assert tuple(group.keys for group in answer.rows) == group_labels(query, account.context.policy)


def test_the_order_of_groups_is_that_of_the_labels(account: Account) -> None:
    answer = account.ask(BY_ALL, **WISH)
    ages = ["[0, 20)", "[20, 40)", "[40, 60)", "[60, 80)", "[80, 120]"]
    wanted = [(age, smoker, town) for age in ages for smoker in ("false", "true") for town in ("north", "south")]
    assert [group.keys for group in answer.rows] == wanted


def test_values_belong_to_their_keys(tmp_path: Path) -> None:
    """Without noise the numbers are those of the table, group by group."""
    lines = [
        f"{age},{age},{smoker},{town},"
        for age, smoker, town in [
            (10, "true", "north"),
            (19, "true", "north"),
            (20, "false", "south"),
            (79, "true", "west"),
            (120, "true", "south"),
        ]
    ]
    account = memory_account(people(tmp_path, lines=lines, neighbours="add-remove"), Scripted(noise=0.0))
    found = {group.keys: group.exact for group in account.ask(BY_ALL, **WISH).rows}
    expected = {("[0, 20)", "true", "north"): 2, ("[20, 40)", "false", "south"): 1, ("[80, 120]", "true", "south"): 1}
    assert {keys: value for keys, value in found.items() if value} == expected
    sums = account.ask("SELECT 2 * SUM(income) + 7 FROM people GROUP BY town", **WISH)
    assert values_of(sums) == [2 * 29 + 7, 2 * 140 + 7]


def test_a_grouped_answer_has_no_single_value(account: Account) -> None:
    answer = account.ask(BY_TOWN, **WISH)
    for single in ("value", "low", "high", "stddev", "exact"):
        with pytest.raises(BadRequest, match="2 rows"):
            getattr(answer, single)
    assert answer.to_csv().splitlines()[0] == "town,COUNT(*),COUNT(*)_low,COUNT(*)_high,COUNT(*)_stddev"
    assert [line.split(",")[0] for line in answer.to_csv().splitlines()[1:]] == ["north", "south"]
    assert "\nnorth  " in repr(answer) and "more rows" not in repr(account.ask(BY_ALL, **WISH))


# -- REPEAT, REFINE, BLUR: coordinate by coordinate --------------------------------------------------------


def test_the_noise_of_each_group_is_its_own_and_of_the_vectors_scale(tmp_path: Path) -> None:
    noise = Scripted()
    account = memory_account(people(tmp_path), noise)
    before = len(noise.draws)
    answer = account.ask(BY_TOWN, **WISH)
    draws, scales = noise.draws[before:], noise.scales[before:]
    assert len(draws) == 2 and draws[0] != draws[1] and scales[0] == scales[1]
    grid = noise_scale(Fraction(2) / answer.parts[0].target.exact)  # replace-one: one person moves two groups
    assert scales[0] >= grid.scale * (1 - 1e-9)
    assert [row.stddev for row in answer] == [pytest.approx((2 / float(answer.parts[0].target)) ** 0.5)] * 2
    assert [group.exact - 10 for group in answer.rows] == [Fraction(draw, 1 << grid.shift) for draw in draws]


def test_repeat_has_the_same_bits(account: Account) -> None:
    first = account.ask(BY_TOWN, **WISH)
    spent = account.state.spent
    for spelling in (
        BY_TOWN,
        "SELECT COUNT(*) FROM people GROUP BY town",
        "select count(1), TOWN as t from people group by Town",
    ):
        again = account.ask(spelling, **WISH)
        assert again.case is Case.REPEAT and again.cost == ZERO_PRECISION and account.state.spent == spent
        assert [(row.keys, row.estimates) for row in again] == [(row.keys, row.estimates) for row in first]
        assert again.receipt == first.receipt


def test_order_of_columns_is_one_query_with_the_same_rows(account: Account) -> None:
    one = account.ask("SELECT SUM(income) FROM people GROUP BY smoker, town, age", **WISH)
    two = account.ask("SELECT age, smoker, SUM(income) FROM people GROUP BY age, town, smoker", **WISH)
    assert two.case is Case.REPEAT and two.by == ("town", "age", "smoker") and one.by == ("age", "smoker", "town")
    rows = {row.keys: row.exact for row in one}
    assert all(rows[age, smoker, town] == row.exact for row in two for town, age, smoker in [row.keys])


def test_a_multiple_of_a_grouped_answer_is_that_answer(account: Account) -> None:
    one = account.ask("SELECT COUNT(*) FROM people GROUP BY town", **WISH)
    two = account.ask("SELECT -3 * COUNT(*) + 1 FROM people GROUP BY town", **WISH)
    assert two.case is Case.REPEAT and values_of(two) == [-3 * value + 1 for value in values_of(one)]
    assert two.rows[0].stddev == pytest.approx(3 * one.rows[0].stddev)


def test_refine_pays_the_difference_and_averages_each_group(tmp_path: Path) -> None:
    noise = Scripted()
    account = memory_account(people(tmp_path), noise)
    first = account.ask(SUMS, **WISH)
    before = len(noise.draws)
    better = account.ask(SUMS, epsilon="1", delta="1e-6")
    draws, scale = noise.draws[before:], noise.scales[-1]
    assert (
        better.case is Case.REFINE and better.cost == better.parts[0].target - first.parts[0].target and len(draws) == 4
    )
    truth = account.engine.statistics(account.parse(SUMS).query)
    fresh = better.cost.exact
    shift = next(
        shift for shift in range(80) if abs(_variance(account, fresh) * 4**shift / Fraction(scale) ** 2 - 1) < 1e-6
    )
    for exact, old, draw, new in zip(truth, values_of(first), draws, values_of(better), strict=True):
        measured = exact + Fraction(draw, 1 << shift)
        mean = (fresh * measured + first.parts[0].target.exact * old) / better.parts[0].target.exact
        assert abs(new - mean) <= Fraction(1, 1 << shift)


def _variance(account: Account, precision: Fraction) -> Fraction:
    return account.context.sensitivity_of(account.parse(SUMS).query) ** 2 / precision


def test_blur_is_a_bridge_for_each_group(tmp_path: Path) -> None:
    noise = Scripted()
    account = memory_account(people(tmp_path), noise)
    coarse = account.ask(SUMS, epsilon="0.2", delta="1e-6")
    fine = account.ask(SUMS, epsilon="1", delta="1e-6")
    spent, before = account.state.spent, len(noise.draws)
    between = account.ask(SUMS, epsilon="0.5", delta="1e-6")
    draws = noise.draws[before:]
    assert (
        between.case is Case.BLUR
        and between.cost == ZERO_PRECISION
        and account.state.spent == spent
        and len(draws) == 4
    )
    moves = account.context.sensitivity_of(account.parse(SUMS).query)
    for place, draw in enumerate(draws):
        ends = [BridgePoint(answer.parts[0].target, _grid(answer, place)) for answer in (coarse, fine)]
        law = bridge_law(between.parts[0].target, moves, ends)
        grid = noise_scale(law.variance)
        centre = GridValue.nearest(law.mean, grid.shift)
        assert _grid(between, place) == GridValue(centre.numerator + draw, grid.shift)
    again = account.ask(SUMS, epsilon="0.5", delta="1e-6")
    assert again.cost == ZERO_PRECISION and again.rows == between.rows and len(noise.draws) == before + 4


def _grid(answer: Result, place: int) -> GridValue:
    return GridValue(*answer.receipt.answer["values"][place])


def test_groups_and_single_numbers_are_different_queries(account: Account) -> None:
    account.ask("SELECT COUNT(*) FROM people WHERE town = 'north'", **WISH)
    assert account.ask(BY_TOWN, **WISH).case is Case.FIRST
    assert account.ask("SELECT COUNT(*) FROM people GROUP BY smoker", **WISH).case is Case.FIRST


def test_all_groups_together_cost_what_one_number_does(account: Account) -> None:
    one = account.quote("SELECT COUNT(*) FROM people WHERE smoker", **WISH)
    assert account.quote(BY_TOWN, **WISH).cost == account.quote(BY_ALL, **WISH).cost == one.cost


# -- neighbours: nothing but noisy values ------------------------------------------------------------------

QUESTIONS = [
    BY_TOWN,
    BY_ALL,
    SUMS,
    "SELECT AVG(income) FROM people WHERE age > 60 GROUP BY town",
    "SELECT AVG(children) AS a, COUNT(children) AS n FROM people WHERE age > 20",
    "SELECT STDDEV(income) FROM people WHERE smoker",
    "SELECT MEDIAN(age) AS a, MIN(age) AS b, MAX(age) AS c FROM people",
    "SELECT MODE(town) FROM people",
    "SELECT 2 * COUNT_IF(smoker) - COUNT_IF(age > 50) + 7 FROM people",
    "SELECT MEDIAN(income) FROM people",
    "SELECT income, AVG(age) FROM people GROUP BY town",
]
WISHES = [
    WISH,
    {"epsilon": "0.9", "delta": "1e-6"},
    {"epsilon": "0.3", "delta": "1e-6"},
    {"epsilon": "9", "delta": "1e-6"},
]


def masked(value: Any) -> Any:
    """A response without its noisy values, and without what follows from them; shape and types stay."""
    if isinstance(value, dict):
        hidden = {"value", "exact", "low", "high", "block_digest", "label"}
        return {name: type(one).__name__ if name in hidden else masked(one) for name, one in value.items()}
    if isinstance(value, list) and value and all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        return [["numerator", shift] for _, shift in value]
    return [masked(one) for one in value] if isinstance(value, list) else value


def responses(policy: Path, noise: Scripted, see: Any) -> list[str]:
    """All that is said to a sequence of requests, errors included, as bytes."""
    account = memory_account(policy, noise)
    said = []
    for sql in QUESTIONS:
        for wish in WISHES:
            try:
                plain = json.loads(json.dumps(account.ask(sql, **wish).to_json()))
            except NoisebankError as error:
                said.append(f"{type(error).__name__}: {error}")
            else:
                said.append(to_canonical_json(see(plain)))
    said += [
        str(each.target.units) + each.case.name + str(each.fresh_precision.units)
        for each in account.ledger.list_reservations(account.id)
    ]
    return said


def as_text(value: Any) -> Any:
    """Floats are no canonical numbers."""
    if isinstance(value, dict):
        return {name: as_text(one) for name, one in value.items()}
    return [as_text(one) for one in value] if isinstance(value, list) else repr(value)


PEOPLE = [f"{20 + i % 60},{i * 37 % 900},{'true' if i % 3 else 'false'},north,{i % 4}" for i in range(12)]
FAR = "120,1000,true,south,"


@pytest.mark.parametrize(
    ("relation", "one", "two"),
    [
        ("replace-one", PEOPLE, [*PEOPLE[:-1], FAR]),  # the only one in the south
        ("replace-one", [FAR], ["0,-100,false,west,10"]),
        ("add-remove", PEOPLE, [*PEOPLE, FAR]),
        ("add-remove", [FAR], []),
    ],
)
def test_neighbours_get_the_same_bytes_but_for_the_noise(
    tmp_path: Path, relation: str, one: list[str], two: list[str]
) -> None:
    seen = [
        responses(
            people(tmp_path / name, lines=lines, neighbours=relation), Scripted(seed), lambda x: as_text(masked(x))
        )
        for seed, (name, lines) in enumerate((("a", one), ("b", two)))
    ]
    assert len(seen[0]) > len(QUESTIONS) * len(WISHES)
    assert seen[0] == seen[1]


def test_the_mask_hides_no_more_than_it_should(tmp_path: Path) -> None:
    """Guards the test above: keys, order, costs, cases, errors and the number of parts are compared."""
    account = memory_account(people(tmp_path), Scripted())
    plain = json.loads(json.dumps(account.ask(BY_TOWN, **WISH).to_json()))
    shown = to_canonical_json(as_text(masked(plain)))
    for text in ("north", "south", "FIRST", "cost", "remaining", "sensitivity", "wanted", "rows"):
        assert text in shown
    plain["rows"].reverse()
    assert to_canonical_json(as_text(masked(plain))) != shown
    whole = responses(people(tmp_path / "b"), Scripted(1), as_text)
    assert any(text.startswith("BudgetExhausted") for text in whole) and any("bins" in text for text in whole)
