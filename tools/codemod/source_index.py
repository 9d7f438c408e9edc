"""Scopes, bindings and references of all Python files of the repository, as the parser sees them.

`rename_names.py` needs to know for every name which scope binds it. Python decides that from the text alone, so no
types are needed here. All positions are offsets into the text of a file, in characters.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fstring_fields import fields_of, line_starts

SKIPPED = ("CHANGELOG.md", "docs/results/", "docs/adr/", "tests/snapshots/data/", "tools/codemod/")
PROMPT = re.compile(r"^([ \t]*)(>>>|\.\.\.)(?: (.*))?$")
FENCE = re.compile(r"^```(?:python|py)\n(.*?)^```", re.M | re.S)
IMPORTED = re.compile(r"^\s*(?:from|import) ([\w.]+)", re.M)
GENERIC = ("list", "dict", "tuple", "set", "frozenset", "type")
Symbol = tuple[str, str]
"""The scope that binds a name (`noisebank.units`, or a class or function in it), and the name."""


@dataclass(frozen=True)
class Module:
    """What `import a.b as name` binds."""

    name: str


@dataclass(frozen=True)
class Import:
    """Where an imported name comes from; `name` is None for a module."""

    module: str
    name: str | None
    renamed: bool


@dataclass(eq=False)
class Scope:
    """A module, class, function, lambda or comprehension, with the names that it binds."""

    kind: str
    qualname: str
    parent: Scope | None
    source: Source
    bindings: dict[str, int] = field(default_factory=dict)  # how often each is bound
    imports: dict[str, Import] = field(default_factory=dict)
    values: dict[str, ast.expr] = field(default_factory=dict)  # the expression that a name was assigned last
    iterated: dict[str, ast.expr] = field(default_factory=dict)  # what a loop variable goes over
    elsewhere: dict[str, str] = field(default_factory=dict)  # names declared `global` or `nonlocal`

    def find(self, name: str) -> Scope | None:
        """Return the scope that a use of the name in this one refers to; None for builtins."""
        for scope in self.chain(name):
            if name in scope.bindings:
                return scope
        return None

    def chain(self, name: str) -> Iterator[Scope]:
        """Yield the scopes in which Python looks for a name that is used in this one, the nearest first."""
        scope: Scope | None = self
        while scope is not None:
            declared = scope.elsewhere.get(name)
            if declared == "global":
                yield scope.module_scope()
                return
            if declared is None and (scope is self or scope.kind != "class"):
                yield scope
            scope = scope.parent

    def module_scope(self) -> Scope:
        """Return the outermost scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def bind(self, name: str) -> Scope:
        """Note that a statement in this scope binds a name; return the scope that gets it."""
        scope = self.find(name) if name in self.elsewhere else self
        if scope is None:
            scope = self.module_scope()
        scope.bindings[name] = scope.bindings.get(name, 0) + 1
        return scope


@dataclass(eq=False)
class Source:
    """A Python file, or a document with Python in it."""

    path: Path
    module: str
    text: str
    is_test: bool = False
    ascii: str = ""
    starts: list[int] = field(default_factory=list)
    scope: Scope = field(init=False)

    def __post_init__(self) -> None:
        """Replace characters beyond ASCII: afterwards every parser counts columns in the same way."""
        self.ascii = re.sub(r"[^\x00-\x7f]", "Z", self.text)
        self.starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        self.scope = Scope("module", self.module, None, self)

    @property
    def is_package(self) -> bool:
        """Whether this is the `__init__.py` of a package."""
        return self.path.name == "__init__.py"

    def line_of(self, offset: int) -> int:
        """Return the number of the line that an offset is in."""
        return self.text.count("\n", 0, offset) + 1


@dataclass(eq=False)
class Function:
    """A function definition."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    scope: Scope
    outer: Scope
    params: list[str]
    options: ast.expr | None  # annotation of **options
    takes_options: bool


@dataclass
class References:
    """Everything in the files that may refer to something by name, with the scope that it is in."""

    names: list[tuple[Scope, str, int]] = field(default_factory=list)
    imports: list[tuple[Scope, str, str, int]] = field(default_factory=list)  # `from module import name as other`
    attributes: list[tuple[Scope, ast.Attribute]] = field(default_factory=list)
    calls: list[tuple[Scope, ast.Call]] = field(default_factory=list)
    tuples: list[tuple[Scope, list[ast.expr]]] = field(default_factory=list)
    subscripts: list[tuple[Scope, ast.Subscript]] = field(default_factory=list)
    dicts: list[tuple[Scope, ast.Dict]] = field(default_factory=list)
    tests: list[tuple[Scope, ast.Compare]] = field(default_factory=list)
    patterns: list[tuple[Scope, ast.MatchClass]] = field(default_factory=list)
    listed: list[tuple[Scope, ast.Constant]] = field(default_factory=list)  # strings in __all__ and __slots__
    strings: list[tuple[Scope, ast.Constant]] = field(default_factory=list)
    docstrings: list[tuple[Scope, int, int]] = field(default_factory=list)


class Index:
    """The scopes and references of all files."""

    def __init__(self) -> None:
        self.modules: dict[str, Source] = {}
        self.aliases: dict[str, Source] = {}  # pytest lets tests import what is beside them by its bare name
        self.documents: list[Source] = []
        self.functions: dict[str, list[Function]] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.scopes: dict[str, list[Scope]] = {}
        self.class_at: dict[tuple[str, int], str] = {}
        self.references = References()

    def add_module(self, source: Source) -> None:
        """Read one Python file."""
        self.modules[source.module] = source
        self.scopes.setdefault(source.module, []).append(source.scope)
        tree = ast.parse(source.ascii)
        _locate(tree, source.starts)
        Reader(self, source).visit_body(tree.body, source.scope)

    def add_document(self, source: Source) -> None:
        """Read the Python examples of a document."""
        self.documents.append(source)
        for match in FENCE.finditer(source.ascii):
            block, start = match[1], match.start(1)
            scope = Scope("module", f"{source.module}.<example {start}>", None, source)
            self.scopes[scope.qualname] = [scope]
            if ">>> " in block:
                Reader(self, source).read_examples(start, match.end(1), scope)
                continue
            starts = [start + offset for offset in line_starts(block)]
            tree = _parse(block, starts)
            if tree is not None:
                Reader(self, source).visit_body(tree.body, scope)


class Reader:
    """Walks over the syntax tree of one file."""

    def __init__(self, index: Index, source: Source) -> None:
        self.index = index
        self.references = index.references
        self.source = source

    def visit(self, node: ast.AST, scope: Scope) -> None:
        """Note what a node binds and refers to."""
        method = getattr(self, f"visit_{type(node).__name__}", None)
        if method is not None:
            method(node, scope)
        else:
            self.visit_children(node, scope)

    def visit_children(self, node: ast.AST, scope: Scope) -> None:
        """Visit everything below a node."""
        for child in ast.iter_child_nodes(node):
            self.visit(child, scope)

    def visit_body(self, body: list[ast.stmt], scope: Scope) -> None:
        """Visit statements; strings that stand alone are docstrings."""
        for statement in body:
            self.visit(statement, scope)

    def open_scope(self, kind: str, name: str, parent: Scope) -> Scope:
        """Return a new scope."""
        scope = Scope(kind, f"{parent.qualname}.{name}", parent, self.source)
        self.index.scopes.setdefault(scope.qualname, []).append(scope)
        return scope

    def refer(self, scope: Scope, name: str, start: int, binds: bool = False) -> None:
        """Note a bare name in the text."""
        if binds:
            scope.bind(name)
        self.references.names.append((scope, name, start))

    def find_after(self, start: int, pattern: str) -> int:
        """Return the offset of the first group of a pattern after an offset."""
        match = re.compile(pattern).search(self.source.ascii, start)
        assert match is not None, (self.source.path, start, pattern)
        return match.start(1)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:  # noqa: N802
        """Function: decorators, defaults and annotations belong to the scope around it."""
        for decorator in node.decorator_list:
            self.visit(decorator, scope)
        self.refer(scope, node.name, self.find_after(_start(node), r"\bdef\s+(\w)"), binds=True)
        inner = self.open_scope("function", node.name, scope)
        self.visit_arguments(node.args, inner, scope)
        if node.returns is not None:
            self.visit_annotation(node.returns, scope)
        arguments = node.args
        params = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.index.functions.setdefault(inner.qualname, []).append(
            Function(
                node,
                inner,
                scope,
                [param.arg for param in params],
                arguments.kwarg.annotation if arguments.kwarg else None,
                arguments.kwarg is not None,
            )
        )
        self.visit_body(node.body, inner)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_arguments(self, arguments: ast.arguments, inner: Scope, outer: Scope) -> None:
        """Bind parameters in a function; their defaults and annotations are outside."""
        extra = [param for param in (arguments.vararg, arguments.kwarg) if param is not None]
        for param in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra]:
            self.refer(inner, param.arg, _start(param), binds=True)
            if param.annotation is not None:
                self.visit_annotation(param.annotation, outer)
        for default in [*arguments.defaults, *arguments.kw_defaults]:
            if default is not None:
                self.visit(default, outer)

    def visit_Lambda(self, node: ast.Lambda, scope: Scope) -> None:  # noqa: N802
        """Lambda."""
        inner = self.open_scope("lambda", f"<lambda {_start(node)}>", scope)
        self.visit_arguments(node.args, inner, scope)
        self.visit(node.body, inner)

    def visit_ClassDef(self, node: ast.ClassDef, scope: Scope) -> None:  # noqa: N802
        """Class."""
        for part in [*node.decorator_list, *node.bases, *node.keywords]:
            self.visit(part, scope)
        self.refer(scope, node.name, self.find_after(_start(node), r"\bclass\s+(\w)"), binds=True)
        inner = self.open_scope("class", node.name, scope)
        self.index.classes[inner.qualname] = node
        self.index.class_at[self.source.module, node.lineno] = inner.qualname
        self.visit_body(node.body, inner)

    def visit_comprehension_of(self, node: ast.expr, scope: Scope) -> None:
        """Comprehension: only the first iterable belongs to the scope around it."""
        inner = self.open_scope("comprehension", f"<comprehension {_start(node)}>", scope)
        for number, generator in enumerate(node.generators):  # type: ignore[attr-defined]
            self.visit(generator.iter, inner if number else scope)
            self.visit(generator.target, inner)
            if isinstance(generator.target, ast.Name) and not number:
                inner.iterated[generator.target.id] = generator.iter
            for condition in generator.ifs:
                self.visit(condition, inner)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]  # type: ignore[attr-defined]
        for part in parts:
            self.visit(part, inner)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_comprehension_of  # noqa: N815

    def visit_For(self, node: ast.For, scope: Scope) -> None:  # noqa: N802
        """Loop."""
        self.visit_children(node, scope)
        if isinstance(node.target, ast.Name):
            scope.iterated[node.target.id] = node.iter

    def visit_NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> None:  # noqa: N802
        """`:=` in a comprehension binds in the function around it."""
        target = scope
        while target.kind == "comprehension" and target.parent is not None:
            target = target.parent
        self.refer(target, node.target.id, _start(node.target), binds=True)
        self.visit(node.value, scope)

    def visit_Name(self, node: ast.Name, scope: Scope) -> None:  # noqa: N802
        """Bare name."""
        self.refer(scope, node.id, _start(node), binds=not isinstance(node.ctx, ast.Load))

    def visit_Global(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:  # noqa: N802
        """`global` and `nonlocal`."""
        kind = type(node).__name__.lower()
        for name in node.names:
            scope.elsewhere[name] = kind
            if kind == "global":
                scope.module_scope().bindings.setdefault(name, 1)
            self.refer(scope, name, self.find_after(_start(node), rf"\b({name})\b"))

    visit_Nonlocal = visit_Global  # noqa: N815

    def visit_Import(self, node: ast.Import, scope: Scope) -> None:  # noqa: N802
        """`import a.b` and `import a.b as c`."""
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            target = alias.name if alias.asname else name
            scope.bind(name).imports[name] = Import(target, None, renamed=alias.asname is not None)
            if alias.asname:
                self.references.names.append((scope, alias.asname, _end(alias) - len(alias.asname)))

    def visit_ImportFrom(self, node: ast.ImportFrom, scope: Scope) -> None:  # noqa: N802
        """`from a import b` and `from a import b as c`."""
        module = node.module or ""
        if node.level:
            parts = self.source.module.split(".")
            parts = parts[: len(parts) - node.level + self.source.is_package]
            module = ".".join([*parts, *([module] if module else [])])
        for alias in node.names:
            name = alias.asname or alias.name
            scope.bind(name).imports[name] = Import(module, alias.name, renamed=alias.asname is not None)
            if alias.asname:
                self.references.imports.append((scope, module, alias.name, _start(alias)))
                self.references.names.append((scope, name, _end(alias) - len(name)))
            else:
                self.references.names.append((scope, name, _start(alias)))

    def visit_ExceptHandler(self, node: ast.ExceptHandler, scope: Scope) -> None:  # noqa: N802
        """`except Error as name`."""
        if node.name and node.type:
            self.refer(scope, node.name, self.find_after(_end(node.type), rf"\bas\s+({node.name})\b"), binds=True)
        self.visit_children(node, scope)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar, scope: Scope) -> None:  # noqa: N802
        """Capture patterns."""
        if node.name:
            self.refer(scope, node.name, _end(node) - len(node.name), binds=True)
        self.visit_children(node, scope)

    visit_MatchStar = visit_MatchAs  # noqa: N815

    def visit_MatchMapping(self, node: ast.MatchMapping, scope: Scope) -> None:  # noqa: N802
        """`case {**rest}`."""
        self.visit_children(node, scope)
        if node.rest:
            start = self.source.ascii.rindex(node.rest, _start(node), _end(node))
            self.refer(scope, node.rest, start, binds=True)

    def visit_MatchClass(self, node: ast.MatchClass, scope: Scope) -> None:  # noqa: N802
        """`case Wish(fresh=x)`."""
        self.references.patterns.append((scope, node))
        self.visit_children(node, scope)

    def visit_Attribute(self, node: ast.Attribute, scope: Scope) -> None:  # noqa: N802
        """`value.name`."""
        self.references.attributes.append((scope, node))
        self.visit(node.value, scope)

    def visit_Call(self, node: ast.Call, scope: Scope) -> None:  # noqa: N802
        """Call; types in `cast` and `TypeVar` may be strings."""
        self.references.calls.append((scope, node))
        self.references.tuples.append((scope, node.args))
        self.visit(node.func, scope)
        name = ast.unparse(node.func).rpartition(".")[2]
        for number, argument in enumerate(node.args):
            if name == "cast" and number == 0:
                self.visit_annotation(argument, scope)
            else:
                self.visit(argument, scope)
        for keyword in node.keywords:
            if name == "TypeVar" and keyword.arg == "bound":
                self.visit_annotation(keyword.value, scope)
            else:
                self.visit(keyword.value, scope)

    def visit_Tuple(self, node: ast.Tuple, scope: Scope) -> None:  # noqa: N802
        """Tuple: rows of tests pair an owner with the name of what they replace."""
        self.references.tuples.append((scope, node.elts))
        self.visit_children(node, scope)

    def visit_Subscript(self, node: ast.Subscript, scope: Scope) -> None:  # noqa: N802
        """`options["key"]`."""
        if isinstance(node.value, ast.Name) and node.value.id in GENERIC and scope.find(node.value.id) is None:
            self.visit_annotation(node, scope)  # an alias of a type
            return
        if isinstance(node.slice, ast.Constant):
            self.references.subscripts.append((scope, node))
        self.visit_children(node, scope)

    def visit_Dict(self, node: ast.Dict, scope: Scope) -> None:  # noqa: N802
        """Dict display."""
        self.references.dicts.append((scope, node))
        self.visit_children(node, scope)

    def visit_Compare(self, node: ast.Compare, scope: Scope) -> None:  # noqa: N802
        """`"key" in options`."""
        self.references.tests.append((scope, node))
        self.visit_children(node, scope)

    def visit_Assign(self, node: ast.Assign, scope: Scope) -> None:  # noqa: N802
        """Assignment; lists of names such as `__all__` are kept apart."""
        self.visit_children(node, scope)
        for target in node.targets:
            if isinstance(target, ast.Tuple | ast.List) and all(isinstance(part, ast.Name) for part in target.elts):
                same = isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(target.elts)
                for number, part in enumerate(target.elts):
                    assert isinstance(part, ast.Name)
                    if same:
                        scope.values[part.id] = node.value.elts[number]  # type: ignore[attr-defined]
                    else:
                        scope.iterated[part.id] = node.value
            if isinstance(target, ast.Name):
                scope.values[target.id] = node.value
                if target.id in ("__all__", "__slots__", "__match_args__"):
                    self._list_names(node.value, scope)
                elif isinstance(node.value, ast.Call) and node.value.args:
                    first = node.value.args[0]  # NewType("Name", ...)
                    if isinstance(first, ast.Constant) and first.value == target.id:
                        self.references.listed.append((scope, first))

    def visit_AugAssign(self, node: ast.AugAssign, scope: Scope) -> None:  # noqa: N802
        """`__all__ += [...]`."""
        self.visit_children(node, scope)
        if isinstance(node.target, ast.Name) and node.target.id == "__all__":
            self._list_names(node.value, scope)

    def _list_names(self, node: ast.expr, scope: Scope) -> None:
        for child in ast.walk(node):
            if isinstance(child, ast.Constant) and isinstance(child.value, str):
                self.references.listed.append((scope, child))

    def visit_AnnAssign(self, node: ast.AnnAssign, scope: Scope) -> None:  # noqa: N802
        """`name: Type = value`."""
        self.visit(node.target, scope)
        self.visit_annotation(node.annotation, scope)
        if node.value is not None:
            self.visit(node.value, scope)
            if isinstance(node.target, ast.Name):
                scope.values[node.target.id] = node.value

    def visit_Expr(self, node: ast.Expr, scope: Scope) -> None:  # noqa: N802
        """Strings that stand alone are docstrings, with examples in them."""
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            self.references.docstrings.append((scope, _start(node), _end(node)))
            if ">>> " in node.value.value:
                examples = Scope(
                    "function", f"{scope.qualname}.<examples {_start(node)}>", scope.module_scope(), self.source
                )
                self.index.scopes[examples.qualname] = [examples]
                self.read_examples(_start(node), _end(node), examples)
        else:
            self.visit(node.value, scope)

    def read_examples(self, start: int, end: int, scope: Scope) -> None:
        """Read the doctests between two offsets; lines with escapes are left out, as their columns differ."""
        lines: list[str] = []
        starts: list[int] = []
        offset = start
        for line in [*self.source.ascii[start:end].split("\n"), ""]:
            match = PROMPT.match(line)
            if (match is None or match[2] == ">>>") and lines:
                tree = _parse("\n".join(lines), starts)
                if tree is not None:
                    self.visit_body(tree.body, scope)
                lines, starts = [], []
            if match is not None and "\\" not in line:
                lines.append(match[3] or "")
                starts.append(offset + (match.start(3) if match[3] else len(line)))
            offset += len(line) + 1

    def visit_Constant(self, node: ast.Constant, scope: Scope) -> None:  # noqa: N802
        """Strings."""
        if isinstance(node.value, str):
            self.references.strings.append((scope, node))

    def visit_JoinedStr(self, node: ast.JoinedStr, scope: Scope) -> None:  # noqa: N802
        """f-string: before Python 3.12 the positions of what is in it are wrong, so it is parsed again."""
        for start, end in fields_of(self.source.ascii, _start(node), _end(node)):
            tree = self.parse_part(start, end)
            if tree is not None:
                self.visit(tree, scope)

    def visit_annotation(self, node: ast.expr, scope: Scope) -> None:
        """Visit a type, in which strings are forward references."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = self.source.ascii[_start(node) : _end(node)]
            if text[1:-1] == node.value:
                tree = self.parse_part(_start(node) + 1, _end(node) - 1)
                if tree is not None:
                    self.visit_annotation(tree, scope)
        elif isinstance(node, ast.Subscript):
            self.visit(node.value, scope)
            name = ast.unparse(node.value).rpartition(".")[2]
            if name == "Literal":
                return
            if name == "Annotated" and isinstance(node.slice, ast.Tuple):
                self.visit_annotation(node.slice.elts[0], scope)
                for part in node.slice.elts[1:]:
                    self.visit(part, scope)
            else:
                self.visit_annotation(node.slice, scope)
        elif isinstance(node, ast.Attribute | ast.Name | ast.Call):
            self.visit(node, scope)
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.visit_annotation(child, scope)

    def parse_part(self, start: int, end: int) -> ast.expr | None:
        """Parse an expression that is part of a string."""
        text = self.source.ascii[start:end]
        starts = [start - 1, *(start + offset for offset in line_starts(text)[1:])]
        tree = _parse(f"({text})", starts)
        statement = tree.body[0] if tree is not None and tree.body else None
        return statement.value if isinstance(statement, ast.Expr) else None


def _start(node: ast.AST) -> int:
    return node.start  # type: ignore[attr-defined, no-any-return]


def _end(node: ast.AST) -> int:
    return node.end  # type: ignore[attr-defined, no-any-return]


def _locate(tree: ast.AST, starts: list[int]) -> None:
    """Give every node its offsets, from the offset of each line that was parsed."""
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            node.start = starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
            node.end = starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]


def _parse(text: str, starts: list[int]) -> ast.Module | None:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    _locate(tree, starts)
    return tree


def read_repository(root: Path) -> Index:
    """Index all Python files and documents of a repository that git knows or would add."""
    index = Index()
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    texts: dict[Path, str] = {}
    for name in sorted(set(listed.splitlines())):
        path = root / name
        kept = path.suffix in (".py", ".md", ".html") or name in ("pyproject.toml", "Makefile")
        if kept and not name.startswith(SKIPPED) and path.is_file() and not path.is_symlink():
            texts[path] = path.read_text()
    imported = {match[1] for text in texts.values() for match in IMPORTED.finditer(text)}
    for path, text in texts.items():
        if path.suffix != ".py":
            index.add_document(Source(path, str(path.relative_to(root)), text))
            continue
        folder = next(base for base in (root / "src", root / "tests", root) if path.is_relative_to(base))
        module = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        if module in index.modules:
            module = "repeated." + ".".join(path.relative_to(root).with_suffix("").parts)
        source = Source(path, module, text, is_test=folder.name == "tests")
        index.add_module(source)
        if (
            source.is_test
            and path.stem in imported
            and path.stem != module
            and not (path.parent / "__init__.py").exists()
        ):
            index.aliases[path.stem] = source
    index.aliases = {name: source for name, source in index.aliases.items() if name not in index.modules}
    return index
