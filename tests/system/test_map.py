"""The map of the house, the architecture and CONTRIBUTING are held to the code: layers, callers, files, functions."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path

import pytest

from support.paths import ROOT

PACKAGE = ROOT / "src" / "noisebank"
HOUSE = (ROOT / "docs/explanation/house.md").read_text()
ARCHITECTURE = (ROOT / "docs/explanation/architecture.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = [
    [name.strip().removeprefix("noisebank.") for name in layer.split("|")]
    for contract in LINTER
    for layer in contract.get("layers", ())
]
PACKAGES = [name for layer in LAYERS for name in layer]
BY_HAND = [*sorted((ROOT / "docs/explanation").glob("*.md")), *sorted((ROOT / "docs/proofs").glob("*.md")),
           ROOT / "CONTRIBUTING.md", ROOT / "README.md"]  # fmt: skip


def imports_of(tree: ast.Module) -> Iterator[str]:
    """What a module imports when it runs; not what it imports for its types."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    for_types = {id(node) for block in blocks for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in for_types:
            yield node.module


@cache
def callers() -> dict[str, set[str]]:
    """For each package the others that import it."""
    found: dict[str, set[str]] = {name: set() for name in PACKAGES}
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).parts[0]
        for module in imports_of(ast.parse(path.read_text())):
            target = module.split(".")[1] if module.startswith("noisebank.") else ""
            if own in found and target in found and own != target:
                found[target].add(own)
    return found


@cache
def defined_names() -> dict[str, set[str]]:
    """For each module of product and research, by its path: classes, functions, methods and constants."""
    names: dict[str, set[str]] = {}
    for root in (PACKAGE, ROOT):
        for path in (PACKAGE if root == PACKAGE else ROOT / "research").rglob("*.py"):
            own = names.setdefault(str(path.relative_to(root)), set())
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    own.add(node.name)
                    if isinstance(node, ast.ClassDef):
                        own |= {f"{node.name}.{each.name}" for each in node.body
                                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}  # fmt: skip
                elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    own.add(node.id)
    return names


def table_rows(text: str, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading."""
    lines = text.split(f"{heading}\n", 1)[1].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|---"))
    rows = []
    for line in lines[start + 1 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_the_drawing_has_the_layers_in_their_order() -> None:
    drawing = HOUSE.split("```")[1].split("imports go down")[1].split("research/")[0]
    boxes = re.findall(r"(?:[|] | {4,})([a-z]+)(?= {2,}\S)", drawing)
    assert {name for name in boxes if name not in PACKAGES} == set(), "a box that is no package"
    drawn = [name for name in re.findall(r"(?:[|] | {4,})([a-z]+)(?= {2,})", drawing) if name in PACKAGES]
    order = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    assert sorted(drawn) == sorted(PACKAGES)
    assert [order[name] for name in drawn] == sorted(order.values())


def test_the_architecture_lists_layers_and_contracts() -> None:
    block = ARCHITECTURE.split("`lint-imports` checks this order", 1)[1].split("```")[1]
    listed = [list(takewhile(PACKAGES.__contains__, line.split())) for line in block.strip().splitlines()]
    assert [sorted(layer) for layer in listed] == [sorted(layer) for layer in LAYERS]
    named = set(re.findall(r"^- (.+)$", ARCHITECTURE.split("It also checks, by name:")[1].split("\n[house")[0], re.M))
    assert named == {contract["name"] for contract in LINTER if contract["type"] != "layers"}


def test_every_package_is_on_the_map_with_those_who_call_it() -> None:
    rows = table_rows(HOUSE, "## Packages")
    assert [row[0].strip("`/") for row in rows] == PACKAGES
    for name, _, called_by, first in rows:
        package = name.strip("`/")
        if called_by != "all":
            assert set(re.findall(r"`([a-z]+)/`", called_by)) == callers()[package], package
        files = re.findall(r"`(\w+\.py)`", first)
        assert files and all(list((PACKAGE / package).rglob(file)) for file in files), package


def test_every_folder_of_tests_is_on_the_map() -> None:
    told = set(re.findall(r"`([a-z_]+)/`", HOUSE.split("## Tests")[1]))
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.rglob("test_*.py"))}
    assert folders - {"unit", "flower_app", "package"} <= told


def test_the_path_on_the_map_is_the_one_of_the_code() -> None:
    block = HOUSE.split("## The one path")[1].split("```")[1]
    names = set().union(*defined_names().values())
    stages = [word for word in re.findall(r"[a-z]+(?:_[a-z]+)+", block) if not word.endswith("_py")]
    body = next(node for node in ast.parse((PACKAGE / "account/pipeline.py").read_text()).body
                if isinstance(node, ast.FunctionDef) and node.name == "answer_batch")  # fmt: skip
    called = [node.func.id for node in ast.walk(body) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    assert {name for name in called if "_" in name} - {"keep_shared_error", "find_reservations"} <= set(stages)
    for word in re.findall(r"\b[A-Z]\w+\.\w+", block):
        assert word in names, word
    for path, name in re.findall(r"(\w+/\w+\.py) (\w+)", block):
        assert name in defined_names()[path], (path, name)


@pytest.mark.parametrize("page", BY_HAND, ids=lambda page: page.name)
def test_files_and_names_that_a_page_mentions_exist(page: Path) -> None:
    for path, rest in re.findall(r"`((?:[a-z_]+/)+\w+\.py)(?::? ([^`]+))?`", page.read_text()):
        if "NAME" in path:  # of a module that somebody is going to write
            continue
        places = [place for place in (PACKAGE / path, ROOT / path, ROOT / "src" / path) if place.is_file()]
        assert places, (page.name, path)
        known = defined_names().get(path)
        for name in re.findall(r"[A-Za-z_][\w.]*", rest) if known is not None else ():
            assert name in known, (page.name, path, name)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("__init__.py")), ids=lambda path: path.parent.name)
def test_modules_that_a_package_speaks_of_are_in_it(path: Path) -> None:
    here = str(path.parent.relative_to(PACKAGE)) + "/"
    own = {name for module, names in defined_names().items() if module.startswith(here) for name in names}
    own |= {each.stem for each in path.parent.iterdir()}
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    for name in re.findall(r"`([a-z_]+)`", text):
        assert name in own, (here, name)
    for name in re.findall(r"`noisebank[.]([a-z_.]+)`", text):
        place = PACKAGE / name.replace(".", "/")
        assert place.is_dir() or place.with_suffix(".py").is_file(), (here, name)


def test_every_target_of_make_is_explained_alike() -> None:
    targets = dict(re.findall(r"^([a-z-]+):[^#\n]*## (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
    listed = {row[0].strip("`").removeprefix("make ") for row in table_rows(CONTRIBUTING, "## make")}
    assert listed <= targets.keys()
    assert listed | {"help", "demo", "package", "contracts", "lock", "clean"} >= targets.keys()


def test_a_page_about_another_house_is_noticed() -> None:
    assert "merge_runs" not in defined_names()["planning/linear.py"]
    assert "LookBuyer.propose" in defined_names()["planning/look_buyer.py"]
    assert callers()["planning"] == {"account", "verifier"}


FOREIGN_NAMES = {
    "c0",
    "c1",
    "dataclasses.replace",
    "eth_signTypedData_v4",
    "my_device",
    "research.blockfl.attacks",
    "save_...",
    "support.record_crowd",
}
"""Names in docstrings that are none of the package's, and meant."""


def docstring_names(text: str) -> set[str]:
    """Names in backticks in the docstrings of a module; calls without their arguments."""
    tree = ast.parse(text)
    nodes = [
        each
        for each in ast.walk(tree)
        if isinstance(each, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    texts = [ast.get_docstring(each) or "" for each in nodes]
    return {name for each in texts for name in re.findall(r"(?<!`)`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", each)}


def known_words() -> set[str]:
    """Names of modules, definitions, arguments, attributes and short texts (keys, settings, options) of the package."""
    words: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        words |= set(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        tree = ast.parse(path.read_text())
        documents = {each.body[0].value for each in ast.walk(tree)
                     if isinstance(each, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
                     and each.body and isinstance(each.body[0], ast.Expr)}  # fmt: skip
        for node in ast.walk(tree):
            words |= {
                str(getattr(node, field)) for field in ("name", "id", "attr", "arg") if getattr(node, field, None)
            }
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documents:
                words |= set(re.findall(r"\w+", node.value))
    return words


def test_names_in_docstrings_exist() -> None:
    words = known_words()
    stale = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in PACKAGE.rglob("*.py")
        for name in docstring_names(path.read_text()) - FOREIGN_NAMES
        if not set(name.split(".")) <= words
    }
    assert not stale
    assert (
        docstring_names('"""See `LookCounter.total(x)`, not ``this``."""') == {"LookCounter.total"}
        and "LookCounter" not in words
    )
