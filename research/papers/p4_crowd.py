"""P4, chapter 5: figures 5.3 to 5.8, learning by a crowd, from the trainings recorded in docs/results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from research.blockfl.chapter5 import REFERENCE, SPREAD, WIDE
from research.blockfl.claims import judge_all
from research.blockfl.experiments import BATCHES, DIGITS, EPSILONS, RESULTS, SCALES, plan, read_records
from research.blockfl.figures import FALL, Trainings, describe_setting
from research.papers.charts import BLACK, BLUE, GREEN, ORANGE, PINK, SKY, below, dress, figure, headline
from research.papers.exhibit import Exhibit, Found, Moved, Number
from research.papers.p4_attackers import EXHIBIT as ATTACKERS

NUMBERS = ("5.3", "5.4", "5.5", "5.6", "5.7", "5.8")
SHADES = (SKY, BLUE, GREEN, BLACK)
MARKS = ("o", "s", "^", "D")
NOISELESS = 12.0
"""Where figure 5.3 puts what has no noise."""
Line = tuple[str, Sequence[tuple[float, str]], dict[str, Any]]
"""A label, x with the name of its point, and how it looks."""


def run(number: str, quick: bool, moved: Moved) -> Found:
    """The recorded trainings of every scale that has a point of this figure with all its seeds; nothing is trained."""
    records, scales = read_records(RESULTS), {}
    seeds = {name: len({job.seed for job in plan() if job.scale == name}) for name in SCALES}
    for done, (name, scale) in enumerate(SCALES.items()):
        made = Trainings(scale, records)
        points = made.figures()
        if any(row["clean"]["seeds"] == seeds[name] for row in points[number].values()):
            scales[name] = {
                "title": scale.title,
                "setting": describe_setting(scale.base),
                "trainings": made.count,
                "points": points[number],
                "claims": [row for row in judge_all(made) if row["figure"] == number and _known(row)],
                "effort": made.measure_effort(),
                **({"falls": made.list_falls()} if number == "5.7" else {}),
            }
        moved(done + 1, len(SCALES))
    return {
        "figure": number,
        "scales": scales,
        "commits": sorted({record.commit for record in records if record.scale in scales}),
    }  # fmt: skip


def here(found: Found) -> str:
    """The verdicts in words."""
    parts = []
    for scale in found["scales"].values():
        verdicts = "; ".join(f"“{row['printed']}”: {describe_verdict(row)}" for row in scale["claims"])
        if verdicts:
            parts.append(f"{scale['title']}: {verdicts}.")
        if falls := scale.get("falls"):
            parts.append(
                f"Of {falls['of more']} single trainings there {falls['after the second']} lost more than {FALL:g} "
                "after the second global epoch."
            )
    return " ".join(parts) or "Not trained yet: `python -m research crowd`."


def describe_verdict(row: Found) -> str:
    """On clean and on noisy test features, in a few words."""
    words = {kind: row[kind]["verdict"] for kind in ("clean", "noisy") if row[kind]}
    if len(set(words.values())) == 1:
        return str(next(iter(words.values())))
    return ", ".join(f"{word} on {kind} test features" for kind, word in words.items())


def numbers(number: str, found: Found) -> list[Number]:
    """Figure 5.3 on digits beside an independent script with seeds of its own."""
    points = found["scales"].get(DIGITS.name, {}).get("points", {})
    rows = []
    for name, pair in REFERENCE.items() if number == "5.3" else ():
        for kind, expected in zip(("clean", "noisy"), pair, strict=True):
            if name in points:
                wide = name in ("batch norm, epsilon 2", "ours, epsilon 1")
                rows.append(Number(f"{name}, {kind} ({DIGITS.name})", points[name][kind]["mean"], expected,
                                   WIDE if wide else SPREAD))  # fmt: skip
    return rows


def draw(number: str, found: Found) -> Any:
    """A panel for each scale. Lines: clean test features; dashes: noisy ones; bars: 95% intervals over seeds."""
    scales = found["scales"]
    panels = max(1, len(scales))
    columns = min(panels, 3)
    rows = -(-panels // columns)
    drawn = figure(max(8.0, 4.3 * columns), 4.9 + 3.9 * (rows - 1))
    x_label, lines = LAYOUTS[number]
    note = "Lines: clean test features, dashes: noisy ones. Bars: 95% intervals over seeds; none with a single seed."
    headline(drawn, FINDINGS[number](scales), note)
    axes = drawn.subplots(rows, columns, sharey=True, squeeze=False).flat
    for spare in axes[panels:]:
        spare.remove()
    for place, (panel, scale) in enumerate(zip(axes, scales.values(), strict=False)):
        dress(panel, "", x_label, "" if place % columns else "share of test images classified rightly")
        panel.set_title(scale["title"], loc="left", fontsize=9.5)
        panel.set_ylim(0, 1.02)
        panel.grid(axis="y", color="#dddddd", linewidth=0.6)
        ticks: set[float] = set()
        for label, points, style in lines():
            for kind, dash in (("clean", "-"), ("noisy", "--")):
                known = [(x, scale["points"][name][kind]) for x, name in points if name in scale["points"]]
                if kind == "noisy" and all(scale["points"][name]["noisy"] == scale["points"][name]["clean"]
                                           for _, name in points if name in scale["points"]):  # fmt: skip
                    continue
                bars = [row["error"] or 0.0 for _, row in known]
                panel.errorbar([x for x, _ in known], [row["mean"] for _, row in known],
                               yerr=bars if any(bars) else None, linestyle=dash, capsize=2.5, markersize=4.5,
                               linewidth=1.6, label=label if kind == "clean" else None, **style)  # fmt: skip
                ticks |= {x for x, _ in known}
        if number in ("5.4", "5.5"):
            panel.set_xscale("log", base=2)
            panel.minorticks_off()
        names = {NOISELESS: "none"} if number == "5.3" else {}
        panel.set_xticks(sorted(ticks), [names.get(tick, f"{tick:g}") for tick in sorted(ticks)])
    below(drawn, axes[0], 4)
    return drawn


def list_normalisation() -> list[Line]:
    """Figure 5.3. Without noise: at the right end."""
    styles = {"ours": (BLUE, "o"), "batch norm": (ORANGE, "s")}
    lines: list[Line] = [
        (name, [(e, f"{name}, epsilon {e:g}") for e in EPSILONS], {"color": colour, "marker": mark})
        for name, (colour, mark) in styles.items()
    ]
    return lines + [
        (f"{name}, no noise", [(NOISELESS, f"{name}, no noise")], {"color": colour, "marker": "*"})
        for name, (colour, _) in styles.items()
    ]  # fmt: skip


def list_batches() -> list[Line]:
    """Figures 5.4 and 5.5."""
    lines: list[Line] = []
    for name, colour, other in (("ours", BLUE, SKY), ("batch norm", ORANGE, PINK)):
        for same, shade, mark in (("", colour, "o"), (", equal steps", other, "^")):
            points = [(float(n), f"{name}, batch {n}{same}") for n in BATCHES]
            lines.append((f"{name}{same}", points, {"color": shade, "marker": mark}))
    return lines


def list_by_epoch(names: Sequence[str], epochs: int) -> list[Line]:
    """Figures 5.6 and 5.8: a line for each setting."""
    return [
        (name, [(float(g), f"{name}, global epoch {g}") for g in range(1, epochs + 1)],
         {"color": colour, "marker": mark})
        for name, colour, mark in zip(names, SHADES, MARKS, strict=False)
    ]  # fmt: skip


LAYOUTS: dict[str, tuple[str, Callable[[], list[Line]]]] = {
    "5.3": ("epsilon of one feature (none: no noise at all)", list_normalisation),
    "5.4": ("batch size N", list_batches),
    "5.5": ("batch size N", list_batches),
    "5.6": ("global epoch", partial(list_by_epoch, [f"batch {n}" for n in BATCHES], 3)),
    "5.7": ("global epoch", partial(list_by_epoch, [f"epsilon {e:g}" for e in EPSILONS], 4)),
    "5.8": ("global epoch", partial(list_by_epoch, [f"{n} local epochs" for n in (20, 30, 40)], 4)),
}


def _summarise(sentence: str, printed: str, scales: Found) -> str:
    """A claim with how many scales bear it out."""
    words = [
        row[kind]["verdict"]
        for scale in scales.values() for row in scale["claims"] if row["printed"] == printed
        for kind in ("clean", "noisy") if row[kind]
    ]  # fmt: skip
    decided = [word for word in words if word in ("holds", "fails", "undecided")]  # the rest has too few seeds
    if not decided:
        return f"{sentence}: not decided yet"
    counts = [f"{word} in {decided.count(word)}" for word in ("holds", "fails") if decided.count(word)]
    if "undecided" in decided:
        counts.append(f"undecided in {decided.count('undecided')}")
    return f"{sentence}: {', '.join(counts)} of {len(decided)} cases"


FINDINGS: dict[str, Callable[[Found], str]] = {
    "5.3": partial(_summarise, "Its normalisation beats batch norm under noise",
                   "Its normalisation beats batch norm at every epsilon."),
    "5.4": partial(_summarise, "With noise, accuracy falls as the batch grows",
                   "With noise, accuracy falls as the batch grows (first global epoch)."),
    "5.5": partial(_summarise, "Without noise, batch norm is better",
                   "Without noise, batch norm beats its normalisation."),
    "5.6": partial(_summarise, "Two global epochs are better than three",
                   "Two global epochs are better than three."),
    "5.7": partial(_summarise, "At least 90% after two global epochs for epsilon above 1",
                   "At least 90% after two global epochs for epsilon above 1."),
    "5.8": partial(_summarise, "Fewer local epochs need more global ones",
                   "Fewer local epochs need more global ones."),
}  # fmt: skip


def _known(row: Found) -> bool:
    return bool(row["clean"] or row["noisy"])


TITLES = {
    "5.3": "normalisation and epsilon", "5.4": "batch size with noise", "5.5": "batch size without noise",
    "5.6": "batch size by global epoch", "5.7": "epsilon by global epoch", "5.8": "local epochs by global epoch",
}  # fmt: skip
PRINTED = {
    "5.3": "After two global epochs the thesis' normalisation is far ahead of batch norm at epsilon 1 to 10, and nears "
    "the accuracy without noise as epsilon grows.",
    "5.4": "At epsilon 2, after one global epoch, accuracy falls as the batch grows from 32 to 128.",
    "5.5": "Without noise batch norm is better than the thesis' normalisation; accuracy falls as the batch grows.",
    "5.6": "At epsilon 2 two global epochs are better than one and than three, “since noise increases”; without noise "
    "accuracy grows with every global epoch (text).",
    "5.7": "At least 90% after two global epochs for epsilon above 1; with three or four it may be lower.",
    "5.8": "With 20 or 30 local epochs four global ones are needed, with 40 two; after that accuracy drops.",
}
WHY = {
    "5.3": "The printed reason is right. Features under batch norm lie within about ±3, those of the thesis are spread "
    "over ±sqrt(N - 1), and both get noise of scale 2 sqrt(N - 1)/epsilon. At epsilon 10 the difference is small.",
    "5.4": "The printed reason (noise grows with N) is true of batch norm and not of the thesis' own normalisation: "
    "there signal and noise grow alike, their ratio is 2/epsilon whatever N is. What changes with N is the number of "
    "steps in a local epoch. With as many steps for each batch size (triangles) larger batches are better, not worse, "
    "under its normalisation (clearly so at our rate), and worse under batch norm only.",
    "5.5": "A larger batch makes fewer steps in a local epoch. After one global epoch batch norm with a few large "
    "batches has barely begun; on small batches it is about as good as the thesis' normalisation, not better.",
    "5.6": "The noise does not increase: each pass draws noise of the same scale. A later global epoch starts from a "
    "better model, whose members' noise was averaged away. Only if one epsilon were divided among the global epochs "
    "would more of them add noise, and then two would be worse than one.",
    "5.7": "As for figure 5.6: no mean over seeds is clearly lower after three or four global epochs than after two. "
    "A single training can be, with plain descent: one member that goes astray moves the average. The thesis does not "
    "say how many it shows. Means do fall if epsilon 2 is what the whole task may use, so that each of its global "
    "epochs has a share; the thesis does not divide it. The 90% depend on what it leaves open: whether test features "
    "are noisy, and the optimiser, of which only the rate is printed.",
    "5.8": "Local and global epochs both make steps; fewer of one need more of the other. No mean clearly drops after "
    "two global epochs; single trainings with plain descent do (Figure 5.7). At our rate 10, 15 and 20 local epochs "
    "stand for the thesis' 20, 30 and 40.",
}
EXHIBITS = {
    f"p4-figure{number.replace('.', '-')}": Exhibit(
        name=f"p4-figure{number.replace('.', '-')}",
        paper="P4.5",
        title=f"Figure {number}: {TITLES[number]}",
        printed=PRINTED[number],
        why=WHY[number],
        run=partial(run, number),
        here=here,
        draw=partial(draw, number),
        numbers=partial(numbers, number),
    )
    for number in NUMBERS
} | {ATTACKERS.name: ATTACKERS}
