"""Which tests can notice a change: first those that execute its line, as recorded, cheapest and nearest first; then
files of tests that the recording does not know and tests that start processes, as far as imports lead to the change.

For imports nothing is run: a test file reaches what it imports (in functions, too), what its conftest imports, and what
these import in turn. A text that is the dotted name of a module counts as an import of it, and `"noisebank"` by itself
in tests as a start of the program. A module that loads names on first use (`__getattr__` and a table, or imports for
type checkers that it reads as its table) leads only to the homes of the names that are imported from it.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.mutants.recording import BROWSER, IGNORED, NEAR, Recording

PROGRAM = "noisebank"
ENTRY = "noisebank.__main__"
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
FARNESS = 4.0
"""A test of the whole is taken as late as a near one that costs so many times as much: it has to fail twice."""
PAGES = "src/noisebank/service/web/"
"""What tests in a browser are there for."""
SECONDS_OF_UNKNOWN_TEST, SECONDS_PER_FILE = 0.3, 0.3
"""What a test costs that was not recorded, and what a file costs before its first test."""
ROUND_SECONDS = (10.0, 30.0)
"""Of the first runs of pytest for a mutant; the others take what is left."""


@dataclass(frozen=True)
class Choice:
    """A test, or a file of tests, that can notice a change."""

    target: str
    seconds: float

    @property
    def file(self) -> str:
        return self.target.partition("::")[0]

    @property
    def score(self) -> tuple[float, str]:
        """What is cheap and near comes first."""
        return self.seconds * (1.0 if self.file.startswith(NEAR) else FARNESS), self.target


class Graph:
    """Imports of one tree."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._uses: dict[tuple[str, str], frozenset[tuple[str, str]]] = {}

    @cached_property
    def modules(self) -> dict[str, str]:
        """Paths by dotted names."""
        paths: dict[str, str] = {}
        for folder in ("src", "tests"):
            for path in sorted((self.root / folder).rglob("*.py")):
                parts = path.relative_to(self.root / folder).with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                paths.setdefault(name, path.relative_to(self.root).as_posix())
        return paths

    @cached_property
    def tests(self) -> list[str]:
        """All files with tests that may be chosen."""
        paths = sorted(path.relative_to(self.root).as_posix() for path in (self.root / "tests").rglob("test_*.py"))
        return [path for path in paths if not path.startswith(tuple(IGNORED))]

    @cached_property
    def distances(self) -> dict[str, dict[str, int]]:
        """Per test file: how many imports away each file is."""
        return {path: self._measure_distances(path) for path in self.tests}

    def find_files(self, file: str) -> list[str]:
        """Files of tests that reach this one, nearest first."""
        reaching = {path: reached[file] for path, reached in self.distances.items() if file in reached}
        return sorted(reaching, key=lambda path: (reaching[path], path))

    def estimate_seconds(self, path: str) -> float:
        """By the number of tests."""
        return SECONDS_OF_UNKNOWN_TEST * len(re.findall(r"^\s*def test_", (self.root / path).read_text(), re.MULTILINE))

    def _measure_distances(self, path: str) -> dict[str, int]:
        start = [(path, ""), *((conftest, "") for conftest in self._list_conftests(path))]
        steps = dict.fromkeys(start, 0)
        waiting = deque(start)
        while waiting:
            node = waiting.popleft()
            for other in self._list_uses(*node):
                if other not in steps:
                    steps[other] = steps[node] + 1
                    waiting.append(other)
        distances: dict[str, int] = {}
        for (file, _), step in steps.items():
            distances[file] = min(step, distances.get(file, step))
        return distances

    def _list_conftests(self, path: str) -> list[str]:
        folders = [folder.as_posix() for folder in Path(path).parents if folder.as_posix() not in (".", "tests")]
        return [f"{folder}/conftest.py" for folder in folders if (self.root / folder / "conftest.py").exists()]

    # -- one module --------------------------------------------------------------------------------

    def _list_uses(self, path: str, name: str) -> frozenset[tuple[str, str]]:
        """Files that this one imports, each with the name that matters of a lazy one, or an empty name."""
        if (path, name) not in self._uses:
            self._uses[path, name] = frozenset(self._read_uses(path, name))
        return self._uses[path, name]

    def _read_uses(self, path: str, name: str) -> Iterator[tuple[str, str]]:
        tree = ast.parse((self.root / path).read_text())
        homes = self._read_homes(tree, path)
        if homes:
            for home in [homes[name]] if name in homes else homes.values():
                yield self.modules[home], ""
            return
        skipped = {id(node) for test in ast.walk(tree) if _is_for_types(test) for node in ast.walk(test)}
        for node in ast.walk(tree):
            if id(node) in skipped:
                continue
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._resolve(alias.name, "")
            elif isinstance(node, ast.ImportFrom):
                base = self._resolve_base(node, path)
                for alias in node.names:
                    yield from self._resolve(f"{base}.{alias.name}", "") or self._resolve(base, alias.name)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from self._resolve_text(node.value, path)

    def _resolve(self, name: str, member: str) -> list[tuple[str, str]]:
        return [(self.modules[name], member)] if name in self.modules else []

    def _resolve_base(self, node: ast.ImportFrom, path: str) -> str:
        if not node.level:
            return node.module or ""
        parts = Path(path).with_suffix("").parts[1:]
        return ".".join([*parts[: -node.level], *([node.module] if node.module else [])])

    def _resolve_text(self, text: str, path: str) -> list[tuple[str, str]]:
        if text == PROGRAM and path.startswith("tests/"):
            return self._resolve(ENTRY, "")
        if DOTTED.fullmatch(text) and text.startswith(f"{PROGRAM}."):
            return self._resolve(text, "")
        return []

    def _read_homes(self, tree: ast.Module, path: str) -> dict[str, str]:
        """Of a module that loads names on first use: in which module each of them lives."""
        if not any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body):
            return {}
        imported = dict(self._read_imports_for_types(tree))
        if imported:
            return imported
        for node in tree.body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.Dict):
                try:
                    table = ast.literal_eval(value)
                except ValueError:
                    continue
                homes = {
                    name: full
                    for name, home in table.items()
                    for full in (f"{home}", f"{PROGRAM}.{home}")
                    if full in self.modules
                }
                if homes:
                    return homes
        return {}

    def _read_imports_for_types(self, tree: ast.Module) -> Iterator[tuple[str, str]]:
        for node in (part for test in tree.body if _is_for_types(test) for part in ast.walk(test)):
            if isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    home = next(
                        (name for name in (f"{node.module}.{alias.name}", node.module) if name in self.modules), ""
                    )
                    if home:
                        yield alias.asname or alias.name, home


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def choose_rounds(file: str, line: int, graph: Graph, recording: Recording, most_seconds: float) -> list[list[Choice]]:
    """What to run for a change of this line: lists for one call of pytest each, until the time is used up."""
    recorded = [Choice(test, recording.seconds[test]) for test in recording.find_tests(file, line)]
    reaching = graph.find_files(file)
    unknown = [path for path in reaching if path not in recording.files and not path.startswith(BROWSER)]
    whole = [Choice(path, graph.estimate_seconds(path)) for path in unknown]
    starters = [test for test in recording.starters if test.partition("::")[0] in reaching]
    started = [Choice(test, recording.seconds[test]) for test in starters]
    pages = [path for path in graph.tests if path.startswith(BROWSER)] if file.startswith(PAGES) else []
    first = sorted(recorded, key=lambda choice: choice.score)
    later = [*sorted(whole, key=lambda choice: choice.score), *sorted(started, key=lambda choice: choice.score)]
    later = [choice for choice in later if choice not in first]
    rounds = group_rounds([*first, *later], most_seconds)
    return [*rounds, [Choice(path, graph.estimate_seconds(path)) for path in pages]] if pages else rounds


def group_rounds(choices: Iterable[Choice], most_seconds: float) -> list[list[Choice]]:
    """In their order, short rounds first. What is too dear for the time that is left is left out."""
    rounds: list[list[Choice]] = []
    left, room, files = most_seconds, 0.0, set[str]()
    for choice in choices:
        cost = choice.seconds + (0.0 if choice.file in files else SECONDS_PER_FILE)
        if cost > left:
            continue
        if not rounds or (cost > room and rounds[-1]):
            room = ROUND_SECONDS[len(rounds)] if len(rounds) < len(ROUND_SECONDS) else left
            rounds.append([])
            files.clear()
        rounds[-1].append(choice)
        files.add(choice.file)
        left -= cost
        room -= cost
    return rounds
