"""How all charts look: titles that state the finding, units on both axes, colours that everybody can tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

INK = "#222222"
"""Of numbers and words: no line, axis or bar has it, so that text is never taken for one of them."""
BLUE, ORANGE, GREEN, SKY, PINK, YELLOW, BLACK, GREY = (
    "#0072B2", "#D55E00", "#009E73", "#56B4E9", "#CC79A7", "#E69F00", "#000000", "#777777",
)  # fmt: skip
"""Okabe and Ito's."""
WAYS = {
    "naive": (ORANGE, "s", "every answer paid anew"),
    "per type": (YELLOW, "^", "reuse of identical queries (P0)"),
    "bayes": (PINK, "D", "Laplace + Bayesian inference (P1)"),
    "unsound": (GREY, "x", "P3: NOT private"),
    "ours": (BLUE, "o", "noisebank"),
}
"""Colour, mark and words of each way to answer, the same in every chart."""
DOTS = 110
"""Per inch: readable, and below 80 kB a chart."""


def figure(width: float = 8.0, height: float = 4.6) -> Any:
    """An empty figure that finds room for its parts."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def dress(axes: Any, title: str, x: str, y: str) -> Any:
    """Title on the left, units on the axes, no frame."""
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def headline(drawn: Any, finding: str, note: str = "") -> None:
    """The finding above all panels, and a small note on how it was made."""
    lines = note.count("\n") + 1 if note else 0
    drawn.suptitle(finding + "\n" * lines, x=0.01, ha="left", fontsize=12)
    if note:
        height = float(drawn.get_figheight())
        drawn.text(0.01, 1 - 0.36 / height, note, fontsize=8.5, color="#555555", va="top")


def mark_made_up(axes: Any, words: str = "made-up data") -> None:
    """Says on a panel itself that its table is made up, so that a copied chart still says it."""
    axes.text(0.985, 0.985, words, transform=axes.transAxes, fontsize=8, color="#333333", ha="right", va="top",
              style="italic", zorder=6, bbox={"facecolor": "#f2f2f2", "edgecolor": "#bbbbbb", "pad": 2.5})  # fmt: skip


def stamp_made_up(drawn: Any, words: str) -> None:
    """The same for a whole figure, along its right edge."""
    drawn.get_layout_engine().set(rect=(0, 0, 1 - 0.2 / float(drawn.get_figwidth()), 1))
    drawn.text(0.998, 0.5, f"made-up data: {words}", fontsize=8, color="#333333", style="italic", rotation=90,
               ha="right", va="center")  # fmt: skip


def band(axes: Any, x: Sequence[float], rows: Sequence[Sequence[float]], colour: str, **style: Any) -> None:
    """The mean over runs as a line, 5% to 95% of the runs as a band."""
    found = np.array(rows, dtype=float)
    axes.plot(x, np.nanmean(found, axis=0), color=colour, linewidth=1.8, **style)
    if len(found) > 1:
        low, high = np.nanquantile(found, (0.05, 0.95), axis=0)
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)


def plain_ticks(axis: Any, values: Sequence[float]) -> None:
    """These values and no others, as plain numbers, also on a logarithmic axis."""
    from matplotlib.ticker import NullLocator

    axis.set_minor_locator(NullLocator())
    axis.set_ticks(list(values), [f"{value:g}" for value in values])


def below(drawn: Any, axes: Any, columns: int) -> None:
    """One legend for all panels, below them."""
    handles, labels = axes.get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)


def save(drawn: Any, folder: Path, name: str) -> list[Path]:
    """PNG and SVG. The PNG has a palette: charts have few colours.

    An octree keeps a colour that few dots have; the median cut gave Duchi's orange to Three-Outputs in figure 3.6.
    """
    from PIL import Image

    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    drawn.savefig(paths[0], dpi=DOTS)
    with Image.open(paths[0]) as shot:
        small = shot.convert("RGB").quantize(160, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    small.save(paths[0], optimize=True)
    drawn.savefig(paths[1], metadata={"Date": None})
    return paths
