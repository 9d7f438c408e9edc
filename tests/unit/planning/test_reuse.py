"""The planner's cases, Table II of the reuse paper, and the algebra of refining and blurring."""

from __future__ import annotations

from fractions import Fraction

import pytest

from noisebank.core.errors import BadRequest
from noisebank.core.records import BridgePoint, Case, Record
from noisebank.core.units import MAX_PRECISION, MIN_PRECISION, ZERO_PRECISION, GridValue, Precision, floor_to_ladder
from noisebank.planning.pricing import NoiseTarget, PrecisionTarget, PrivacyTarget, compute_target, parse_accuracy
from noisebank.planning.reuse import Plan, bridge_law, plan_reuse, refine_answer
from noisebank.privacy.calibration import Calibration
from noisebank.privacy.noise import NormalLaw


def units(value: str | int) -> Precision:
    return Precision(int(Fraction(value) * 10**18))


def record(name: str, precision: str | int) -> Record:
    return Record(name.encode(), units(precision))


def point(precision: str | int, numerator: int, shift: int = 0) -> BridgePoint:
    return BridgePoint(units(precision), GridValue(numerator, shift))


# -- cases -----------------------------------------------------------------------------------------


def test_first_pays_all() -> None:
    assert plan_reuse(units(2), ()) == Plan(Case.FIRST, units(2), units(2), None)


def test_repeat_is_free_and_names_the_equal_record() -> None:
    records = (record("a", 1), record("b", 2), record("c", 3))
    assert plan_reuse(units(2), records) == Plan(Case.REPEAT, units(2), ZERO_PRECISION, records[1])


def test_refine_pays_the_difference_to_the_best() -> None:
    records = (record("a", 1), record("b", 2))
    assert plan_reuse(units(5), records) == Plan(Case.REFINE, units(5), units(3), records[1])


@pytest.mark.parametrize(("wanted", "place"), [("1/2", 0), ("3/2", 1), ("5/2", 2)])
def test_blur_is_free_and_names_the_smallest_record_above(wanted: str, place: int) -> None:
    records = (record("a", 1), record("b", 2), record("c", 3))
    assert plan_reuse(units(wanted), records) == Plan(Case.BLUR, units(wanted), ZERO_PRECISION, records[place])


def test_one_unit_decides_between_cases() -> None:
    records = (record("a", 1),)
    one = units(1)
    assert plan_reuse(one + Precision(1), records).fresh_precision == Precision(1)
    assert plan_reuse(one, records).case is Case.REPEAT
    assert plan_reuse(one - Precision(1), records).case is Case.BLUR


def test_a_request_wants_something() -> None:
    with pytest.raises(ValueError, match="some precision"):
        plan_reuse(ZERO_PRECISION, ())


TYPES = (1, 2, 3, 1, 2, 1, 3, 2, 2, 1, 2, 1, 3)
SIGMAS = ("1", "3", "2", "2.5", "2", "0.5", "2", "2.5", "1.5", "0.25", "1", "0.75", "1.5")
NAMES = {Case.FIRST: "1", Case.REPEAT: "2A", Case.REFINE: "2B", Case.BLUR: "2C"}


def test_table_two_of_the_reuse_paper() -> None:
    """Cases, reused queries and cumulative precision; unit sensitivity."""
    records: dict[int, tuple[Record, ...]] = {1: (), 2: (), 3: ()}
    cases, reuses, cumulative, spent = [], [], [], Fraction(0)
    for number, (kind, sigma) in enumerate(zip(TYPES, SIGMAS, strict=True), start=1):
        wanted = Precision.floor(1 / Fraction(sigma) ** 2)
        planned = plan_reuse(wanted, records[kind])
        cases.append(NAMES[planned.case])
        reuses.append(planned.reused_record.id.decode() if planned.reused_record else "-")
        spent += planned.fresh_precision.exact
        cumulative.append(round(float(spent), 6))
        if planned.fresh_precision:
            records[kind] = (*records[kind], Record(f"Q{number}".encode(), wanted))
    assert cases == ["1", "1", "1", "2C", "2B", "2B", "2A", "2C", "2B", "2B", "2B", "2C", "2B"]
    assert reuses == ["-", "-", "-", "Q1", "Q2", "Q1", "Q3", "Q5", "Q5", "Q6", "Q9", "Q6", "Q3"]
    assert cumulative == [
        1, 1.111111, 1.361111, 1.361111, 1.5, 4.5, 4.5, 4.5, 4.694444, 16.694444, 17.25, 17.25, 17.444444,
    ]  # fmt: skip
    assert round(float(sum(1 / Fraction(sigma) ** 2 for sigma in SIGMAS)), 6) == 25.847778


# -- refining --------------------------------------------------------------------------------------


def test_refined_weighs_by_precision() -> None:
    # 3 of the 4 units of precision are fresh.
    assert refine_answer(units(4), GridValue(80, 3), point(1, 16, 2)).exact == Fraction(3 * 10 + 1 * 4, 4)


def test_refined_is_the_papers_fraction() -> None:
    """r = sigma_m^2/sigma_min^2 on the old answer, 1 - r on the new."""
    old, new = point("1/9", 7 << 20, 20), GridValue(-(5 << 30), 30)
    r = Fraction(1, 9) / Fraction(1, 4)
    expected = r * 7 + (1 - r) * -5
    assert abs(refine_answer(units("1/4"), new, old).exact - expected) <= Fraction(1, 2**30)


def test_refined_rounds_to_the_finer_of_the_two_grids() -> None:
    assert refine_answer(units(3), GridValue(1, 5), point(1, 1, 9)).shift == 9
    assert refine_answer(units(3), GridValue(1, 9), point(1, 1, 5)).shift == 9


# -- blurring --------------------------------------------------------------------------------------


def test_with_nothing_coarser_the_blur_is_the_papers() -> None:
    assert bridge_law(units("1/9"), Fraction(1), (point(1, 5),)) == NormalLaw(
        Fraction(5), Fraction(9) - 1 + tiny("1/9")
    )


def tiny(precision: str) -> Fraction:
    """What cutting a precision to whole units adds to its variance."""
    return 1 / units(precision).exact - 1 / Fraction(precision)


def test_between_two_points_the_blur_is_a_bridge() -> None:
    # s = 1 and 4 known, 2 wanted: a third of the way, variance 1 * 2 / 3.
    law = bridge_law(units("1/2"), Fraction(1), (point("1/4", 16), point(1, 10)))
    assert law == NormalLaw(Fraction(12), Fraction(2, 3))


def test_only_the_two_neighbours_count() -> None:
    inner = (point("1/4", 16), point(1, 10))
    law = bridge_law(units("1/2"), Fraction(1), inner)
    assert bridge_law(units("1/2"), Fraction(1), (point("1/100", 77), *inner, point(50, -3))) == law


def test_the_variance_of_a_blur_grows_with_the_square_of_the_sensitivity() -> None:
    points = (point("1/4", 16), point(1, 10))
    once, thrice = bridge_law(units("1/2"), Fraction(1), points), bridge_law(units("1/2"), Fraction(3), points)
    assert thrice == NormalLaw(once.mean, 9 * once.variance)


@pytest.mark.parametrize("points", [(), (point("1/4", 1),), (point("1/2", 1), point(1, 1))])
def test_a_blur_needs_a_better_point_and_no_equal_one(points: tuple[BridgePoint, ...]) -> None:
    with pytest.raises(ValueError, match="better point"):
        bridge_law(units("1/2"), Fraction(1), points)


# -- pricing ---------------------------------------------------------------------------------------


def test_sigma_is_priced_by_the_sensitivity() -> None:
    assert compute_target(NoiseTarget(Fraction(404)), Fraction(202)) == floor_to_ladder(units("1/4"))


def test_a_pair_is_priced_without_the_sensitivity() -> None:
    pair = PrivacyTarget(Fraction(1), Fraction(1, 10**6))
    assert compute_target(pair, Fraction(1)) == compute_target(pair, Fraction(10**6))


def test_prices_lie_on_the_ladder_and_never_above_what_was_asked() -> None:
    for sigma in ("1", "3", "0.7", "123.456"):
        wanted = compute_target(NoiseTarget(Fraction(sigma)), Fraction(1))
        assert floor_to_ladder(wanted) == wanted
        assert 0 <= 1 / Fraction(sigma) ** 2 - wanted.exact <= wanted.exact / 2**31


def test_too_little_and_too_much_are_refused() -> None:
    for allowed in (MIN_PRECISION, MAX_PRECISION):
        assert compute_target(PrecisionTarget(allowed), Fraction(1)) == floor_to_ladder(allowed)
    with pytest.raises(BadRequest, match="too little"):
        compute_target(PrecisionTarget(MIN_PRECISION - Precision(1)), Fraction(1))
    with pytest.raises(BadRequest, match="more than any account can hold"):
        compute_target(PrecisionTarget(Precision(2**97)), Fraction(1))
    for sigma in (Fraction(40_000), Fraction(1, 10**9)):
        with pytest.raises(BadRequest, match="precision"):
            compute_target(NoiseTarget(sigma), Fraction(1))


def test_wishes() -> None:
    assert parse_accuracy(sigma="2.5") == NoiseTarget(Fraction(5, 2))
    assert parse_accuracy(epsilon=0.1, delta="1e-6") == PrivacyTarget(Fraction(1, 10), Fraction(1, 10**6))
    assert parse_accuracy(epsilon=1, delta="1e-6", calibration="classical").calibration is Calibration.CLASSICAL  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "wished",
    [
        {}, {"epsilon": 1}, {"delta": "1e-6"}, {"sigma": 1, "epsilon": 1}, {"sigma": 1, "delta": 0.1}, {"sigma": 0},
        {"sigma": -1}, {"sigma": "nan"}, {"epsilon": 0, "delta": 0.1}, {"epsilon": 1, "delta": 0},
        {"epsilon": 1, "delta": 1}, {"epsilon": 1, "delta": 0.1, "calibration": "magic"},
        {"epsilon": 1, "delta": 0.1, "calibration": ""},
    ],
)  # fmt: skip
def test_bad_wishes_are_refused(wished: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        parse_accuracy(**wished)  # type: ignore[arg-type]
