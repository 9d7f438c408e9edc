"""The shape of the house: packages at the root, names that say something, modules that fit on a few screens.

The bounds are those of ADR 25. They hold for the package as a whole; a single name is a matter for the reader.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "noisebank"
FILLERS = {"found", "asked", "given", "wanted", "made", "place", "shown", "told", "said", "kept"}
MAX_FILLERS = 0.01
MAX_ONE_WORD = 0.45
MAX_LINES = 400
TOO_LONG: set[str] = set()


@cache
def parse_modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def function_names() -> list[str]:
    nodes = (node for tree in parse_modules().values() for node in ast.walk(tree))
    functions = (node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [name for name in functions if not name.startswith("__")]


def bound_names() -> list[str]:
    names = []
    for tree in parse_modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.append(node.id)
            elif isinstance(node, ast.arg):
                names.append(node.arg)
    return names


def test_only_packages_stand_at_the_root() -> None:
    assert {path.name for path in PACKAGE.glob("*.*")} == {"__init__.py", "__main__.py", "py.typed"}


def test_every_package_has_its_layer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {name.removeprefix("noisebank.") for layer in layers for name in layer.split(" | ")} == packages
    assert len(layers) <= 15


def test_names_say_what_they_are() -> None:
    names = bound_names()
    fillers = Counter(name for name in names if name in FILLERS)
    assert fillers.total() < MAX_FILLERS * len(names), fillers.most_common()


def test_functions_are_verbs_with_their_object() -> None:
    names = function_names()
    one_word = Counter(name for name in names if "_" not in name.strip("_"))
    assert one_word.total() < MAX_ONE_WORD * len(names), one_word.most_common(40)


def test_every_module_says_what_it_provides() -> None:
    silent = [path.relative_to(PACKAGE) for path, tree in parse_modules().items() if not ast.get_docstring(tree)]
    assert silent == []


def test_test_files_outside_packages_have_names_of_their_own() -> None:
    """pytest imports them all as top-level modules: two with one name end the collection of a whole run."""
    names = Counter(path.stem for path in (ROOT / "tests").rglob("*.py") if not (path.parent / "__init__.py").exists())
    assert [name for name, count in names.items() if count > 1 and name != "conftest"] == []


def test_modules_are_small() -> None:
    long = {
        str(path.relative_to(PACKAGE)): lines for path in parse_modules() if (lines := count_lines(path)) > MAX_LINES
    }
    assert long.keys() == TOO_LONG


def count_lines(path: Path) -> int:
    return len(path.read_text().splitlines())
