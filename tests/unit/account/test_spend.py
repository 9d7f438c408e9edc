"""`spend`: the most accurate answers for a share of the budget, of one question and of many; `max_cost` as a share."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path
from random import Random

import pytest

from noisebank import Account, Ask, Result
from noisebank.core.errors import BadQuery, BadRequest, PriceMoved
from noisebank.core.units import Precision
from support.banks import memory_account, write_people

AVERAGE = "SELECT AVG(income) AS m FROM people WHERE smoker"
BY_TOWN = "SELECT town, COUNT(*) AS n, AVG(income) AS m FROM people GROUP BY town"
SPREAD = "SELECT STDDEV(income) AS s FROM people WHERE smoker"
QUESTIONS = [
    AVERAGE, BY_TOWN, SPREAD,
    "SELECT COUNT(*) FROM people WHERE smoker",
    "SELECT town, COUNT(*) AS n FROM people GROUP BY town ORDER BY n DESC",
    "SELECT SUM(income) / SUM(age) AS r, AVG(age) AS a FROM people",
    "SELECT AVG(children) FROM people WHERE age > 40",
]  # fmt: skip


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return memory_account(write_people(tmp_path, rows=300, neighbours="add-remove", epsilon="8"))


def spent_share(account: Account, before: Precision) -> Fraction:
    return (account.state.spent.exact - before.exact) / account.state.budget.exact


def name_query(sql: str) -> str:
    """Income is never missing: these spellings are of one query."""
    return sql.replace("COUNT(income)", "COUNT(*)").replace("((income))", "(income)")


def is_all_of(spent: Fraction, share: Fraction) -> bool:
    """Whether a spend is a share of the budget, rounded down to what the ladder and twelve digits can say."""
    return share * (1 - Fraction(1, 10**6)) < spent <= share


def test_the_parts_of_an_average_are_paid_so_that_its_error_is_least(account: Account) -> None:
    result = account.ask(AVERAGE, spend="10%")
    assert is_all_of(spent_share(account, Precision(0)), Fraction(1, 10))
    # A row moves the sum by up to 1,000 and the count by 1; for a typical mean, a third of 1,000, the variance is
    # 1000^2 / w_sum + (1000 / 3)^2 / w_count.
    paid = [float(part.target.exact) for part in result.parts]

    def error(for_sum: float, for_count: float) -> float:
        return 1000**2 / for_sum + (1000 / 3) ** 2 / for_count

    least = error(*paid)
    for factor in (0.7, 0.9, 1.1, 1.3):
        moved = paid[0] * factor
        assert error(moved, sum(paid) - moved) > least if moved < sum(paid) else factor > 1.2
    assert error(sum(paid) / 2, sum(paid) / 2) > 1.1 * least


def test_of_several_results_no_other_split_has_a_smaller_sum_of_relative_variances(account: Account) -> None:
    sql = "SELECT COUNT(*) AS n, AVG(income) AS m, STDDEV(income) AS s FROM people WHERE smoker"
    result = account.ask(sql, spend="10%")
    whole = sum(part.target.exact for part in result.parts)
    paid = {name_query(part.sql): float(part.target.exact / whole) for part in result.parts}
    alone = []  # what each result would give its own queries, from quotes of it alone
    for item in ("COUNT(*)", "AVG(income)", "STDDEV(income)"):
        quote = account.quote(f"SELECT {item} FROM people WHERE smoker", spend="10%")
        parts = quote.parts or (quote,)
        total = sum(part.target.exact for part in parts)
        alone.append({name_query(part.sql): float(part.target.exact / total) for part in parts})

    def badness(split: dict[str, float]) -> float:
        return sum(share**2 / split[query] for own in alone for query, share in own.items())

    least = badness(paid)
    for first, second in product(paid, paid):
        if first != second:
            for moved in (0.3, -0.3):
                step = moved * min(paid[first], paid[second])
                assert badness({**paid, first: paid[first] + step, second: paid[second] - step}) > least
    assert badness(dict.fromkeys(paid, 1 / len(paid))) > least


@pytest.mark.parametrize("seed", range(8))
def test_a_batch_spends_its_share_and_never_more(account: Account, seed: int) -> None:
    random = Random(seed)
    questions = random.choices(QUESTIONS, k=random.randint(1, 6))
    asks, share = [Ask(sql) for sql in questions], Fraction(random.randint(1, 300), 1000)
    price = account.quote_together(asks, spend=share).cost
    outcomes = account.ask_many(asks, spend=share)
    assert all(isinstance(outcome, Result) for outcome in outcomes)
    spent = spent_share(account, Precision(0))
    assert is_all_of(spent, share) and price.exact >= spent * account.state.budget.exact
    again = account.ask_many(asks, spend=share)
    assert spent_share(account, Precision(0)) == spent
    assert [each.rows for each in again if isinstance(each, Result)] == [
        each.rows for each in outcomes if isinstance(each, Result)
    ]


def test_what_questions_share_is_paid_for_once(account: Account) -> None:
    alone = account.quote(BY_TOWN, spend="2%")
    same = account.quote_many([Ask(BY_TOWN), Ask(BY_TOWN), Ask("nonsense")], spend="2%")
    assert [each.cost for each in same[:2] if not isinstance(each, Exception)] == [alone.cost] * 2
    apart = account.quote_many([Ask(AVERAGE), Ask(BY_TOWN)], spend="2%")
    assert [each.cost < alone.cost for each in apart if not isinstance(each, Exception)] == [True, True]


def test_one_that_fails_takes_nothing_and_an_atomic_batch_has_one_price(account: Account) -> None:
    first, failed, second = account.ask_many([Ask(AVERAGE), Ask("SELECT x FROM people"), Ask(BY_TOWN)], spend="4%")
    assert isinstance(first, Result) and isinstance(failed, BadQuery) and isinstance(second, Result)
    assert is_all_of(spent_share(account, Precision(0)), Fraction(4, 100))
    before = account.state.spent
    together = account.ask_many([Ask(SPREAD), Ask("SELECT SUM(age) FROM people")], spend="4%", atomic=True)
    assert all(isinstance(outcome, Result) for outcome in together)
    assert 0 < spent_share(account, before) <= Fraction(4, 100)  # less than all: the sum is known to some degree


def test_what_a_batch_cannot_spend_is_refused_and_costs_nothing(account: Account) -> None:
    for wrong in ("0", "-1%", "101%", "nan", "much"):
        with pytest.raises(BadRequest, match="spend"):
            account.ask_many([Ask(AVERAGE)], spend=wrong)
    with pytest.raises(BadRequest, match="does not go with a spend for all questions"):
        account.ask_many([Ask(AVERAGE), Ask(BY_TOWN, {"within": 5})], spend="1%")
    assert not account.state.spent


def test_the_most_that_may_be_spent_is_a_share_or_a_precision(account: Account) -> None:
    with pytest.raises(PriceMoved, match=r"costs 2% of the budget and may cost 1.5% .* Nothing was spent"):
        account.ask(AVERAGE, spend="2%", max_cost="1.5%")
    assert not account.state.spent
    assert account.ask(AVERAGE, spend="2%", max_cost=" 2% ").cost
    limited = account.ask("SELECT AVG(age) FROM people WHERE smoker", within=2, max_cost="3%")
    assert limited.charge.share <= 0.03
    for wrong in ("-1%", "%", "1%%", "x%"):
        with pytest.raises(BadRequest, match="max_cost"):
            account.ask(AVERAGE, spend="2%", max_cost=wrong)


def test_which_question_of_an_atomic_batch_is_wrong_is_said(account: Account) -> None:
    outcomes = account.ask_many([Ask(AVERAGE, {"spend": "1%"}), Ask("nonsense", {"spend": "1%"})], atomic=True)
    assert [str(outcome).partition(":")[0] for outcome in outcomes] == ["question 2 of 2"] * 2
