"""Never dearer than plain, never less than was told, never twice plain in all: over random and adversarial
histories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.records import WHOLE_WEIGHT
from noisebank.core.units import UNITS_PER_PRECISION, Precision
from noisebank.planning.linear import LinearQuery, query_from_weights
from noisebank.planning.losses import BoundLosses, PairLosses, plain_share
from noisebank.planning.strategies.axes import Axis
from research.benches.histories import Desk, Fairness, play
from research.benches.planner import adversarial_orders
from support.inference import random_query

shapes = st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=3)


def history(seed: int, size: int, count: int) -> list[tuple[LinearQuery, Precision]]:
    generator = np.random.default_rng(seed)
    pool = [random_query(generator, size, int(generator.integers(3))) for _ in range(10)]
    return [(pool[generator.integers(10)], Precision(int(10 ** generator.uniform(15, 17)))) for _ in range(count)]


@settings(max_examples=60, deadline=None)
@given(shape=shapes, replace_one=st.booleans(), seed=st.integers(0, 2**32), count=st.integers(1, 30))
def test_random_histories_are_fair(shape, replace_one, seed, count) -> None:
    axes = tuple(Axis(size, ordered) for size, ordered in shape)
    fairness = Fairness()
    desk = Desk(axes, replace_one, exact=True, seed=seed % 1000)
    play(desk, history(seed, len(desk.counts), count), fairness)
    assert fairness.is_fair, fairness


@pytest.mark.parametrize("replace_one", [False, True])
@pytest.mark.parametrize("sizes", [(2, 3), (6,)])
def test_adversarial_orders_are_fair(sizes: tuple[int, ...], replace_one: bool) -> None:
    fairness = Fairness()
    for seed in range(2):
        for asked in adversarial_orders(sizes, seed, 40):
            play(Desk(tuple(Axis(size, False) for size in sizes), replace_one, exact=True), asked, fairness)
    assert fairness.is_fair, fairness


def test_a_charge_that_leaves_something_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact loss beside is no copy of the charge: if losses are computed too small, it says so."""
    real = PairLosses.of_query
    monkeypatch.setattr(PairLosses, "of_query", lambda self, query, fresh: 0.9 * real(self, query, fresh))
    fairness = Fairness()
    for asked in adversarial_orders((2, 3), 0, 40):
        play(Desk((Axis(2, False), Axis(3, False)), True, exact=True), asked, fairness)
    assert fairness.below_the_loss and not fairness.is_fair


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(2, 8), count=st.integers(1, 12))
def test_large_cubes_are_charged_enough_by_a_bound(seed, size, count) -> None:
    """Where there are too many pairs to keep: against the exact loss over pairs, and never above plain."""
    exact, bound = PairLosses(size), BoundLosses(size)
    charged, told, plain = np.zeros(size), exact.zeros(), 0.0
    for query, fresh in history(seed, size, count):
        alone = plain_share([query], bound.values)
        if not alone:
            continue
        before = charged.max()
        for start, stop, weight in bound.charge_groups([query], fresh, alone, charged, True):
            charged[start:stop] += float(fresh) * weight / WHOLE_WEIGHT
        told += exact.of_query(query, fresh)
        plain += float(fresh) * float(alone)
        assert told.max() <= charged.max() * (1 + 1e-9) and charged.max() <= plain * (1 + 1e-9)
        assert charged.max() - before <= float(fresh) * float(alone) * (1 + 1e-9)


def test_groups_by_one_sign_cost_twice_once() -> None:
    """All groups of a large cube together: twice the fresh precision, not once for each group."""
    groups = [query_from_weights(row)[0] for row in np.eye(6, dtype=np.int64)]
    bound, fresh = BoundLosses(6), Precision(UNITS_PER_PRECISION)
    alone = plain_share(groups, bound.values)
    assert alone == 2
    runs = bound.charge_groups(groups, fresh, alone, np.zeros(6), True)
    assert max(run.weight for run in runs) == 2 * WHOLE_WEIGHT
