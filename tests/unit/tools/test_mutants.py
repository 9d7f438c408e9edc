"""The tool that puts mistakes into src/: which mistakes, which tests, and what counts as noticed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest

from tools.mutants.__main__ import parse_numbers
from tools.mutants.changes import Mutant, describe_mutant, find_spots, list_files, list_spots, sample_mutants
from tools.mutants.report import Journal, count_outcomes, is_enough, judge_result, write_page
from tools.mutants.selection import Choice, Graph, collect_durations, group_steps
from tools.mutants.trial import KILLED, SURVIVED, Known, Result, Run, Slot, is_noticed_by, try_mutant, wait_for

ROOT = Path(__file__).parents[3]


def list_changes(code: str) -> set[tuple[str, str]]:
    """The kind and the line after, of all mutants of this program."""
    source = dedent(code).encode()
    spots = find_spots("x.py", source)
    return {(spot.kind, describe_mutant(1, spot, change, source).after) for spot in spots for change in spot.changes}


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("a = b < c", {("comparison", "a = b <= c")}),
        ("a = b is not c", {("comparison", "a = b is c")}),
        ("é = 'ß' == c  # <", {("comparison", "é = 'ß' != c # <")}),
        ("a = (b) not  in (c)", {("comparison", "a = (b) in (c)")}),
        ("a = b + c - d", {("plus and minus", "a = b - c - d"), ("plus and minus", "a = b + c + d")}),
        ("a = b + 'text'", set()),
        ("a += b", {("plus and minus", "a -= b")}),
        ("a = 7", {("number", "a = 8"), ("number", "a = 6")}),
        ("a = 0", {("number", "a = 1")}),
        ("a = b and c and d", {("and, or", "a = b or c or d")}),
        ("a = not b", {("not", "a = (b)")}),
        ("a = min(b, c)", {("min, max", "a = max(b, c)")}),
        ("f(x)", {("call dropped", "pass")}),
        ("log.line(1 + x)", set()),
        ("a = f'{b + 1}'", set()),
        ("if TYPE_CHECKING:\n    f(1)", set()),
        ("if x:\n    raise E", {("guard dropped", "if False:")}),
        ("a: tuple[1] = b", set()),
        ("'''text 1'''", set()),
        (
            "f = option(help=g(1), n=2)",
            {("number", "f = option(help=g(1), n=3)"), ("number", "f = option(help=g(1), n=1)")},
        ),
        ("def f(a=True): ...", set()),
        ("def f(a=True): a.b", {("default argument", "def f(a=False): a.b")}),
        ("def __repr__(self): return 1", set()),
        ("def f(a: int) -> int:\n    return b", {("return", f"return {text}") for text in ("None", "-(b)", "a")}),
        ("def f(self, a: X) -> bool:\n    return b", {("return", f"return {text}") for text in ("None", "not (b)")}),
        ("def f():\n    try: a.b\n    except E: raise", {("raise dropped", "except E: pass")}),
    ],
)
def test_mistakes_are_small_and_where_they_matter(code: str, changes: set[tuple[str, str]]) -> None:
    assert list_changes(code) == changes


def write_tree(root: Path, files: dict[str, str]) -> None:
    """A repository with a product and tests."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_sample_is_even_repeatable_and_of_real_programs(tmp_path: Path) -> None:
    code = "def f(a: int) -> int:\n    return a + 1\n"
    product = tmp_path / "src" / "noisebank"
    write_tree(product, {"small.py": code, "big.py": code * 9, "demo/d.py": code})
    files = list_files(tmp_path)
    assert files == ["src/noisebank/big.py", "src/noisebank/small.py"]
    spots = list_spots(tmp_path, files)
    sample = sample_mutants(tmp_path, spots, 20, seed=1)
    assert sample == sample_mutants(tmp_path, spots, 20, seed=1) != sample_mutants(tmp_path, spots, 20, seed=2)
    assert sample[:5] == sample_mutants(tmp_path, spots, 5, seed=1)
    everything = sample_mutants(tmp_path, spots, 1000, seed=3)
    assert Counter(mutant.file for mutant in everything) == {files[0]: 27, files[1]: 3}
    for mutant in everything:
        source = (tmp_path / mutant.file).read_bytes()
        assert ast.dump(ast.parse(mutant.apply_to(source))) != ast.dump(ast.parse(source))
        assert mutant.line == source[: mutant.start].count(b"\n") + 1


def test_all_spots_of_one_real_module_can_be_drawn() -> None:
    spots = list_spots(ROOT, ["src/noisebank/core/units.py"])
    assert len(spots) > 30 and len(sample_mutants(ROOT, spots, len(spots), seed=1)) > 0.9 * len(spots)


def test_tests_are_chosen_by_imports_nearest_and_cheapest_first(tmp_path: Path) -> None:
    lazy = "TABLE = {'B': 'core.b', 'C': 'core.c'}\ndef __getattr__(name): ...\n"
    imports = "    from noisebank.core.d import D\n    from noisebank.core.e import E\n"
    facade = f"if TYPE_CHECKING:\n{imports}def __getattr__(name): ...\n"
    write_tree(
        tmp_path,
        {
            "src/noisebank/__init__.py": lazy,
            "src/noisebank/__main__.py": "import noisebank.core.b",
            "src/noisebank/core/b.py": "'>>> 1'",
            "src/noisebank/core/c.py": "from noisebank.core import b",
            "tests/helper.py": "from noisebank import B",
            "tests/unit/core/test_x.py": "",
            "tests/unit/core/test_c.py": "import noisebank.core.c",
            "tests/unit/y/test_b.py": "import noisebank.core.b",
            "tests/property/test_p.py": "import helper",
            "tests/system/test_program.py": "start('noisebank')",
            "tests/system/test_patch.py": "patch('noisebank.core.b')",
            "tests/system/test_types.py": "if TYPE_CHECKING:\n    import noisebank.core.b",
            "tests/service/conftest.py": "import noisebank.core.b",
            "tests/service/test_s.py": "",
            "tests/browser/test_z.py": "import noisebank.core.b",
            "src/noisebank/core/d.py": "",
            "src/noisebank/core/e.py": "",
            "src/noisebank/service/web/page.py": "",
            "tests/facade.py": facade,
            "tests/system/test_inside.py": "from facade import D",
            "tests/system/test_outside.py": "from facade import E",
        },
    )
    graph = Graph(tmp_path, {"tests/system/test_patch.py": 1.0, "tests/system/test_program.py": 9.0})
    assert [choice.file for choice in graph.choose_tests("src/noisebank/core/c.py")] == ["tests/unit/core/test_c.py"]
    chosen = [choice.file.rpartition("/")[2] for choice in graph.choose_tests("src/noisebank/core/b.py")]
    assert sorted(chosen[:3]) == ["b.py", "test_b.py", "test_c.py"]
    assert chosen[3:] == ["test_p.py", "test_s.py", "test_patch.py", "test_program.py"]
    assert [choice.file for choice in graph.choose_tests("src/noisebank/core/d.py")] == ["tests/system/test_inside.py"]
    pages = graph.choose_tests("src/noisebank/service/web/page.py")
    assert [choice.file for choice in pages] == ["tests/browser/test_z.py"]


def test_steps_end_when_the_time_is_used_up() -> None:
    near = [Choice("tests/unit/test_a.py", 1, 5.0), Choice("tests/property/test_b.py", 2, 5.0)]
    pages = [Choice("tests/browser/test_c.py", 1, 5.0)]
    wide = [Choice(f"tests/system/test_{number}.py", 1, 30.0) for number in range(9)]
    steps = group_steps([*near, *pages, *wide], step_seconds=60, most_seconds=145)
    assert [[choice.file[6:10] for choice in step] for step in steps] == [
        ["unit"],
        ["prop"],
        ["brow"],
        ["syst"] * 2,
        ["syst"] * 2,
    ]


def test_durations_are_summed_per_file() -> None:
    lines = ["1.50s call     tests/a.py::test_x[1 - 2]", "0.25s setup    tests/a.py::test_y"]
    log = "\n".join([*lines, "3.00s call     tests/b.py::T::test"])
    assert collect_durations([log], {"tests/b.py": 9.0, "tests/c.py": 1.0}) == {
        "tests/a.py": 1.8, "tests/b.py": 3.0, "tests/c.py": 1.0,
    }  # fmt: skip


MUTANT = Mutant(3, "src/noisebank/x.py", 7, "number", "f", "a = 1", "a = c[2](d) | `b`", 4, 5, "2")


def test_a_survivor_is_equivalent_only_if_it_is_explained() -> None:
    survivor, killed = Result(MUTANT, SURVIVED, "", "", 1, 1), Result(MUTANT, KILLED, "t", "failed", 1, 1)
    explanations = {(MUTANT.file, MUTANT.within, MUTANT.before, MUTANT.after): "because"}
    assert judge_result(survivor, {})[0] == SURVIVED
    assert judge_result(survivor, explanations) == ("equivalent", "because")
    assert judge_result(killed, explanations)[0] == KILLED
    assert is_enough(count_outcomes([killed] * 19 + [survivor], {}))
    assert not is_enough(count_outcomes([killed] * 18 + [survivor], {}))
    page = write_page([survivor], explanations, {"count": 1, "spots": 5, "seed": 1, "commit": "0" * 40})
    assert "| 3 | x.py:7 | number | `- a = 1`<br>`+ a = c[2] (d) \\| 'b'` | equivalent | because | 1 |" in page


def test_results_of_another_commit_or_seed_are_not_taken(tmp_path: Path) -> None:
    result = Result(MUTANT, KILLED, "t", "failed", 1.0, 2.0)
    Journal(tmp_path / "new" / "x.jsonl", 1, "abc").append(result)
    assert Journal(tmp_path / "new" / "x.jsonl", 1, "abc").read_results() == {3: result}
    assert not Journal(tmp_path / "new" / "x.jsonl", 2, "abc").read_results()
    assert not Journal(tmp_path / "new" / "x.jsonl", 1, "abd").read_results()


@pytest.mark.parametrize("differs", ["nothing", "src", "tests/a.py", "the seed", "the outcome"])
def test_what_was_noticed_elsewhere_counts_if_source_and_test_are_the_same(tmp_path: Path, differs: str) -> None:
    outcome = SURVIVED if differs == "the outcome" else KILLED
    result = Result(Mutant(3, "a.py", 1, "k", "f", "x", "y", 0, 1, "y"), outcome, "tests/a.py::t", "failed", 1.0, 1.0)
    Journal(tmp_path / "x.jsonl", 1, "there").append(result)
    here = Journal(tmp_path / "x.jsonl", 2 if differs == "the seed" else 1, "here")
    settled = here.read_settled({}, lambda commit, path: commit == "there" and path != differs)
    assert settled == ({3: result} if differs == "nothing" else {})
    assert not Journal(tmp_path / "x.jsonl", 1, "there").read_settled({}, lambda commit, path: True)
    if differs == "the outcome":
        assert here.read_settled({("a.py", "f", "x", "y"): "why"}, lambda commit, path: True) == {3: result}


class Script(Slot):
    """Plays back runs, by target and whether the mutant is in; no tree, no processes."""

    def __init__(self, runs: dict[tuple[str, bool], Run]) -> None:
        self.runs, self.mutated, self.calls = runs, False, list[tuple[list[str], set[str]]]()

    def apply(self, mutant: Mutant):  # type: ignore[no-untyped-def]  # a context manager, as the real one
        script = self

        class Applied:
            def __enter__(self) -> None:
                script.mutated = True

            def __exit__(self, *error: object) -> None:
                script.mutated = False

        return Applied()

    def run_tests(self, targets: list[str], without: set[str], patience: float) -> Run:
        self.calls.append((targets, set(without)))
        return PASSES if without & set(self.runs_of("mutated")) else self.runs[targets[0], self.mutated]

    def runs_of(self, _: str) -> list[str]:
        return [run.failed for run in self.runs.values() if run.failed]


PASSES = Run(0, "", "", 1.0, "")
WIDE = "tests/system/test_w.py"


def fail(test: str) -> Run:
    return Run(1, test, test, 1.0, "")


@pytest.mark.parametrize(
    ("original", "again", "noticed"),
    [(PASSES, fail(f"{WIDE}::t"), True), (fail(f"{WIDE}::t"), PASSES, False), (PASSES, PASSES, False)],
)
def test_a_wide_test_counts_only_if_it_fails_again_and_not_without(original: Run, again: Run, noticed: bool) -> None:
    slot = Script({(f"{WIDE}::t", False): original, (f"{WIDE}::t", True): again})
    assert is_noticed_by(f"{WIDE}::t", False, MUTANT, slot, Known(), 1.0) is noticed


def test_a_shaky_test_is_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    write_tree(tmp_path, {"src/noisebank/x.py": "a = 1", WIDE: "import noisebank.x\ndef test_t(): ..."})
    shaky = f"{WIDE}::t"
    slot = Script({(WIDE, True): fail(shaky), (shaky, False): fail(shaky), (shaky, True): fail(shaky)})
    result = try_mutant(MUTANT, slot, Graph(tmp_path, {}), Known())
    assert result.outcome == SURVIVED and slot.calls[-1] == ([WIDE], {shaky})


def test_a_hang_is_ended_with_all_that_it_started() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE) as process:
        assert wait_for(process, 0.5)[0] is None
        assert process.stdout is not None and process.stdout.read() == b""  # ends when nobody is left who could write


def test_numbers_are_lists_and_ranges() -> None:
    assert parse_numbers("1,5,9-11") == {1, 5, 9, 10, 11}


def test_explanations_name_what_is_there() -> None:
    """An explanation of a line that has changed since explains nothing."""
    for entry in json.loads((ROOT / "tools" / "mutants" / "explained.json").read_text()):
        flat = " ".join((ROOT / entry["file"]).read_text().split())
        assert entry["before"] in flat and entry["why"], entry
