"""The atlas: its texts name what exists, its pages are what the JSON says, its commands run, its oracles agree."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from research.__main__ import main
from research.oracles.command import compare, list_oracles
from research.papers.atlas import (
    DOCUMENTS,
    MOST,
    document_page,
    fill_numbers,
    index_page,
    order_sections,
    read_document,
    write_cell,
)
from research.papers.catalogue import exhibit
from research.papers.errata import list_errata
from research.papers.names import CROWD, EXHIBITS, PAPERS
from research.papers.parts import list_commands, list_parts, run_command, run_commands
from research.papers.provenance import find_rule, read_rules
from research.papers.running import draw_exhibit, run_one
from support.paths import ROOT

COMMITTED = json.loads((ROOT / "docs" / "results" / "papers.json").read_text())
TRAINED = json.loads((ROOT / "docs" / "results" / "crowd.json").read_text())
PARTS = list_parts()
FAST_ORACLES = (
    "reuse.table2", "reuse.blurs", "reuse.utility", "relay.anarchy", "relay.epsilon", "relay.collusion",
    "relay.thresholds", "search.closed_form", "search.flat", "search.published", "crowd.krum", "crowd.reputations",
    "local.worst_variances", "local.crossovers", "local.means", "inference.example",
)  # fmt: skip
"""Exact or nearly so, and done in a second or two."""


# -- texts ---------------------------------------------------------------------------------------


def test_every_paper_has_a_page_with_five_sentences() -> None:
    assert tuple(PAPERS) == DOCUMENTS
    for name in DOCUMENTS:
        document = read_document(name)
        assert len(document.about) == 5 and all(sentence.endswith(".") for sentence in document.about)
        assert len(document.parts) > 30


@pytest.mark.parametrize(("paper", "part"), PARTS, ids=[f"{paper}-{part.part[:40]}" for paper, part in PARTS])
def test_what_a_part_names_exists(paper: str, part) -> None:
    """Files that a row names are there, and a verdict that is not "same" says why."""
    assert part.state == "same" or part.why, part.part
    for path in re.findall(r"`([\w./-]+)`", part.here):
        if "/" in path or path.endswith((".py", ".vy", ".md", ".svg")):
            if "*" in path or path.startswith("/"):
                continue
            assert (ROOT / path).exists() or list(ROOT.glob(f"*/**/{path}")), (part.part, path)


@pytest.mark.parametrize("command", list_commands())
def test_a_command_names_what_exists(command: str) -> None:
    """Cheaply: names of figures, of tests and of commands are known. `research parts --run` runs them all."""
    words = shlex.split(command)
    if words[0] == "python" and words[1:3] == ["-m", "pytest"]:
        files = [ROOT / word for word in words if word.startswith("tests/")]
        assert files and all(file.exists() for file in files)
        heavy = [file for file in files if file.suffix == ".py" and "mark.extras" in file.read_text()]
        assert not heavy or "not extras" in words, "fails where torch is not installed"
    elif words[:3] == ["python", "-m", "research"]:
        assert words[3] in main.commands
        if words[3] == "reproduce":
            kinds = main.commands["reproduce"].params[0].type.choices
            assert words[4] in kinds and words[5:] == ["--quick"]
    else:
        assert words[0] == "noisebank"


def test_the_cheap_commands_run() -> None:
    """Those of the bank, in the tutorial's folder, as a reader would type them."""
    results = list(run_commands(list_commands(cheap=True), lambda done, total: None))
    assert len(results) > 20
    assert [row for row in results if row["code"]] == []


def test_a_command_that_fails_is_noticed(tmp_path: Path) -> None:
    environment = {"PATH": str(Path(sys.executable).parent)}
    assert run_command("python -c 'import nothing_here'", tmp_path, environment)["code"] == 1
    assert run_command("no-such-command", tmp_path, environment)["code"] == 127


# -- pages ---------------------------------------------------------------------------------------


def test_the_pages_are_what_the_texts_and_the_json_say() -> None:
    """`make papers` after a change of texts; `python -m research.papers.page FOLDER docs` does it without a run."""
    errata = list_errata()
    assert json.loads((ROOT / "docs" / "results" / "errata.json").read_text()) == json.loads(json.dumps(errata))
    assert (ROOT / "docs" / "papers" / "index.md").read_text() == index_page(COMMITTED, errata)
    for name in DOCUMENTS:
        assert (ROOT / "docs" / "papers" / f"{name}.md").read_text() == document_page(name, COMMITTED, errata)


def test_every_figure_is_on_its_page() -> None:
    for name in EXHIBITS:
        if name != "budget":
            text = (ROOT / "docs" / "papers" / f"{name[:2]}.md").read_text()
            assert f"../images/papers/{name}.png" in text and f"reproduce {name}`" in text


@pytest.mark.parametrize("name", CROWD)
def test_figures_of_the_crowd_are_on_their_page_and_within(name: str) -> None:
    """`reproduce p4-figure5-3` ended in a LookupError: no rule said where its numbers come from."""
    text, shown = (ROOT / "docs" / "papers" / "p4.md").read_text(), exhibit(name)
    assert f"../images/crowd/{name}.png" in text and f"reproduce {name}`" in text
    assert (ROOT / "docs" / "images" / "crowd" / f"{name}.png").stat().st_size > 0
    assert shown.here(TRAINED[name]) in text and all(number.within for number in shown.numbers(TRAINED[name]))


def test_a_figure_of_the_crowd_is_reproduced(tmp_path: Path) -> None:
    ran = CliRunner().invoke(main, ["reproduce", "p4-figure5-3", "--quick", "--out", str(tmp_path), "--json"])
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "p4-figure5-3.png").is_file()


def test_every_printed_figure_has_a_section() -> None:
    """Also diagrams, screens, and those that another chart shows."""
    every = {
        "p0": [*range(1, 11)], "p1": [*range(1, 11)], "p2": [*range(1, 9)], "p3": [*range(1, 9)],
        "p4": [*(f"{c}.{n}" for c, most in ((1, 2), (2, 1), (3, 15), (4, 8), (5, 11)) for n in range(1, most + 1))],
    }  # fmt: skip
    for name, figures in every.items():
        text = (ROOT / "docs" / "papers" / f"{name}.md").read_text()
        titles = " ".join(line for line in text.splitlines() if line.startswith("### "))
        named = {one for words in re.findall(r"Figures? ([^:#]*)", titles) for one in list_figures(words)}
        assert {str(one) for one in figures} <= named, (name, {str(one) for one in figures} - named)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_sections_come_in_the_order_of_the_paper(name: str) -> None:
    """Chapter 4 of the thesis stood before chapter 3, and figures 5.10 and 5.11 before 5.3."""
    text = (ROOT / "docs" / "papers" / f"{name}.md").read_text()
    titles = [line for line in text.splitlines() if line.startswith("### ")]
    found = [re.search(r"Figures? (\d+)(?:\.(\d+))?", title) for title in titles]
    numbers = [(int(one[1]), int(one[2] or 0)) for one in found if one]
    assert len(numbers) >= 5 and numbers == sorted(numbers)


def test_a_table_stands_before_the_figure_behind_it() -> None:
    titles = ("Figure 2", "Table II", "Figure 7", "not in the paper", "Figure 1(b)")
    ordered = order_sections([f"\n### {title}: words of 3 figures\n" for title in titles])
    assert [text.split()[1] + text.split()[2] for text in ordered] == [
        "Figure1(b):", "Figure2:", "TableII:", "Figure7:", "notin"
    ]  # fmt: skip


def list_figures(words: str) -> list[str]:
    """Of "4.1 to 4.4 and Table 4.2": 4.1, 4.2, 4.3, 4.4."""
    words = words.split(" and Table")[0].split(", Table")[0]
    found = re.findall(r"\d+(?:\.\d+)?", words)
    if " to " in words:
        chapter, _, first = found[0].rpartition(".")
        last = found[1].rpartition(".")[2]
        found += [f"{chapter}.{n}".lstrip(".") for n in range(int(first), int(last) + 1)]
    return found


def test_cells_are_short_and_numbers_come_from_runs() -> None:
    with pytest.raises(ValueError, match="characters"):
        write_cell("x" * (MOST + 1))
    assert write_cell("a |x|  b") == "a \\|x\\| b"
    found = {"p0-table2": {"numbers": [{"name": "naive precision", "ours": 25.847778}]}}
    assert fill_numbers("all <p0-table2: naive precision> of it", found) == "all 25.85 of it"
    with pytest.raises(KeyError):
        fill_numbers("<p0-table2: no such number>", found)


def test_errata_hold_what_they_say() -> None:
    found = {(paper, row["where"]): row["numbers"] for paper, rows in list_errata().items() for row in rows}
    assert found["P0", "Figures 3 and 4 (screenshots)"]
    assert found["P0", "Lemma 1"]["delta at 8"] > 1e-4 > 0.99e-4
    assert found["P3", "Algorithm 1, Definition 2"] == {"count 200": 0.1665, "count 201": 0.1655, "count 202": 0.165}
    assert found["P4", "Eq. 3.1 to 3.3 (Three-Outputs)"]["sum as printed"] == pytest.approx(0.767, abs=5e-4)
    assert all(rows and len({row["where"] for row in rows}) > 3 for rows in list_errata().values())


# -- numbers and their oracles -------------------------------------------------------------------


def test_every_number_says_where_it_comes_from() -> None:
    for name, one in COMMITTED.items():
        for number in one["numbers"]:
            rule = find_rule(name, number["name"])
            assert number["oracle"] == rule.oracle and number["tolerance"] == rule.tolerance, number
            assert number["chosen after looking"] == rule.after and bool(rule.note) == rule.after, number
    used = {find_rule(name, number["name"]) for name, one in COMMITTED.items() for number in one["numbers"]}
    used |= {find_rule(name, number.name) for name in CROWD for number in exhibit(name).numbers(TRAINED[name])}
    assert not set(read_rules()) - used, "a rule without a number"
    with pytest.raises(LookupError):
        find_rule("p9-figure1", "nothing")


def test_oracles_import_nothing_of_ours() -> None:
    """A second opinion that calls the first is none."""
    for path in (ROOT / "research" / "oracles").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert not name.startswith("noisebank"), path
                assert not name.startswith("research") or name.startswith("research.oracles"), path


@pytest.mark.parametrize("oracle", FAST_ORACLES)
def test_references_are_what_the_oracle_computes(oracle: str) -> None:
    rows = compare(oracle, list_oracles()[oracle], quick=True)
    assert rows and all(row["agrees"] for row in rows), [row for row in rows if not row["agrees"]]


def test_a_moved_reference_is_noticed() -> None:
    exhibit_name, name, expected, spread = list_oracles()["reuse.table2"][-1]
    (row,) = compare("reuse.table2", [(exhibit_name, name, expected * 1.02, spread)], quick=True)
    assert row["agrees"] is False


# -- charts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["p0-table2", "p0-figure8-9", "p1-example", "p2-figure3", "p4-incentives"])
def test_no_word_has_the_colour_of_a_line(name: str) -> None:
    """A grey or orange number beside a grey or orange line reads as its label."""
    from matplotlib.colors import to_hex

    drawn = draw_exhibit(name, run_one(name, True, None)["data"])
    for axes in drawn.axes:
        lines = {to_hex(line.get_color()) for line in axes.get_lines()} - {"#000000"}
        words = {to_hex(text.get_color()) for text in axes.texts if text.get_text().strip()} - {"#ffffff"}
        assert not lines & words, (name, lines & words)


def test_a_saved_chart_keeps_its_colours_apart(tmp_path: Path) -> None:
    """A palette by median cut gave Three-Outputs the orange of Duchi in figure 3.6."""
    from matplotlib.colors import to_rgb
    from PIL import Image

    from research.ldp.charts import COLOURS
    from research.papers.charts import dress, figure, save

    drawn = figure()
    axes = dress(drawn.subplots(), "many lines, few dots of each", "x", "y")
    for place, colour in enumerate(COLOURS.values()):
        axes.plot([0, 1, 2], [place, place + 0.5, place], "o-", color=colour, linewidth=1.4, label=colour)
        axes.fill_between([0, 1, 2], place, place + 0.4, color=colour, alpha=0.18)
    axes.legend()
    path, _ = save(drawn, tmp_path, "colours")
    with Image.open(path) as shot:
        pixels = np.unique(np.asarray(shot.convert("RGB")).reshape(-1, 3), axis=0).astype(int)
    for colour in COLOURS.values():
        wanted = np.array([round(255 * part) for part in to_rgb(colour)])
        assert np.abs(pixels - wanted).max(axis=1).min() <= 4, colour


def test_values_stand_beside_the_marks_of_single_rounds() -> None:
    """Figure 10 of P0 printed its numbers across them."""
    ways = ("no contract", "embedded chain", "embedded chain, reused", "anvil")
    one = {"ours": [8.0, 9.0, 11.0], "node": [0.0]}
    drawn = exhibit("p0-figure10").draw({"ways": dict.fromkeys(ways, one)})
    assert all(text.get_position()[0] >= 11.0 for text in drawn.axes[0].texts)


def test_a_chart_of_made_up_data_says_so() -> None:
    drawn = draw_exhibit("p0-figure8-9", run_one("p0-figure8-9", True, None)["data"])
    assert any("made-up data" in text.get_text() for text in drawn.texts)
    panel = {"title": "like WISDM", "made up": True, "numbers": 3,
             "curves": {"pm": {"expected": [1, 1, 1, 1], "measured": [1, 1, 1, 1]}}}  # fmt: skip
    data = {"title": "t", "note": "n", "runs": 1, "panels": [panel, {**panel, "made up": False}]}
    first, second = exhibit("p4-figure3-6").draw(data).axes
    assert any("made-up data" in text.get_text() for text in first.texts) and not second.texts


def test_the_ends_of_figure_5_are_those_of_the_last_request() -> None:
    """Curves have a point every few requests; the labels at their ends are what the text says, after request 150."""
    from research.papers.p0_figure5 import EXHIBIT

    curves = {"naive": [[1.0, 4.0, 7.8]] * 3, "bank": [[1.0, 2.0, 2.3]] * 3}
    one = {"curves": curves, "naive": [7.86, 7.4, 8.3], "bank": [2.32, 2.2, 2.4], "saving": [0.7, 0.69, 0.72]}
    drawn = EXHIBIT.draw({"requests": [1, 51, 148], "seeds": 10, "P0": one, "P4": one})
    for axes in drawn.axes:
        assert {"7.86", "2.32"} <= {text.get_text() for text in axes.texts}


def test_a_peak_of_figure_7_is_named() -> None:
    from research.papers.p0_figure7 import BLOCKS, EXHIBIT, list_peaks

    rows = [{"last": 4.0, "mean": 4.0, "last_range": [4.0, 4.0]}, {"last": 8.0, "mean": 4.1, "last_range": [8.0, 8.0]}]
    quiet = [{**row, "last": 2.0, "mean": 2.0} for row in rows]
    names = ("embedded chain", BLOCKS)
    data = {
        "counts": [1, 60],
        "block_seconds": 1.0,
        "chains": {name: {"access": rows, "reuse": quiet} for name in names},
    }
    assert list_peaks(data) == [("access", 60, 8.0, 4.1)]
    assert "A peak at 60 queries" in EXHIBIT.here(data) and "second" in EXHIBIT.here(data)


# -- commands ------------------------------------------------------------------------------------


def test_papers_lists_all_parts_with_their_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from research.papers import catalogue

    monkeypatch.setattr(catalogue, "EXHIBITS", ("p1-example", "p0-table2"))
    ran = CliRunner().invoke(main, ["papers", "p1", "--quick", "--out", str(tmp_path), "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert list(found["figures"]) == ["p1-example"] and found["outside"] == [] and found["numbers"] == 22
    assert all(number["oracle"] and number["tolerance"] for number in found["figures"]["p1-example"]["numbers"])
    assert len(found["parts"]) == len(list_parts("p1")) and all(part["see"] for part in found["parts"])


def test_the_estimate_is_of_free_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds of a busy machine are not what a run takes: processor time counts, or the load that was noted."""
    from research.papers import command

    rows = {"p1-figure7": {"seconds": 600.0, "load": 20.0}, "p1-figure8": {"seconds": 600.0, "cpu": 60.0, "load": 20.0},
            "p0-figure7": {"seconds": 300.0, "load": 20.0}}  # fmt: skip
    (tmp_path / "papers.json").write_text(json.dumps(rows))
    monkeypatch.setattr(command, "TIMES", tmp_path / "papers.json")
    assert command.estimate_minutes(list(rows)) == pytest.approx((300 + (60 + 60) / 2) / 60)


def test_parts_are_listed() -> None:
    ran = CliRunner().invoke(main, ["parts", "p3", "--json"])
    assert ran.exit_code == 0 and len(json.loads(ran.stdout)["parts"]) == len(list_parts("p3"))


def test_the_oracles_run_where_the_product_is_not() -> None:
    """In an interpreter that cannot import noisebank."""
    code = (
        "import sys; sys.modules['noisebank'] = None\n"
        "from research.oracles.reuse import table2\n"
        "print(table2(True)['naive precision'][0])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(25.847778, abs=1e-6)
