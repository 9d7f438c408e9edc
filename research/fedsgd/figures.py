"""Figures 3.8 to 3.10 and 3.12 to 3.15 of the thesis (P4, chapter 3): LDP-FedSGD with three models and all mechanisms.

Rows are devices; each takes part once, with one gradient, clipped and noised by the product's own mechanisms with the
published k and parameters. `REFERENCE` is what an independent computation gave for `diamonds` (10 splits).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.federated.ldp.parameters import MECHANISM_NAMES
from research.fedsgd.runs import FOLDS, GROUP, NONE, WIDE, Errors, Setting, cross_validated, descend
from research.fedsgd.tables import LearningTable, table

Progress = Callable[[int, int], None]
EPSILONS = (0.5, 1.0, 2.0, 4.0)
REFERENCE_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
LEVELS = 1000
OUTPUTS = (1, 2, 5, 10, 1000)
"""m: 3, 5, 11, 21 and 2,001 outputs."""
PIECEWISE = ("pm", "hm", "pm-opt", "pm-sub", "hm-tp", "best")
ROUNDED = ("pm", "hm", "pm-sub", "hm-tp")
OUTPUT_EPSILON = {"logistic": 4.0, "linear": 4.0, "hinge": 5.0}
REPETITIONS, SEEDS = 5, 10
FEW_FOLDS = 10
"""With fewer, a standard error is itself known to a factor of two or so."""
PANELS = {"logistic": ("diamonds", "adult", "census"), "linear": ("diamonds", "adult", "census"),
          "hinge": ("diamonds", "adult", "vehicle")}  # fmt: skip
REFERENCE: dict[float, tuple[float, float]] = {
    0.5: (0.87, 0.92), 1.0: (0.906, 0.919), 2.0: (0.914, 0.916), 4.0: (0.914, 0.916), 8.0: (0.914, 0.916),
}  # fmt: skip
REFERENCE_PLAIN, REFERENCE_LAPLACE = 0.915, {0.5: 0.75, 1.0: 0.85}
LAPLACE_SPREAD = {0.5: 0.122, 1.0: 0.063}
"""Of one split, measured over 100 (means 0.784 and 0.867): 10 splits are too few to tell, some fail and most do not."""
STANDARD_ERRORS = 3.0
"""The reference has a spread of its own (10 splits), and so have we: a range is met within three of our errors."""

Found = dict[tuple[str, str], dict[Setting, Errors]]


@dataclass(frozen=True)
class PanelTable:
    """A table, as a panel of a chart names it."""

    title: str
    source: str
    real: bool
    dimension: int


@dataclass(frozen=True)
class FedSgd:
    """All of it. Errors: misclassification rates, or mean squared errors of a number in [-1, 1]."""

    runs: Found
    reference: dict[str, Any]
    seconds: float
    quick: bool
    repetitions: int
    folds: int
    tables: dict[str, LearningTable] = field(repr=False)

    def panel(self, table: str, model: str) -> PanelTable:
        """What a chart says of a table."""
        used = self.tables[table]
        return PanelTable(used.title, used.source, used.real, used.task(model)[0].shape[1])

    def curve(self, table: str, model: str, mechanism: str, levels: int = 0) -> dict[float, Errors]:
        """Errors along epsilon, at these levels."""
        found = self.runs[table, model]
        return {
            setting.epsilon: errors
            for setting, errors in sorted(found.items())
            if setting.mechanism == mechanism and setting.levels == levels and setting.epsilon in EPSILONS
        }

    def plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "tables": {name: {"title": t.title, "source": t.source, "real": t.real, "numbers": t.rows.shape[1]}
                       for name, t in self.tables.items()},
            "runs": f"{self.repetitions} x {self.folds} folds of {FOLDS}; Laplace on more than {WIDE} numbers "
                    f"1 x {self.folds}; groups of {GROUP}",
            "rate": "1/sqrt(t); linear: 1.5/(d sqrt(t))",
            "reference": self.reference,
            "figures": {
                "3.8 logistic regression": self._along_epsilon("logistic", MECHANISM_NAMES),
                "3.9 linear regression": self._along_epsilon("linear", MECHANISM_NAMES),
                "3.10 support vector machine": self._along_epsilon("hinge", MECHANISM_NAMES),
                "3.12 linear regression, 2001 outputs": self._along_epsilon("linear", PIECEWISE, LEVELS),
                "3.13 logistic regression, 2001 outputs": self._along_epsilon("logistic", PIECEWISE, LEVELS),
                "3.14 by number of outputs, epsilon 4": {
                    "linear": self._along_outputs("linear"), "logistic": self._along_outputs("logistic")},
                "3.15 support vector machine by number of outputs, epsilon 5": self._along_outputs("hinge"),
            },
            "laplace": self.laplace(),
            "laplace in words": self.describe_laplace(),
            "discretisation": self.discretisation(),
            "seconds": round(self.seconds, 1),
            "quick": self.quick,
        }  # fmt: skip

    def laplace(self) -> dict[str, Any]:
        """Laplace against every other mechanism at epsilon 1/2 and 1, in the two models with classes."""
        found = {}
        for (name, model), _ in self.runs.items():
            if model == "linear":
                continue
            for epsilon in (0.5, 1.0):
                laplace = self.curve(name, model, "laplace")[epsilon]
                others = {m: self.curve(name, model, m)[epsilon] for m in MECHANISM_NAMES if m != "laplace"}
                worst = max(others.values(), key=lambda errors: errors.mean)
                gap = laplace.mean - worst.mean
                spread = sqrt(laplace.standard_error**2 + worst.standard_error**2)
                found[f"{name}, {model}, epsilon {epsilon:g}"] = {
                    "laplace": _rounded(laplace.mean), "worst of the others": _rounded(worst.mean),
                    "gap in standard errors": _rounded(gap / spread) if spread else 0.0,
                    "clearly worse": bool(gap > 2.0 * spread),
                }  # fmt: skip
        return found

    def describe_laplace(self) -> str:
        """In how many cells Laplace is clearly worse than all others, and what few folds can tell."""
        rows = self.laplace().values()
        clear = sum(row["clearly worse"] for row in rows)
        cells = f"{clear} of {len(rows)} cells"
        said = f"Laplace is clearly worse than the worst of the others in {cells} (two standard errors)"
        folds = self.repetitions * self.folds
        return said if folds >= FEW_FOLDS else f"{said}; {folds} folds are too few to tell in the others"

    def discretisation(self) -> dict[str, Any]:
        """What 2,001 outputs change, in standard errors of the difference: nothing that can be seen."""
        found = {}
        for (name, model), _ in self.runs.items():
            if model == "hinge":
                continue
            gaps = []
            for mechanism in PIECEWISE:
                free, rounded = (self.curve(name, model, mechanism, levels) for levels in (0, LEVELS))
                for epsilon in rounded:
                    a, b = free[epsilon], rounded[epsilon]
                    spread = sqrt(a.standard_error**2 + b.standard_error**2)
                    gaps.append((b.mean - a.mean) / spread if spread else 0.0)
            found[f"{name}, {model}"] = {"comparisons": len(gaps), "mean gap in standard errors":
                                         _rounded(float(np.mean(gaps))),
                                         "largest": _rounded(max(map(abs, gaps)))}  # fmt: skip
        return found

    def _along_epsilon(self, model: str, names: tuple[str, ...], levels: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in PANELS[model]:
            rows: dict[str, Any] = {NONE: _shown(self.runs[name, model][Setting(NONE)])}
            for mechanism in names:
                curve = self.curve(name, model, mechanism, levels)
                rows[mechanism] = {f"{epsilon:g}": _shown(errors) for epsilon, errors in curve.items()}
            found[name] = rows
        return found

    def outputs(self, table: str, model: str) -> dict[str, dict[int, Errors]]:
        """Errors by the number of outputs; Three-Outputs has three."""
        epsilon, found = OUTPUT_EPSILON[model], self.runs[table, model]
        curves = {
            mechanism: {2 * m + 1: found[Setting(mechanism, epsilon, m)] for m in OUTPUTS} for mechanism in ROUNDED
        }
        return curves | {"three-outputs": {3: found[Setting("three-outputs", epsilon)]}}

    def _along_outputs(self, model: str) -> dict[str, Any]:
        return {
            name: {
                m: {str(count): _shown(e) for count, e in row.items()} for m, row in self.outputs(name, model).items()
            }
            for name in PANELS[model]
        }


def fedsgd(quick: bool = False, progress: Progress = lambda done, total: None) -> FedSgd:
    """Everything; `quick` runs two folds once, on a third of the synthetic rows, and 4 splits for the reference."""
    began = time.perf_counter()
    repetitions, folds, seeds = (1, 2, 4) if quick else (REPETITIONS, FOLDS, SEEDS)
    wanted = [(name, model, _settings(model)) for model, names in PANELS.items() for name in names]
    total = repetitions * len(wanted) + 1
    runs = cross_validated(wanted, repetitions, folds, quick, lambda done, _: progress(done, total))
    reference = against_reference(seeds)
    progress(total, total)
    tables = {name: table(name, quick) for names in PANELS.values() for name in names}
    return FedSgd(runs, reference, time.perf_counter() - began, quick, repetitions, folds, tables)


def _settings(model: str) -> tuple[Setting, ...]:
    """Every point of the model's figures, each once."""
    found = [Setting(NONE), *(Setting(name, epsilon) for name in MECHANISM_NAMES for epsilon in EPSILONS)]
    if model != "hinge":
        found += [Setting(name, epsilon, LEVELS) for name in PIECEWISE for epsilon in EPSILONS]
    epsilon = OUTPUT_EPSILON[model]
    found += [Setting(name, epsilon, m) for name in ROUNDED for m in OUTPUTS]
    return tuple(dict.fromkeys([*found, Setting("three-outputs", epsilon)]))


def against_reference(seeds: int) -> dict[str, Any]:
    """Logistic accuracy on diamonds over 10 splits (90% of the rows in groups of 1000), beside the ranges."""
    used = table("diamonds")
    settings = [Setting(NONE), *(Setting(name, epsilon) for epsilon in REFERENCE_EPSILONS for name in MECHANISM_NAMES)]
    orders = [simulation_rng(seed).permutation(len(used.rows)) for seed in range(seeds)]
    tenth = len(used.rows) // 10
    trains, tests = [order[tenth:] for order in orders], [order[:tenth] for order in orders]
    errors = descend("logistic", settings, used.rows, used.classes, trains, tests)
    found = {
        s: Errors(tuple(1.0 - e for e in column)) for s, column in zip(settings, zip(*errors, strict=True), strict=True)
    }
    by_epsilon: dict[str, Any] = {}
    for epsilon in REFERENCE_EPSILONS:
        rows = {}
        pooled = sqrt(
            np.mean([found[Setting(name, epsilon)].spread ** 2 for name in MECHANISM_NAMES if name != "laplace"])
            / seeds
        )
        for name in MECHANISM_NAMES:
            accuracy, bounds = found[Setting(name, epsilon)], REFERENCE[epsilon]
            theirs = REFERENCE_LAPLACE.get(epsilon) if name == "laplace" else list(bounds)
            rows[name] = {**_shown(accuracy), "reference": theirs, "within": _within(accuracy, name, epsilon, pooled)}
        by_epsilon[f"{epsilon:g}"] = rows
    plain = found[Setting(NONE)]
    checked = [row["within"] for rows in by_epsilon.values() for row in rows.values() if row["within"] is not None]
    return {
        "what": "logistic accuracy, one pass, one participation a device, clipped, groups of 1000",
        "table": used.title, "real": used.real, "seeds": seeds,
        NONE: {**_shown(plain), "reference": REFERENCE_PLAIN,
               "within": abs(plain.mean - REFERENCE_PLAIN) < STANDARD_ERRORS * plain.standard_error + 0.001},
        "by epsilon": by_epsilon,
        "within": f"{sum(checked)} of {len(checked)} (range of the reference, {STANDARD_ERRORS:g} standard errors)",
        "all within": all(checked) if used.real else None,
    }  # fmt: skip


def _within(accuracy: Errors, name: str, epsilon: float, pooled: float) -> bool | None:
    """Whether the mean lies in the reference's range, within three standard errors (pooled over the mechanisms)."""
    if name == "laplace":  # one number there, the mean of 10 splits as ours: the difference has both spreads
        if epsilon not in REFERENCE_LAPLACE:
            return None
        spread = LAPLACE_SPREAD[epsilon] * sqrt(1.0 / len(accuracy.values) + 1.0 / SEEDS)
        return abs(accuracy.mean - REFERENCE_LAPLACE[epsilon]) <= STANDARD_ERRORS * spread
    low, high = REFERENCE[epsilon]
    return bool(low - STANDARD_ERRORS * pooled <= accuracy.mean <= high + STANDARD_ERRORS * pooled)


def _shown(errors: Errors) -> dict[str, float]:
    return {"mean": _rounded(errors.mean), "spread": _rounded(errors.spread), "runs": len(errors.values)}


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
