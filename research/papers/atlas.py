"""The atlas: `docs/papers/`, a page for each document with every part, every figure and every error of it.

Texts are in `texts/*.toml`, numbers in the JSON of runs (`docs/results/papers.json`) and of `errata`: none is typed. In
texts, `<p0-table2: naive precision>` stands for a number of that run.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from research.papers.exhibit import Found
from research.papers.names import CROWD, EXHIBITS
from research.papers.provenance import Rule, explain_numbers, find_rule

TEXTS = Path(__file__).parent / "texts"
TRAINED = Path(__file__).parents[2] / "docs" / "results" / "crowd.json"
"""What `research.blockfl.page` found of the recorded trainings."""
DOCUMENTS = ("p0", "p1", "p2", "p3", "p4")
STATES = ("same", "better", "different", "left out")
KINDS = (
    "system part", "protocol step", "contract function", "data model", "definition", "assumption", "problem",
    "algorithm", "theorem", "model", "claim", "security claim", "remedy", "screen", "figure", "application",
    "implementation", "metric", "workload", "setting", "baseline", "all parts", "data set", "hardware", "related work",
    "future work",
)  # fmt: skip
"""Of parts, in the order of the tables; the thesis has its chapter before each."""
MOST = 390
"""Characters of a cell: tests/system/test_docs.py allows 400."""
PARTS_INTRO = """\
Each row is a part of the paper, what there is of it here, and a command that shows it. `python -m research parts --run`
runs all of them (those with `noisebank` in the tutorial's folder, the others at the root of the repository).
"""
NUMBERS_INTRO = "Held numbers, where what they are held against comes from, and where the tolerance comes from:"


class Part(NamedTuple):
    """A part of a paper, and what became of it."""

    kind: str
    part: str
    here: str
    see: str
    state: str
    why: str


class Document(NamedTuple):
    """What the texts say of one document."""

    name: str
    title: str
    authors: str
    about: tuple[str, ...]
    parts: tuple[Part, ...]
    chapters: tuple[Found, ...] = ()
    """Diagrams, screens, and figures that another one shows: where, printed, why."""


@lru_cache(maxsize=8)
def read_document(name: str) -> Document:
    """p0 to p4."""
    raw = tomllib.loads((TEXTS / f"{name}.toml").read_text())
    parts = tuple(Part(**row) for row in raw["parts"])
    for part in parts:
        if part.state not in STATES:
            raise ValueError(f"{name}: {part.part}: {part.state} is none of {', '.join(STATES)}")
    return Document(
        raw["name"], raw["title"], raw["authors"], tuple(raw["about"]), parts, tuple(raw.get("figures", ()))
    )


def exhibits_of(name: str) -> tuple[str, ...]:
    """Of one document."""
    return tuple(one for one in EXHIBITS if one.startswith(f"{name}-"))


def fill_numbers(text: str, found: Mapping[str, Found]) -> str:
    """Puts the numbers of runs in the place of their names."""

    def number(match: re.Match[str]) -> str:
        rows = {row["name"]: row["ours"] for row in found[match[1]]["numbers"]}
        return f"{rows[match[2]]:.4g}"

    return re.sub(r"<([\w-]+): ([^>]+)>", number, text)


def write_cell(text: str) -> str:
    """One cell of a table."""
    cell = " ".join(text.split()).replace("|", "\\|")
    if len(cell) > MOST:
        raise ValueError(f"a cell of {len(cell)} characters: {cell[:60]} ...")
    return cell


def parts_table(document: Document, found: Mapping[str, Found]) -> Iterator[str]:
    """Grouped by chapter and kind."""
    kinds = sorted({part.kind for part in document.parts}, key=_order_kind)
    for kind in kinds:
        yield f"\n### {kind[0].upper()}{kind[1:]}\n\n| of the paper | here, and shown by | verdict |\n|---|---|---|\n"
        for part in document.parts:
            if part.kind == kind:
                here = write_cell(f"{part.here}<br>`{part.see}`")
                verdict = write_cell(f"**{part.state}**" + (f": {fill_numbers(part.why, found)}" if part.why else ""))
                yield f"| {write_cell(part.part)} | {here} | {verdict} |\n"


def _order_kind(kind: str) -> tuple[str, int]:
    chapter, _, name = kind.rpartition(": ")
    return chapter, KINDS.index(name)


def exhibit_section(name: str, one: Found) -> Iterator[str]:
    """Chart, printed, here, why, command, time, numbers."""
    yield f"\n### {one['title']}\n\n![{one['title']}](../images/papers/{name}.png)\n\n"
    for words, key in (("Printed", "printed"), ("Here", "here"), ("Why they differ", "why")):
        yield f"**{words}.** {one[key]}\n\n"
    load = f", load {one['load']:g}" if one.get("load") is not None else ""
    if one.get("stale"):
        yield f"**To be repeated.** {one['stale']}\n\n"
    work = f" ({one['cpu']:.0f} s of CPU)" if one.get("cpu") is not None else ""
    kind = " **A quick run.**" if one["quick"] else ""
    yield f"`python -m research reproduce {name}`, {one['seconds']:.0f} s{work}{load}.{kind}"
    yield from numbers_table(name, one["numbers"])


def numbers_table(name: str, numbers: list[Found]) -> Iterator[str]:
    """By rule; those whose tolerance was chosen after looking one by one."""
    if not numbers:
        yield " No number to hold it against.\n"
        return
    within = sum(number["within"] for number in numbers)
    yield f" {within} of {len(numbers)} numbers within.\n\n| numbers | held against | tolerance |\n|---|---|---|\n"
    groups: dict[Rule, list[Found]] = {}
    for number in numbers:
        groups.setdefault(find_rule(name, number["name"]), []).append(number)
    for rule, rows in groups.items():
        if rule.after:
            for row in rows:
                shown = f"{row['name']}: {row['ours']:.4g}, expected {row['expected']:.4g} ± {row['spread']:.2g}"
                late = f"**chosen after looking**: {rule.tolerance}; {rule.note}"
                yield f"| {write_cell(shown)} | {_oracle(rule)} | {write_cell(late)} |\n"
        else:
            names = rows[0]["name"] if len(rows) == 1 else f"{len(rows)} numbers, from “{rows[0]['name']}” on"
            yield f"| {write_cell(names)} | {_oracle(rule)} | {write_cell(rule.tolerance)} |\n"


def _oracle(rule: Rule) -> str:
    words = {
        "print": "the paper's print", "law": "a known law", "count": "counting",
        "script": "an independent script with seeds of its own, not in the repository",
    }  # fmt: skip
    if rule.oracle in words:
        return words[rule.oracle]
    module, function = rule.oracle.split(".")
    return f"`research/oracles/{module}.py`: `{function}`"


def errata_table(rows: list[Found]) -> Iterator[str]:
    """Where, printed, holds, and the smallest counterexample."""
    yield "\n| where | printed | what holds | smallest counterexample |\n|---|---|---|---|\n"
    for row in rows:
        numbers = "; ".join(f"{name}: {_plain(value)}" for name, value in row["numbers"].items())
        cells = (write_cell(text) for text in (row["where"], row["printed"], row["holds"], numbers))
        yield f"| {' | '.join(cells)} |\n"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def document_page(name: str, found: Mapping[str, Found], errata: Mapping[str, list[Found]]) -> str:
    """The page of one document."""
    document = read_document(name)
    return "".join(_page_lines(name, document, found, errata[document.name]))


def _page_lines(name: str, document: Document, found: Mapping[str, Found], errata: list[Found]) -> Iterator[str]:
    yield f"# {document.name}: {document.title}\n\n{document.authors}\n\n## What it proposes\n\n"
    yield "".join(f"{number}. {sentence}\n" for number, sentence in enumerate(document.about, 1))
    yield f"\n## Every part\n\n{PARTS_INTRO}"
    yield from parts_table(document, found)
    yield f"\n## Figures and tables\n\n`python -m research papers {name} --quick` runs all of them.\n"
    sections = [chapter_section(row, found) for row in document.chapters]
    sections += [exhibit_section(one, found[one]) for one in exhibits_of(name)]
    if name == "p4":
        sections += [crowd_section(one) for one in CROWD]
    yield from order_sections(["".join(lines) for lines in sections])
    yield (
        "\n## Errata\n\nEach with the smallest counterexample, computed by `research/papers/errata` "
        "([errata.json](../results/errata.json)).\n"
    )
    yield from errata_table(errata)


def order_sections(sections: list[str]) -> list[str]:
    """By the first number in their titles; what has none stays behind what was before it, a table before the next."""
    numbers = [re.match(r"\n### .*?\b(?:Figures?|Table) (\d+)(?:\.(\d+))?", text) for text in sections]
    keys = [(int(found[1]), int(found[2] or 0)) if found else None for found in numbers]
    for place in reversed(range(len(sections) - 1)):
        if keys[place] is None and sections[place].startswith("\n### Table"):
            keys[place] = keys[place + 1]
    last, known = (0, 0), []
    for key in keys:
        last = key or last
        known.append(last)
    return [sections[place] for place in sorted(range(len(sections)), key=known.__getitem__)]


def chapter_section(row: Found, found: Mapping[str, Found]) -> Iterator[str]:
    """A figure without a chart of its own: the pictures that show it here, and the same words."""
    yield f"\n### {row['title']}\n\n"
    yield "".join(f"![{row['title']}](../images/{image})\n\n" for image in row["images"])
    for words, key in (("Printed", "printed"), ("Here", "here"), ("Why they differ", "why")):
        yield f"**{words}.** {fill_numbers(row[key], found)}\n\n"
    yield f"`{row['see']}`\n"


def crowd_section(name: str) -> Iterator[str]:
    """A figure of learning by a crowd: its verdicts, from the recorded trainings."""
    from research.papers.catalogue import exhibit

    shown, trained = exhibit(name), read_trained(name)
    yield f"\n### {shown.title}\n\n![{shown.title}](../images/crowd/{name}.png)\n\n"
    for words, text in (("Printed", shown.printed), ("Here", shown.here(trained)), ("Why they differ", shown.why)):
        yield f"**{words}.** {text}\n\n"
    yield f"`python -m research reproduce {name}`. All numbers: [learning by a crowd](../results/crowd.md)."
    yield from numbers_table(name, hold_crowd(name))


def read_trained(name: str) -> Found:
    """What a figure of learning by a crowd was drawn from."""
    found: Found = json.loads(TRAINED.read_text())[name]
    return found


def hold_crowd(name: str) -> list[Found]:
    """Its held numbers."""
    from research.papers.catalogue import exhibit

    return explain_numbers(name, [number.plain() for number in exhibit(name).numbers(read_trained(name))])


def index_page(found: Mapping[str, Found], errata: Mapping[str, list[Found]]) -> str:
    """The page above the five."""
    rows = []
    for name in DOCUMENTS:
        document = read_document(name)
        states = Counter(part.state for part in document.parts)
        held = {one: found[one]["numbers"] for one in exhibits_of(name)}
        if name == "p4":
            held |= {one: hold_crowd(one) for one in CROWD}
        numbers = [number for rows in held.values() for number in rows]
        late = sum(find_rule(one, number["name"]).after for one, rows in held.items() for number in rows)
        within = sum(number["within"] for number in numbers)
        cells = " | ".join(str(states[state]) for state in STATES)
        rows.append(
            f"| [{document.name}]({name}.md) | {document.title} | {cells} | {len(held)} | "
            f"{within} of {len(numbers)} | {late} | {len(errata[document.name])} |"
        )
    return (TEXTS / "index.md").read_text().replace("ROWS", "\n".join(rows))


def write_atlas(found: Mapping[str, Found], docs: Path) -> list[Path]:
    """All pages, and the errata as JSON; returns the files written."""
    from research.papers.errata import list_errata

    errata = list_errata()
    folder, results = docs / "papers", docs / "results"
    for one in (folder, results):
        one.mkdir(parents=True, exist_ok=True)
    texts = {folder / "index.md": index_page(found, errata)}
    texts |= {folder / f"{name}.md": document_page(name, found, errata) for name in DOCUMENTS}
    texts[results / "errata.json"] = json.dumps(errata, indent=1, ensure_ascii=False) + "\n"
    for path, text in texts.items():
        path.write_text(text)
    return list(texts)
