"""A second spelling of a question is free; intervals hold the exact values as often as they say."""

from __future__ import annotations

from pathlib import Path

from conformance.sixty.banks import make_bank
from conformance.sixty.exact import ExactTables
from examples.questions import ExampleQuestion, Expectation
from research.papers.seeded import SeededEntropy

SPELLINGS = {
    "SELECT canton, COUNT(*) AS n, AVG(income) AS mean FROM persons GROUP BY canton": (
        "select p.canton, avg(p.income) as mean, count(1) as n from persons as p group by p.canton"
    ),
    "SELECT SUM(weight) FROM persons WHERE status = 'unemployed'": (
        "SELECT SUM(CASE WHEN status IN ('unemployed') THEN weight ELSE 0 END) FROM persons"
    ),
    "SELECT SUM(weight * income) / SUM(weight) AS weighted_mean FROM persons": (
        "SELECT SUM(income * weight) / NULLIF(SUM(weight), 0) AS m FROM persons"
    ),
    "SELECT width_bucket(age, 0, 100, 10) AS decade, COUNT(*) FROM persons GROUP BY 1": (
        "SELECT COUNT(*), width_bucket(age, 0, 100, 10) AS d FROM persons GROUP BY d"
    ),
    "SELECT CORR(age, income), REGR_SLOPE(income, age) FROM persons": (
        "SELECT REGR_SLOPE(income, age) AS slope, CORR(income, age) AS r FROM persons"
    ),
    "SELECT COVAR_SAMP(hours, income) FROM persons": "SELECT COVAR_SAMP(income, hours) FROM persons",
    "SELECT ROUND(AVG(income) / 12, 0) AS monthly FROM persons": "SELECT AVG(income) / 12 AS monthly FROM persons",
    "SELECT COUNT(*) FROM persons WHERE age BETWEEN 25 AND 34 AND education IN ('tertiary', 'doctorate') "
    "AND NOT status = 'student'": (
        "SELECT COUNT(*) FROM persons WHERE NOT (age < 25 OR age > 34 OR status IN ('student')) "
        "AND (education = 'doctorate' OR 'tertiary' = education)"
    ),
    "SELECT COUNT(*) FROM persons WHERE ABS(hours - 42) <= 2": (
        "SELECT COUNT(*) FROM persons WHERE hours >= 40 AND hours < 45"
    ),
    "SELECT SUM(CASE WHEN income < 30000 THEN 30000 - income ELSE 0 END) / 30000.0 / COUNT(*) AS gap FROM persons": (
        "SELECT SUM(CASE WHEN income >= 30000 THEN 0 ELSE 30000 - income END) / COUNT(*) / 30000 AS gap FROM persons"
    ),
}
RANGES = {1.0: (0.92, 0.985), 0.7: (0.0, 0.915), 1.3: (0.97, 1.0)}
"""Coverage of 95% intervals of 256 numbers, as they are stated and at two wrong scales."""
WISH = {"epsilon": "2", "delta": "1e-8"}


def test_a_second_spelling_is_free(tmp_path: Path) -> None:
    bank = make_bank("survey", tmp_path)
    for first, second in SPELLINGS.items():
        account = bank.account_for(ExampleQuestion("", Expectation.ANSWER, first))
        assert account.ask(first, **WISH).cost, first
        assert not account.ask(second, **WISH).cost, second


def test_intervals_hold_as_often_as_they_say(tmp_path: Path) -> None:
    """Each draw asks another share of the hours, so that nothing is reused; a wrong scale is noticed. The noise is
    seeded: numbers of one question share some of it, so that fresh noise left these ranges once in a few dozen runs."""
    bank = make_bank("survey", tmp_path, entropy=SeededEntropy(1))
    tables = ExactTables.load(bank.world, bank.folder)
    covered, total = dict.fromkeys(RANGES, 0), 0
    for top in range(8, 72):
        sql = f"SELECT sex, AVG(income) AS m, SUM(income) / SUM(age) AS r FROM persons WHERE hours < {top} GROUP BY sex"
        result = bank.account_for(ExampleQuestion("", Expectation.ANSWER, sql)).ask(sql, **WISH)
        exact = {row[0]: row[1:] for row in tables.evaluate("", sql)}
        for row in result.rows:
            for estimate, truth in zip(row.estimates, exact[row.keys[0]], strict=True):
                assert estimate.value is not None and estimate.low is not None and estimate.high is not None
                total += 1
                for scale in RANGES:
                    low = estimate.value - scale * (estimate.value - estimate.low)
                    high = estimate.value + scale * (estimate.high - estimate.value)
                    covered[scale] += low <= float(truth) <= high
    for scale, (least, most) in RANGES.items():
        assert least <= covered[scale] / total <= most, (scale, covered[scale] / total)
