"""Figures 5.3 to 5.8, 5.10 and 5.11 of P4, and the attackers, as charts that state what they show. PNG and SVG."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from research.blockfl.chapter5 import CrowdResult, incentives
from research.blockfl.figures import BATCHES, EPSILONS

Progress = Callable[[int, int], None]
OURS, BATCH, NONE, GREY = "#0072B2", "#D55E00", "#009E73", "#555555"
SHADES = ("#9ecae1", "#4292c6", "#08519c", "#041f4a")
MARKS = ("o", "s", "^", "D")


def draw_charts(
    folder: Path,
    made: CrowdResult,
    progress: Progress = lambda done, total: None,
    kinds: tuple[str, ...] = ("png", "svg"),
) -> list[Path]:
    """All charts into `folder` (made if need be); returns the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    steps: list[tuple[str, Callable[[CrowdResult], Any]]] = [
        ("crowd_figure_5_3_normalisation", normalisation),
        ("crowd_figures_5_4_and_5_5_batch_size", batch_size),
        ("crowd_figure_5_6_batch_size_by_epoch", batch_by_epoch),
        ("crowd_figure_5_7_epsilon", by_epsilon),
        ("crowd_figure_5_8_local_epochs", local_epochs),
        ("crowd_figures_5_10_and_5_11_incentives", rewards),
        ("crowd_attackers", attackers),
    ]
    written = []
    for done, (name, draw) in enumerate(steps):
        progress(done, len(steps))
        figure = draw(made)
        for kind in kinds:
            written.append(folder / f"{name}.{kind}")
            figure.savefig(written[-1], dpi=150)
    progress(len(steps), len(steps))
    return written


def normalisation(made: CrowdResult) -> Any:
    """Figure 5.3."""
    rows = made.figures["5.3"]
    ours, other = (_percent(rows.get(f"{name}, epsilon 2")) for name in ("ours", "batch norm"))
    figure, axes = _figure(
        made, f"With noise of epsilon 2, the paper's normalisation reaches {ours}, batch norm {other}"
    )
    for title, colour, mark in (("ours", OURS, "o"), ("batch norm", BATCH, "s")):
        for kind, line in (("clean", "-"), ("noisy", "--")):
            points = [(e, rows.get(f"{title}, epsilon {e:g}")) for e in EPSILONS]
            _line(axes, points, kind, color=colour, marker=mark, linestyle=line, label=f"{title}, {kind} test features")
    if rows["no noise"]:
        axes.axhline(rows["no noise"]["clean"], color=NONE, linewidth=1.4, label="no noise at all")
    _epsilons(axes)
    return _finished(figure, axes, "epsilon of one feature", "Figure 5.3: test accuracy after two global epochs")


def batch_size(made: CrowdResult) -> Any:
    """Figures 5.4 and 5.5."""
    figure = _plain_figure(11, 4.8)
    for place, (number, title) in enumerate((("5.4", "with noise, epsilon 2"), ("5.5", "without noise"))):
        axes = figure.add_subplot(1, 2, place + 1)
        for name, colour, mark in (("ours", OURS, "o"), ("batch norm", BATCH, "s")):
            points = [(n, made.figures[number].get(f"{name}, batch {n}")) for n in BATCHES]
            _line(axes, points, "clean", color=colour, marker=mark, label=name)
        axes.set_xscale("log", base=2)
        axes.set_xticks(BATCHES, [str(n) for n in BATCHES])
        _finished(figure, axes, "batch size N", f"Figure {number}: {title}, one global epoch")
    most = BATCHES[-1]
    ours, other = (_percent(made.figures["5.4"].get(f"{name}, batch {most}")) for name in ("ours", "batch norm"))
    what = f"Noise grows with sqrt(N - 1): at N = {most} ours reaches {ours}, batch norm {other}"
    figure.suptitle(f"{what}\n{_small(made)}", x=0.01, ha="left", fontsize=11)
    return figure


def batch_by_epoch(made: CrowdResult) -> Any:
    """Figure 5.6."""
    rows = made.figures["5.6"]
    first, last = (_range(rows.get(f"batch {n}, global epoch {g}") for n in BATCHES) for g in (1, 3))
    figure, axes = _figure(made, f"Batch sizes end {first} after the first global epoch, {last} after the third")
    for n, colour, mark in zip(BATCHES, SHADES, MARKS, strict=False):
        points = [(g, rows.get(f"batch {n}, global epoch {g}")) for g in (1, 2, 3)]
        _line(axes, points, "clean", color=colour, marker=mark, label=f"batch size {n}")
    axes.set_xticks((1, 2, 3))
    return _finished(figure, axes, "global epoch", "Figure 5.6: test accuracy")


def by_epsilon(made: CrowdResult) -> Any:
    """Figure 5.7."""
    rows, last = made.figures["5.7"], made.scale.globals
    strong, weak = (_percent(rows.get(f"epsilon {e:g}, global epoch {last}")) for e in (EPSILONS[0], EPSILONS[-1]))
    figure, axes = _figure(made, f"After {last} global epochs, epsilon 1 a feature reaches {strong}, epsilon 10 {weak}")
    for g, colour, mark in zip(range(1, made.scale.globals + 1), SHADES, MARKS, strict=False):
        points = [(e, rows.get(f"epsilon {e:g}, global epoch {g}")) for e in EPSILONS]
        _line(axes, points, "clean", color=colour, marker=mark, label=f"global epoch {g}")
    _epsilons(axes)
    return _finished(figure, axes, "epsilon of one feature", "Figure 5.7: test accuracy")


def local_epochs(made: CrowdResult) -> Any:
    """Figure 5.8."""
    figure, axes = _figure(made, f"More local epochs help the first global epoch most: {_gains(made)}")
    for (paper, ours), colour, mark in zip(made.scale.local.items(), SHADES, MARKS, strict=False):
        points = []
        for name, row in made.figures["5.8"].items():
            found = re.fullmatch(rf"paper's local epochs {paper} \(here {ours}\), global epoch (\d)", name)
            if found:
                points.append((int(found[1]), row))
        _line(axes, points, "clean", color=colour, marker=mark, label=f"{ours} local epochs (paper: {paper})")
    axes.set_xticks(range(1, made.scale.globals + 1))
    return _finished(figure, axes, "global epoch", "Figure 5.8: test accuracy")


def rewards(made: CrowdResult) -> Any:
    """Figures 5.10 and 5.11."""
    figure = _plain_figure(11, 4.8)
    found = incentives()
    styles = {
        "no incentive": (GREY, "-", "x"), "honest, repaired": (NONE, "-", "o"),
        "attack in round 1, repaired": (BATCH, "-", "s"), "attack in round 4, repaired": (OURS, "-", "^"),
        "attack in every round, repaired": ("#000000", "-", "D"),
        "attack in every round, as printed": ("#000000", ":", "D"),
    }  # fmt: skip
    for place, (kind, number) in enumerate((("reward", "5.10"), ("reputation", "5.11"))):
        axes = figure.add_subplot(1, 2, place + 1)
        for name, (colour, line, mark) in styles.items():
            values = found[name].get(kind)
            if values:
                first = 1 if kind == "reward" else 0
                axes.plot(range(first, first + len(values)), values, color=colour, linestyle=line, marker=mark,
                          markersize=4, label=name)  # fmt: skip
        _finished(figure, axes, "global epoch", f"Figure {number}: {kind}", percent=False)
    figure.suptitle("Attackers lose; as printed a permanent one still climbs back, repaired it does not", x=0.01,
                    ha="left", fontsize=11)  # fmt: skip
    return figure


def attackers(made: CrowdResult) -> Any:
    """Attackers among the accepted, by round."""
    figure = _plain_figure(8, 4.8)
    axes = figure.add_subplot()
    colours = {"sign-flip": OURS, "scaled": NONE, "identical": BATCH}
    width = 0.27
    for place, (name, found) in enumerate(made.attacks.items()):
        where = [number + (place - 1) * width for number in range(1, len(found.selected) + 1)]
        axes.bar(where, found.selected, width, color=colours[name],
                 label=f"{name}: {sum(found.selected)} in all, accuracy {found.accuracies[-1]:.2f}")  # fmt: skip
    axes.set_ylim(0, 3.8)
    axes.set_yticks(range(4))
    axes.set_xticks(range(1, 11))
    _finished(figure, axes, "round", "Attackers (3 of 10) that Multi-KRUM accepted", percent=False)
    figure.suptitle("Multi-KRUM keeps outliers away, not three identical updates", x=0.01, ha="left", fontsize=11)
    return figure


def _plain_figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _figure(made: CrowdResult, title: str) -> tuple[Any, Any]:
    figure = _plain_figure(8, 4.8)
    figure.suptitle(f"{title}\n{_small(made)}", x=0.01, ha="left", fontsize=11)
    return figure, figure.add_subplot()


def _small(made: CrowdResult) -> str:
    base = made.scale.base
    data = "digits 8 x 8" if made.scale.name == "digits" else "MNIST"
    return f"{data}, {base.members} members x {base.images} images, {base.local_epochs} local epochs"


def _epsilons(axes: Any) -> None:
    axes.set_xlim(0, max(EPSILONS) + 0.5)
    axes.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])


def _line(axes: Any, points: Sequence[tuple[float, Any]], kind: str, **style: Any) -> None:
    """With bars from the lowest to the highest seed, where there are several."""
    known = [(x, row) for x, row in points if row is not None]
    if known:
        bars = [row["spread" if kind == "clean" else "noisy_spread"] / 2 for _, row in known]
        axes.errorbar([x for x, _ in known], [row[kind] for _, row in known], yerr=bars if any(bars) else None,
                      capsize=3, markersize=5, linewidth=1.8, **style)  # fmt: skip


def _percent(row: Any) -> str:
    return f"{row['clean']:.0%}" if row else "nothing yet"


def _range(rows: Iterable[Any]) -> str:
    found = [row["clean"] for row in rows if row]
    return f"{max(found) - min(found):.0%} apart" if found else "unknown"


def _gains(made: CrowdResult) -> str:
    """How far the fewest and the most local epochs are apart, first and last."""
    rows, last = made.figures["5.8"], made.scale.globals
    gaps = []
    for g in (1, last):
        few, many = (
            next(
                (row for name, row in rows.items() if f"epochs {paper} (" in name and name.endswith(f"epoch {g}")), None
            )
            for paper in (min(made.scale.local), max(made.scale.local))
        )
        gaps.append(f"{many['clean'] - few['clean']:+.0%}" if few and many else "?")
    return f"{gaps[0]} in the first, {gaps[1]} in epoch {last}"


def _finished(figure: Any, axes: Any, x: str, title: str, percent: bool = True) -> Any:
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(x)
    axes.spines[["top", "right"]].set_visible(False)
    if percent:
        axes.set_ylim(0, 1.02)
        axes.set_ylabel("share of test images classified rightly")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)
    return figure
