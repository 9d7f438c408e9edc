"""One person's value turns how others are read: answers about disjoint people must add up, whoever wrote the file."""

from __future__ import annotations

from assurance.report import Finding
from conformance.additive import PLANTS, run
from conformance.writers import WRITERS

CHECKS = 20_000
PER_TRIAL = 12
"""About so many comparisons with 10 questions."""
CSV, ARROW = ("Python's csv",), ("pyarrow",)
CAUGHT_BY = {"casts pushed into CSV": CSV, "any line end ends a row": CSV}


def additivity(share: float = 1.0) -> Finding:
    """Sums over files of all writers in turn; each planted bug until it is caught."""
    found = run(range(max(6, round(share * CHECKS / PER_TRIAL))), 10)
    planted = {plant: bool(run(range(90), 6, CAUGHT_BY.get(plant, ARROW), plant).wrong) for plant in PLANTS}
    return Finding(
        row="One person's value changes how others are read",
        tried=f"{found.checks:,} sums over tables of disjoint people, written by {', '.join(WRITERS)}",
        figure=f"{len(found.wrong)} that do not add up or fail; {found.refused} CSV files refused at opening",
        violations=len(found.wrong),
        planted=planted,
    )
