"""The first look: its price, its estimate, its axes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from noisebank.core.records import WHOLE_WEIGHT, CellRun
from noisebank.core.units import Precision
from noisebank.planning.haar import backward, eigenvalues, forward, sparse
from noisebank.planning.inference import Statistic
from noisebank.planning.linear import cell_range, from_weights
from noisebank.planning.prefix import Axis, Prefix


@pytest.mark.parametrize(
    "axes", [(Axis(64, True),), (Axis(50, False),), (Axis(9, True), Axis(3, False), Axis(1, True))]
)
def test_levels_cost_together_no_more_than_the_price(axes: tuple[Axis, ...]) -> None:
    price = Precision(123_456_789_012_345)
    prefix = Prefix(axes, price)
    assert price.units - 100 <= sum(level.units for level in prefix.levels.values()) <= price.units
    assert prefix.charges == (CellRun(0, prefix.cells, WHOLE_WEIGHT),)
    assert prefix.strength.min() > 0


def test_an_unordered_axis_is_looked_at_cell_by_cell_and_as_a_whole_if_there_are_others() -> None:
    assert list(Prefix((Axis(12, False),), Precision(10**18)).levels) == [(0,)]
    assert list(Prefix((Axis(12, False), Axis(2, True)), Precision(10**18)).levels) == [(0, 0), (0, 1), (4, 0), (4, 1)]
    assert list(Prefix((Axis(5, True),), Precision(10**18)).levels) == [(0,), (1,), (2,), (3,)]


def test_eigenvalues_of_equal_levels_are_those_of_the_mathematics() -> None:
    found = eigenvalues((1.0,) * 5, 16)  # w (2n - 1) for the whole, w (s - 1) for a split of s cells
    assert found.tolist() == [31, 15, 7, 7, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1]


def test_haar_is_orthonormal_and_sparse_finds_the_same() -> None:
    generator = np.random.default_rng(0)
    values = generator.standard_normal((3, 16))
    assert backward(forward(values, 1), 1) == pytest.approx(values)
    assert np.linalg.norm(forward(values, 1)) == pytest.approx(np.linalg.norm(values))
    for query in (
        cell_range(13, 2, 9),
        cell_range(13, 0, 13),
        from_weights([0, 3, -3, 0, 0, 1, 1, 1, 0, 2, 0, 0, 7])[0],
    ):
        padded = np.zeros(16)
        padded[:13] = query.dense
        found = np.zeros(16)
        places, coefficients = sparse(query, (13,))
        found[places] = coefficients
        assert found == pytest.approx(forward(padded, 0))


def test_replace_one_pays_its_factor_within_the_same_share() -> None:
    budget = Precision(10**18)
    counts = Statistic((Axis(8, True),), replace_one=True).first_look(budget, Fraction(1, 4))
    sums = Statistic((Axis(8, True),), replace_one=True, one_sign=False).first_look(budget, Fraction(1, 4))
    assert (counts.precision.units, counts.charges[0].weight) == (125 * 10**15, 2 * WHOLE_WEIGHT)
    assert (sums.precision.units, sums.charges[0].weight) == (625 * 10**14, 4 * WHOLE_WEIGHT)
    signed = from_weights([1, -1])[0]
    assert Statistic((Axis(2, True),), replace_one=True).factor(signed) == 4
    assert Statistic((Axis(2, True),)).factor(signed) == 1


@pytest.mark.parametrize("cells", [64, 1024, 131_072])
def test_levels_suit_random_ranges_better_than_equal_ones(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noisebank.planning.prefix.DECAY", 1.0)  # which is for what is paid later
    prefix = Prefix((Axis(cells, True),), Precision(10**18))
    depth = cells.bit_length()
    equal = eigenvalues((1 / depth,) * depth, cells)
    generator = np.random.default_rng(1)
    ours, theirs = 0.0, 0.0
    for low, high in np.sort(generator.integers(0, cells, (300, 2)), axis=1).tolist():
        query = cell_range(cells, low, high + 1)
        places, values = sparse(query, (cells,))
        ours += prefix.variance(query)
        theirs += float(np.sum(values**2 / equal[places]))
    assert ours < 0.97 * theirs
