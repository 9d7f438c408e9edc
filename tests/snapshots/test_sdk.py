"""`import noisebank`: names, and the public members of classes with their signatures as written."""

from __future__ import annotations

import inspect
import re
from typing import Any

import noisebank
from snapshots.comparing import hold_json

CLIENTS = ("connect", "connect_async")


def signed(function: Any) -> str:
    """Its signature as written; a default that is a function has no address."""
    return re.sub(r"<function .*? at 0x[0-9a-f]+>", "a function", str(inspect.signature(function)))


def members_of(kind: type) -> dict[str, str]:
    """Public methods, properties and annotated fields of a class of ours and of its parents."""
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        if owner.__module__.partition(".")[0] != "noisebank":
            continue
        for name, note in vars(owner).get("__annotations__", {}).items():
            if not name.startswith("_"):
                found[name] = f"field: {note}"
        for name, value in vars(owner).items():
            if name.startswith("_") or (name in found and inspect.ismemberdescriptor(value)):
                continue
            if isinstance(value, property):
                found[name] = f"property -> {inspect.signature(value.fget).return_annotation}"
            elif isinstance(value, classmethod | staticmethod):
                found[name] = f"{type(value).__name__} {signed(value.__func__)}"
            elif inspect.isfunction(value):
                found[name] = f"method {signed(value)}"
            elif name not in found:
                found[name] = "value"
    return dict(sorted(found.items()))


def reached_from(kind: type, known: dict[str, type]) -> None:
    """Classes of the SDK that a class names in its annotations, where they are at hand in its module."""
    known[kind.__name__] = kind
    words = {
        word
        for note in members_of(kind).values()
        for word in "".join(c if c.isidentifier() else " " for c in note).split()
    }
    module: Any = inspect.getmodule(kind)
    for word in sorted(words):
        part = getattr(module, word, None)
        if (
            inspect.isclass(part)
            and part.__module__.startswith(module.__name__.rpartition(".")[0])
            and word not in known
        ):
            reached_from(part, known)


def test_public_names_and_signatures() -> None:
    seen: dict[str, Any] = {"__all__": noisebank.__all__, "__version__": noisebank.__version__}
    clients: dict[str, type] = {}
    for name in noisebank.__all__:
        value = getattr(noisebank, name)
        seen[name] = members_of(value) if inspect.isclass(value) else signed(value)
        if inspect.isclass(value) and not issubclass(value, Exception):
            seen[f"{name}()"] = signed(value)
        if name in CLIENTS:
            returned = inspect.signature(value).return_annotation
            reached_from(getattr(inspect.getmodule(value), returned), clients)
    seen["clients"] = {name: members_of(kind) for name, kind in sorted(clients.items())}
    assert len(clients) >= 5, sorted(clients)
    hold_json("sdk.json", seen)


def test_tree_of_errors() -> None:
    """Names and parents of the errors that callers catch, and under which name each is reported."""

    def tree_of(kind: Any) -> Any:
        children = sorted(kind.__subclasses__(), key=lambda child: child.__name__)
        return {
            f"{child.__name__}, reported as {child.kind}": tree_of(child)
            for child in children
            if child.__module__ == kind.__module__
        }

    hold_json("errors.json", {noisebank.NoisebankError.__name__: tree_of(noisebank.NoisebankError)})
