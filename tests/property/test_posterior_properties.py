"""The posteriors against exact solutions: after looks, and without any."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

import numpy as np
import pytest
from flint import fmpq_mat
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.units import MAX_PRECISION, MIN_PRECISION, Precision
from noisebank.planning.linear import LinearQuery, query_from_weights, range_query
from noisebank.planning.look_posterior import LookPosterior, MeasuredLook
from noisebank.planning.piecewise_posterior import PiecewisePosterior
from noisebank.planning.posterior import CovariancePosterior, Posterior
from support.inference import AXES, Exact, noisy_look, random_query, whole_look

FORMS: dict[str, Callable[[MeasuredLook], Posterior]] = {"looked": lambda look: LookPosterior([look])}
UNSEEN: dict[str, Callable[[int], CovariancePosterior | PiecewisePosterior]] = {
    "covariance": CovariancePosterior,
    "coarse": lambda cells: PiecewisePosterior(cells, cells),
}
"""Without a first look."""
both_forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
both_unseen = pytest.mark.parametrize("unseen", UNSEEN.values(), ids=UNSEEN.keys())
all_axes = pytest.mark.parametrize("axes", AXES.values(), ids=AXES.keys())


def measure(query: LinearQuery, cells: np.ndarray, precision: Precision, generator: np.random.Generator) -> float:
    return query.dot(cells) + float(generator.standard_normal()) * query.max_weight / float(precision) ** 0.5


def variance(posterior: Posterior, query: LinearQuery) -> float:
    found = posterior.infer(query)
    assert found is not None and isfinite(found.value) and found.variance > 0 and isfinite(found.variance)
    return found.variance


@both_forms
@all_axes
def test_agrees_with_an_exact_solution(axes, form) -> None:
    generator = np.random.default_rng(1)
    look = whole_look(axes, Precision(10**16))
    cells = generator.poisson(100, look.strategy.cell_count).astype(float)
    posterior, exact = form(noisy_look(look, cells, generator)), Exact(look.strategy.shape)
    exact.add_look(look)
    for step in range(60):
        query = random_query(generator, look.strategy.cell_count, step % 3)
        if step % 6 == 0:
            assert variance(posterior, query) == pytest.approx(exact.variance(query), rel=1e-11)
        precision = Precision(int(10 ** generator.uniform(14, 18)))
        assert posterior.observe(query, measure(query, cells, precision, generator), precision)
        exact.add(query, precision)
        assert variance(posterior, query) <= query.max_weight**2 / float(precision) * (1 + 1e-12)


@both_forms
def test_after_10_000_queries_it_agrees_with_an_exact_solution_to_1e_9(form) -> None:
    """Wanted standard deviations fall over time, so that measurements go on to be paid for."""
    generator = np.random.default_rng(2)
    look = whole_look(AXES["tree"], Precision(10**15))
    cells = generator.poisson(1000, look.strategy.cell_count).astype(float)
    posterior, exact = form(noisy_look(look, cells, generator)), Exact(look.strategy.shape)
    exact.add_look(look)
    paid = 0
    for step in range(10_000):
        query = random_query(generator, look.strategy.cell_count, step % 3)
        wanted = (query.max_weight * generator.uniform(20, 200) * 0.9998**step) ** 2
        known = variance(posterior, query)
        if known > wanted:
            precision = Precision(int(query.max_weight**2 * (1 / wanted - 1 / known) * 1e18) + 1)
            posterior.observe(query, measure(query, cells, precision, generator), precision)
            exact.add(query, precision)
            paid += 1
    assert paid > 300
    for step in range(30):
        query = random_query(generator, look.strategy.cell_count, step % 3)
        assert variance(posterior, query) == pytest.approx(exact.variance(query), rel=1e-9)


def test_10_000_measurements_without_a_first_look_agree_to_1e_9() -> None:
    generator = np.random.default_rng(3)
    size = 32
    posterior, exact = CovariancePosterior(size), Exact((size,))
    cells = generator.poisson(1000, size).astype(float)
    for step in range(10_000):
        query = random_query(generator, size, step % 3)
        precision = Precision(int(10 ** generator.uniform(14, 18)))
        posterior.observe(query, measure(query, cells, precision, generator), precision)
        exact.add(query, precision)
    worst = 0.0
    for step in range(30):
        query = random_query(generator, size, step % 3)
        worst = max(worst, abs(variance(posterior, query) / exact.variance(query) - 1))
    assert worst < 1e-9


@both_forms
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.integers(MIN_PRECISION.units, MAX_PRECISION.units), st.booleans()),
        max_size=40,
    ),
    price=st.integers(MIN_PRECISION.units * 10**3, 10**21),
)
def test_variances_are_positive_and_never_grow(form, seed, steps, price) -> None:
    """Whatever is observed, at any precision that the bank knows, many times over; no variance is clamped."""
    generator = np.random.default_rng(seed)
    look = whole_look(AXES["ragged tree"], Precision(price))
    cells = generator.poisson(5, look.strategy.cell_count).astype(float)
    posterior = form(noisy_look(look, cells, generator))
    probe = random_query(generator, look.strategy.cell_count, 2)
    before = variance(posterior, probe)
    query = probe
    for kind, units, again in steps:
        query = query if again else random_query(generator, look.strategy.cell_count, kind)
        precision = Precision(units)
        posterior.observe(query, measure(query, cells, precision, generator), precision)
        now = variance(posterior, probe)
        assert now <= before * (1 + 1e-6)
        assert variance(posterior, query) <= query.max_weight**2 / float(precision) * (1 + 1e-6)
        before = now


@both_unseen
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 14), size=st.integers(1, 12), kind=st.integers(0, 2))
def test_exactly_the_span_of_the_measured_is_known(unseen, seed, count, size, kind) -> None:
    generator = np.random.default_rng(seed)
    cells = generator.poisson(50, size).astype(float)
    posterior = unseen(size)
    rows: list[list[int]] = []
    for _ in range(count):
        query = random_query(generator, size, kind)
        assert posterior.observe(query, query.dot(cells), Precision(10**18))
        rows.append([int(weight) for weight in query.dense_weights])
        assert posterior.rank == fmpq_mat(len(rows), size, [weight for row in rows for weight in row]).rank()
        probe = random_query(generator, size, kind)
        probed = [*rows, [int(weight) for weight in probe.dense_weights]]
        inside = fmpq_mat(len(probed), size, [weight for row in probed for weight in row]).rank() == posterior.rank
        found = posterior.infer(probe)
        assert (found is not None) == inside
        if found is not None:  # no noise was added, so the estimate is the truth
            assert found.value == pytest.approx(probe.dot(cells), rel=1e-9, abs=1e-7)


@both_forms
@all_axes
def test_without_noise_the_estimate_is_the_truth_and_parts_add_up(axes, form) -> None:
    generator = np.random.default_rng(4)
    look = whole_look(axes, Precision(10**17))
    cells = generator.poisson(100, look.strategy.cell_count).astype(float)
    posterior = form(noisy_look(look, cells, generator, noise=False))
    noisy = form(noisy_look(look, cells, generator))
    for step in range(40):
        query = random_query(generator, look.strategy.cell_count, step % 3)
        found = posterior.infer(query)
        assert found is not None and found.value == pytest.approx(query.dot(cells), abs=1e-7)
        posterior.observe(query, query.dot(cells), Precision(10**17))
        noisy.observe(query, measure(query, cells, Precision(10**17), generator), Precision(10**17))
    middle = look.strategy.cell_count // 3
    if not middle:
        return
    parts = [
        noisy.infer(range_query(look.strategy.cell_count, *ends))
        for ends in ((0, middle), (middle, look.strategy.cell_count))
    ]
    whole = noisy.infer(range_query(look.strategy.cell_count, 0, look.strategy.cell_count))
    assert sum(part.value for part in parts if part) == pytest.approx(whole.value if whole else 0, abs=1e-7)


def test_a_query_that_is_nearly_but_not_quite_known_is_unknown_and_not_learned_from() -> None:
    weights = np.full(2, 2**30, dtype=np.int64)
    posterior = CovariancePosterior(2)
    assert posterior.observe(range_query(2, 0, 2), 10.0, Precision(10**18))
    near = query_from_weights(weights + np.array([1, 0]))[0]
    assert posterior.infer(near) is None
    assert not posterior.observe(near, 10.0 * 2**30, Precision(10**18))
    assert posterior.rank == 1 and posterior.infer(near) is None


@pytest.mark.parametrize("kind", [0, 2], ids=["ranges", "weights"])
def test_pieces_say_what_cells_say(kind: int) -> None:
    """Also where every piece is measured, and then cut again."""
    generator = np.random.default_rng(6)
    size = 200
    cells = generator.poisson(100, size).astype(float)
    fine, coarse = CovariancePosterior(size), PiecewisePosterior(size, size)
    known = 0
    for step in range(150):
        query = random_query(generator, size, kind if step % 3 else 0)
        low = 10 * (query.support[0] // 10)  # ranges over tens come back: they are cut, and determined, early
        asked = query if step % 3 == 2 else range_query(size, low, min(size, low + 10 * (1 + step % 7)))
        found, other = fine.infer(asked), coarse.infer(asked)
        assert (found is None) == (other is None)
        if found is not None and other is not None:
            known += 1
            assert other.variance == pytest.approx(found.variance, rel=1e-10)
            assert other.value == pytest.approx(found.value, rel=1e-9, abs=1e-6)
        precision = Precision(int(10 ** generator.uniform(15, 18)))
        value = measure(asked, cells, precision, generator)
        assert fine.observe(asked, value, precision) == coarse.observe(asked, value, precision)
        assert fine.rank == coarse.rank <= coarse.piece_count
    assert known > 30


def test_pieces_have_a_limit_and_what_is_beyond_is_not_learned() -> None:
    coarse = PiecewisePosterior(2**20, 8)
    for place in range(7):
        assert coarse.observe(range_query(2**20, 0, 100_000 * (place + 1) + 1), 5.0, Precision(10**18))
    assert coarse.piece_count == 8 and coarse.rank == 7
    assert not coarse.observe(range_query(2**20, 3, 7), 5.0, Precision(10**18))
    assert coarse.piece_count == 8 and coarse.infer(range_query(2**20, 3, 7)) is None
    between = coarse.infer(range_query(2**20, 100_001, 600_001))
    assert between is not None and between.variance == pytest.approx(2.0)


@pytest.mark.parametrize("form", ["looked", "unseen", "coarse"])
def test_errors_add_up_to_variances(form: str) -> None:
    """Running sums by adding errors are those of the summed query, whatever was observed."""
    generator = np.random.default_rng(7)
    look = whole_look(AXES["tree"], Precision(10**15))
    cells = generator.poisson(100, look.strategy.cell_count).astype(float)
    measured = noisy_look(look, cells, generator)
    posterior: Posterior = FORMS[form](measured) if form in FORMS else UNSEEN[form.replace("unseen", "covariance")](32)
    asked = [random_query(generator, 32, step % 3) for step in range(50)]
    for query in [*asked, *(range_query(32, place, place + 1) for place in range(32))]:
        precision = Precision(int(10 ** generator.uniform(14, 17)))
        posterior.observe(query, measure(query, cells, precision, generator), precision)
    total = np.zeros(1)
    for place in range(32):
        errors = posterior.error_vector(range_query(32, place, place + 1))
        assert errors is not None
        total = total + errors
        assert float(total @ total) == pytest.approx(variance(posterior, range_query(32, 0, place + 1)), rel=1e-9)
    assert (
        PiecewisePosterior(32, 32).error_vector(asked[0]) is None
        and CovariancePosterior(32).error_vector(asked[0]) is None
    )
