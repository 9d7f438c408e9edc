"""P1's bounded system at several settings: the ends of runs instead of their courses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from research.papers.exhibit import Found, Moved, Number
from research.papers.p1_systems import HISTOGRAMS, Setting, histogram, many_runs

SYSTEMS = ("dynamic", "least squares", "bayes", "ours")
QUICK_REQUESTS, FULL_REQUESTS = 250, 500
"""P1 asks 1,000; its inference takes seconds a run, and there are ten settings of two histograms."""


def sweep(settings: Mapping[float, Setting], quick: bool, moved: Moved) -> Found:
    """For each histogram and system: what many runs end with, setting by setting."""
    runs = {
        "dynamic": 10 if quick else 50,
        "least squares": 2 if quick else 3,
        "bayes": 1,
        "ours": 2 if quick else 3,
    }
    asked = QUICK_REQUESTS if quick else FULL_REQUESTS
    if quick:
        settings = dict(list(settings.items())[::2])
    found: Found = {"x": list(settings), "asked": asked, "sources": {name: histogram(name)[1] for name in HISTOGRAMS}}
    done, total = 0, len(HISTOGRAMS) * len(settings)
    for name in HISTOGRAMS:
        rows: dict[str, list[Found]] = {system: [] for system in SYSTEMS}
        for setting in settings.values():
            for system in SYSTEMS:
                rows[system].append(many_runs(system, name, runs[system], replace(setting, requests=asked)))
            done += 1
            moved(done, total)
        found[name] = {system: _ends(made) for system, made in rows.items()}
    return found


def _ends(rows: list[Found]) -> Found:
    made: Found = {"runs": rows[0]["runs"]}
    for key in ("spent", "answered", "inside", "error"):
        ends = [np.array(row[f"{key}_ends"], dtype=float) for row in rows]
        made[key] = [
            [float(np.mean(one)) for one in ends],
            *([float(np.quantile(one, share)) for one in ends] for share in (0.05, 0.95)),
        ]
    return made


def answered_words(found: Found) -> str:
    """Shares answered and errors at both ends."""
    words, one = [], found["nettrace"]
    for name in SYSTEMS:
        shares, errors = one[name]["answered"][0], one[name]["error"][0]
        words.append(f"{name} {shares[0]:.0%} to {shares[-1]:.0%} (error {errors[0]:.2f} to {errors[-1]:.2f})")
    asked = f"net-trace, {found['asked']} requests"
    return f"Answered from the smallest to the largest ({asked}): {', '.join(words)}."


def promises(found: Found) -> list[Number]:
    """What P1 says of it: the share answered rises, promises hold at every setting."""
    made = []
    for name in HISTOGRAMS:
        answered, inside = found[name]["dynamic"]["answered"][0], found[name]["dynamic"]["inside"][0]
        falls = sum(later < earlier - 0.02 for earlier, later in pairwise(answered))
        made.append(Number(f"settings at which the baseline answers less than before ({name})", falls, 0, 0))
        made.append(Number(f"inside, baseline, mean over settings ({name})", sum(inside) / len(inside), 0.8, 0.03))
    return made
