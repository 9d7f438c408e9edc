"""Reuse against independent computations: brute force, and Gaussian conditioning in exact rationals."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.records import BridgePoint, Case, Record
from noisebank.core.units import MIN_PRECISION, ZERO_PRECISION, GridValue, Precision, floor_to_ladder
from noisebank.planning.pricing import NoiseTarget, compute_target
from noisebank.planning.reuse import bridge_law, plan_reuse, refine_answer
from noisebank.privacy.noise import MIN_SCALE, noise_scale

many = settings(max_examples=200, deadline=None)

amounts = st.integers(1, 10**30).map(Precision)
near = st.integers(1, 40).map(Precision)  # so that equal and neighbouring ones happen
grid_values = st.builds(GridValue, st.integers(-(10**12), 10**12), st.integers(0, 40))
sensitivities = st.integers(1, 10**6).map(Fraction)


def solved(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """The solution of a regular linear system, by elimination in exact rationals."""
    size = len(right)
    rows = [[*matrix[i], right[i]] for i in range(size)]
    for i in range(size):
        pivot = next(j for j in range(i, size) if rows[j][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(size):
            if j != i and rows[j][i]:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[-1] for row in rows]


@many
@given(st.lists(st.one_of(amounts, near), min_size=1, max_size=12))
def test_a_history_costs_its_best_request(requests: list[Precision]) -> None:
    records: list[Record] = []
    spent = ZERO_PRECISION
    for number, wanted in enumerate(requests):
        before = [record.precision for record in records]
        planned = plan_reuse(wanted, records)
        assert planned.fresh_precision == Precision(max(0, wanted.units - max((p.units for p in before), default=0)))
        expected = (
            Case.FIRST if not before
            else Case.REFINE if wanted > before[-1]
            else Case.REPEAT if wanted in before
            else Case.BLUR
        )  # fmt: skip
        assert planned.case is expected
        if planned.case is Case.REFINE:
            assert planned.reused_record == records[-1]
        elif planned.case is not Case.FIRST:
            assert planned.reused_record is not None
            assert planned.reused_record.precision == min(p for p in before if p >= wanted)
        if planned.fresh_precision:
            records.append(Record(number.to_bytes(32, "big"), wanted))
        spent += planned.fresh_precision
    assert spent == max(requests)
    assert [r.precision for r in records] == sorted({r.precision for r in records})


@many
@given(amounts, amounts, grid_values, grid_values, st.integers(-(10**9), 10**9))
def test_refined_is_unbiased_and_has_the_wanted_precision(
    base: Precision, fresh: Precision, measured: GridValue, known: GridValue, shift: int
) -> None:
    wanted = base + fresh
    best = BridgePoint(base, known)
    exact = (fresh.exact * measured.exact + base.exact * known.exact) / wanted.exact
    value = refine_answer(wanted, measured, best)
    assert value.shift == max(measured.shift, known.shift)
    assert abs(value.exact - exact) <= Fraction(1, 2 ** (value.shift + 1))
    # Its variance, and its covariance with the answer that it builds on, are 1/wanted.
    a, b = fresh.exact / wanted.exact, base.exact / wanted.exact
    assert a + b == 1
    assert a * a / fresh.exact + b * b / base.exact == 1 / wanted.exact == b / base.exact
    # A table with `shift` more people moves it by exactly that: its rounding sees noise only.
    moved = refine_answer(wanted, _moved(measured, shift), BridgePoint(base, _moved(known, shift)))
    tie = (exact * 2**value.shift).denominator == 2
    assert moved.exact - value.exact == shift or tie


def _moved(value: GridValue, steps: int) -> GridValue:
    return GridValue(value.numerator + (steps << value.shift), value.shift)


@many
@given(
    st.lists(st.tuples(st.one_of(amounts, near), grid_values), min_size=1, max_size=6, unique_by=lambda item: item[0]),
    st.one_of(amounts, near),
    sensitivities,
)
def test_the_bridge_is_the_conditional_law(
    released: list[tuple[Precision, GridValue]], wanted: Precision, moves: Fraction
) -> None:
    """Cov(y_i, y_j) = min(s_i, s_j): the new point given all others, by Gaussian conditioning."""
    points = sorted((BridgePoint(*item) for item in released), key=lambda point: point.precision)
    if wanted >= points[-1].precision or any(point.precision == wanted for point in points):
        return
    s = [moves**2 / point.precision.exact for point in points]
    s_wanted = moves**2 / wanted.exact
    covariance = [[min(a, b) for b in s] for a in s]
    towards = [min(a, s_wanted) for a in s]
    weights = solved(covariance, towards)
    law = bridge_law(wanted, moves, points)
    assert sum(weights) == 1  # unbiased, whatever the true value is
    assert law.mean == sum((w * point.value.exact for w, point in zip(weights, points, strict=True)), Fraction(0))
    assert law.variance == s_wanted - sum(w * c for w, c in zip(weights, towards, strict=True)) > 0


@many
@given(st.lists(near, min_size=2, max_size=6, unique=True), st.data())
def test_any_order_of_blurs_keeps_the_covariance(precisions: list[Precision], data: st.DataObject) -> None:
    """Every answer as a combination of independent noises: after any history Cov = min."""
    best = max(precisions)
    order = data.draw(st.permutations([p for p in precisions if p != best]))
    noises: dict[Precision, dict[int, Fraction]] = {best: {0: 1 / best.exact}}  # noise -> weight, of variance below
    variances = {0: 1 / best.exact}
    noises[best] = {0: Fraction(1)}
    for number, wanted in enumerate(order, start=1):
        points = [BridgePoint(p, GridValue(0, 0)) for p in sorted(noises)]
        law = bridge_law(wanted, Fraction(1), points)
        mixed: dict[int, Fraction] = {}
        for p in noises:  # the mean is linear in the released values: read its weights off
            probe = [BridgePoint(q, GridValue(1 if q == p else 0, 0)) for q in sorted(noises)]
            share = bridge_law(wanted, Fraction(1), probe).mean
            for noise, weight in noises[p].items():
                mixed[noise] = mixed.get(noise, Fraction(0)) + share * weight
        mixed[number], variances[number] = Fraction(1), law.variance
        noises[wanted] = mixed
    for a, of_a in noises.items():
        for b, of_b in noises.items():
            covariance = sum(w * of_b.get(noise, Fraction(0)) * variances[noise] for noise, w in of_a.items())
            assert covariance == min(1 / a.exact, 1 / b.exact)


@many
@given(st.lists(st.integers(10**9, 2**96), min_size=2, max_size=3, unique=True), st.integers(1, 2**31))
def test_the_ladder_keeps_every_bridge_fine_enough(raw: list[int], moves: int) -> None:
    """Between any steps of the ladder a blur has noise of at least 2^26 grid steps, whatever was released."""
    steps = sorted({floor_to_ladder(Precision(units)) for units in raw})
    if len(steps) < 2:
        return
    wanted, points = steps[-2], [BridgePoint(p, GridValue(0, 0)) for p in steps if p != steps[-2]]
    law = bridge_law(wanted, Fraction(moves), points)
    scale = noise_scale(law.variance)
    assert scale.scale >= MIN_SCALE
    assert scale.variance >= law.variance


@many
@given(st.fractions(Fraction(1, 10**5), Fraction(30_000)), st.integers(1, 10**6))
def test_a_price_is_never_above_what_was_asked(sigma: Fraction, moves: int) -> None:
    wanted = compute_target(NoiseTarget(sigma * moves), Fraction(moves))
    assert MIN_PRECISION <= wanted == floor_to_ladder(wanted)
    assert wanted.exact <= 1 / sigma**2 < wanted.exact * (1 + Fraction(1, 2**29))
