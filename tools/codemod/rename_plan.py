"""Plans of renames: what their keys stand for, which definitions have to follow, and which renames cannot be done."""

from __future__ import annotations

import ast
import keyword
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from name_resolver import Resolver
from source_index import Function, Index, Module, Scope, Symbol
from type_oracle import Oracle

READS_NAMES = re.compile(r"^(click\.)|\.(get|post|put|patch|delete|websocket|command|option|argument)\(")


@dataclass(eq=False)
class Rename:
    """One new name, for a key of a plan and for everything that has to follow it."""

    key: str
    new: str
    symbols: set[Symbol] = field(default_factory=set)


@dataclass
class Log:
    """What was done and what was not; one line per entry."""

    sections: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, section: str, line: str) -> None:
        """Note a line, once."""
        if line not in self.sections[section]:
            self.sections[section].append(line)


def read_plans(paths: Iterable[Path], moves: Iterable[Path], log: Log) -> dict[str, str]:
    """Return old -> new names of all plans, with the names that modules have after the moves."""
    names: dict[str, str] = {}
    steps = [tomllib.loads(path.read_text()).get("modules", {}) for path in moves]
    for path in paths:
        for key, new in tomllib.loads(path.read_text()).get("names", {}).items():
            old = re.split(r"[.(]", key.rstrip(")"))[-1]
            moved = key
            for step in steps:
                moved = _move(moved, step)
            if names.setdefault(moved, new) != new:
                log.add("conflicts", f"{key}: {names[moved]} in one plan, {new} in {path.name}")
            if old == new:
                del names[moved]
    return names


def _move(key: str, modules: dict[str, str]) -> str:
    for old in sorted(modules, key=len, reverse=True):
        if key.startswith(old + "."):
            return modules[old] + key[len(old) :]
    return key


class Planner:
    """Turns keys into symbols and keeps the renames that can be done."""

    def __init__(self, index: Index, oracle: Oracle, resolver: Resolver, log: Log) -> None:
        self.index = index
        self.oracle = oracle
        self.resolver = resolver
        self.log = log
        self.renames: dict[Symbol, Rename] = {}

    def new_name(self, symbol: Symbol | Module | None, name: str) -> str:
        """Return what something that is called `name` will be called."""
        rename = self.renames.get(symbol) if isinstance(symbol, tuple) else None
        return rename.new if rename is not None else name

    # Keys ------------------------------------------------------------------------------------------------------------

    def plan(self, names: dict[str, str], applied: dict[str, str]) -> None:
        """Find what the keys name and what follows from them; drop what cannot be done."""
        for key, new in names.items():
            symbol = self._find(key, applied)
            if symbol is None:
                self.log.add("names nothing", f"{key} -> {new}")
            elif not new.isidentifier() or keyword.iskeyword(new):
                self.log.add("conflicts", f"{key} -> {new}: not a name")
            elif reason := self._outsiders(symbol):
                self.log.add("conflicts", f"{key} -> {new}: {reason}")
            else:
                self.renames[symbol] = Rename(key, new, {symbol})
        self._add_families()
        self._add_implementations()
        self._add_parameters()
        self._drop_conflicts()

    def _find(self, key: str, applied: dict[str, str]) -> Symbol | None:
        """Return the symbol of a key; owners may have got new names by the plans that were applied before."""
        match = re.fullmatch(r"([\w.]+)\.(\w+)(?:\((\w+)\))?", key)
        if match is None:
            return None
        owner, name, param = match.groups()
        if param is not None:
            owner, name = f"{owner}.{name}", param
        for place in dict.fromkeys([self._after(owner, applied), owner]):
            if param is not None and place in self.index.classes:
                for base, members, ours in self.oracle.bases(place):
                    if f"{base}.__init__" in self.index.functions:
                        place = f"{base}.__init__"
                        break
                    if ours and param in members:
                        return base, param
            if param is not None:
                functions = self.index.functions.get(place, ())
                if any(param in function.params or _is_rest(function.node, param) for function in functions):
                    return place, param
            elif place in self.index.classes:
                members = next((own for base, own, _ in self.oracle.bases(place) if base == place), set())
                if name in members:
                    return place, name
            elif any(name in scope.bindings for scope in self.index.scopes.get(place, ())):
                symbol = self.resolver.canonical(self.index.scopes[place][0], name)
                if symbol == (place, name):
                    return place, name
        return None

    def _after(self, owner: str, applied: dict[str, str]) -> str:
        parts = owner.split(".")
        renamed = [applied.get(".".join(parts[: n + 1]), part) for n, part in enumerate(parts)]
        return ".".join(renamed)

    def _outsiders(self, symbol: Symbol) -> str | None:
        """Return why outsiders rely on a name, if they do."""
        owner, name = symbol
        for function in self.index.functions.get(owner, ()):
            for decorator in function.node.decorator_list:
                reads = READS_NAMES.search(ast.unparse(decorator)) and name in function.params
                if reads and not self._is_body(function, name):
                    return f"a framework reads the parameters of {owner}"
        for base, members, ours in self.oracle.bases(owner) if owner in self.index.classes else ():
            if base == "pydantic.main.BaseModel" and f"{owner}.{name}" not in self.index.functions:
                return "a field of a pydantic model"
            if not ours and name in members:
                return f"it overrides {base}.{name}"
        if name.startswith("__") and name.endswith("__"):
            return "a special name"
        return None

    def _is_body(self, function: Function, name: str) -> bool:
        """Whether a parameter of a route is the body of the request: its name is not seen outside."""
        models = []
        for param in [*function.node.args.args, *function.node.args.kwonlyargs]:
            cls = self.resolver.class_of(param.annotation, function.outer) if param.annotation is not None else None
            if cls is not None and "pydantic.main.BaseModel" in self._base_names(cls):
                models.append(param.arg)
        return models == [name]

    # What follows ----------------------------------------------------------------------------------------------------

    def _add_families(self) -> None:
        """Members of the same name in classes that are bases of one another, or of a common class, go together."""
        names = {name for owner, name in self.renames if owner in self.index.classes}
        parents: dict[Symbol, Symbol] = {}

        def root(symbol: Symbol) -> Symbol:
            while parents.setdefault(symbol, symbol) != symbol:
                symbol = parents[symbol]
            return symbol

        for cls in self.oracle.infos:
            for name in names:
                owners = [(base, name) for base, members, ours in self.oracle.bases(cls) if ours and name in members]
                for owner in owners[1:]:
                    parents[root(owner)] = root(owners[0])
                if owners:
                    root(owners[0])
        families: dict[Symbol, set[Symbol]] = defaultdict(set)
        for symbol in list(parents):
            families[root(symbol)].add(symbol)
        for family in families.values():
            planned = {symbol for symbol in family if symbol in self.renames}
            if planned and len(family) > 1:
                self._join(family, planned)

    def _join(self, family: set[Symbol], planned: set[Symbol]) -> None:
        renames = [self.renames[symbol] for symbol in sorted(planned)]
        if len({rename.new for rename in renames}) > 1:
            described = ", ".join(f"{rename.key} -> {rename.new}" for rename in renames)
            return self._drop(planned, f"one family, several new names: {described}")
        for symbol in sorted(family - planned):
            above = [one for one in planned if symbol[0] in self._base_names(one[0])]
            below = [one for one in planned if one[0] in self._base_names(symbol[0])]
            if above and not below:
                return self._drop(planned, f"overrides {'.'.join(symbol)}, which is in no plan")
        joined = Rename(" + ".join(rename.key for rename in renames), renames[0].new, set(family))
        for symbol in sorted(family):
            if symbol not in planned:
                self.log.add("implied", f"{'.'.join(symbol)} -> {joined.new} (follows {renames[0].key})")
            self.renames[symbol] = joined
        return None

    def _base_names(self, cls: str) -> list[str]:
        return [base for base, _, _ in self.oracle.bases(cls)]

    def _protocols(self) -> Iterator[tuple[str, str, bool]]:
        """Yield protocols with renamed members or parameters, and the classes that implement them."""
        owners = {owner for owner, _ in self.renames} | {owner.rpartition(".")[0] for owner, _ in self.renames}
        for owner in sorted(owners & self.oracle.infos.keys()):
            if self.oracle.infos[owner].is_protocol:
                for cls, compared in self.oracle.implementations(owner):
                    yield owner, cls, compared

    def _add_implementations(self) -> None:
        """Classes of tests that implement a protocol follow it; of other classes there is a warning."""
        for protocol, cls, compared in list(self._protocols()):
            members = [name for owner, name in self.renames if owner == protocol]
            for name in members:
                symbol = self.oracle.find_member(cls, name)
                rename = self.renames[protocol, name]
                if symbol is None or symbol in rename.symbols or symbol[0] not in self.index.classes:
                    continue
                other = self.renames.get(symbol)
                if other is not None:
                    if other.new != rename.new:
                        parted = f"{'.'.join(symbol)} -> {other.new}, but {protocol}.{name} -> {rename.new}"
                        self.log.add("warnings", parted)
                    continue
                is_test = self.index.scopes[symbol[0]][0].source.is_test
                alone = len(self.oracle.infos[protocol].protocol_members) == 1
                if is_test and (compared or not alone):
                    rename.symbols.add(symbol)
                    self.renames[symbol] = rename
                    self.log.add("implied", f"{'.'.join(symbol)} -> {rename.new} (implements {protocol})")
                elif compared:
                    self.log.add("warnings", f"{'.'.join(symbol)} implements {protocol}.{name}, and is in no plan")

    def _add_parameters(self) -> None:
        """Parameters of overriding and implementing methods go with those of the method that they stand for."""
        pairs = [(base, cls) for cls in self.oracle.infos for base in self._base_names(cls)[1:]]
        pairs += [(protocol, cls) for protocol, cls, _ in self._protocols()]
        below = defaultdict(set)
        for base, cls in pairs:
            below[base].add(cls)
        for (function, param), rename in list(self.renames.items()):
            base, _, method = function.rpartition(".")
            if function not in self.index.functions or base not in self.index.classes or method == "__init__":
                continue
            for cls in sorted(below[base]):
                other = f"{cls}.{method}", param
                if other in self.renames or other[0] not in self.index.functions:
                    continue
                if any(param in definition.params for definition in self.index.functions[other[0]]):
                    rename.symbols.add(other)
                    self.renames[other] = rename
                    self.log.add("implied", f"{other[0]}({param}) -> {rename.new} (follows {rename.key})")

    # Conflicts -------------------------------------------------------------------------------------------------------

    def _drop(self, symbols: Iterable[Symbol], reason: str) -> None:
        for symbol in list(symbols):
            rename = self.renames.get(symbol)
            if rename is not None:
                self.log.add("conflicts", f"{rename.key} -> {rename.new}: {reason}")
                for one in rename.symbols:
                    self.renames.pop(one, None)

    def _drop_conflicts(self) -> None:
        """Drop renames to names that are taken, until none is left."""
        old = {name for _, name in self.renames}
        new = {rename.new for rename in self.renames.values()}
        names = [one for one in self.index.references.names if one[1] in old or one[1] in new]
        while True:
            before = len(self.renames)
            self._check_classes()
            finals = self._check_scopes()
            self._check_uses(names, finals)
            if len(self.renames) == before:
                return

    def _check_classes(self) -> None:
        """A class must not get two members of one name, whether its own or inherited."""
        for cls in self.oracle.infos:
            taken: dict[str, tuple[str, Symbol]] = {}
            for base, members, _ in self.oracle.bases(cls):
                for name in members:
                    new = self.new_name((base, name), name)
                    other = taken.setdefault(new, (name, (base, name)))
                    if other[0] != name:
                        culprit = (base, name) if (base, name) in self.renames else other[1]
                        third = other[1] if culprit != other[1] else (base, name)
                        self._drop([culprit], f"{cls} has {'.'.join(third)}")

    def _check_scopes(self) -> dict[Scope, dict[str, Symbol | Module]]:
        """No scope may bind one name for two things; return what each will bind."""
        finals: dict[Scope, dict[str, Symbol | Module]] = {}
        for scopes in self.index.scopes.values():
            for scope in scopes:
                final = finals[scope] = {}
                for name in scope.bindings:
                    symbol = self.resolver.canonical(scope, name)
                    new = self.new_name(symbol, name)
                    other = final.setdefault(new, symbol)
                    if other != symbol:
                        culprit = symbol if symbol in self.renames else other
                        if isinstance(culprit, tuple):
                            self._drop([culprit], f"{scope.qualname} has {new} already")
        return finals

    def _check_uses(self, names: list[tuple[Scope, str, int]], finals: dict[Scope, dict[str, Symbol | Module]]) -> None:
        """Every use must find the same thing under the new names as under the old ones."""
        for scope, name, start in names:
            binder = scope.find(name)
            symbol = self.resolver.canonical(binder, name) if binder is not None else None
            new = self.new_name(symbol, name)
            hit = next((finals[one][new] for one in scope.chain(name) if new in finals.get(one, ())), None)
            if hit == symbol:
                continue
            culprits = [one for one in (symbol, hit) if isinstance(one, tuple) and one in self.renames]
            inner = [one for one in culprits if one[0] in self.index.functions]
            if culprits:
                where = f"{scope.source.path.name}:{scope.source.line_of(start)}"
                self._drop((inner or culprits)[:1], f"{new} means something else at {where} ({scope.qualname})")


def _is_rest(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    return name in [param.arg for param in (node.args.vararg, node.args.kwarg) if param is not None]
