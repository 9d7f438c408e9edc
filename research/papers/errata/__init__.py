"""Where the papers err: each with the smallest counterexample, computed here from the printed formulas.

`numbers` hold what the print gives and what holds; nothing in them is typed. P2's are `chained_dp.claims`.
"""

from __future__ import annotations

from typing import Any

from research.chained_dp.claims import claims
from research.papers.errata import p0, p1, p3, p4
from research.papers.errata.erratum import Erratum

DRAWS = 2_000


def list_errata() -> dict[str, list[Erratum]]:
    """All of them, by paper."""
    return {
        "P0": [make() for make in p0.ERRATA],
        "P1": [make() for make in p1.ERRATA],
        "P2": [_from_claim(row) for row in claims(DRAWS)],
        "P3": [make() for make in p3.ERRATA],
        "P4": [make() for make in p4.ERRATA],
    }


def _from_claim(row: dict[str, Any]) -> Erratum:
    numbers: dict[str, object] = {}
    for side, title in (("paper", "as printed"), ("ours", "holds")):
        parts = row[side] if isinstance(row[side], dict) else {"": row[side]}
        numbers |= {f"{title}: {name}".rstrip(": "): value for name, value in parts.items()}
    return {"where": row["where"], "printed": row["claimed"], "holds": row["holds"], "numbers": numbers}
