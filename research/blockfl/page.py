"""Writes figures 5.3 to 5.8 into docs/results/crowd.md, with JSON and charts:  python -m research.blockfl.page [FOLDER]

From the recorded trainings alone: no number on the page is typed. FOLDER may have what `python -m research reproduce
p4-attackers --out FOLDER` wrote; without it the attackers stay as they are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from research.blockfl.experiments import RESULTS, SCALES, SEEDS, estimate_hours, list_lacking, plan, read_records
from research.blockfl.figures import FALL
from research.papers.charts import save
from research.papers.exhibit import Exhibit, Found, rounded
from research.papers.names import CROWD
from research.papers.p4_crowd import EXHIBITS, describe_verdict

PAGE, DATA, IMAGES = Path("docs/results/crowd.md"), Path("docs/results/crowd.json"), Path("docs/images/crowd")
BEGIN, END = "<!-- figures: written by research.blockfl.page -->\n", "<!-- end of figures -->\n"
FIGURES = [name for name in CROWD if "figure" in name]
ATTACKERS = "p4-attackers"


def main(folder: Path | None) -> None:
    """Runs the exhibits, which train nothing, and writes JSON, charts and page."""
    found: dict[str, Found] = {}
    attackers = json.loads(DATA.read_text()).get(ATTACKERS) if DATA.is_file() else None
    if folder is not None:
        attackers = json.loads((folder / f"{ATTACKERS}.json").read_text())["data"]
        save(EXHIBITS[ATTACKERS].draw(attackers), IMAGES, ATTACKERS)
        (IMAGES / f"{ATTACKERS}.svg").unlink(missing_ok=True)
    for name in FIGURES:
        shown = EXHIBITS[name]
        found[name] = rounded(shown.run(True, lambda done, total: None), 5)
        if found[name]["scales"]:
            save(shown.draw(found[name]), IMAGES, name)
            (IMAGES / f"{name}.svg").unlink(missing_ok=True)
    DATA.write_text(json.dumps({**found, ATTACKERS: attackers}, indent=1, ensure_ascii=False) + "\n")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + "\n".join(write_part(found)) + "\n" + END + rest.partition(END)[2])


def write_part(found: dict[str, Found]) -> Iterator[str]:
    """The lines between the marks."""
    scales: dict[str, Any] = {}
    for one in found.values():
        scales |= one["scales"]
    yield "Scales, and how many trainings of each are recorded:"
    yield ""
    for name, scale in scales.items():
        yield f"- `{name}`: {scale['title']}; {scale['setting']}. {scale['trainings']} trainings."
    yield ""
    yield from _list_missing()
    yield "| figure | printed | " + " | ".join(f"`{name}`" for name in scales) + " |"
    yield "|---|---|" + "---|" * len(scales)
    for one in found.values():
        yield from _list_claims(one, list(scales))
    yield ""
    yield (
        "*holds*, *fails*, *undecided*: by 95% intervals of the differences that the sentence claims, seed by seed. "
        f"*1 of {SEEDS} seeds* decides nothing. A dash: not trained yet."
    )
    yield ""
    yield from _list_falls(found["p4-figure5-7"])
    for name, one in found.items():
        yield from _write_figure(name, EXHIBITS[name], one)


def _list_missing() -> Iterator[str]:
    """What is planned and not trained yet, and what it would take."""
    records = read_records(RESULTS)
    jobs = plan()
    lacking = list_lacking(jobs, records)
    parts = []
    for name, scale in SCALES.items():
        mine = [job for job in lacking if job.scale == name]
        if mine:
            every = sum(job.scale == name for job in jobs)
            hours = estimate_hours(mine, records)
            parts.append(f"`{name}` ({scale.title}): {len(mine)} of {every} trainings, about {hours:.2g} CPU hours")
    if parts:
        yield f"**Not trained yet**, so not decided here: {'; '.join(parts)}."
        yield ""


def _list_falls(found: Found) -> Iterator[str]:
    """Means hide what a single training does, and a single one is what the thesis seems to show."""
    yield f"**Single trainings** of its normalisation under noise that lost more than {FALL:g} on clean test features:"
    yield ""
    yield "| scale | from global epoch 1 to 2 | from 2 to a later one | which, after each global epoch |"
    yield "|---|---|---|---|"
    for name, scale in found["scales"].items():
        one = scale["falls"]
        which = "; ".join(one["which"]) or "–"
        cells = f"{one['to the second']} of {one['of two']} | {one['after the second']} of {one['of more']} | {which}"
        yield f"| `{name}` | {cells} |"


def _list_claims(found: Found, scales: list[str]) -> Iterator[str]:
    printed = list(dict.fromkeys(row["printed"] for scale in found["scales"].values() for row in scale["claims"]))
    for sentence in printed:
        cells = []
        for name in scales:
            rows = [row for row in found["scales"].get(name, {}).get("claims", []) if row["printed"] == sentence]
            cells.append(describe_verdict(rows[0]) if rows else "–")
        yield f"| {found['figure']} | {sentence} | {' | '.join(cells)} |"


def _write_figure(name: str, shown: Exhibit, found: Found) -> Iterator[str]:
    if not found["scales"]:
        return
    yield ""
    yield f"### {shown.title}"
    yield ""
    yield f"**Printed.** {shown.printed}"
    yield ""
    yield f"**Why.** {shown.why}"
    yield ""
    yield f"![{shown.title}](../images/crowd/{name}.png)"
    yield ""
    for scale, part in found["scales"].items():
        yield f"| `{scale}` | clean | noisy | seeds |"
        yield "|---|---|---|---|"
        for point, row in part["points"].items():
            yield f"| {point} | {_number(row['clean'])} | {_number(row['noisy'])} | {row['clean']['seeds']} |"
        yield ""
    commits = ", ".join(f"`{commit}`" for commit in found["commits"])
    yield f"`python -m research reproduce {name}`; trained on {commits}."


def _number(row: Found) -> str:
    return f"{row['mean']:.3f}" + ("" if row["error"] is None else f" ± {row['error']:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
