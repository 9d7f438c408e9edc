"""The tool that puts mistakes into src/: which mistakes, which tests, and what counts as noticed."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from tools.mutants.__main__ import parse_numbers
from tools.mutants.changes import (
    Mutant,
    describe_mutant,
    find_again,
    find_spots,
    list_files,
    list_spots,
    sample_mutants,
)
from tools.mutants.lines import FOLDER
from tools.mutants.recording import Recording, list_telling_lines
from tools.mutants.report import (
    Journal,
    count_outcomes,
    describe_later,
    describe_run,
    is_enough,
    judge_result,
    list_begun,
    list_earlier,
    read_survivors,
    write_page,
)
from tools.mutants.selection import Choice, Graph, choose_rounds, group_rounds
from tools.mutants.server import Server, is_in_body
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


def test_imports_lead_from_tests_to_modules_nearest_first(tmp_path: Path) -> None:
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
    graph = Graph(tmp_path)
    assert graph.find_files("src/noisebank/core/c.py") == ["tests/unit/core/test_c.py"]
    names = [path.rpartition("/")[2] for path in graph.find_files("src/noisebank/core/b.py")]
    assert names[-1] == "test_p.py" and sorted(names) == [
        "test_b.py", "test_c.py", "test_p.py", "test_patch.py", "test_program.py", "test_s.py", "test_z.py",
    ]  # fmt: skip
    assert graph.find_files("src/noisebank/core/d.py") == ["tests/system/test_inside.py"]


FUNCTION = """\
LIMIT = 7


@cache
def f(
    a=1,
):
    if a > (
        LIMIT
    ):
        return g(
            a
        )
    return 1
"""


@pytest.mark.parametrize(
    ("line", "lines"),
    [(1, range(8, 15)), (4, range(8, 15)), (6, range(8, 15)), (9, range(8, 11)), (12, range(11, 14)), (14, [14])],
)
def test_a_change_is_told_by_its_statement_or_by_what_it_is_the_head_of(line: int, lines: list[int]) -> None:
    assert list_telling_lines(FUNCTION, line) == set(lines)


RECORDED_TESTS = """\
import pytest, subprocess, sys, threading
from noisebank.x import f

@pytest.mark.parametrize("a", [0, 1])
def test_a(a): assert f(a)
def test_thread(): threading.Thread(target=f, args=[1]).start()
def test_often(): assert [f(0) for _ in range(99)][0] + f(1) == 3
def test_bad(): assert f(1) == 3
def test_process(): subprocess.run([sys.executable, "-c", "from noisebank.x import f; f(1)"])
"""
STARTING_TESTS = """\
import pytest, subprocess, sys

@pytest.fixture(scope="module")
def server(): subprocess.run([sys.executable, "-c", "from noisebank.x import g; g()"])
@pytest.fixture(scope="module")
def answer():
    from noisebank.x import h
    return h()
def test_first(server, answer): ...
def test_second(server): ...
def test_killed(): subprocess.run([sys.executable, "-c", "import os, noisebank.x as x; x.g(); os._exit(0)"])
"""


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A repository with a recording of real tests, which has gone on since."""
    source = (
        "def f(a):\n    if a:\n        return 1\n    return 2\n\ndef g():\n    return 4\n\ndef h():\n    return 5\n"
    )
    tests = {"tests/unit/test_near.py": RECORDED_TESTS, "tests/test_far.py": STARTING_TESTS, "pytest.ini": "[pytest]\n"}
    write_tree(tmp_path, {"src/noisebank/__init__.py": "", "src/noisebank/x.py": source, **tests})
    shutil.copytree(ROOT / "tools/mutants", tmp_path / "tools/mutants")
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    folder = tmp_path / "recording"
    folder.mkdir()
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, capture_output=True, text=True, check=True)
    (folder / "commit").write_text(head.stdout)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:schemathesis", "-p", "tools.mutants.recorder", "tests"]
    paths = os.pathsep.join(["src", str(tmp_path), str(tmp_path / "tools/mutants/site")])
    environment = {**os.environ, "PYTHONPATH": paths, FOLDER: str(folder)}
    subprocess.run(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    (tmp_path / "src/noisebank/x.py").write_text(f"# a comment\n{source.replace('return 2', 'return 3')}")
    return tmp_path


def test_tests_that_execute_a_line_are_found_where_the_line_is_now(recorded: Path) -> None:
    recording = Recording(recorded, recorded / "recording")
    file, near = "src/noisebank/x.py", "tests/unit/test_near.py::test_"
    once, never = {f"{near}a[1]", f"{near}thread", f"{near}process"}, {f"{near}a[0]", f"{near}often"}
    assert set(recording.find_tests(file, 4)) == once  # what a function does after many calls is not looked at
    assert set(recording.find_tests(file, 5)) == never
    assert set(recording.find_tests(file, 2)) == once | never
    far = [f"tests/test_far.py::test_{name}" for name in ("first", "second", "killed")]
    assert recording.starters == {f"{near}process", far[0], far[2]}
    assert set(recording.find_tests(file, 8)) == set(far)  # a fixture's process serves the whole file
    assert set(recording.find_tests(file, 11)) == set(far)  # and so does what a fixture has made once
    write_tree(recorded, {"tests/unit/test_new.py": "import noisebank.x\ndef test_n(): ..."})
    rounds = choose_rounds(file, 4, Graph(recorded), recording, 60.0)
    targets = [choice.target for choices in rounds for choice in choices]
    assert set(targets[:3]) == once
    assert targets[3] == "tests/unit/test_new.py" and set(targets[4:]) == {far[0], far[2]}


def test_first_runs_are_short_and_what_is_too_dear_is_left_out() -> None:
    costs = [5.0, 4.0, 6.0, 99.0, 20.0, 8.0, 7.0]
    choices = [Choice(f"tests/unit/test_{number}.py::t", seconds) for number, seconds in enumerate(costs)]
    rounds = group_rounds(choices, most_seconds=60.0)
    assert [[choice.seconds for choice in part] for part in rounds] == [[5, 4], [6, 20], [8, 7]]


MUTANT = Mutant(3, "src/noisebank/x.py", 7, "number", "f", "a = 1", "a = c[2](d) | `b`", 4, 5, "2")


def test_a_survivor_is_equivalent_only_if_it_is_explained() -> None:
    survivor, killed = Result(MUTANT, SURVIVED, "", "", 1, 1), Result(MUTANT, KILLED, "t", "failed", 1, 1)
    explanations = {(MUTANT.file, MUTANT.within, MUTANT.before, MUTANT.after): "because"}
    assert judge_result(survivor, {})[0] == SURVIVED
    assert judge_result(survivor, explanations) == ("equivalent", "because")
    assert judge_result(killed, explanations)[0] == KILLED
    assert is_enough(count_outcomes([killed] * 19 + [survivor], {}))
    assert not is_enough(count_outcomes([killed] * 18 + [survivor], {}))
    facts = {"count": 1, "spots": 5, "seed": 1, "commit": "0" * 40}
    page = write_page(describe_run([survivor], explanations, facts))
    assert "**0 noticed, 0 survived, 1 equivalent**" in page and "Then tests were written" not in page
    assert "| 3 | x.py:7 | number | `- a = 1`<br>`+ a = c[2] (d) \\| 'b'` | equivalent | because | 1 |" in page


def test_the_page_keeps_what_was_first_beside_what_tests_made_of_it() -> None:
    other = replace(MUTANT, index=4)
    results = [Result(MUTANT, SURVIVED, "", "", 1, 1), Result(other, SURVIVED, "", "", 1, 1)]
    run = describe_run(results, {}, {"count": 2, "spots": 5, "seed": 1, "commit": "0" * 40})
    run = json.loads(json.dumps(run))
    assert read_survivors(run) == [MUTANT, other]
    later = describe_later(run, [Result(MUTANT, KILLED, "t", "failed", 1, 1)], {}, "1" * 40)
    page = write_page(later)
    assert "**0 noticed, 2 survived, 0 equivalent**" in page and "later killed `t` |" in page
    assert "On commit `111111111111` 1 of them are noticed (3); 1 are not, or were not tried again (4)." in page
    assert read_survivors(later) == [MUTANT, other]


def test_another_seed_leaves_the_first_numbers_of_earlier_ones_on_the_page() -> None:
    def tried(seed: int, outcome: str, count: int) -> dict[str, object]:
        results = [Result(replace(MUTANT, index=index), outcome, "t", "failed", 1, 1) for index in range(count)]
        return describe_run(results, {}, {"count": count, "spots": 5, "seed": seed, "commit": f"{seed}" * 10})

    first = tried(1, SURVIVED, 3)
    assert "earlier" not in write_page(first).lower() and list_earlier(first, {}) == []
    mended = describe_later(first, [Result(replace(MUTANT, index=0), KILLED, "t", "failed", 1, 1)], {}, "1" * 40)
    second = tried(2, KILLED, 4)
    second["earlier"] = list_earlier(second, mended)
    third = tried(3, KILLED, 5)
    third["earlier"] = list_earlier(third, json.loads(json.dumps(second)))
    assert list_earlier(third, third) == third["earlier"]
    rows = [line.split(" | ") for line in write_page(third).splitlines() if line.count(" | ") == 7]
    assert [[row[0], *row[3:]] for row in rows[1:]] == [
        ["| 1", "3", "0", "3", "0", "0.0 % |"],
        ["| 2", "4", "4", "0", "0", "100.0 % |"],
        ["| 3", "5", "5", "0", "0", "100.0 % |"],
    ]


def test_a_sample_that_was_only_begun_is_told_as_that(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    for seed, outcome, index in ((7, KILLED, 1), (7, SURVIVED, 2), (7, KILLED, 2), (8, KILLED, 1)):
        Journal(path, seed, "a" * 40).append(Result(replace(MUTANT, index=index), outcome, "t", "failed", 1, 1))
    finished = describe_run([], {}, {"count": 0, "spots": 5, "seed": 8, "commit": "0" * 40})
    begun = list_begun(path, finished, {})
    assert begun == [{"seed": 7, "commit": "a" * 40, "count": 2, "outcomes": {KILLED: 2}}]
    page = write_page({**finished, "begun": begun})
    assert "seed 7, commit `aaaaaaaaaaaa`, of which 2 were tried: 2 noticed, 0 survived, 0 equivalent." in page
    assert "Begun" not in write_page(finished) and list_begun(tmp_path / "nothing", finished, {}) == []


def test_survivors_are_found_again_where_they_are_now(tmp_path: Path) -> None:
    code = "def f(a):\n    return a + 1\n\ndef g(a):\n    return a + 1\n"
    write_tree(tmp_path, {"src/noisebank/x.py": code})
    mutants = sample_mutants(tmp_path, list_spots(tmp_path, list_files(tmp_path)), 99, seed=1)
    (tmp_path / "src/noisebank/x.py").unlink()
    write_tree(tmp_path, {"src/noisebank/y/x.py": "\n# moved\n" + code.replace("def g(a)", "def h(a)")})
    again = find_again(tmp_path, mutants)
    assert [each.index for each in again] == [each.index for each in mutants if each.within == "f"] and again
    assert {(each.file, each.line) for each in again} == {("src/noisebank/y/x.py", 4)}


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

    @contextmanager
    def apply(self, mutant: Mutant) -> Iterator[None]:
        self.mutated = True
        yield
        self.mutated = False

    def run_tests(self, targets: list[str], without: set[str], patience: float, mutant: Mutant | None = None) -> Run:
        assert (mutant is not None) == self.mutated
        self.calls.append((targets, set(without)))
        is_left_out = without & {run.failed for run in self.runs.values()} - {""}
        return PASSES if is_left_out else self.runs[targets[0], self.mutated]


PASSES = Run(0, "", "", 1.0, "")
WIDE = "tests/system/test_w.py"


def fail(test: str) -> Run:
    return Run(1, test, test, 1.0, "")


@pytest.mark.parametrize(
    ("original", "again", "noticed"),
    [(PASSES, fail(f"{WIDE}::t"), True), (fail(f"{WIDE}::t"), PASSES, False), (PASSES, PASSES, False)],
)
def test_a_wide_test_counts_only_if_it_fails_again_and_not_without(original: Run, again: Run, noticed: bool) -> None:
    runs = {False: original, True: again}
    assert is_noticed_by(f"{WIDE}::t", False, Known(), runs.__getitem__) is noticed


def test_a_shaky_test_is_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    write_tree(tmp_path, {"src/noisebank/x.py": "a = 1", WIDE: "import noisebank.x\ndef test_t(): ..."})
    shaky = f"{WIDE}::t"
    slot = Script({(WIDE, True): fail(shaky), (shaky, False): fail(shaky), (shaky, True): fail(shaky)})
    result = try_mutant(MUTANT, slot, Graph(tmp_path), Recording(tmp_path, tmp_path), Known())
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


FORKED_SOURCE = """\
LIMIT = 3

def double(a):
    return a * 2

class Box:
    def grow(self, a):
        def add(b):
            return a + b
        return add(1)
"""
FORKED_TESTS = """\
import subprocess, sys, time
from noisebank.x import Box, double

def test_double(): assert double(4) == 8
def test_grow(): assert Box().grow(1) == 2
def test_other(): assert subprocess.call([sys.executable, "-c", "import noisebank.x as x; exit(x.double(1) != 2)"]) == 0
def test_late():
    from noisebank.late import f
    assert f() == 1
def test_hangs(): time.sleep(double(0))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    source = {"src/noisebank/__init__.py": "", "src/noisebank/x.py": FORKED_SOURCE}
    late = {"src/noisebank/late.py": "def f():\n    return 1\n", "src/noisebank/other.py": "def g(): return 2\n"}
    write_tree(tmp_path, {**source, **late, "tests/unit/test_x.py": FORKED_TESTS, "pytest.ini": "[pytest]\n"})
    paths = os.pathsep.join([str(tmp_path / "src"), str(ROOT)])
    made = Server(tmp_path, sys.executable, {**os.environ, "PYTHONPATH": paths}, "", tmp_path)
    try:
        assert made.wait_ready() == 5
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(
    ("file", "before", "after", "test", "code"),
    [
        ("x.py", "a * 2", "a * 3", "double", 1), ("x.py", "a * 2", "a * 3", "other", 1),
        ("x.py", "a + b", "a - b", "grow", 1),
        ("x.py", "a + b", "a - b", "double", 0), ("late.py", "return 1", "return 2", "late", 1),
        ("x.py", "a * 2", "a + 9e9", "hangs", None),
    ],
)  # fmt: skip
def test_a_fork_runs_tests_on_the_mistake_and_the_next_one_does_not(
    server: Server, tmp_path: Path, file: str, before: str, after: str, test: str, code: int | None
) -> None:
    path, target = tmp_path / "src/noisebank" / file, f"tests/unit/test_x.py::test_{test}"
    original = path.read_bytes()
    path.write_bytes(original.replace(before.encode(), after.encode()))
    answer = server.run([target], set(), 2.0 if code is None else 60.0, f"src/noisebank/{file}", original)
    assert answer is not None and answer["code"] == code and answer["running"] == target
    assert (answer["failed"] == target) == (code == 1)
    path.write_bytes(original)
    whole = server.run(["tests/unit/test_x.py"], {"tests/unit/test_x.py::test_hangs"}, 60.0)
    assert whole is not None and (whole["code"], whole["count"]) == (0, 4)
    assert server.run([target], {target}, 60.0) is None and server.run(["tests/unit/test_no.py"], set(), 60.0) is None


def test_what_is_in_no_functions_body_is_not_for_a_fork(server: Server, tmp_path: Path) -> None:
    path, source = tmp_path / "src/noisebank/x.py", FORKED_SOURCE.encode()
    path.write_bytes(source.replace(b"LIMIT = 3", b"LIMIT = 4"))
    assert server.run(["tests/unit/test_x.py"], set(), 60.0, "src/noisebank/x.py", source) is None
    places = {text: is_in_body(source, source.index(text)) for text in (b"3", b"a * 2", b"a + b", b"Box")}
    assert places == {b"3": False, b"a * 2": True, b"a + b": True, b"Box": False}
