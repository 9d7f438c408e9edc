"""Functions of other rows of the released table: the right values, sums with their exact noise, ranks with bounds."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isclose, sqrt
from pathlib import Path

import pytest

from noisebank.account.derived.aggregates import NoisyPart
from noisebank.account.derived.expressions import ExpressionEvaluator, RowNumbers
from noisebank.account.derived.gaussians import Gaussian, NoiseSource
from noisebank.account.derived.tables import sort_rows
from noisebank.account.derived.windows import add_windows
from noisebank.core.entropy import simulation_rng
from noisebank.core.estimates import Estimate
from noisebank.policy.file import read_policy
from noisebank.policy.model import Policy
from noisebank.queries.selects import parse_select_list

COUNTS = (50, 30, 30, 8, 0)
KEYS = ("a", "b", "c", "d", "e")
POLICY = """
name = "t"
source = "t.csv"
neighbours = "add-remove"
row_cap = 1000
[budget]
epsilon = 8
delta = 1e-6
[columns.k]
type = "text"
keys = ["a", "b", "c", "d", "e"]
[columns.half]
type = "text"
keys = ["x", "y"]
"""


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    path: Path = tmp_path_factory.mktemp("policy") / "t.toml"
    path.write_text(POLICY, encoding="utf-8")
    return read_policy(path)


def evaluate(
    expression: str, policy: Policy, counts: Sequence[float] = COUNTS, stddev: float = 2.0, confidence: float = 0.95
) -> list[Estimate]:
    """Returns a window function of counts by k, in the order of the keys."""
    select = parse_select_list(f"SELECT k, {expression} AS w, COUNT(*) FROM t GROUP BY k", policy)
    rows = []
    for number, count in enumerate(counts):
        terms = {NoiseSource(0, number): stddev} if stddev else {}
        part = NoisyPart((Gaussian(Fraction(count), terms),))
        rows.append(RowNumbers([[part] for _ in select.aggregates], {}, {"k": KEYS[number]}))
    evaluator = ExpressionEvaluator(select.aggregates)
    shown = add_windows(select, rows, evaluator, lambda some, order: sort_rows(some, order, evaluator, {"k": KEYS}))
    expression_of_w = select.items[0].expression
    assert expression_of_w is not None
    return [evaluator.evaluate(expression_of_w, row, confidence) for row in shown]


def values(expression: str, policy: Policy) -> list[float | None]:
    return [each.value for each in evaluate(expression, policy)]


def test_the_values_are_those_of_sql(policy: Policy) -> None:
    assert values("SUM(COUNT(*)) OVER ()", policy) == [118] * 5
    assert values("SUM(COUNT(*)) OVER (ORDER BY k)", policy) == [50, 80, 110, 118, 118]
    assert values("SUM(COUNT(*)) OVER (ORDER BY k DESC)", policy) == [118, 68, 38, 8, 0]
    assert values("AVG(COUNT(*)) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", policy) == [
        40, pytest.approx(110 / 3), pytest.approx(68 / 3), pytest.approx(38 / 3), 4
    ]  # fmt: skip
    assert values("AVG(COUNT(*)) OVER ()", policy) == [23.6] * 5
    assert values("SUM(COUNT(*)) OVER (PARTITION BY k)", policy) == [50, 30, 30, 8, 0]
    assert values("COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY k)", policy) == [None, -20, 0, -22, -8]
    assert values("LEAD(COUNT(*), 2) OVER (ORDER BY k)", policy) == [30, 8, 0, None, None]
    assert values("COALESCE(LAG(COUNT(*), 4) OVER (ORDER BY k), -1)", policy) == [-1, -1, -1, -1, 50]
    assert values("SUM(COUNT(*)) OVER (ORDER BY k ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING)", policy) == [None] * 5
    assert values("RANK() OVER (ORDER BY COUNT(*) DESC)", policy) == [1, 2, 2, 4, 5]
    assert values("DENSE_RANK() OVER (ORDER BY COUNT(*) DESC)", policy) == [1, 2, 2, 3, 4]
    assert values("ROW_NUMBER() OVER (ORDER BY COUNT(*))", policy) == [5, 3, 4, 2, 1]
    assert values("ROW_NUMBER() OVER (ORDER BY k DESC)", policy) == [5, 4, 3, 2, 1]


def test_noise_is_that_of_the_rows_in_the_frame(policy: Policy) -> None:
    running = evaluate("SUM(COUNT(*)) OVER (ORDER BY k)", policy, stddev=2.0)
    assert all(isclose(each.stddev or 0, 2 * sqrt(number)) for number, each in enumerate(running, 1))
    means = evaluate("AVG(COUNT(*)) OVER (ORDER BY k ROWS 1 PRECEDING)", policy, stddev=2.0)
    assert isclose(means[-1].stddev or 0, sqrt(2)) and isclose(means[0].stddev or 0, 2)
    changes = evaluate("COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY k)", policy, stddev=2.0)
    assert isclose(changes[1].stddev or 0, sqrt(8))
    assert (changes[0].value, changes[0].low, changes[0].high) == (None, None, None)
    shared = evaluate("SUM(COUNT(*)) OVER (ORDER BY k) - COUNT(*)", policy, stddev=2.0)
    assert shared[0].stddev == 0  # the row's own noise is subtracted from itself


def test_a_rank_by_keys_is_exact(policy: Policy) -> None:
    assert all(each.low == each.high for each in evaluate("ROW_NUMBER() OVER (ORDER BY k)", policy))


def test_the_ranks_that_are_possible(policy: Policy) -> None:
    ranks = evaluate("RANK() OVER (ORDER BY COUNT(*) DESC)", policy, stddev=2.0)
    assert [(each.low, each.high) for each in ranks] == [(1, 1), (2, 3), (2, 3), (4, 5), (4, 5)]
    dense = evaluate("DENSE_RANK() OVER (ORDER BY COUNT(*) DESC)", policy, stddev=2.0)
    assert [(each.low, each.high) for each in dense] == [(1, 1), (2, 3), (2, 3), (2, 5), (2, 5)]
    blurred = evaluate("RANK() OVER (ORDER BY COUNT(*) DESC)", policy, stddev=500.0)
    assert {(each.low, each.high) for each in blurred} == {(1, 5)}


@pytest.mark.parametrize(("stated", "holds"), [(1.0, True), (0.3, False)])
def test_all_ranks_lie_in_their_intervals_as_often_as_they_say(stated: float, holds: bool, policy: Policy) -> None:
    """Those of one table hold together; with noise that is stated too small they do not."""
    random, draws, stddev, inside = simulation_rng(21), 300, 12.0, 0
    truth = [1, 2, 2, 4, 5]
    for _ in range(draws):
        counts = [round(float(count + stddev * random.standard_normal()), 6) for count in COUNTS]
        ranks = evaluate("RANK() OVER (ORDER BY COUNT(*) DESC)", policy, counts, stated * stddev)
        inside += all(each.low <= rank <= each.high for each, rank in zip(ranks, truth, strict=True))  # type: ignore[operator]
    assert (inside / draws >= 0.95) is holds
