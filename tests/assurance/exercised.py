"""Which files a row exercises, and a digest of what they say.

Found without running anything: the row's module, what it imports (in functions, too), and what that imports, over
src/ and tests/. A text in these modules counts as well when it is the name of a file (a script that a row starts), a
dotted module name (a patched name), or a program with imports. Data files count with the modules beside them. What a
row has loaded beyond that is recorded when it ends (`loaded_files`) and counts from then on.

A module that loads its names when they are used (`noisebank` itself, `support.internals`) stands for the homes of the
names that are imported from it, not for all that it could load.

The digest ignores comments, docstrings and blank lines: they change nothing that a row could see.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON_FOLDERS = ("src", "tests", "research")
DATA_FOLDERS = ("src", "contracts")
PINNED = "requirements/runtime.txt"
"""The versions of what the product runs on: engines, samplers, the virtual machine."""
PROGRAM = "noisebank"
"""Where tests name it by itself, they start it: all of it is exercised."""
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


class Tree:
    """The files of one work tree, each read at most once."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root

    @cached_property
    def modules(self) -> dict[str, str]:
        """By dotted name: the path of each module."""
        found = {}
        for folder in PYTHON_FOLDERS:
            for path in sorted((self.root / folder).rglob("*.py")):
                package = self.root if folder == "research" else self.root / folder  # research is itself a package
                parts = path.relative_to(package).with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                found.setdefault(name, path.relative_to(self.root).as_posix())
        return found

    @cached_property
    def data(self) -> dict[str, list[str]]:
        """Data files, by the nearest folder above them that holds modules."""
        found: dict[str, list[str]] = {}
        for folder in DATA_FOLDERS:
            for path in sorted((self.root / folder).rglob("*")):
                if path.is_file() and path.suffix not in (".py", ".pyc"):
                    home = path.parent
                    while home != self.root and not any(home.glob("*.py")):
                        home = home.parent
                    found.setdefault(self._short(home), []).append(self._short(path))
        return found

    @cached_property
    def named(self) -> dict[str, list[str]]:
        """All files by their last name: a text that is one names them."""
        found: dict[str, list[str]] = {}
        for path in [*self.modules.values(), *(path for paths in self.data.values() for path in paths)]:
            if not path.endswith("__init__.py"):
                found.setdefault(Path(path).name, []).append(path)
        return found

    def files_of(self, row: str, loaded: Iterable[str] = ()) -> list[str]:
        """Everything that the row exercises, sorted."""
        waiting = [*self._with_parents(f"assurance.{row}"), *(path for path in loaded if path.endswith(".py"))]
        found = {PINNED, *loaded}
        seen: set[str] = set()
        while waiting:
            path = waiting.pop()
            if path in seen or not (self.root / path).exists():
                continue
            seen.add(path)
            waiting += [other for other in self._uses(path) if other.endswith(".py")]
            found |= {path, *self._uses(path), *self.data.get(Path(path).parent.as_posix(), ())}
        return sorted(found)

    def digest_of(self, row: str, loaded: Iterable[str] = ()) -> str:
        """One digest over the names and contents of all of them."""
        summary = "".join(f"{path} {self._content(path)}\n" for path in self.files_of(row, loaded))
        return hashlib.sha256(summary.encode()).hexdigest()

    def loaded_files(self, row: str) -> list[str]:
        """Modules in this process that the row must have loaded in a way that `files_of` does not see."""
        files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        inside = {Path(file).resolve() for file in files if file}
        shorts = {self._short(path) for path in inside if path.is_relative_to(self.root)}
        own = {path for path in shorts if path.startswith(tuple(f"{folder}/" for folder in PYTHON_FOLDERS))}
        return sorted(own - set(self.files_of(row)) - RUNNER)

    # -- one module --------------------------------------------------------------------------------

    @cache  # noqa: B019  # a tree lives as long as the process
    def _uses(self, path: str) -> frozenset[str]:
        """Files that this module imports or names."""
        module = ast.parse((self.root / path).read_text())
        if self._lazy_homes(path):
            module.body = [node for node in module.body if not _is_for_types(node)]
        found = {file for name in self._imports(module, path) for file in self._with_parents(name)}
        for node in ast.walk(module):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(self._named_by(node.value, path))
        return frozenset(found)

    def _named_by(self, text: str, path: str) -> Iterator[str]:
        if DOTTED.fullmatch(text):
            yield from self._with_parents(text)
        if not path.startswith("tests/"):
            return
        if text in self.named:
            for file in self.named[text]:
                yield from (file, *self.data.get(Path(file).parent.as_posix(), ()))
        if text == PROGRAM:
            yield from self._with_parents(f"{PROGRAM}.__main__")
        if "import " in text and "\n" in text:
            try:
                program = ast.parse(text)
            except SyntaxError:
                return
            for name in self._imports(program, path):
                yield from self._with_parents(name)

    def _imports(self, module: ast.Module, path: str) -> Iterator[str]:
        package = [*Path(path).parts[1:-1]]
        for node in ast.walk(module):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name
                    first = alias.name.partition(".")[0]  # any of its names may be used as an attribute
                    yield from (f"{first}.{name}" for name in self._lazy_homes(self.modules.get(first, "")))
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)

    @cache  # noqa: B019
    def _lazy_homes(self, path: str) -> dict[str, str]:
        """Of a module that loads its names when they are used: their homes, as its imports for type checkers say."""
        text = (self.root / path).read_text() if path else ""
        if "\ndef __getattr__(" not in text:
            return {}
        lazy = (node for node in ast.parse(text).body if _is_for_types(node))
        imports = (node for block in lazy for node in ast.walk(block) if isinstance(node, ast.ImportFrom))
        return {alias.name: f"{node.module}.{alias.name}" for node in imports for alias in node.names}

    def _with_parents(self, name: str) -> list[str]:
        """The module and the packages around it, which are imported with it; of any other name, those that exist."""
        parts = name.split(".")
        names = [".".join(parts[: end + 1]) for end in range(len(parts))]
        files = [self.modules[known] for known in names if known in self.modules]
        if files and len(files) < len(parts):
            home = self._lazy_homes(files[-1]).get(parts[len(files)])
            files += self._with_parents(home) if home else []
        return files

    @cache  # noqa: B019
    def _content(self, path: str) -> str:
        file = self.root / path
        if not file.exists():
            return "missing"
        if not path.endswith(".py"):
            return hashlib.sha256(file.read_bytes()).hexdigest()
        text = file.read_text()
        if self._lazy_homes(path):  # a home that changes is another file that is exercised: the table itself is nothing
            lines = text.split("\n")
            for node in ast.parse(text).body:
                if _is_for_types(node):
                    lines[node.lineno - 1 : node.end_lineno] = [""] * len(lines[node.lineno - 1 : node.end_lineno])
            text = "\n".join(lines)
        return hashlib.sha256(plain_code(text).encode()).hexdigest()

    def _short(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


RUNNER = frozenset(f"tests/assurance/{name}.py" for name in ("__main__", "one_row", "runner", "results", "exercised"))
"""What runs rows and writes them down is exercised by its own tests; a row does not depend on it."""


def plain_code(source: str) -> str:
    """Source without comments, docstrings (texts that stand for themselves) and blank lines.

    By text and not by a printed tree, which differs between versions of Python.
    """
    lines = source.split("\n")  # as the parser counts them; texts may hold other line ends
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            lines[line - 1] = lines[line - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            assert node.end_lineno is not None and node.end_col_offset is not None
            before = lines[node.lineno - 1].encode()[: node.col_offset]
            behind = lines[node.end_lineno - 1].encode()[node.end_col_offset :]
            if not before.strip() and not behind.strip():  # a line that also holds code stays
                lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())
