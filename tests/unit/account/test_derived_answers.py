"""Derived answers: arithmetic at its edges, and groups that are reserved, charged and retried as one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import inf, isfinite, sqrt
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.account.account import Account
from noisebank.account.answers import Answer, Group, GroupedAnswer
from noisebank.account.derived.aggregates import ratio_interval
from noisebank.bank.bank import create_bank, open_bank
from noisebank.core.errors import BadRequest, BudgetExhausted, KeyReused, Misuse, PriceMoved, ViewExhausted
from noisebank.core.receipts import Receipt
from noisebank.core.records import Case
from noisebank.core.result import Result
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.ledger.embedded import EmbeddedLedger
from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.queries.derived import Aggregate
from noisebank.vault.sqlite_vault import SqliteVault
from support.banks import memory_account, write_people
from support.derived_values import derive_values, parse_aggregate

WISH: dict[str, Any] = {"epsilon": "0.5", "delta": "1e-6"}
AVERAGE = "SELECT AVG(income) FROM people WHERE smoker"
SPREAD = "SELECT VARIANCE(income) FROM people WHERE smoker"
SEVERAL = "SELECT AVG(income) AS mean, MEDIAN(age) AS middle, COUNT_IF(town = 'north') AS n FROM people WHERE smoker"


class Seeded:
    """Repeatable noise, for tests of arithmetic and of bookkeeping."""

    def __init__(self, seed: int = 0) -> None:
        self.random = Random(seed)

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        return [self.discrete_gaussian(scale) for _ in range(count)]

    def discrete_gaussian(self, scale: float) -> int:
        return round(self.random.gauss(0.0, scale))

    def token(self, size: int = 32) -> bytes:
        return self.random.randbytes(size)


def people(folder: Path, **facts: Any) -> Path:
    """The usual people, with bins for ages."""
    path = write_people(folder, **facts)
    path.write_text(path.read_text().replace("bounds = [0, 120]", "bounds = [0, 120]\nbins = [20, 40, 60, 80]"))
    return path


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return memory_account(people(tmp_path, epsilon="8"), Seeded())


def bits(result: Result) -> list[object]:
    """Everything that was released."""
    return [receipt.answer.get("values", receipt.answer.get("value")) for receipt in result.receipts]


# -- arithmetic: made-up parts ------------------------------------------------------------------------

COLUMN = Column("x", Kind.NUMBER, Fraction(1, 2), -4, 10, bins=(0, 4))
POLICY = Policy(
    "t", Path("/t"), Neighbours.ADD_REMOVE, 100,
    MappingProxyType({"x": COLUMN, "b": Column("b", Kind.BOOLEAN), "k": Column("k", Kind.TEXT, keys=("p", "q"))}),
    Fraction(1), Fraction(1, 10**6),
)  # fmt: skip
RECEIPT = Receipt(b"", b"", {}, b"", 1, "", 1, b"")


def part(value: float, stddev: float) -> Answer:
    return Answer(
        value, stddev, Case.FIRST, ZERO_PRECISION, ZERO_PRECISION, ZERO_PRECISION, "", Fraction(value), RECEIPT
    )


def counts(values: list[float], stddev: float) -> GroupedAnswer:
    groups = tuple(Group((str(place),), value, Fraction(value)) for place, value in enumerate(values))
    common = {name: getattr(part(0.0, stddev), name) for name in Answer.__slots__}
    return GroupedAnswer(**common, by=("x",), groups=groups)


@cache
def item(sql: str) -> Aggregate:
    return parse_aggregate(f"SELECT {sql} FROM t", POLICY)


numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
deviations = st.floats(1e-6, 1e6)
confidences = st.sampled_from([0.5, 0.6827, 0.9, 0.95, 0.99, 0.999999])
RESULTS = ["AVG(x)", "AVG(b)", "VAR_POP(x)", "STDDEV_POP(x)"]
PUBLIC = {"AVG(x)": (-2.0, 5.0), "AVG(b)": (0.0, 1.0), "VAR_POP(x)": (0.0, 12.25), "STDDEV_POP(x)": (0.0, 3.5)}


@settings(max_examples=200)
@given(st.sampled_from(RESULTS), st.lists(st.tuples(numbers, deviations), min_size=3, max_size=3), confidences)
def test_always_finite_ordered_and_inside_the_public_bounds(sql, drawn, confidence):
    asked = item(sql)
    (found,) = derive_values(asked, [part(*one) for one in drawn[: len(asked.questions)]], confidence)
    least, most = PUBLIC[sql]
    assert least <= found.low <= found.high <= most and least <= found.value <= most


@settings(max_examples=200)
@given(st.sampled_from(RESULTS), st.lists(st.tuples(numbers, deviations), min_size=3, max_size=3), confidences)
def test_the_value_lies_in_its_interval(sql, drawn, confidence):
    asked = item(sql)
    (found,) = derive_values(asked, [part(*one) for one in drawn[: len(asked.questions)]], confidence)
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize("sql", RESULTS)
@pytest.mark.parametrize("bottom", [0.0, 1e-300, 1e-9, -1e-9, 0.5, 1.9])
def test_a_count_that_may_be_zero_says_nothing(sql, bottom):
    asked = item(sql)
    given_ = [*[part(3.0, 1.0), part(2.0, 1.0)][: len(asked.questions) - 1], part(bottom, 1.0)]
    (found,) = derive_values(asked, given_, 0.95)
    assert (found.low, found.high) == pytest.approx(PUBLIC[sql])
    assert isfinite(found.value)


@pytest.mark.parametrize("sql", RESULTS)
@pytest.mark.parametrize("confidence", [0.6827, 0.95])
def test_a_negative_count_says_nothing(sql, confidence):
    asked = item(sql)
    given_ = [part(3.0, 1.0)] * (len(asked.questions) - 1) + [part(-50.0, 1.0)]
    (found,) = derive_values(asked, given_, confidence)
    assert (found.low, found.high) == pytest.approx(PUBLIC[sql])
    if sql.startswith("AVG"):  # nothing is known: the middle of what is possible
        assert found.value == sum(PUBLIC[sql]) / 2


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("AVG(x)", (1e6, 50.0)),
        ("AVG(x)", (-1e6, 50.0)),
        ("AVG(b)", (1e4, 50.0)),
        ("VAR_POP(x)", (50.0, 230.0, 50.0)),
        ("STDDEV_POP(x)", (50.0, 230.0, 50.0)),
    ],
)
def test_an_interval_that_misses_all_possible_values_says_nothing(sql, values):
    """Cut off at a bound it would have no width: certainty, where the noise was only unusual."""
    (found,) = derive_values(item(sql), [part(value, 1.0) for value in values], 0.95)
    assert (found.low, found.high) == pytest.approx(PUBLIC[sql])
    assert min(abs(found.value - end) for end in PUBLIC[sql]) < 1e-9


def test_fieller_by_hand():
    """top 100 ± 10, bottom 50 ± 5, z = 1: the roots of (50^2 - 25) r^2 - 2 5000 r + 100^2 - 100 = 0."""
    confidence = 0.6826894921370859
    low, high = ratio_interval(100.0, 10.0, 50.0, 5.0, confidence)
    for root in (low, high):
        assert abs((50**2 - 25) * root**2 - 2 * 5000 * root + 100**2 - 100) < 1e-4
    assert low < 2 < high


def test_an_exact_bottom_is_a_plain_interval():
    low, high = ratio_interval(30.0, 2.0, 10.0, 0.0, 0.95)
    assert (low, high) == (pytest.approx(3 - 0.1959964 * 2, abs=1e-6), pytest.approx(3 + 0.1959964 * 2, abs=1e-6))


def test_no_confidence_in_a_bottom_near_zero():
    assert ratio_interval(5.0, 1.0, 1.9, 1.0, 0.95) == (-inf, inf)
    low, high = ratio_interval(5.0, 1.0, 2.0, 1.0, 0.95)
    assert isfinite(low) and isfinite(high) and low < 2.5 < high


@settings(max_examples=100)
@given(numbers, deviations, st.floats(1e-3, 1e6), deviations, st.floats(1e-3, 1e3))
def test_units_make_no_difference_to_a_ratio(top, top_sd, bottom, bottom_sd, factor):
    one = ratio_interval(top, top_sd, bottom, bottom_sd, 0.95)
    two = ratio_interval(top * factor, top_sd * factor, bottom, bottom_sd, 0.95)
    if isfinite(one[0]):
        wide = max(abs(one[0]), abs(one[1]), top_sd / bottom)
        assert two == pytest.approx((one[0] * factor, one[1] * factor), rel=1e-6, abs=1e-6 * wide * factor)


@settings(max_examples=100)
@given(st.lists(numbers, min_size=3, max_size=3), deviations, confidences, st.sampled_from(
    ["MEDIAN(x)", "QUANTILE(x, 0)", "QUANTILE(x, 0.9)", "QUANTILE(x, 1)", "MIN(x)", "MAX(x)"]))  # fmt: skip
def test_ranks_are_finite_ordered_and_inside_the_bounds(values, stddev, confidence, sql):
    (found,) = derive_values(item(sql), [counts(values, stddev)], confidence)
    assert -2.0 <= found.low <= found.value <= found.high <= 5.0
    edges = {-2.0, 0.0, 2.0, 5.0}
    assert {found.low, found.high} <= edges  # nobody has said where in a bin people are


@pytest.mark.parametrize("sql", ["MEDIAN(x)", "QUANTILE(x, 0.3)", "MIN(x)", "MAX(x)"])
def test_an_empty_table_could_be_anything(sql):
    for values in ([0.0, 0.0, 0.0], [-1.0, 0.5, 0.2], [-0.3, -0.2, -0.4]):
        (found,) = derive_values(item(sql), [counts(values, 1.0)], 0.95)
        assert (found.low, found.high) == (-2.0, 5.0) and isfinite(found.value)


@pytest.mark.parametrize(
    ("sql", "values", "inside"),
    [
        ("MEDIAN(x)", [1000.0, 0.0, 0.0], (-2.0, 0.0)),
        ("MEDIAN(x)", [0.0, 1000.0, 0.0], (0.0, 2.0)),
        ("MEDIAN(x)", [0.0, 0.0, 1000.0], (2.0, 5.0)),
        ("QUANTILE(x, 0.1)", [400.0, 0.0, 600.0], (-2.0, 0.0)),
        ("QUANTILE(x, 0.9)", [400.0, 0.0, 600.0], (2.0, 5.0)),
        ("MEDIAN(x)", [500.0, 0.0, 500.0], (-2.0, 5.0)),
        ("MIN(x)", [0.0, 1000.0, 5.0], (-2.0, 2.0)),
        ("MAX(x)", [5.0, 1000.0, 0.0], (0.0, 5.0)),
    ],
)
def test_clear_counts_give_whole_bins(sql, values, inside):
    (found,) = derive_values(item(sql), [counts(values, 0.5)], 0.95)
    assert (found.low, found.high) == inside


def test_the_most_frequent_is_the_largest_count():
    noisy = counts([3.0, 9.0], 1.0)
    (found,) = derive_values(item("MODE(k)"), [noisy], 0.95)
    assert (found.label, found.value) == ("q", 9.0)
    assert found.low < 9 - 1.96 and found.high > 9 + 1.96  # wider than for one: it was chosen among three


@pytest.mark.parametrize(("sql", "variance"), [("VAR_POP(x)", 1.25), ("VARIANCE(x)", 5 / 3), ("VAR_SAMP(x)", 5 / 3)])
def test_variances_are_of_the_population_or_of_a_sample(sql, variance):
    """4 values: squares 30, sum 10, variance 30/4 - (10/4)^2 = 1.25; divided by 3 instead of 4: 5/3."""
    small = [part(30.0, 1e-9), part(10.0, 1e-9), part(4.0, 1e-9)]
    assert derive_values(item(sql), small, 0.95)[0].value == pytest.approx(variance)
    deviation = sql.replace("VARIANCE", "STDDEV").replace("VAR_", "STDDEV_")
    assert derive_values(item(deviation), small, 0.95)[0].value == pytest.approx(sqrt(variance))


@pytest.mark.parametrize("step", [Fraction(1, 10**90), Fraction(10**90)])
def test_steps_of_any_size_make_honest_variances(step):
    """The same numbers in another unit: neither not-a-number nor a narrower interval."""

    def of(step: Fraction) -> tuple[float, float]:
        unit = float(step)
        asked = replace(item("VARIANCE(x)"), column=replace(COLUMN, step=step))
        parts = [part(300 * unit**2, 30 * unit**2), part(10 * unit, unit / 10), part(40.0, 0.01)]
        (found,) = derive_values(asked, parts, 0.95)
        return found.low / unit / unit, found.high / unit / unit

    plain, other = of(Fraction(1)), of(step)
    assert other[0] <= plain[0] * (1 + 1e-9) and other[1] >= plain[1] * (1 - 1e-9)


# -- one atomic group ----------------------------------------------------------------------------------


def test_a_derived_answer_reads_like_an_answer(account: Account) -> None:
    answer = account.ask(AVERAGE, **WISH)
    low, high = answer.interval()
    assert -100 <= low <= answer.value <= high <= 1000
    assert answer.case is Case.FIRST and answer.by == () and len(answer.rows) == 1
    assert answer.cost == account.state.spent and answer.remaining == account.state.remaining_budget
    assert answer.estimate.stddev is None and "AVG(income)" in repr(answer)
    with pytest.raises(BadRequest, match=r"known at 0\.95 only"):
        answer.interval(0.99)
    wide, narrow = (account.ask(AVERAGE, confidence=sure, **WISH) for sure in ("0.99", "0.5"))
    assert wide.low <= low <= narrow.low <= narrow.high <= high <= wide.high and narrow.confidence == 0.5


@pytest.mark.parametrize(
    "sql",
    [
        AVERAGE,
        SPREAD,
        SEVERAL,
        "SELECT COUNT_IF(smoker) AS a, 2 * COUNT_IF(smoker) AS b FROM people",
        "SELECT AVG(income) AS m, SUM(income) AS s FROM people WHERE smoker",
        "SELECT SUM(income) AS s, AVG(income) AS m FROM people WHERE smoker",
        "SELECT AVG(age >= 0) FROM people WHERE smoker",
        "SELECT STDDEV(age) AS s, VARIANCE(age) AS v, AVG(age) AS m FROM people",
        "SELECT MEDIAN(age) AS a, MIN(age) AS b, MAX(age) AS c, MODE(age) AS d FROM people",
        "SELECT town, AVG(income) AS m, COUNT(*) AS n FROM people GROUP BY town",
        "SELECT COUNT_IF(smoker) - COUNT_IF(age > 40) AS x, COUNT_IF(age > 40) - COUNT_IF(smoker) AS y FROM people",
    ],
)
def test_the_quote_is_what_is_paid(account: Account, sql: str) -> None:
    for wish in (WISH, WISH, {"epsilon": "0.7", "delta": "1e-6"}, {"epsilon": "0.2", "delta": "1e-6"}):
        quote, before = account.quote(sql, **wish), account.state.spent
        result = account.ask(sql, **wish)
        paid = account.state.spent - before
        assert quote.cost == paid
        assert result.cost == paid


def test_cost_is_what_the_account_paid(account: Account) -> None:
    doubled = account.ask("SELECT COUNT_IF(smoker) AS a, 2 * COUNT_IF(smoker) AS b FROM people", **WISH)
    assert doubled.cost == account.state.spent > ZERO_PRECISION
    assert doubled["b"].exact == 2 * doubled["a"].exact
    before = account.state.spent
    certain = account.ask("SELECT AVG(age >= 0) FROM people WHERE town = 'north'", **WISH)
    assert certain.cost == account.state.spent - before


def test_results_that_differ_in_their_constant_only(account: Account) -> None:
    found = account.ask("SELECT COUNT_IF(smoker) + 5 AS a, COUNT_IF(smoker) + 700 AS b FROM people", **WISH)
    assert found["b"].exact - found["a"].exact == 695
    assert found.cost == account.state.spent == account.quote("SELECT COUNT_IF(age > 30) FROM people", **WISH).target


def test_what_two_results_share_is_charged_once(account: Account) -> None:
    alone = account.quote(SPREAD, **WISH).cost
    found = account.ask(
        "SELECT VARIANCE(income) AS v, STDDEV(income) AS s, VAR_POP(income) AS w FROM people WHERE smoker", **WISH
    )
    assert account.state.spent == found.cost == alone
    assert found["s"].value == pytest.approx(sqrt(found["v"].value))
    assert len(account.ledger.list_reservations(account.id)) == 3


def test_the_wish_is_shared_by_the_parts(account: Account) -> None:
    whole = account.quote("SELECT COUNT_IF(smoker) FROM people", **WISH).target
    for sql, parts in ((AVERAGE, 2), (SPREAD, 3), ("SELECT VARIANCE(age) FROM people", 2)):
        quote = account.quote(sql, **WISH)
        assert quote.cost <= whole and len(quote.parts) == parts
        assert quote.parts[0].target > quote.parts[-1].target
        assert float(quote.cost) == pytest.approx(float(whole), rel=1e-8)


@pytest.mark.parametrize("sql", [AVERAGE, SPREAD, SEVERAL, "SELECT town, AVG(income) FROM people GROUP BY town"])
def test_all_or_nothing_when_the_budget_is_short(tmp_path: Path, sql: str) -> None:
    account = memory_account(people(tmp_path, epsilon="1"), Seeded())
    dear = {"epsilon": "1.2", "delta": "1e-6"}  # each part alone could be paid for
    quote = account.quote(sql, **dear)
    assert not quote.affordable and any(each.affordable for each in quote.parts)
    blocks = account.ledger.head().number
    with pytest.raises(BudgetExhausted):
        account.ask(sql, **dear)
    assert account.state.spent == ZERO_PRECISION and account.ledger.list_reservations(account.id) == ()
    assert account.ledger.head().number == blocks and account.vault.sealed_ids() == ()


def test_all_or_nothing_when_an_analyst_may_not_learn_it(account: Account) -> None:
    limit = account.quote(AVERAGE, **WISH).parts[0].target  # one part of two
    account.ledger.set_limit(account.id, account.analyst("ann"), limit.units)
    with pytest.raises(ViewExhausted):
        account.ask(AVERAGE, analyst="ann", **WISH)
    assert account.state.spent == ZERO_PRECISION and account.vault.sealed_ids() == ()


@pytest.mark.parametrize(
    "sql", [AVERAGE, SEVERAL, "SELECT AVG(income) AS m, SUM(income) AS s FROM people WHERE smoker"]
)
def test_at_most_is_compared_with_what_is_paid(account: Account, sql: str) -> None:
    cost = account.quote(sql, **WISH).cost
    with pytest.raises(PriceMoved):
        account.ask(sql, max_cost=cost.exact - Fraction(1, 10**18), **WISH)
    assert account.state.spent == ZERO_PRECISION and account.vault.sealed_ids() == ()
    assert account.ask(sql, max_cost=cost.exact, **WISH).cost == cost
    assert account.ask(sql, max_cost=0, **WISH).cost == ZERO_PRECISION  # known by now


def test_a_group_that_is_partly_known_pays_for_the_rest(account: Account) -> None:
    account.ask("SELECT SUM(income) FROM people WHERE smoker", **WISH)
    before = account.state.spent
    answer = account.ask(AVERAGE, **WISH)
    assert [each.case for each in answer.parts] == [Case.BLUR, Case.FIRST]
    assert answer.case is Case.FIRST
    assert answer.cost == account.state.spent - before == answer.parts[1].cost


@pytest.mark.parametrize("sql", [AVERAGE, SPREAD, SEVERAL, "SELECT MODE(town) FROM people"])
def test_the_same_key_gives_the_same_bits_and_no_charge(account: Account, sql: str) -> None:
    first = account.ask(sql, key="k", **WISH)
    spent, measured = account.state.spent, account.state.measurements
    again = account.ask(sql, key="k", **WISH)
    assert bits(again) == bits(first) and account.state.spent == spent and account.state.measurements == measured
    assert again.receipts == first.receipts
    assert again.cost == first.cost
    other = account.ask(sql, key="another", **WISH)
    assert bits(other) == bits(first) and other.cost == ZERO_PRECISION and account.state.spent == spent


def test_one_key_is_one_request(account: Account) -> None:
    questions = [
        "SELECT COUNT_IF(smoker) FROM people",
        AVERAGE,
        "SELECT AVG(income) FROM people WHERE age > 40",
        SPREAD,
        SEVERAL,
    ]
    for number, first in enumerate(questions):
        account.ask(first, key=f"key {number}", **WISH)
        spent = account.state.spent
        for other in questions:
            if other != first:
                with pytest.raises(KeyReused):
                    account.ask(other, key=f"key {number}", **WISH)
        with pytest.raises(KeyReused):
            account.ask(first, key=f"key {number}", epsilon="0.6", delta="1e-6")
        assert account.state.spent == spent


@pytest.mark.parametrize("length", [150, 200])
def test_long_keys_are_fine_or_refused_before_anything_is_paid(account: Account, length: int) -> None:
    try:
        account.ask(AVERAGE, key="k" * length, **WISH)
    except Misuse:
        assert account.state.spent == ZERO_PRECISION
        assert length > 150


class Crash(BaseException):
    """The process is gone."""


def crashing(patched: pytest.MonkeyPatch, cut: int) -> None:
    """Dies at the given moment: before all parts are sealed, after it, after their publication."""
    moments = iter(range(1_000))

    def dying(whole: Any, after: bool) -> Any:
        def run(self: Any, *arguments: Any) -> Any:
            if next(moments) == cut:
                raise Crash
            done = whole(self, *arguments)
            if after and next(moments) == cut:
                raise Crash
            return done

        return run

    patched.setattr(SqliteVault, "seal_many", dying(SqliteVault.seal_many, False))
    patched.setattr(EmbeddedLedger, "publish_many", dying(EmbeddedLedger.publish_many, True))


@pytest.mark.parametrize("cut", range(3))
def test_a_retry_after_a_crash_finishes_the_rest(account: Account, cut: int) -> None:
    """Three parts, sealed in one commit and published in one block: before the first, between them, after both."""
    cost = account.quote(SPREAD, **WISH).cost
    with pytest.MonkeyPatch.context() as patched:
        crashing(patched, cut)
        with pytest.raises(Crash):
            account.ask(SPREAD, key="k", **WISH)
    assert account.state.spent == cost  # reserved as one
    sealed = {id: account.vault.find_answer(id) for _, id in account.vault.sealed_ids()}
    assert len(sealed) == (3 if cut else 0)
    answer = account.ask(SPREAD, key="k", **WISH)
    assert account.state.spent == cost == answer.cost
    assert account.state.measurements == 3
    for each in answer.parts:
        if each.receipt.id in sealed:
            assert each.receipt.answer == sealed[each.receipt.id].body
    assert bits(account.ask(SPREAD, key="k", **WISH)) == bits(answer)


@pytest.mark.parametrize("cut", [0, 1])
def test_a_new_process_finishes_the_group(tmp_path: Path, cut: int) -> None:
    folder, policy = create_bank(tmp_path / "bank"), people(tmp_path, epsilon="8")
    with open_bank(folder) as bank, pytest.MonkeyPatch.context() as patched:
        account = bank.open_account(policy)
        crashing(patched, cut)
        with pytest.raises(Crash):
            account.ask(SPREAD, key="k", **WISH)
    with open_bank(folder) as bank:
        account = bank.account()
        spent = account.state.spent
        assert bank.recovered["people"].finished == 3 - (cut + 1) // 3
        answer = account.ask(SPREAD, key="k", **WISH)
        assert answer.cost == account.state.spent == spent and account.state.measurements == 3


def test_numbers_beyond_floats_are_refused_before_they_are_paid_for(account: Account) -> None:
    for text in (
        "1e350 * COUNT_IF(smoker)",
        "COUNT_IF(smoker) + 1e350",
        "COUNT_IF(smoker) - 1e350",
        "1e-390 * COUNT_IF(smoker)",
        "1e305 * SUM(income)",
    ):
        for ask in (account.quote, account.ask):
            try:
                found = ask(f"SELECT {text} FROM people", **WISH)
            except Misuse:
                assert account.state.spent == ZERO_PRECISION, text
            else:
                assert found.stddev is not None and isfinite(found.stddev) and found.stddev > 0, text


def test_relative_accuracy_of_a_negative_multiple(tmp_path: Path) -> None:
    account = memory_account(people(tmp_path, rows=300, epsilon="20"), Seeded())
    answer = account.ask("SELECT -3 * COUNT_IF(age > 20) FROM people", relative="30%", confidence=0.9)
    low, high = answer.interval()
    assert answer.verdict is not None and answer.verdict.reached and answer.stddev > 0 and low < answer.value < high < 0
    assert abs(answer.value + 3 * 295) < 0.3 * 3 * 295
    mixed = "SELECT COUNT_IF(town = 'north') - 3 * COUNT_IF(age > 20) FROM people"
    again = account.ask(mixed, relative="40%", confidence=0.9)
    assert again.stddev > 0 and again.interval()[0] < again.interval()[1]


def test_the_noise_of_several_parts_cannot_be_named(account: Account) -> None:
    for sql in (AVERAGE, SPREAD):
        with pytest.raises(Misuse, match="derived"):
            account.ask(sql, sigma="5")
    sql = "SELECT MEDIAN(age) FROM people"
    assert (account.quote(sql, sigma="5").parts[0].stddev or 9.0) <= 5.0 + 1e-6  # one query: its noise can be named
    assert len(account.ask(sql, sigma="5").parts) == 1


def test_results_are_found_by_name(account: Account) -> None:
    found = account.ask(SEVERAL, **WISH)
    assert found.items == found.columns == ("mean", "middle", "n")
    assert [found[name].stddev is None for name in found.items] == [True, True, False]
    assert found.remaining == account.state.remaining_budget and "middle" in repr(found)
    with pytest.raises(BadRequest, match="mean, middle, n"):
        found["nobody"]


def test_a_named_query_may_be_derived(tmp_path: Path) -> None:
    policy = people(tmp_path, epsilon="8")
    policy.write_text(policy.read_text() + f'[queries]\nmean = "{AVERAGE}"\n')
    account = memory_account(policy, Seeded())
    named = account.ask("mean", **WISH)
    assert bits(account.ask(AVERAGE, **WISH)) == bits(named)


def test_grouped_averages(account: Account) -> None:
    answer = account.ask("SELECT town, AVG(income) FROM people WHERE age > 0 GROUP BY town", **WISH)
    assert answer.by == ("town",) and answer.columns == ("town", "AVG(income)")
    assert [row.keys for row in answer] == [("north",), ("south",)]
    assert all(-100 <= row.low <= row.value <= row.high <= 1000 for row in answer)
    totals, rows = (account.recall(part.id) for part in answer.parts)
    for row, total, count in zip(answer, totals, rows, strict=True):
        if count.value > 0:
            assert row.value == min(max(total.value / count.value, -100), 1000)


def test_ungrouped_results_are_numbers(tmp_path: Path) -> None:
    """Whatever the noise: an empty table, tiny precision, many draws."""
    account = memory_account(people(tmp_path, lines=[], neighbours="add-remove", epsilon="20"), Seeded(3))
    for number in range(8):
        where = f"WHERE income > {number}"
        for sql in (
            "AVG(income)",
            "STDDEV(income)",
            "AVG(smoker)",
            "MEDIAN(age)",
            "MIN(age)",
            "MAX(age)",
            "MODE(town)",
        ):
            answer = account.ask(f"SELECT {sql} FROM people {where}", epsilon="0.05", delta="1e-6")
            low, high = answer.interval()
            assert isfinite(answer.value) and isfinite(low) and isfinite(high) and low <= answer.value <= high
    assert Precision(0) < account.state.spent


def test_a_single_number_is_stated_as_tables_are(account: Account) -> None:
    """The short way of a plain question gives the result that the long way gives."""
    for sql in ("SELECT COUNT(*) AS n FROM people WHERE smoker", "SELECT 2 * SUM(income) - 7 AS n FROM people"):
        short, long = account.ask(sql, **WISH), account.ask(f"{sql} ORDER BY 1", **WISH)
        assert (short.rows, short.columns, short.confidence) == (long.rows, long.columns, long.confidence)


@pytest.mark.parametrize("sql", ["SUM(income) / {}", "100 * SUM(income) / {} - 3", "COUNT_IF(smoker) / {}"])
def test_a_ratio_that_is_null_where_it_divides_by_zero_anyway_is_the_ratio(tmp_path: Path, sql: str) -> None:
    account = memory_account(people(tmp_path, epsilon="8", rows=500), Seeded())
    plain = account.ask(f"SELECT {sql.format('SUM(age)')} AS x FROM people", **WISH)
    guarded = account.ask(f"SELECT {sql.format('NULLIF(SUM(age), 0)')} AS x FROM people", **WISH)
    assert guarded.rows == plain.rows and not guarded.charge.cost and plain.rows[0]["x"].low is not None
