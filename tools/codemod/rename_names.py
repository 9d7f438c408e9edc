"""Rename classes, functions, members, parameters and constants in the whole repository, with types from mypy.

    python tools/codemod/rename_names.py PLAN... [--moves MOVE_PLAN...] [--applied PLAN...] [--dry-run] [--log FILE]

A plan is a TOML file with one table; keys are dotted names as they are today, values are new last parts:

    [names]
    "noisebank.planning.pricing.Wish" = "AccuracyTarget"        # class, function, constant, type alias
    "noisebank.planning.pricing.Wish.fresh" = "fresh_precision" # method, property, field, attribute, enum member
    "noisebank.planning.pricing.wish(asked)" = "options"        # parameter

`--moves` names plans of `move_modules.py` that were applied before: keys may use the module names from before.
`--applied` names plans of this tool that were applied before: keys may use the class names from before.
A rename whose new name is taken somewhere is left out and listed as a conflict. Where types are missing, names that can
mean one thing only are renamed and listed as guessed, others are listed as undecided. The log lists everything.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import time
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from name_resolver import Resolver, Use
from rename_plan import Log, Planner, read_plans
from source_index import Index, Scope, Source, Symbol, read_repository
from type_oracle import Oracle, Unknown

ROOT = Path(__file__).parents[2]
SECTIONS = (
    "applied", "implied", "guessed", "text", "undecided", "common", "strings", "templates", "test classes", "spread",
    "warnings", "conflicts", "names nothing",
)  # fmt: skip
BACKTICKS = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)(\(|`)")
Edits = dict[Source, dict[int, tuple[str, str]]]
"""For each file: offset -> (old name, new name)."""


class Renamer:
    """Collects the edits of all files."""

    def __init__(self, index: Index, oracle: Oracle, planner: Planner, root: Path, log: Log) -> None:
        self.index = index
        self.oracle = oracle
        self.planner = planner
        self.resolver = planner.resolver
        self.root = root
        self.log = log
        self.edits: Edits = defaultdict(dict)
        self.candidates = self._collect_candidates()

    def _collect_candidates(self) -> dict[tuple[str, str], set[Symbol]]:
        """Return everything that an attribute or keyword of a name may be where the type is unknown."""
        found: dict[tuple[str, str], set[Symbol]] = defaultdict(set)
        for cls in self.index.classes:
            if not self.index.scopes[cls][0].source.is_test:
                for base, members, ours in self.oracle.bases(cls):
                    for name in members if ours else ():
                        found["member", name].add((base, name))
                        if f"{base}.{name}" not in self.index.functions:
                            found["keyword", name].add((base, name))
        for function, definitions in self.index.functions.items():
            if not definitions[0].scope.source.is_test:
                for name in (param for definition in definitions for param in definition.params):
                    found["keyword", name].add((function, name))
        return found

    def place(self, source: Source, start: int) -> str:
        """Return where an offset is, for the log."""
        return f"{source.path.relative_to(self.root)}:{source.line_of(start)}"

    def collect(self) -> Edits:
        """Decide about every use of a name that changes."""
        names = {name for _, name in self.planner.renames}
        uses: dict[tuple[Source, int], list[Use]] = defaultdict(list)
        for use in self.resolver.resolve_all(names):
            uses[use.source, use.start].append(use)
        for (source, start), same in uses.items():
            known = [symbol for use in same for symbol in use.symbols or ()]
            if known or all(use.symbols is not None for use in same):
                self._decide(source, start, same[0].name, set(known), all(use.sure for use in same))
            else:
                self._guess(same[0])
        for source in [*self.index.modules.values(), *self.index.documents]:
            self._rename_text(source, names)
        self._list_leftovers(names)
        self._list_spread()
        return self.edits

    def _decide(self, source: Source, start: int, name: str, symbols: set[Symbol], sure: bool) -> None:
        new = {self.planner.new_name(symbol, name) for symbol in symbols}
        if len(new) == 1 and new != {name}:
            self.edits[source][start] = (name, new.pop())
            if not sure:
                self.log.add("guessed", f"{self.place(source, start)}: {name} -> {self.edits[source][start][1]}")
        elif len(new) > 1:
            meant = ", ".join(sorted(f"{'.'.join(one)} -> {self.planner.new_name(one, name)}" for one in symbols))
            self.log.add("undecided", f"{self.place(source, start)}: {name} may be {meant}")

    def _guess(self, use: Use) -> None:
        """Rename where the type is unknown, if all that the name can mean gets the same new name."""
        candidates = self.candidates.get((use.kind, use.name), set())
        new = {self.planner.new_name(symbol, use.name) for symbol in candidates}
        own = [
            cls
            for cls in self.index.classes
            if self.index.scopes[cls][0].source is use.source
            and any(use.name in scope.bindings for scope in self.index.scopes[cls])
        ]
        own = [cls for cls in own if (cls, use.name) not in self.planner.renames]
        if new <= {use.name}:
            return
        likely = use.source.is_test or _is_telling(use.name, False)  # elsewhere Any comes from other distributions
        if len(new) == 1 and likely and use.name not in self.oracle.common and not own:
            self.edits[use.source][use.start] = (use.name, new.pop())
            self.log.add("guessed", f"{self.place(use.source, use.start)}: {use.name} -> {max(self._news(candidates))}")
        else:
            line = use.source.text.splitlines()[use.source.line_of(use.start) - 1].strip()
            section = "common" if use.name in self.oracle.common else "undecided"
            self.log.add(section, f"{self.place(use.source, use.start)}: {use.kind} {use.name} in `{line}`")

    def _news(self, symbols: set[Symbol]) -> set[str]:
        return {self.planner.renames[symbol].new for symbol in symbols if symbol in self.planner.renames}

    # Text ------------------------------------------------------------------------------------------------------------

    def _rename_text(self, source: Source, names: set[str]) -> None:
        """Dotted names in strings, comments and documents; words in `backticks` in comments, docstrings, documents."""
        packages = "|".join(sorted({module.partition(".")[0] for module in self.index.modules if "." in module}))
        is_code = source.path.suffix == ".py"
        spans = list(_comments_and_strings(source)) if is_code else [(0, len(source.text), True)]
        docstrings = [one for one in self.index.references.docstrings if one[0].source is source]
        for start, end, is_comment in spans:
            scope = next((one[0] for one in docstrings if one[1] <= start and end <= one[2]), None)
            text = source.ascii[start:end]
            for match in re.finditer(rf"(?<![\w./])(?:{packages})(?:[.:][A-Za-z_]\w*)+", text):
                self._rename_dotted(source, start + match.start(), match[0])
            if is_comment or scope is not None:
                for match in BACKTICKS.finditer(text) if source.path.suffix != ".html" else ():
                    self._rename_word(source, start + match.start(1), match[1], match[2] == "(", scope)

    def _rename_dotted(self, source: Source, start: int, dotted: str) -> None:
        symbols = self.resolver.find_dotted(dotted.replace(":", "."))
        offset = start
        for part, symbol in zip(re.split("[.:]", dotted), symbols or (), strict=False):
            self._edit_text(source, offset, part, self.planner.new_name(symbol, part))
            offset += len(part) + 1

    def _rename_word(self, source: Source, start: int, word: str, called: bool, scope: Scope | None) -> None:
        """Rename `word`, `Class.member` or `word(...)` in backticks if it can only mean one thing."""
        head, *rest = word.split(".")
        symbols = self._meanings(head, called and not rest, scope)
        new = {self.planner.new_name(symbol, head) for symbol in symbols}
        if len(new) == 1:
            self._edit_text(source, start, head, new.pop())
        offset = start + len(head) + 1
        owners = {".".join(symbol) for symbol in symbols} & self.index.classes.keys()
        for part in rest:
            members = {self.oracle.find_member(owner, part) for owner in owners}
            new = {self.planner.new_name(member, part) for member in members}
            if not members and _is_telling(part, False):
                new = {self.planner.new_name(one, part) for one in self.candidates.get(("member", part), ())}
            if len(new) == 1:
                self._edit_text(source, offset, part, new.pop())
            offset += len(part) + 1
            owners = set()

    def _meanings(self, name: str, called: bool, scope: Scope | None) -> set[Symbol]:
        """Return what a word may mean: first in the scope that its docstring is in, then anywhere."""
        around = scope
        while around is not None:
            for cls in [around.qualname] if around.kind == "class" else []:
                member = self.oracle.find_member(cls, name)
                if member is not None and (_is_telling(name, called) or around is scope):
                    return {member}
            if name in around.bindings and (around.kind == "function" or _is_telling(name, called)):
                target = self.resolver.canonical(around, name)
                return {target} if isinstance(target, tuple) else set()
            around = around.parent
        if not _is_telling(name, called):
            return set()
        return self.everywhere.get(name, set())

    @property
    def everywhere(self) -> dict[str, set[Symbol]]:
        """Everything outside of tests that has a name: globals, members and parameters."""
        if not hasattr(self, "_everywhere"):
            self._everywhere: dict[str, set[Symbol]] = defaultdict(set)
            for (_, name), symbols in self.candidates.items():
                self._everywhere[name] |= symbols
            for source in self.index.modules.values():
                for name in source.scope.bindings if not source.is_test else ():
                    if name not in source.scope.imports:
                        self._everywhere[name].add((source.module, name))
        return self._everywhere

    def _edit_text(self, source: Source, start: int, old: str, new: str) -> None:
        if old != new and start not in self.edits[source]:
            self.edits[source][start] = (old, new)
            self.log.add("text", f"{self.place(source, start)}: {old} -> {new}")

    def _list_spread(self) -> None:
        """List calls that get names at run time: `f(**options)`, `asdict(value)`, where one of them was renamed."""
        owners = defaultdict(set)
        for owner, name in self.planner.renames:
            if f"{owner}.{name}" not in self.index.functions:
                owners[owner].add(name)
        for scope, call in self.index.references.calls:
            called = self.resolver.entity(call.func, scope)
            classes = []
            if called in (("dataclasses", "asdict"), ("dataclasses", "astuple"), ("dataclasses", "fields")) or (
                isinstance(call.func, ast.Name) and call.func.id == "vars"
            ):
                classes = [self.resolver.known_classes(argument, scope) for argument in call.args[:1]]
            elif any(self.resolver.is_open_spread(keyword, scope) for keyword in call.keywords):
                if called == ("dataclasses", "replace"):
                    classes = [self.resolver.known_classes(argument, scope) for argument in call.args[:1]]
                else:
                    found = [one for one in self.resolver.callees(call.func, scope) if not isinstance(one, Unknown)]
                    classes = [{name, f"{name}.__init__"} if kind == "class" else {name} for kind, name in found]
            for owner in sorted({owner for one in classes for owner in one & owners.keys()}):
                start: int = call.start  # type: ignore[attr-defined]
                line = scope.source.text.splitlines()[scope.source.line_of(start) - 1].strip()
                renamed = ", ".join(sorted(owners[owner]))
                self.log.add("spread", f"{self.place(scope.source, start)}: `{line}` (renamed in {owner}: {renamed})")

    def _list_leftovers(self, names: set[str]) -> None:
        """List strings, templates and classes of tests that may mean something that was renamed."""
        for scope, node in self.index.references.strings:
            if node.value in names and scope.source.path.suffix == ".py" and _is_telling(node.value, False):
                start: int = node.start  # type: ignore[attr-defined]
                if not any(start <= edit < start + 5 for edit in self.edits[scope.source]):
                    self.log.add("strings", f'{self.place(scope.source, start)}: "{node.value}"')
        members = {name for owner, name in self.planner.renames if owner in self.index.classes}
        for source in self.index.documents:
            if source.path.suffix == ".html":
                for match in re.finditer(r"\{[{%].*?[}%]\}", source.ascii, re.S):
                    for word in re.finditer(r"\.(\w+)", match[0]):
                        if word[1] in members:
                            place = self.place(source, match.start() + word.start())
                            self.log.add("templates", f"{place}: {word[1]} in {match[0]}")
        for cls in self.index.classes:
            for scope in self.index.scopes[cls]:
                for name in members & scope.bindings.keys() if scope.source.is_test else ():
                    if (cls, name) not in self.planner.renames and _is_telling(name, False):
                        self.log.add("test classes", f"{cls} defines {name}: does it stand in for a class?")


def _is_telling(name: str, called: bool) -> bool:
    """Whether a word in running text is a name rather than an ordinary word."""
    return called or "_" in name.strip("_") or name != name.lower() or name.startswith("_")


def _comments_and_strings(source: Source) -> Iterator[tuple[int, int, bool]]:
    for token in tokenize.generate_tokens(io.StringIO(source.ascii).readline):
        name = tokenize.tok_name[token.type]
        if name in ("COMMENT", "STRING", "FSTRING_MIDDLE"):
            start = source.starts[token.start[0] - 1] + token.start[1]
            yield start, source.starts[token.end[0] - 1] + token.end[1], name == "COMMENT"


def apply_edits(edits: Edits, log: Log) -> list[Path]:
    """Write the files; return those that changed."""
    changed = []
    for source, names in edits.items():
        text = source.text
        for start in sorted(names, reverse=True):
            old, new = names[start]
            if text[start : start + len(old)] != old:
                log.add("warnings", f"{source.path}: no {old} at {start}")
                continue
            text = text[:start] + new + text[start + len(old) :]
        if text != source.text:
            source.path.write_text(text)
            changed.append(source.path)
    return changed


def _tidy(paths: list[Path], root: Path) -> None:
    python = [str(path) for path in paths if path.suffix == ".py"]
    if python:
        for command in (["check", "--quiet", "--fix-only", "--select", "I,RUF022,RUF023"], ["format", "--quiet"]):
            subprocess.run([sys.executable, "-m", "ruff", *command, *python], cwd=root, check=False)


def rename(
    plans: list[Path], moves: list[Path], applied: list[Path], root: Path = ROOT, dry_run: bool = False
) -> tuple[Log, Edits]:
    """Apply plans to the repository below a folder."""
    log = Log()
    names = read_plans(plans, moves, log)
    index = read_repository(root)
    print(f"read {len(index.modules)} modules; mypy takes a minute or two", flush=True)
    oracle = Oracle(index, root)
    planner = Planner(index, oracle, Resolver(index, oracle), log)
    planner.plan(names, read_plans(applied, moves, Log()))
    renamer = Renamer(index, oracle, planner, root, log)
    edits = renamer.collect()
    for one in sorted({id(one): one for one in planner.renames.values()}.values(), key=lambda one: one.key):
        log.add("applied", f"{one.key} -> {one.new}")
    if not dry_run:
        _tidy(apply_edits(edits, log), root)
    return log, edits


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="+", type=Path)
    parser.add_argument("--moves", nargs="*", type=Path, default=[])
    parser.add_argument("--applied", nargs="*", type=Path, default=[])
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    log, edits = rename(options.plans, options.moves, options.applied, options.root.resolve(), options.dry_run)
    if options.log is not None:
        lines = [f"{name}: {line}" for name in SECTIONS for line in log.sections.get(name, [])]
        options.log.write_text("\n".join(lines) + "\n")
    for name in SECTIONS:
        print(f"{len(log.sections.get(name, [])):6} {name}")
    count = sum(len(one) for one in edits.values())
    print(f"{count} edits in {sum(map(bool, edits.values()))} files, {time.monotonic() - began:.0f} s")
    for line in log.sections.get("conflicts", []):
        print("conflict:", line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
