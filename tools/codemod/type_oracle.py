"""Types of expressions and members of classes, from one run of mypy over the whole repository."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mypy import build
from mypy.config_parser import parse_config_file
from mypy.errors import CompileError
from mypy.modulefinder import BuildSource
from mypy.nodes import ClassDef, Decorator, Expression, FuncDef, MypyFile, Node, TypeInfo, Var
from mypy.options import Options
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    LiteralType,
    NoneType,
    Overloaded,
    TupleType,
    Type,
    TypedDictType,
    TypeOfAny,
    TypeType,
    TypeVarLikeType,
    UnionType,
    get_proper_type,
)
from mypy.typestate import type_state
from mypy.typevars import fill_typevars_with_any
from source_index import Index, Source, Symbol

SEQUENCES = ("list", "tuple", "set", "frozenset", "Sequence", "Iterable", "Iterator", "Collection", "Generator")
POPULAR = (
    "builtins",
    "pathlib",
    "numpy",
    "httpx",
    "starlette",
    "fastapi",
    "click",
    "sqlite3",
    "matplotlib",
    "hypothesis",
)
NOT_CHILDREN = {"node", "info", "type", "unanalyzed_type", "type_annotation", "names", "imports", "def_var", "analyzed"}


class Unknown:
    """The answer where mypy has no type, or Any."""


UNKNOWN = Unknown()


class Oracle:
    """Answers questions about types."""

    def __init__(self, index: Index, root: Path) -> None:
        self.index = index
        self.infos: dict[str, TypeInfo] = {}
        self._names: dict[str, str] = {}  # mypy's full name of a class -> ours
        self._types: dict[Source, dict[tuple[int, int], Type]] = {}
        self._signatures: dict[str, CallableType] = {}
        result = _run_mypy(index, root)
        for module, source in index.modules.items():
            if module in result.files:
                self._read(source, result.files[module], result.types)
        self.common: set[str] = set()  # names of members that values of other distributions often have
        for module, tree in result.files.items():
            if module.partition(".")[0] in POPULAR:
                for symbol in tree.names.values():
                    self.common |= set(symbol.node.names) if isinstance(symbol.node, TypeInfo) else set()
        self._mro = {name: list(self._resolve_mro(info)) for name, info in self.infos.items()}
        self._attempted = type_state._attempted_protocols

    def _read(self, source: Source, tree: MypyFile, types: dict[Expression, Type]) -> None:
        spans = self._types.setdefault(source, {})
        for node in _walk(tree):
            if isinstance(node, ClassDef):
                name = self.index.class_at.get((source.module, node.line))
                if name is not None and node.info:
                    self.infos[name] = node.info
                    self._names[node.info.fullname] = name
            elif isinstance(node, FuncDef):
                if isinstance(node.type, CallableType):
                    owner = self.index.class_at.get((source.module, node.info.defn.line)) if node.info else None
                    self._signatures[f"{owner}.{node.name}" if owner else node.fullname] = node.type
            elif isinstance(node, Expression) and node.end_line is not None and node.end_column is not None:
                kind = types.get(node)
                if kind is not None:
                    start = source.starts[node.line - 1] + node.column
                    spans[start, source.starts[node.end_line - 1] + node.end_column] = kind

    def _resolve_mro(self, info: TypeInfo) -> Iterator[tuple[str, set[str], bool]]:
        for base in info.mro:
            name = self._names.get(base.fullname)
            members = set(base.names)
            if name is not None:
                for scope in self.index.scopes.get(name, ()):
                    members |= set(scope.bindings)
            yield name or base.fullname, members, name is not None

    def type_at(self, source: Source, start: int, end: int) -> Type | None:
        """Return the type of the expression between two offsets, if mypy knows one."""
        return self._types.get(source, {}).get((start, end))

    def bases(self, name: str) -> list[tuple[str, set[str], bool]]:
        """Return the classes in the method resolution order: name, own members, whether it is in the repository."""
        return self._mro.get(name, [(name, set(self._own_bindings(name)), True)])

    def _own_bindings(self, name: str) -> Iterator[str]:
        for scope in self.index.scopes.get(name, ()):
            yield from scope.bindings

    def find_member(self, name: str, member: str, after: str | None = None) -> Symbol | None:
        """Return the class that defines a member, in the method resolution order; `after` is for super()."""
        bases = self.bases(name)
        if after is not None:
            bases = bases[[base[0] for base in bases].index(after) + 1 :]
        return next(((base, member) for base, members, _ in bases if member in members), None)

    def members_of(self, kind: Type | None, member: str, known: bool = False) -> set[Symbol] | Unknown:
        """Return which definitions an attribute of a value of this type may be; empty if there are none.

        `known` is for values of other distributions: a missing type tells that it is none of ours.
        """
        symbols: set[Symbol] = set()
        unknown = False
        for info in self.classes_of(kind):
            if isinstance(info, Unknown):
                unknown = True
                continue
            name = self._names.get(info.fullname)
            if name is None:
                owner = next((base for base in info.mro if member in base.names), None)
                if owner is not None:
                    symbols.add((self._names.get(owner.fullname, owner.fullname), member))
                unknown = unknown or (owner is None and _takes_any_name(info))
                continue
            symbol = self.find_member(name, member)
            if symbol is not None:
                symbols.add(symbol)
            unknown = unknown or symbol is None
        return UNKNOWN if unknown and not symbols and not known else symbols

    def names_of(self, kind: Type | None) -> set[str]:
        """Return our names of the classes that a type stands for, and of their bases."""
        infos = [info for info in self.classes_of(kind) if not isinstance(info, Unknown)]
        return {self._names[base.fullname] for info in infos for base in info.mro if base.fullname in self._names}

    def classes_of(self, kind: Type | None) -> Iterator[TypeInfo | Unknown]:
        """Yield the classes that a value of a type, or a class as a value, may have."""
        if kind is None:
            yield UNKNOWN
            return
        proper = get_proper_type(kind)
        if isinstance(proper, AnyType):
            while proper.source_any is not None:
                proper = proper.source_any
            if proper.type_of_any != TypeOfAny.from_unimported_type:  # those are of other distributions
                yield UNKNOWN
        elif isinstance(proper, Instance):
            yield proper.type
        elif isinstance(proper, UnionType):
            for item in proper.items:
                yield from self.classes_of(item)
        elif isinstance(proper, TypeVarLikeType):
            yield from self.classes_of(proper.upper_bound)
        elif isinstance(proper, TypeType):
            yield from self.classes_of(proper.item)
        elif isinstance(proper, TupleType):
            yield proper.partial_fallback.type
        elif isinstance(proper, LiteralType | TypedDictType):
            yield proper.fallback.type
        elif isinstance(proper, CallableType | Overloaded):
            yield proper.type_object() if proper.is_type_obj() else proper.fallback.type
        elif not isinstance(proper, NoneType):
            yield UNKNOWN

    def callables_of(self, kind: Type | None) -> Iterator[tuple[str, str] | Unknown]:
        """Yield what a call of a value of this type runs: ("class" | "function" | "external", its name)."""
        if kind is None:
            yield UNKNOWN
            return
        proper = get_proper_type(kind)
        if isinstance(proper, CallableType | Overloaded):
            if proper.is_type_obj():
                name = proper.type_object().fullname
                yield ("class", self._names[name]) if name in self._names else ("external", name)
                return
            for item in proper.items:
                definition = item.definition
                if definition is None:
                    yield ("external", "")
                elif isinstance(definition, FuncDef) and definition.info:
                    owner = self._names.get(definition.info.fullname)
                    yield ("function", f"{owner}.{definition.name}") if owner else ("external", definition.fullname)
                else:
                    known = definition.fullname in self.index.functions
                    yield ("function" if known else "external", definition.fullname)
        elif isinstance(proper, TypeType):
            for info in self.classes_of(proper.item):
                if isinstance(info, Unknown):
                    yield info
                else:
                    name = info.fullname
                    yield ("class", self._names[name]) if name in self._names else ("external", name)
        elif isinstance(proper, UnionType):
            for choice in proper.items:
                yield from self.callables_of(choice)
        else:
            members = self.members_of(proper, "__call__")
            if isinstance(members, Unknown):
                yield UNKNOWN
            else:
                for owner, member in members:
                    kind_of = "function" if owner in self.infos else "external"
                    yield (kind_of, f"{owner}.{member}")

    def returned(self, kind: str, name: str, yielded: bool = False) -> Type | None:
        """Return the type of what a function of the repository returns (or yields once, as fixtures do)."""
        if kind == "class" and name in self.infos:
            return fill_typevars_with_any(self.infos[name])
        signature = self._signatures.get(name) if kind == "function" else None
        if signature is None:
            return None
        result = get_proper_type(signature.ret_type)
        lazy = yielded or signature.implicit
        if isinstance(result, Instance) and lazy and result.type.name in ("Iterator", "Generator", "Iterable"):
            return result.args[0]
        if isinstance(result, Instance) and result.type.name == "Coroutine":
            return None
        return result

    def element_of(self, kind: Type | None) -> Type | None:
        """Return the type of the elements of a sequence."""
        proper = get_proper_type(kind) if kind is not None else None
        if isinstance(proper, TupleType):
            return UnionType.make_union(list(proper.items))
        if isinstance(proper, Instance) and len(proper.args) == 1 and proper.type.name in SEQUENCES:
            return proper.args[0]
        return None

    def type_of_member(self, symbol: Symbol) -> Type | None:
        """Return the declared type of a property or field."""
        node = self.infos[symbol[0]].names.get(symbol[1]) if symbol[0] in self.infos else None
        if node is None:
            return None
        if isinstance(node.node, Decorator) and node.node.func.is_property:
            return self.returned("function", ".".join(symbol))
        return node.node.type if isinstance(node.node, Var) else None

    def typed_dict(self, kind: Type | None) -> str | None:
        """Return the TypedDict class of a type."""
        proper = get_proper_type(kind) if kind is not None else None
        if isinstance(proper, UnionType):
            names = {self.typed_dict(item) for item in proper.items if not isinstance(get_proper_type(item), NoneType)}
            return names.pop() if len(names) == 1 else None
        if isinstance(proper, TypedDictType):
            return self._names.get(proper.fallback.type.fullname)
        return None

    def implementations(self, protocol: str) -> Iterator[tuple[str, bool]]:
        """Yield classes that have all members of a protocol, and whether mypy compared them with it."""
        info = self.infos[protocol]
        members = set(info.protocol_members)
        for name, other in self.infos.items():
            own = {member for _, own, _ in self.bases(name) for member in own}
            if not other.is_protocol and members <= own and protocol not in (base for base, _, _ in self.bases(name)):
                yield name, info.fullname in self._attempted.get(other.fullname, ())


def _takes_any_name(info: TypeInfo) -> bool:
    if info.fallback_to_any or info.fullname in ("builtins.object", "types.SimpleNamespace"):
        return True
    return any("__getattr__" in base.names for base in info.mro)


def _run_mypy(index: Index, root: Path) -> build.BuildResult:
    options = Options()
    before = Path.cwd()
    os.chdir(root)
    try:
        if Path("pyproject.toml").exists():
            parse_config_file(options, lambda: None, "pyproject.toml", io.StringIO(), io.StringIO())
        options.export_types = options.preserve_asts = options.check_untyped_defs = True
        options.incremental = options.warn_unused_configs = False
        options.namespace_packages = options.explicit_package_bases = True
        options.cache_dir = os.devnull
        options.mypy_path = [str(root / "src"), str(root / "tests"), str(root)]
        sources = [BuildSource(str(source.path), module, source.ascii) for module, source in index.modules.items()]
        for name, source in index.aliases.items():
            names = [f"from {source.module} import {one} as {one}" for one in source.scope.bindings]
            sources.append(BuildSource(f"{name} (alias).py", name, "\n".join(names)))
        return build.build(sources, options)
    except CompileError as error:
        raise SystemExit("mypy cannot read the repository:\n" + "\n".join(error.messages)) from error
    finally:
        os.chdir(before)


def _walk(tree: Node) -> Iterator[Node]:
    """Yield all nodes of mypy's tree; its own visitors are compiled and cannot be extended."""
    attributes: dict[type, list[str]] = {}
    seen: set[int] = set()
    waiting: list[Any] = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list | tuple):
            waiting.extend(value)
            continue
        if not isinstance(value, Node) or id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        kind = type(value)
        if kind not in attributes:
            names = getattr(kind, "__mypyc_attrs__", None) or vars(value)
            attributes[kind] = [name for name in names if name not in NOT_CHILDREN]
        for name in attributes[kind]:
            child = getattr(value, name, None)
            if isinstance(child, list | tuple | Node):
                waiting.append(child)
