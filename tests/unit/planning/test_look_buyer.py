"""What a look has earned: nothing exact is computed for a look that cannot fit."""

from __future__ import annotations

import pytest

from noisebank.planning.look_buyer import LookBuyer
from noisebank.planning.strategies.looks import Look, MissingLook
from research.benches.cell_workloads import make_workload
from research.benches.reuse import Cells, answer_by_inference
from research.inference.bayes import ZCDP_BUDGET


@pytest.mark.parametrize("cells", [64, 256])
def test_rows_are_rounded_only_for_looks_that_fit(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 131,072 cells the exact charges take many seconds: earlier looks count before, not after."""
    rounded, bought = [], []
    honest_round, honest_propose = MissingLook.round_rows, LookBuyer.propose

    def round_rows(missing: MissingLook) -> Look:
        rounded.append(missing)
        return honest_round(missing)

    def propose(buyer: LookBuyer, *order):
        plan = honest_propose(buyer, *order)
        bought.extend([plan] if plan else [])
        return plan

    monkeypatch.setattr(MissingLook, "round_rows", round_rows)
    monkeypatch.setattr(LookBuyer, "propose", propose)
    work = make_workload("range", cells, 600)
    found = answer_by_inference(work, ZCDP_BUDGET, Cells(ZCDP_BUDGET, cells), True, 1)
    assert found.answered == 600 and len(bought) > 1
    assert len(rounded) == len(bought)
