"""Move modules to other packages and rewrite every reference to them. Needs `pip install libcst`.

    python tools/codemod/move_modules.py tools/codemod/01-research.toml

A plan is a TOML file with two tables. `[modules]` maps dotted names of modules or packages to new ones; the longest
match wins. `[files]` maps paths of other files (tests, data, templates). The files are moved with `git mv`. References
are rewritten in all tracked Python files (imports, dotted names, strings, comments) and as text in the other files.
Prints one line per file that changed. Run `ruff check --fix` and `ruff format` afterwards: imports are not sorted here.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import libcst as cst
from libcst.helpers import get_full_name_for_node

ROOT = Path(__file__).parents[2]
SOURCES = {"noisebank": ROOT / "src" / "noisebank", "research": ROOT / "research"}
TEXT_FILES = (".md", ".toml", ".yml", ".cfg", ".html", ".txt", ".json")
SKIPPED = ("requirements", "tools/codemod/", "docs/results/", "CHANGELOG.md")


class Plan:
    """Where each module goes."""

    def __init__(self, modules: dict[str, str], files: dict[str, str]) -> None:
        self.modules = dict(sorted(modules.items(), key=lambda pair: -len(pair[0])))
        self.files = files
        self.leaves = {name.rpartition(".")[2] for name in modules} | set(files)
        self._dotted = self._pattern(self.modules, r"(?<![\w.]){}(?![\w])")
        self._paths = {}
        for old, new in self.modules.items():
            end = "/" if module_path(old).is_dir() else ".py"
            self._paths[_inner_path(old) + end] = _inner_path(new) + end
        self._path = self._pattern(self._paths, r"(?<![\w/.-]){}")

    @staticmethod
    def _pattern(names: dict[str, str], form: str) -> re.Pattern[str]:
        choices = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        return re.compile(form.format(f"({choices})"))

    def rename_module(self, name: str) -> str:
        """Return the new dotted name of a module, or of an attribute of one."""
        for old, new in self.modules.items():
            if name == old or name.startswith(old + "."):
                return new + name[len(old) :]
        return name

    def rename_text(self, text: str) -> str:
        """Rewrite dotted names and paths (`queries/sql.py`) in running text."""
        text = self._dotted.sub(lambda match: self.modules[match[1]], text)
        for old, new in self.files.items():
            text = text.replace(old, new)
        return self._path.sub(lambda match: self._paths[match[1]], text)


def _inner_path(module: str) -> str:
    """Return the path of a module as documents write it: below the package, or below the root for research."""
    return module.removeprefix("noisebank.").replace(".", "/")


class Rewriter(cst.CSTTransformer):
    """Rewrites the references of one module."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:  # noqa: N802 (LibCST's names)
        """Leave `from ... import` to `_split`: its parts must not be rewritten twice."""
        return False

    def leave_SimpleStatementLine(  # noqa: N802
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        """Split a `from package import a, b` whose names go to different packages."""
        if len(updated_node.body) != 1 or not isinstance(updated_node.body[0], cst.ImportFrom):
            return updated_node
        imports = self._split(updated_node.body[0])
        first = updated_node.with_changes(body=[imports[0]])
        return cst.FlattenSentinel([first, *(cst.SimpleStatementLine(body=[node]) for node in imports[1:])])

    def _split(self, node: cst.ImportFrom) -> list[cst.ImportFrom]:
        module = get_full_name_for_node(node.module) if node.module else None
        if module is None or node.relative or isinstance(node.names, cst.ImportStar):
            return [node]
        groups: dict[str, list[cst.ImportAlias]] = {}
        for alias in node.names:
            name = alias.evaluated_name
            full = f"{module}.{name}"
            if full in self.plan.modules:
                parent, _, leaf = self.plan.modules[full].rpartition(".")
                if leaf != name and alias.asname is None:
                    alias = alias.with_changes(asname=cst.AsName(cst.Name(name)))
                alias = alias.with_changes(name=cst.Name(leaf))
            else:
                parent = self.plan.rename_module(module)
            groups.setdefault(parent, []).append(alias)
        if list(groups) == [module] and all(
            f"{module}.{alias.evaluated_name}" not in self.plan.modules for alias in node.names
        ):
            return [node]
        parted = len(groups) > 1
        return [
            node.with_changes(
                module=_dotted_name(parent),
                names=[alias.with_changes(comma=cst.MaybeSentinel.DEFAULT) for alias in aliases] if parted else aliases,
                lpar=None if parted else node.lpar,
                rpar=None if parted else node.rpar,
            )
            for parent, aliases in groups.items()
        ]

    def leave_ImportAlias(self, original_node: cst.ImportAlias, updated_node: cst.ImportAlias) -> cst.ImportAlias:  # noqa: N802
        """Rewrite `import noisebank.a.b`."""
        name = get_full_name_for_node(updated_node.name) or ""
        new = self.plan.rename_module(name)
        return updated_node if "." not in name or new == name else updated_node.with_changes(name=_dotted_name(new))

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:  # noqa: N802
        """Rewrite `noisebank.a.b` where it is used."""
        name = get_full_name_for_node(original_node) or ""
        return _dotted_name(self.plan.modules[name]) if name in self.plan.modules else updated_node

    def leave_SimpleString(  # noqa: N802
        self, original_node: cst.SimpleString, updated_node: cst.SimpleString
    ) -> cst.SimpleString:
        """Rewrite names and paths in strings and docstrings."""
        return updated_node.with_changes(value=self.plan.rename_text(updated_node.value))

    def leave_FormattedStringText(  # noqa: N802
        self, original_node: cst.FormattedStringText, updated_node: cst.FormattedStringText
    ) -> cst.FormattedStringText:
        """Rewrite names and paths in f-strings."""
        return updated_node.with_changes(value=self.plan.rename_text(updated_node.value))

    def leave_Comment(self, original_node: cst.Comment, updated_node: cst.Comment) -> cst.Comment:  # noqa: N802
        """Rewrite names and paths in comments."""
        return updated_node.with_changes(value=self.plan.rename_text(updated_node.value))


def _dotted_name(name: str) -> cst.Attribute | cst.Name:
    head, _, last = name.rpartition(".")
    return cst.Attribute(value=_dotted_name(head), attr=cst.Name(last)) if head else cst.Name(last)


def tracked_files() -> list[Path]:
    """Return every file that git tracks, apart from those that are never rewritten."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if not name.startswith(SKIPPED) and not is_artefact(name)]


def is_artefact(name: str) -> bool:
    """Return whether a file is a compiled contract: its bytes are never rewritten."""
    return name.startswith("src/") and name.endswith(".json")


def rewrite_references(plan: Plan) -> list[Path]:
    """Rewrite all tracked files in place; return those that changed."""
    changed = []
    for path in tracked_files():
        if path.is_symlink() or not path.is_file():
            continue
        if path.suffix == ".py":
            before = path.read_text()
            if not any(name in before for name in plan.leaves):  # parsing is what takes time
                continue
            after = cst.parse_module(before).visit(Rewriter(plan)).code
        elif path.suffix in TEXT_FILES or path.name in ("Makefile", "run") or path.parent.name == "tools":
            before = path.read_text()
            after = plan.rename_text(before)
        else:
            continue
        if after != before:
            path.write_text(after)
            changed.append(path)
    return changed


def move_file(old: Path, new: Path) -> None:
    """`git mv`, with the folders that it needs; what is in a folder joins what its target holds already."""
    if old.is_dir() and new.is_dir():
        for inner in sorted(old.iterdir()):
            if inner.name != "__pycache__":
                move_file(inner, new / inner.name)
        return
    new.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "mv", str(old), str(new)], cwd=ROOT, check=True)
    print(f"moved {old.relative_to(ROOT)} -> {new.relative_to(ROOT)}")


def module_path(module: str) -> Path:
    """Return the file of a module, or the folder of a package."""
    package, _, rest = module.partition(".")
    path = SOURCES[package] / rest.replace(".", "/")
    return path if path.is_dir() else path.with_suffix(".py")


def main() -> int:
    """Run one plan."""
    text = tomllib.loads(Path(sys.argv[1]).read_text())
    plan = Plan(text.get("modules", {}), text.get("files", {}))
    # Single modules leave their package before the package itself is moved.
    pairs = [(module_path(old), new) for old, new in plan.modules.items()]
    for path in rewrite_references(plan):
        print(f"rewrote {path.relative_to(ROOT)}")
    for old, new in pairs:
        package, _, rest = new.partition(".")
        target = SOURCES[package] / rest.replace(".", "/")
        move_file(old, target if old.is_dir() else target.with_suffix(".py"))
    for old_name, new_name in plan.files.items():
        move_file(ROOT / old_name, ROOT / new_name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
