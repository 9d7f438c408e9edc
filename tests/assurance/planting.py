"""Planted bugs that are really planted: what they replace exists, and somebody calls them.

A bug under a name that the product no longer has, or that nobody calls, is neither caught nor missed: it is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar
from unittest.mock import patch

import noisebank

Function = TypeVar("Function", bound=Callable[..., Any])


class NotPlanted(AssertionError):
    """The bug replaces nothing, or nobody called it."""


def replaces(method: Function) -> Function:
    """Marks the methods of a bug that stand in for methods of the product; any other one is a helper of the bug's."""
    method.replaces = True  # type: ignore[attr-defined]
    return method


@contextmanager
def plant_bug(target: object, name: str, replacement: object, must_run: bool = True) -> Iterator[None]:
    """Puts a function, or an object with methods that are marked, in the place of `target.name` (a module by its name).

    `must_run=False` is for processes that are killed, or may have nothing to do.
    """
    owner = import_module(target) if isinstance(target, str) else target
    if not hasattr(owner, name):
        raise NotPlanted(f"{_called(owner)} has no {name} for a bug to replace")
    if _marked(type(replacement)):
        with watch_bug(type(replacement), getattr(owner, name), must_run), patch.object(owner, name, replacement):
            yield
        return
    if not callable(replacement):
        raise NotPlanted(f"{replacement!r} is no function and marks no method: nobody could say whether it ran")
    seen: set[str] = set()
    with patch.object(owner, name, _noting(replacement, name, seen)):
        yield
    if must_run and not seen:
        raise NotPlanted(f"nobody called the bug in the place of {_called(owner)}.{name}")


@contextmanager
def plant_class(instance: object, kind: type) -> Iterator[None]:
    """Turns an object of the product into one of a class with a bug."""
    before = type(instance)
    with watch_bug(kind):
        instance.__class__ = kind  # type: ignore[assignment]
        try:
            yield
        finally:
            instance.__class__ = before  # type: ignore[assignment]


@contextmanager
def watch_bug(kind: type, original: object = None, must_run: bool = True) -> Iterator[None]:
    """Every marked method of the class stands in for one that the product has, and each is called meanwhile.

    With an object in the place of an `original`, one call of one of them is enough: the product may need only some.
    """
    marked = _marked(kind)
    if not marked:
        raise NotPlanted(f"{kind.__name__} marks no method as one that it replaces")
    seen: set[str] = set()
    with ExitStack() as stack:
        for name, owner in marked:
            own = [base for base in kind.__mro__ if base.__module__.split(".")[0] == noisebank.__name__]
            if not (hasattr(original, name) if original is not None else any(name in vars(base) for base in own)):
                raise NotPlanted(f"{kind.__name__} replaces {name}, and the product has none")
            stack.enter_context(patch.object(owner, name, _noting(vars(owner)[name], name, seen)))
        yield
        idle = sorted({name for name, _ in marked} - seen)
        if must_run and idle and not (original is not None and seen):
            raise NotPlanted(f"nobody called {', '.join(idle)} of {kind.__name__}")


def in_place_of(module: str, name: str) -> Callable[[Function], Function]:
    """Marks a function that is a bug, with what it stands in for: see `plant_part`."""

    def mark(function: Function) -> Function:
        function.place = module, name  # type: ignore[attr-defined]
        return function

    return mark


@contextmanager
def plant_part(bug: Any) -> Iterator[None]:
    """Plants a marked function, or a class with marked methods in the place of the strategy of its base, for every
    account that is opened meanwhile. A class of account is only watched: whoever opens accounts makes them of it."""
    if not isinstance(bug, type):
        with plant_bug(*bug.place, bug):
            yield
        return
    with ExitStack() as stack:
        stack.enter_context(watch_bug(bug))
        for name in ("PlainStrategy", "CubeStrategy"):
            if name in {base.__name__ for base in bug.__mro__}:
                stack.enter_context(patch.object(import_module("noisebank.account.account"), name, bug))
        yield


def _marked(kind: type) -> list[tuple[str, type]]:
    """Marked methods, each with the class that has it; of one that is overridden, the last."""
    found: dict[str, type] = {}
    for owner in kind.__mro__:
        for name, value in vars(owner).items():
            if getattr(value, "replaces", False):
                found.setdefault(name, owner)
    return list(found.items())


def _noting(function: Callable[..., Any], name: str, seen: set[str]) -> Callable[..., Any]:
    @wraps(function)  # with its mark
    def noted(*arguments: Any, **named: Any) -> Any:
        seen.add(name)
        return function(*arguments, **named)

    return noted


def _called(owner: object) -> str:
    return getattr(owner, "__name__", type(owner).__name__)
