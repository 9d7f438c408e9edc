"""What each name, attribute, keyword and string of the repository refers to.

`Resolver.resolve_all` yields one `Use` for every place in the text that refers to something whose name is to change.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mypy.types import Type
from source_index import Function, Index, Module, Scope, Source, Symbol
from type_oracle import UNKNOWN, Oracle, Unknown

PATCHERS = {"object", "setattr", "getattr", "hasattr", "delattr", "plant_bug"}
PLAIN = ("types.SimpleNamespace", "unittest.mock.Mock", "unittest.mock.MagicMock")


@dataclass(frozen=True)
class Use:
    """A name in the text. `symbols` is None where types are missing: then `kind` tells what it may be."""

    source: Source
    start: int
    name: str
    symbols: frozenset[Symbol] | None
    kind: str  # name, member, keyword, string
    sure: bool = True


class Resolver:
    """Resolves references by scopes first, and by types where the scopes do not tell."""

    def __init__(self, index: Index, oracle: Oracle) -> None:
        self.index = index
        self.oracle = oracle
        self._asked: list[Function] = []
        self.packages = {module.partition(".")[0] for module in [*index.modules, *index.aliases]}

    # Names -----------------------------------------------------------------------------------------------------------

    def canonical(self, scope: Scope, name: str) -> Symbol | Module:
        """Return what a binding is called after: for `from a import b`, that is b in a."""
        imported = scope.imports.get(name)
        if imported is None:
            return scope.qualname, name
        if imported.name is None:
            return Module(imported.module)
        if imported.renamed:
            return scope.qualname, name
        return self.in_module(imported.module, imported.name)

    def in_module(self, module: str, name: str) -> Symbol | Module:
        """Return what `module.name` is called after."""
        source = self.index.modules.get(module) or self.index.aliases.get(module)
        if source is not None and name in source.scope.bindings:
            imported = source.scope.imports.get(name)
            if imported is None or (imported.module, imported.name) != (module, name):
                return self.canonical(source.scope, name)
        if f"{module}.{name}" in self.index.modules:
            return Module(f"{module}.{name}")
        if source is None and any(known.startswith(f"{module}.{name}.") for known in self.index.modules):
            return Module(f"{module}.{name}")
        return module, name

    def follow(self, target: Symbol | Module | None) -> Symbol | Module | None:
        """Go through `import a as b` and `b = a` to what is defined."""
        for _ in range(10):
            if target is None or isinstance(target, Module) or self._is_defined(target):
                return target
            scope = self.index.scopes.get(target[0], [None])[0]
            if scope is None:
                return target
            imported = scope.imports.get(target[1])
            if imported is not None:
                target = (
                    Module(imported.module) if imported.name is None else self.in_module(imported.module, imported.name)
                )
                continue
            value = scope.values.get(target[1])
            if scope.bindings.get(target[1]) != 1 or not isinstance(value, ast.Name | ast.Attribute):
                return target
            following = self.entity(value, scope, follow=False)
            if following is None or following == target:
                return target
            target = following
        return target

    def _is_defined(self, symbol: Symbol) -> bool:
        name = ".".join(symbol)
        return name in self.index.classes or name in self.index.functions

    def entity(self, node: ast.expr, scope: Scope, follow: bool = True) -> Symbol | Module | None:
        """Return the module, class, function or variable that an expression names, without types."""
        target: Symbol | Module | None = None
        if isinstance(node, ast.Name):
            binder = scope.find(node.id)
            target = self.canonical(binder, node.id) if binder is not None else None
        elif isinstance(node, ast.Subscript):
            return self.entity(node.value, scope, follow)
        elif isinstance(node, ast.Attribute):
            owner = self.entity(node.value, scope)
            if isinstance(owner, Module):
                target = self.in_module(owner.name, node.attr)
            elif owner is not None and ".".join(owner) in self.index.classes:
                target = self.oracle.find_member(".".join(owner), node.attr)
            elif owner is not None and self._is_external(owner):
                target = ".".join(owner), node.attr
        return self.follow(target) if follow else target

    def _is_external(self, symbol: Symbol) -> bool:
        """Whether something comes from another distribution."""
        return symbol[0] not in self.index.scopes and symbol[0].partition(".")[0] not in self.packages

    def class_of(self, node: ast.expr, scope: Scope) -> str | None:
        """Return the class that an expression names."""
        target = self.entity(node, scope)
        name = ".".join(target) if isinstance(target, tuple) else ""
        return name if name in self.index.classes else None

    # Members ---------------------------------------------------------------------------------------------------------

    def members(self, value: ast.expr, name: str, scope: Scope) -> set[Symbol] | Unknown:
        """Return what `value.name` may be."""
        target = self.entity(value, scope)
        if isinstance(target, Module):
            member = self.in_module(target.name, name)
            return set() if isinstance(member, Module) else {member}
        if target is not None and self._is_external(target):
            return self.oracle.members_of(self.oracle.type_at(scope.source, value.start, value.end), name, known=True)  # type: ignore[attr-defined]
        owner = self.class_of(value, scope)
        if owner is not None:
            symbol = self.oracle.find_member(owner, name)
            if symbol is not None:
                return {symbol}
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super":
            around = _class_around(scope)
            after = self.oracle.find_member(around, name, after=around) if around else None
            return {after} if after is not None else set()
        return self.oracle.members_of(self.type_of(value, scope), name)

    def type_of(self, node: ast.expr, scope: Scope, depth: int = 0) -> Type | None:
        """Return the type of an expression; where mypy has none, that of what was assigned or is returned."""
        kind = self.oracle.type_at(scope.source, node.start, node.end)  # type: ignore[attr-defined]
        if depth > 5 or not any(isinstance(one, Unknown) for one in self.oracle.classes_of(kind)):
            return kind
        better: Type | None = None
        if isinstance(node, ast.Name):
            binder = scope.find(node.id)
            value = binder.values.get(node.id) if binder is not None and binder.bindings[node.id] == 1 else None
            if binder is not None and value is not None:
                better = self.type_of(value, binder, depth + 1)
            elif binder is not None and node.id in binder.iterated and binder.bindings[node.id] == 1:
                around = binder.parent if binder.kind == "comprehension" and binder.parent else binder
                better = self.oracle.element_of(self.type_of(binder.iterated[node.id], around, depth + 1))
            elif binder is not None and binder.kind == "function":
                better = self._fixture_type(node.id, binder)
        elif isinstance(node, ast.Call):
            for name in self.callees(node.func, scope):
                if not isinstance(name, Unknown) and better is None:
                    better = self.returned(*name, depth=depth + 1)
        elif isinstance(node, ast.Attribute):
            symbols = self.oracle.members_of(self.type_of(node.value, scope, depth + 1), node.attr)
            if not isinstance(symbols, Unknown) and len(symbols) == 1:
                better = self.oracle.type_of_member(next(iter(symbols)))
        return better if better is not None else kind

    def _fixture_type(self, name: str, scope: Scope) -> Type | None:
        """Return the type of a parameter that pytest fills from a fixture of the same name."""
        functions = self.index.functions.get(scope.qualname, ())
        if not scope.source.is_test or not any(name in function.params for function in functions):
            return None
        nearby = [scope.source, *(one for one in self.index.modules.values() if one.path.name == "conftest.py")]
        for source in nearby:
            if name in source.scope.bindings:
                target = self.canonical(source.scope, name)
                if isinstance(target, tuple) and ".".join(target) in self.index.functions:
                    return self.returned("function", ".".join(target), yielded=True)
        return None

    def returned(self, kind: str, name: str, yielded: bool = False, depth: int = 0) -> Type | None:
        """Return what a function or class gives back, if need be from the last statement of its body."""
        declared = self.oracle.returned(kind, name, yielded)
        if kind != "function" or not any(isinstance(one, Unknown) for one in self.oracle.classes_of(declared)):
            return declared
        for function in self.index.functions.get(name, ()):
            for statement in ast.walk(function.node):
                if isinstance(statement, ast.Return | ast.Yield) and statement.value is not None:
                    return self.type_of(statement.value, function.scope, depth + 1)
        return None

    # Keywords --------------------------------------------------------------------------------------------------------

    def callees(self, node: ast.expr, scope: Scope) -> list[tuple[str, str] | Unknown]:
        """Return what a call of an expression runs."""
        target = self.entity(node, scope)
        if isinstance(target, tuple):
            name = ".".join(target)
            if name in self.index.classes:
                return [("class", name)]
            if name in self.index.functions:
                return [("function", name)]
        if isinstance(node, ast.Attribute):
            symbols = self.members(node.value, node.attr, scope)
            if not isinstance(symbols, Unknown) and symbols:
                names = [".".join(symbol) for symbol in symbols]
                if all(name in self.index.functions for name in names):
                    return [("function", name) for name in names]
        found = list(self.oracle.callables_of(self.oracle.type_at(scope.source, node.start, node.end)))  # type: ignore[attr-defined]
        unnamed = all(isinstance(one, Unknown) or one == ("external", "") for one in found)
        if unnamed and isinstance(target, tuple) and self._is_external(target):
            return [("external", ".".join(target))]
        return found

    def keyword(self, callee: tuple[str, str] | Unknown, name: str) -> set[Symbol] | Unknown:
        """Return what a keyword of a call stands for; empty if it is no concern of ours."""
        if isinstance(callee, Unknown):
            return UNKNOWN
        kind, full = callee
        if kind == "function":
            return self._parameter(full, name)
        if kind == "class":
            return self._constructor_keyword(full, name)
        return UNKNOWN if full in PLAIN else set()

    def _parameter(self, function: str, name: str) -> set[Symbol] | Unknown:
        for definition in self.index.functions.get(function, ()):
            if name in definition.params:
                return {(function, name)}
        for definition in self.index.functions.get(function, ()):
            typed = self._unpacked(definition)
            if typed is not None:
                symbol = self.oracle.find_member(typed, name)
                return {symbol} if symbol is not None else set()
            if definition.takes_options:
                return self._handed_on(definition, name)
        return set()

    def _handed_on(self, function: Function, name: str) -> set[Symbol] | Unknown:
        """Return what a keyword means in the calls to which a function hands all of its keywords."""
        options = function.node.args.kwarg
        symbols: set[Symbol] = set()
        if options is None or function in self._asked:
            return UNKNOWN
        self._asked.append(function)
        for call in ast.walk(function.node):
            for keyword in call.keywords if isinstance(call, ast.Call) else ():
                value = keyword.value
                if keyword.arg is None and isinstance(value, ast.Name) and value.id == options.arg:
                    assert isinstance(call, ast.Call)
                    found = self._keyword_of(call, self.callees(call.func, function.scope), name, function.scope)
                    symbols |= set() if isinstance(found, Unknown) else found
        self._asked.pop()
        return symbols or UNKNOWN

    def _unpacked(self, function: Function) -> str | None:
        note = function.options
        if isinstance(note, ast.Constant) and isinstance(note.value, str):
            note = ast.parse(note.value, mode="eval").body
        if isinstance(note, ast.Subscript) and ast.unparse(note.value).rpartition(".")[2] == "Unpack":
            return self.class_of(note.slice, function.outer)
        return None

    def _constructor_keyword(self, name: str, keyword: str) -> set[Symbol] | Unknown:
        for base, _, ours in self.oracle.bases(name):
            for method in ("__init__", "__new__"):
                if ours and f"{base}.{method}" in self.index.functions:
                    return self._parameter(f"{base}.{method}", keyword)
            if not ours and base.startswith("enum."):
                return set()
        symbol = self.oracle.find_member(name, keyword)
        return {symbol} if symbol is not None else set()

    # Everything ------------------------------------------------------------------------------------------------------

    def resolve_all(self, names: set[str]) -> Iterator[Use]:
        """Yield every use of one of these names."""
        found = self.index.references
        for scope, name, start in found.names:
            if name in names:
                binder = scope.find(name)
                target = self.canonical(binder, name) if binder is not None else None
                if isinstance(target, tuple):
                    yield Use(scope.source, start, name, frozenset([target]), "name")
        for scope, module, name, start in found.imports:
            if name in names:
                target = self.in_module(module, name)
                if isinstance(target, tuple):
                    yield Use(scope.source, start, name, frozenset([target]), "name")
        for scope, node in found.attributes:
            if node.attr in names:
                symbols = self.members(node.value, node.attr, scope)
                yield self._use(scope, node.end - len(node.attr), node.attr, symbols, "member")  # type: ignore[attr-defined]
        for scope, call in found.calls:
            yield from self._resolve_keywords(scope, call, names)
            yield from self._resolve_patched(scope, call, names)
        for scope, parts in found.tuples:
            for owner, part in itertools.pairwise(parts):
                if not isinstance(part, ast.Constant) or part.value not in names:
                    continue
                if isinstance(self.entity(owner, scope), Module) or self.class_of(owner, scope):
                    yield from self._string(scope, part, self.members(owner, str(part.value), scope), sure=False)
        yield from self._resolve_typed_dicts(names)
        for scope, pattern in found.patterns:
            yield from self._resolve_pattern(scope, pattern, names)
        for scope, constant in found.listed:
            if constant.value in names:
                target = self.canonical(scope, constant.value)
                if isinstance(target, tuple):
                    yield from self._string(scope, constant, {target})

    def _use(self, scope: Scope, start: int, name: str, symbols: set[Symbol] | Unknown, kind: str) -> Use:
        return Use(scope.source, start, name, None if isinstance(symbols, Unknown) else frozenset(symbols), kind)

    def _string(
        self, scope: Scope, node: ast.Constant, symbols: set[Symbol] | Unknown, sure: bool = True, kind: str = "string"
    ) -> Iterator[Use]:
        """Yield the use of a name that is a whole string."""
        text = scope.source.ascii[node.start : node.end]  # type: ignore[attr-defined]
        match = re.fullmatch(r"(\w*(?:'''|\"\"\"|'|\"))(\w+)\W+", text)
        if match is not None and match[2] == node.value:
            known = None if isinstance(symbols, Unknown) else frozenset(symbols)
            yield Use(scope.source, node.start + match.start(2), match[2], known, kind, sure)  # type: ignore[attr-defined]

    def _resolve_keywords(self, scope: Scope, call: ast.Call, names: set[str]) -> Iterator[Use]:
        keywords: list[tuple[str, ast.keyword | ast.Constant, bool]] = []
        for keyword in call.keywords:
            if keyword.arg is not None:
                keywords.append((keyword.arg, keyword, True))
            else:
                own = isinstance(keyword.value, ast.Dict)
                keywords += [(name, node, own) for name, node in self._spread(keyword.value, scope)]
        keywords = [one for one in keywords if one[0] in names]
        if not keywords:
            return
        callees = self.callees(call.func, scope)
        for name, node, sure in keywords:
            symbols = self._keyword_of(call, callees, name, scope)
            if isinstance(node, ast.Constant):
                yield from self._string(scope, node, symbols, sure, "keyword")
            else:
                yield self._use(scope, node.start, name, symbols, "keyword")  # type: ignore[attr-defined]

    def is_open_spread(self, keyword: ast.keyword, scope: Scope) -> bool:
        """Whether a call gets `**values` of which the keys are not written down where we look for them."""
        if keyword.arg is not None or any(True for _ in self._spread(keyword.value, scope)):
            return False
        kind = self.oracle.type_at(scope.source, keyword.value.start, keyword.value.end)  # type: ignore[attr-defined]
        if isinstance(keyword.value, ast.Name):
            binder = scope.find(keyword.value.id)
            for function in self.index.functions.get(binder.qualname, ()) if binder is not None else ():
                options = function.node.args.kwarg
                if options is not None and options.arg == keyword.value.id:
                    return False  # handed on: looked at where the function is called
        return self.oracle.typed_dict(kind) is None

    def known_classes(self, node: ast.expr, scope: Scope) -> set[str]:
        """Return the classes of the repository that a value, or a class itself, is of; with their bases."""
        return self.oracle.names_of(self.type_of(node, scope))

    def _spread(self, node: ast.expr, scope: Scope) -> Iterator[tuple[str, ast.keyword | ast.Constant]]:
        """Yield the keys of `**{...}`, or of a dict that a variable holds."""
        if isinstance(node, ast.Name):
            binder = scope.find(node.id)
            value = binder.values.get(node.id) if binder is not None and binder.source is scope.source else None
            if value is None or isinstance(value, ast.Name):
                return
            node = value
        if isinstance(node, ast.Dict):
            for key in node.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, key
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            for keyword in node.keywords:
                if keyword.arg is not None:
                    yield keyword.arg, keyword

    def _keyword_of(
        self, call: ast.Call, callees: Iterable[tuple[str, str] | Unknown], name: str, scope: Scope
    ) -> set[Symbol] | Unknown:
        target = self.entity(call.func, scope)
        if target == ("dataclasses", "replace") and call.args:
            return self.members(call.args[0], name, scope)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "_replace":
            return self.members(call.func.value, name, scope)
        symbols: set[Symbol] = set()
        unknown = not callees
        for callee in callees:
            found = self.keyword(callee, name)
            if isinstance(found, Unknown):
                unknown = True
            else:
                symbols |= found
        if not symbols:  # a function that is handed on with its keywords, as to functools.partial
            for argument in call.args:
                if isinstance(argument, ast.Name | ast.Attribute):
                    for callee in self.callees(argument, scope) if self._is_callable(argument, scope) else ():
                        found = self.keyword(callee, name)
                        symbols |= set() if isinstance(found, Unknown) else found
        return UNKNOWN if unknown and not symbols else symbols

    def _is_callable(self, node: ast.expr, scope: Scope) -> bool:
        target = self.entity(node, scope)
        if isinstance(target, tuple) and self._is_defined(target):
            return True
        if isinstance(node, ast.Attribute):
            symbols = self.members(node.value, node.attr, scope)
            return not isinstance(symbols, Unknown) and any(self._is_defined(symbol) for symbol in symbols)
        return False

    def _resolve_patched(self, scope: Scope, call: ast.Call, names: set[str]) -> Iterator[Use]:
        """Strings that name a member of what comes before them: `patch.object(Account, "ask")`."""
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if called == "attrgetter" or called == "methodcaller":
            for argument in call.args:
                if isinstance(argument, ast.Constant) and argument.value in names:
                    yield from self._string(scope, argument, UNKNOWN, kind="member")
        if called not in PATCHERS or len(call.args) < 2:
            return
        owner, named = call.args[:2]
        if not isinstance(named, ast.Constant) or named.value not in names:
            return
        name = str(named.value)
        if isinstance(owner, ast.Constant) and isinstance(owner.value, str):
            target = self.find_dotted(f"{owner.value}.{name}")
            symbols: set[Symbol] | Unknown = {target[-1]} if target and target[-1] is not None else set()
        else:
            symbols = self.members(owner, name, scope)
        yield from self._string(scope, named, symbols, kind="member")

    def _resolve_typed_dicts(self, names: set[str]) -> Iterator[Use]:
        found = self.index.references
        for scope, node in found.subscripts:
            if isinstance(node.slice, ast.Constant) and node.slice.value in names:
                yield from self._key(scope, node.value, node.slice)
        for scope, call in found.calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr in ("get", "pop", "setdefault") and call.args:
                key = call.args[0]
                if isinstance(key, ast.Constant) and key.value in names:
                    yield from self._key(scope, call.func.value, key)
        for scope, test in found.tests:
            if isinstance(test.left, ast.Constant) and test.left.value in names:
                yield from self._key(scope, test.comparators[0], test.left)
        for scope, display in found.dicts:
            for entry in display.keys:
                if isinstance(entry, ast.Constant) and entry.value in names:
                    yield from self._key(scope, display, entry)

    def _key(self, scope: Scope, value: ast.expr, key: ast.Constant) -> Iterator[Use]:
        typed = self.oracle.typed_dict(self.oracle.type_at(scope.source, value.start, value.end))  # type: ignore[attr-defined]
        symbol = self.oracle.find_member(typed, str(key.value)) if typed is not None else None
        if symbol is not None:
            yield from self._string(scope, key, {symbol})

    def _resolve_pattern(self, scope: Scope, pattern: ast.MatchClass, names: set[str]) -> Iterator[Use]:
        for name, inner in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
            if name in names:
                before = scope.source.ascii[: inner.start]  # type: ignore[attr-defined]
                match = re.search(rf"\b({name})\s*=\s*\(*\s*$", before)
                if match is not None:
                    yield self._use(scope, match.start(1), name, self.members(pattern.cls, name, scope), "member")

    def find_dotted(self, dotted: str) -> list[Symbol | None] | None:
        """Return what each part of `package.module.Class.member` is called after; None for parts that are modules."""
        parts = dotted.split(".")
        length = next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in self.index.modules), 0)
        if not length:
            return None
        found: list[Symbol | None] = [None] * length
        target: Symbol | Module | None = Module(".".join(parts[:length]))
        for part in parts[length:]:
            if isinstance(target, Module):
                step: Symbol | Module | None = self.in_module(target.name, part)
            elif target is not None and ".".join(target) in self.index.classes:
                step = self.oracle.find_member(".".join(target), part)
            else:
                step = None
            found.append(step if isinstance(step, tuple) else None)
            target = self.follow(step)
        return found


def _class_around(scope: Scope) -> str | None:
    around: Scope | None = scope
    while around is not None and around.kind != "class":
        around = around.parent
    return around.qualname if around is not None else None
