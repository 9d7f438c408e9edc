"""Which tests can notice a change of a module, nearest and cheapest first.

Nothing is run for it: a test file reaches what it imports (in functions, too), what its conftest imports, and what
these import in turn. A text that is the dotted name of a module counts as an import of it, and `"noisebank"` by itself
in tests as a start of the program. A module that loads names on first use (`__getattr__` and a table, or imports for
type checkers that it reads as its table) leads only to the homes of the names that are imported from it.
"""

from __future__ import annotations

import ast
import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PROGRAM = "noisebank"
ENTRY = "noisebank.__main__"
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
NEAR = ("tests/unit/", "tests/property/")
BROWSER, PAGES = "tests/browser/", "src/noisebank/service/web/"
"""Tests that keep an event loop running are run apart, and only for what they are there for."""
IGNORED = {
    "tests/research/": "holds the experiments, not the product",
    "tests/contract/test_halmos.py": "looks at the contract's source",
    "tests/assurance/test_runner.py": "looks at the files themselves, not at what they do",
    "tests/unit/tools/": "tests of tools",
    "tests/system/test_helpers.py": "tests of the tests' own helpers",
    "tests/system/test_crowd_processes.py": "ten processes with deadlines",
    "tests/system/test_learning_flower.py": "needs Flower",
}
"""Tests that are never chosen, and why."""
SECONDS_OF_UNKNOWN_TEST = 0.3


@dataclass(frozen=True)
class Choice:
    """A file of tests (or a module with doctests) that can notice a change."""

    file: str
    distance: int
    seconds: float

    @property
    def kind(self) -> int:
        """Direct tests of the module first, then pages in a browser, then the rest. Kinds are run apart."""
        if self.file.startswith((*NEAR, "src/")) and self.distance <= 1:
            return 0
        return 1 if self.file.startswith(BROWSER) else 2

    @property
    def score(self) -> tuple[int, float]:
        """Of one kind: what is cheap and close."""
        return self.kind, self.seconds * 8.0**self.distance


class Graph:
    """Imports of one tree."""

    def __init__(self, root: Path, durations: dict[str, float]) -> None:
        self.root, self.durations = root, durations
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

    def choose_tests(self, file: str) -> list[Choice]:
        """What can notice a change of this module, in the order in which to run it."""
        choices = [
            Choice(path, self._shorten(path, file, reached[file]), self.estimate_seconds(path))
            for path, reached in self.distances.items()
            if file in reached and not path.startswith(BROWSER)
        ]
        if file.startswith(PAGES):  # served by another process
            choices += [Choice(path, 1, self.estimate_seconds(path)) for path in self.tests if path.startswith(BROWSER)]
        if ">>> " in (self.root / file).read_text():
            choices.append(Choice(file, 0, 1.0))
        return sorted(choices, key=lambda choice: (choice.score, choice.file))

    def estimate_seconds(self, path: str) -> float:
        """Measured once, or guessed by the number of tests."""
        if path in self.durations:
            return max(self.durations[path], 0.05)
        return SECONDS_OF_UNKNOWN_TEST * len(re.findall(r"^\s*def test_", (self.root / path).read_text(), re.MULTILINE))

    def _shorten(self, path: str, file: str, distance: int) -> int:
        """A unit test in the folder that mirrors the module's package is as near as one that imports it."""
        mirror = Path(file).parent.as_posix().replace("src/noisebank", "tests/unit", 1)
        return min(distance, 1) if Path(path).parent.as_posix() == mirror else distance

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


def group_steps(choices: list[Choice], step_seconds: float, most_seconds: float) -> list[list[Choice]]:
    """Runs of pytest, each of one kind and no longer than a portion, until the time is used up."""
    steps: list[list[Choice]] = []
    used = 0.0
    kind: int | None = None
    for choice in choices:
        if used + choice.seconds > most_seconds and steps:
            continue
        used += choice.seconds
        if choice.kind != kind or sum(other.seconds for other in steps[-1]) + choice.seconds > step_seconds:
            steps.append([])
            kind = choice.kind
        steps[-1].append(choice)
    return steps


def read_durations(path: Path) -> dict[str, float]:
    """Seconds per file, as collected before."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


DURATION = re.compile(r"^(\d+\.\d+)s (?:call|setup|teardown) +(\S+?\.py)(?:::|$)", re.MULTILINE)


def collect_durations(logs: list[str], old: dict[str, float]) -> dict[str, float]:
    """Sums the lines of `pytest --durations=0` per file. A file that a log does not name keeps what was known."""
    sums: dict[str, float] = {}
    for log in logs:
        for seconds, path in DURATION.findall(log):
            sums[path] = sums.get(path, 0.0) + float(seconds)
    return {path: round(seconds, 1) for path, seconds in sorted((old | sums).items())}
