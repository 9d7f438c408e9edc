"""The report pages, from the JSON of a run: `python -m research.papers.page FOLDER DOCS`.

FOLDER is what `python -m research reproduce all --out FOLDER` wrote. The pages go to DOCS/results, their images to
DOCS/images/papers, and all numbers with their spreads to DOCS/results/papers.json. Of what FOLDER does not have (after
`reproduce p2`, say) the last run in DOCS stays, with its image.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from research.papers.atlas import write_atlas
from research.papers.catalogue import exhibit
from research.papers.charts import save
from research.papers.exhibit import Found
from research.papers.names import EXHIBITS
from research.papers.provenance import explain_numbers
from research.papers.running import draw_exhibit

KEPT = ("name", "paper", "title", "quick", "printed", "here", "why", "numbers", "seconds", "cpu", "load", "stale")
"""Of an exhibit's JSON, in the pages' own JSON: the curves stay in the run's folder. `stale`: why a run should be
repeated; written by hand beside an old run, and gone with the next one."""
HEAD = """\
# The papers, reproduced

Made by `make papers` from what `python -m research papers --full` wrote. Every figure and table has a module of its
own in `research/papers/`, which runs the product's own planner, contract and banks.
**[The papers](../papers/index.md)** has a page for each document: every part of it, printed beside here, why they
differ, and its errors. {timing}

Each number that an independent computation gave is in [papers.json](papers.json), beside ours, how far they may be
apart, where that tolerance comes from and whether it was chosen after looking: {within} of {total} are within
({outside}); for {late} of them the tolerance was widened, or the statistic changed, after a first run lay outside.
Learning has pages of its own besides: [LDP-FedSGD](fedsgd.md), [crowds](crowd.md). How far a budget goes under each
scheme: [budget.md](budget.md).

| | figure or table | seconds | load | numbers within |
|---|---|---|---|---|
"""
BUDGET = """\
# How far does a budget go?

Made from the same run as [papers.md](papers.md) (`python -m research reproduce budget`). {asked} counts are asked, with
wanted standard deviations of 20 to 200 people; a question that the budget cannot pay is refused and the next one is
tried.

{here}

![{title}](../images/papers/budget.png)

{why}

| questions | cells | epsilon | paid anew | reuse (P0) | Laplace + Bayes (P1) | P3 (**not private**) | noisebank |
|---|---|---|---|---|---|---|---|
{rows}

More cells, and what the planner takes: [reuse.md](reuse.md).
"""


def read(folder: Path, docs: Path) -> dict[str, Found]:
    """What a run wrote; for the rest, what an earlier one left in the pages' JSON."""
    kept = docs / "results" / "papers.json"
    earlier: dict[str, Found] = json.loads(kept.read_text()) if kept.is_file() else {}
    found: dict[str, Found] = {}
    for name in EXHIBITS:
        run = folder / f"{name}.json"
        found[name] = json.loads(run.read_text()) if run.is_file() else earlier[name]
    return found


def papers_page(found: Mapping[str, Found]) -> Iterator[str]:
    """The lines of papers.md."""
    numbers = [number for one in found.values() for number in one["numbers"]]
    outside = [number["name"] for number in numbers if not number["within"]]
    yield HEAD.format(
        timing=_timing(found),
        within=len(numbers) - len(outside),
        total=len(numbers),
        outside=f"outside: {'; '.join(outside)}" if outside else "none is outside",
        late=sum(bool(number.get("chosen after looking")) for number in numbers),
    )
    for name, one in found.items():
        held = one["numbers"]
        load = f"{one['load']:g}" if one.get("load") is not None else ""
        link = "budget.md" if name == "budget" else f"../papers/{name[:2]}.md"
        within = f"{sum(number['within'] for number in held)} of {len(held)}"
        quick = (", quick run" if one["quick"] else "") + (", to be repeated" if one.get("stale") else "")
        yield f"| [{one['paper']}]({link}) | {one['title']}{quick} | {one['seconds']:.0f} | {load} | {within} |\n"


def _timing(found: Mapping[str, Found]) -> str:
    """Which parts were run quickly, how long all took, and how busy the machine was."""
    quick = [name for name, one in found.items() if one["quick"]]
    seconds = sum(one["seconds"] for one in found.values())
    loads = [one["load"] for one in found.values() if one.get("load") is not None]
    if len(quick) == len(found):
        kind = "**These are quick runs** (`--quick`: fewer seeds, runs and settings); a full run has not been made"
    elif quick:
        kind = f"These are full runs, except for {', '.join(quick)} (`--quick`)"
    else:
        kind = "This is a full run"
    busy = f" (load {min(loads):.0f} to {max(loads):.0f})" if loads else ""
    return (
        f"{kind}. The parts took {seconds / 60:.0f} minutes one by one on two cores that had other work, too{busy}; "
        "each part says its load. Seconds here are worth less than ratios."
    )


def budget_page(one: Found) -> str:
    """budget.md."""
    data, rows = one["data"], []
    for kind, row in data["kinds"].items():
        for place, epsilon in enumerate(data["epsilons"]):
            means = [
                sum(row[way][place]) / len(row[way][place]) for way in ("naive", "per type", "bayes", "unsound", "ours")
            ]
            cells = " | ".join(f"{mean:.0f}" for mean in means[:-1])
            rows.append(f"| {kind} | {row['cells']} | {epsilon:g} | {cells} | **{means[-1]:.0f}** |")
    return BUDGET.format(
        asked=data["asked"], here=one["here"], title=one["title"], why=one["why"], rows="\n".join(rows)
    )


def refreshed(name: str, one: Found) -> Found:
    """With today's words and spreads for what was found; without the data, only with today's words."""
    shown = exhibit(name)
    words = {"title": shown.title, "printed": shown.printed, "why": shown.why}
    if "data" not in one:
        return {**one, **words, "numbers": explain_numbers(name, one["numbers"])}
    numbers = [number.plain() for number in shown.numbers(one["data"])]
    return {**one, **words, "here": shown.here(one["data"]), "numbers": explain_numbers(name, numbers)}


def write_pages(folder: Path, docs: Path) -> list[Path]:
    """Pages, their JSON, and images drawn anew; returns the files written."""
    found = {name: refreshed(name, one) for name, one in read(folder, docs).items()}
    images, results = docs / "images" / "papers", docs / "results"
    for place in (images, results):
        place.mkdir(parents=True, exist_ok=True)
    written = []
    for name, one in found.items():
        if "data" not in one:
            continue
        png, svg = save(draw_exhibit(name, one["data"]), images, name)
        svg.unlink()
        written.append(png)
    kept = {name: {key: one.get(key) for key in KEPT} for name, one in found.items()}
    texts = {
        "papers.md": "".join(papers_page(found)),
        "papers.json": json.dumps(kept, indent=1, ensure_ascii=False) + "\n",
    }
    if "data" in found["budget"]:
        texts["budget.md"] = budget_page(found["budget"])
    for file, text in texts.items():
        (results / file).write_text(text)
        written.append(results / file)
    return written + write_atlas(kept, docs)


if __name__ == "__main__":
    for path in write_pages(Path(sys.argv[1]), Path(sys.argv[2])):
        sys.stdout.write(f"{path}\n")
