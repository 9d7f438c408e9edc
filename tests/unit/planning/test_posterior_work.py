"""How much a posterior computes: the groups of one question share no cells, so they take about n^2, not n^3."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from noisebank.core.units import Precision
from noisebank.planning import posterior
from noisebank.planning.linear import range_query
from noisebank.planning.posterior import CovariancePosterior

ONE = Precision(10**18)


class CountedArray(np.ndarray):
    """An array whose matrix products are counted, in multiplications."""

    work = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        plain = [np.asarray(value) for value in inputs]
        if ufunc is np.matmul:
            CountedArray.work += plain[0].size * (plain[1].shape[1] if plain[1].ndim > 1 else 1)
        targets = {} if out is None else {"out": tuple(np.asarray(target) for target in out)}
        result = getattr(ufunc, method)(*plain, **targets, **options)
        return result.view(CountedArray) if isinstance(result, np.ndarray) else result


def measure_groups(monkeypatch: pytest.MonkeyPatch, cells: int, width: int) -> int:
    """Returns how many multiplications n / width groups take to be measured and then inferred."""
    counted = {name: getattr(np, name) for name in dir(np)}
    counted["zeros"] = lambda *shape: np.zeros(*shape).view(CountedArray)
    monkeypatch.setattr(posterior, "np", SimpleNamespace(**counted))
    monkeypatch.setattr(CountedArray, "work", 0)
    known = CovariancePosterior(cells)
    groups = [range_query(cells, start, start + width) for start in range(0, cells, width)]
    for number, group in enumerate(groups):
        assert known.infer(group) is None
        assert known.observe(group, float(number), ONE)
    for number, group in enumerate(groups):
        estimate = known.infer(group)
        assert estimate is not None and known.error_vector(group) is not None
        assert estimate.value == pytest.approx(number) and estimate.variance == pytest.approx(1)
    total = known.infer(range_query(cells, 0, cells))
    assert total is not None and total.variance == pytest.approx(len(groups))
    return CountedArray.work


@pytest.mark.parametrize("width", [1, 4])
def test_groups_of_one_question_take_the_square_of_the_cells(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (measure_groups(monkeypatch, cells, width) for cells in (128, 512))
    assert 0 < large <= 20 * small, (small, large)
