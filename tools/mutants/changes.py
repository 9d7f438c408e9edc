"""Where src/ can be changed in a small way, and how.

A spot is one operator, number, return, statement or default; it may be changed in one way or in several. Texts, log
lines, annotations and `__repr__` are no spots: changing them changes nothing that a test should hold.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path

EXCLUDED = {
    "src/noisebank/demo/*": "a demonstration: what it prints is not relied upon",
    "src/noisebank/cli/demo*.py": "a demonstration: what it prints is not relied upon",
    "*/torch_network.py": "needs torch: only `make test-extras` runs it",
    "*/dp_sgd.py": "needs torch: only `make test-extras` runs it",
    "*/flower_*.py": "needs Flower: only `make test-extras` runs it",
    "*/spark_*.py": "needs Spark and Java: only `make test-extras` runs it",
}
"""Files without mutants, and why."""

FLIPS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "is": "is not", "is not": "is", "in": "not in", "not in": "in",
}  # fmt: skip
COMPARISON = re.compile(rb"<=|>=|==|!=|<|>|\bis\s+not\b|\bnot\s+in\b|\bis\b|\bin\b")
COMMENT = re.compile(rb"#[^\n]*")
NUMBERS = ("int", "float", "Fraction", "Decimal")
LOGS = re.compile(r"(^|[._])(log|logs|logger|logging)\.|^print$|^warnings\.warn$")
COSMETIC_KEYWORDS = ("help", "short_help", "epilog", "metavar", "show_default", "hidden", "description")
SILENT_FUNCTIONS = ("__repr__",)


@dataclass(frozen=True)
class Change:
    """Other bytes at [start, stop) of the file."""

    start: int
    stop: int
    text: bytes


@dataclass(frozen=True)
class Spot:
    """Something that can be changed, in one or more ways."""

    file: str
    kind: str
    within: str
    """The function or class, dotted, or empty."""
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    index: int
    """In the sample, from 1."""
    file: str
    line: int
    kind: str
    within: str
    before: str
    """The changed lines, on one line; explanations match by it."""
    after: str
    start: int
    stop: int
    text: str

    def apply_to(self, source: bytes) -> bytes:
        """The file with the mistake in it."""
        return source[: self.start] + self.text.encode() + source[self.stop :]

    def __str__(self) -> str:
        where = f"#{self.index} {self.file}:{self.line} {self.within} ({self.kind})"
        return f"{where}\n    - {self.before}\n    + {self.after}"


def list_files(root: Path) -> list[str]:
    """The modules that are mutated, sorted."""
    paths = sorted(path.relative_to(root).as_posix() for path in (root / "src" / "noisebank").rglob("*.py"))
    return [path for path in paths if not any(fnmatch(path, pattern) for pattern in EXCLUDED)]


def list_spots(root: Path, files: Iterable[str]) -> list[Spot]:
    """All spots of these files, in their order."""
    return [spot for file in files for spot in find_spots(file, (root / file).read_bytes())]


def sample_mutants(root: Path, spots: list[Spot], count: int, seed: int) -> list[Mutant]:
    """Spots drawn evenly, each at most once, and a change of each. A larger count goes on where a smaller one ends."""
    order = list(spots)
    random.Random(f"mutants {seed}").shuffle(order)
    mutants: list[Mutant] = []
    for spot in order:
        source = (root / spot.file).read_bytes()
        original = ast.dump(ast.parse(source))
        changes = [change for change in spot.changes if _is_real(source, change, original)]
        if changes:
            change = random.Random(f"{seed} {spot.file} {changes[0].start}").choice(changes)
            mutants.append(describe_mutant(len(mutants) + 1, spot, change, source))
        if len(mutants) == count:
            break
    return mutants


def describe_mutant(index: int, spot: Spot, change: Change, source: bytes) -> Mutant:
    """The mutant, with the lines that it changes."""
    first = source.rfind(b"\n", 0, change.start) + 1
    last = source.find(b"\n", change.stop)
    last = len(source) if last < 0 else last
    before = _flatten(source[first:last])
    after = _flatten(source[first : change.start] + change.text + source[change.stop : last])
    line = source.count(b"\n", 0, change.start) + 1
    return Mutant(
        index, spot.file, line, spot.kind, spot.within, before, after, change.start, change.stop, change.text.decode()
    )


def find_again(root: Path, mutants: Iterable[Mutant]) -> list[Mutant]:
    """The same mistakes in the sources as they are now; one whose line has changed is left out. A file that was moved
    is looked for by its name.
    """
    files, again = list_files(root), list[Mutant]()
    for mutant in mutants:
        name = mutant.file.rpartition("/")[2]
        homes = [mutant.file] if mutant.file in files else [file for file in files if file.endswith(f"/{name}")]
        for file in homes:
            source = (root / file).read_bytes()
            changed = [
                describe_mutant(mutant.index, spot, change, source)
                for spot in find_spots(file, source)
                for change in spot.changes
            ]
            again += [each for each in changed if _is_same(each, mutant)][:1]
    return again


def _is_same(one: Mutant, other: Mutant) -> bool:
    return (one.kind, one.within, one.before, one.after) == (other.kind, other.within, other.before, other.after)


def find_spots(file: str, source: bytes) -> list[Spot]:
    """The spots of one file. Whether a change gives another program that compiles is looked at when it is drawn."""
    walker = _Walker(source)
    return [
        Spot(file, kind, within, tuple(changes))
        for kind, within, changes in walker.walk_module(ast.parse(source))
        if changes
    ]


def _is_real(source: bytes, change: Change, original: str) -> bool:
    """Whether it compiles, and says something else."""
    try:
        tree = ast.parse(source[: change.start] + change.text + source[change.stop :])
    except SyntaxError:
        return False
    return ast.dump(tree) != original


def _flatten(text: bytes) -> str:
    return re.sub(r"\s+", " ", text.decode()).strip()


Raw = tuple[str, str, list[Change]]


class _Walker:
    """Goes through one module. Columns of the syntax tree count bytes, so the source is bytes."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.guarded: set[int] = set()
        self.names: list[str] = []
        self.functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []

    def walk_module(self, tree: ast.Module) -> Iterator[Raw]:
        for kind, changes in self._walk_all(tree.body):
            yield kind, ".".join(self.names), changes

    # -- which nodes -------------------------------------------------------------------------------

    def _walk_all(self, nodes: Iterable[ast.AST | None]) -> Iterator[tuple[str, list[Change]]]:
        for node in nodes:
            if node is not None:
                yield from self._walk(node)

    def _walk(self, node: ast.AST) -> Iterator[tuple[str, list[Change]]]:
        match node:
            case ast.JoinedStr():
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from self._walk_function(node)
                return
            case ast.ClassDef():
                yield from self._walk_all(node.decorator_list)
                self.names.append(node.name)
                yield from self._walk_all(node.body)
                self.names.pop()
                return
            case ast.If() if _is_guarded_import(node.test):
                yield from self._walk_all(node.orelse)
                return
            case ast.AnnAssign():
                yield from self._walk_all([node.target, node.value])
                return
            case ast.keyword() if node.arg in COSMETIC_KEYWORDS:
                return
            case ast.Subscript(value=ast.Name(id="Literal" | "Annotated")):
                return
            case ast.Expr(value=value) if _is_log(value):
                return
            case ast.Raise(exc=exc) if "NotImplementedError" in ast.dump(exc or ast.Pass()):
                return
        yield from self._change(node)
        yield from self._walk_all(ast.iter_child_nodes(node))

    def _walk_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, list[Change]]]:
        if node.name in SILENT_FUNCTIONS or _is_stub(node):
            return
        yield from self._walk_all(node.decorator_list)
        self.names.append(node.name)
        self.functions.append(node)
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if isinstance(default, ast.Constant) and type(default.value) in (bool, int):
                yield "default argument", self._move_constant(default)
            elif default is not None:
                yield from self._walk(default)
        yield from self._walk_all(node.body)
        self.functions.pop()
        self.names.pop()

    # -- what to do to one -------------------------------------------------------------------------

    def _change(self, node: ast.AST) -> Iterator[tuple[str, list[Change]]]:
        match node:
            case ast.Compare():
                operands = [node.left, *node.comparators]
                for left, right in pairwise(operands):
                    yield "comparison", self._swap_between(left, right, COMPARISON, FLIPS)
            case ast.BinOp(op=ast.Add() | ast.Sub()) if not _is_text(node.left) and not _is_text(node.right):
                yield (
                    "plus and minus",
                    self._swap_between(node.left, node.right, re.compile(rb"[+-]"), {"+": "-", "-": "+"}),
                )
            case ast.AugAssign(op=ast.Add() | ast.Sub()) if not _is_text(node.value):
                yield (
                    "plus and minus",
                    self._swap_between(node.target, node.value, re.compile(rb"[+-]="), {"+=": "-=", "-=": "+="}),
                )
            case ast.Constant(value=int()) if type(node.value) is int:
                yield "number", self._move_constant(node)
            case ast.BoolOp():
                yield "and, or", self._swap_junction(node)
            case ast.UnaryOp(op=ast.Not()):
                yield "not", [self._replace(node, b"(" + self._text_of(node.operand) + b")")]
            case ast.Call(func=ast.Name(id="min" | "max" as name)):
                yield "min, max", [self._replace(node.func, b"max" if name == "min" else b"min")]
            case ast.Return(value=value) if value is not None and self.functions:
                yield "return", [self._replace(value, text) for text in self._instead_of_returned(value)]
            case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
                yield "call dropped", [self._replace(node, b"pass")]
            case ast.If(body=[ast.Raise()], orelse=[]):
                self.guarded.add(id(node.body[0]))  # dropping the guard drops it as well: one mutant, not two
                yield "guard dropped", [self._replace(node.test, b"False")]
            case ast.Raise():
                if id(node) not in self.guarded:
                    yield "raise dropped", [self._replace(node, b"pass")]

    def _instead_of_returned(self, value: ast.expr) -> Iterator[bytes]:
        function = self.functions[-1]
        if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function)):
            return
        text = b"(" + self._text_of(value) + b")"
        yield b"None"
        returned = ast.unparse(function.returns) if function.returns else ""
        if returned == "bool":
            yield b"not " + text
        if returned in NUMBERS:
            yield b"-" + text
        for argument in [*function.args.posonlyargs, *function.args.args][:2]:
            if argument.arg not in ("self", "cls"):
                if argument.annotation and ast.unparse(argument.annotation) == returned:
                    yield argument.arg.encode()
                return

    # -- bytes -------------------------------------------------------------------------------------

    def _span_of(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _text_of(self, node: ast.AST) -> bytes:
        start, stop = self._span_of(node)
        return self.source[start:stop]

    def _replace(self, node: ast.AST, text: bytes) -> Change:
        return Change(*self._span_of(node), text)

    def _move_constant(self, node: ast.Constant) -> list[Change]:
        if isinstance(node.value, bool):
            return [self._replace(node, str(not node.value).encode())]
        assert isinstance(node.value, int)
        return [self._replace(node, str(node.value + step).encode()) for step in (1, -1) if node.value + step >= 0]

    def _swap_between(
        self, left: ast.AST, right: ast.AST, operator: re.Pattern[bytes], swaps: dict[str, str]
    ) -> list[Change]:
        """The operator between two operands; only brackets and comments can stand there beside it."""
        start, stop = self._span_of(left)[1], self._span_of(right)[0]
        gap = COMMENT.sub(lambda comment: b" " * len(comment[0]), self.source[start:stop])
        match = operator.search(gap)
        assert match is not None
        text = swaps[re.sub(r"\s+", " ", match[0].decode())]
        return [Change(start + match.start(), start + match.end(), text.encode())]

    def _swap_junction(self, node: ast.BoolOp) -> list[Change]:
        """All of `a and b and c` at once."""
        old, new = (b"and", b"or") if isinstance(node.op, ast.And) else (b"or", b"and")
        first, last = self._span_of(node)
        text, position = b"", first
        for left, right in pairwise(node.values):
            (change,) = self._swap_between(left, right, re.compile(rb"\b%s\b" % old), {old.decode(): new.decode()})
            text += self.source[position : change.start] + change.text
            position = change.stop
        return [Change(first, last, text + self.source[position:last])]


def _is_guarded_import(test: ast.expr) -> bool:
    text = ast.unparse(test)
    return text.endswith("TYPE_CHECKING") or text.startswith("__name__ ==")


def _is_log(value: ast.expr) -> bool:
    call = value.value if isinstance(value, ast.Await) else value
    return isinstance(call, ast.Call) and bool(LOGS.search(ast.unparse(call.func)))


def _is_text(node: ast.expr) -> bool:
    """Texts, bytes and lists are joined by +; there is no minus for them, so a swap would be no small mistake."""
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bytes)
    return isinstance(node, ast.JoinedStr | ast.List | ast.ListComp | ast.Tuple)


def _is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A protocol's method: a docstring, or dots."""
    return all(isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) for line in node.body)
