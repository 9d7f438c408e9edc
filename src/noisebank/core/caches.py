"""`BoundedCache`: a least-recently-used cache with a bound in bytes, and `cache_results`, a decorator that uses it.

Whatever grows with free requests (quotes, parsed queries) must be in one, so that nobody can fill the memory for
nothing. The books grow as well, but with entries of the ledger, which are paid for.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from enum import Enum
from functools import wraps
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakSet

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")
ENTRY_BYTES = 200
"""Bytes of an entry in the cache's own table."""
FIELD_TABLE_BYTES = 128
"""Bytes of the dictionary of an object's fields."""
UNCOUNTED_TYPES = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Enum)
"""Types whose objects are not counted: they exist once, whatever is cached."""


class BoundedCache(Generic[Key, Value]):
    """Keeps the most recently used values that fit into `max_bytes`. Thread-safe.

    A value that alone exceeds the bound is not kept. `size_of` returns the bytes of a key and its value.
    """

    def __init__(self, max_bytes: int, size_of: Callable[[Key, Value], int] | None = None) -> None:
        self.max_bytes, self._size_of = max_bytes, size_of or (lambda key, value: deep_size((key, value)))
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.used_bytes = 0
        ALL_CACHES.add(self)

    def get(self, key: Key) -> Value | None:
        """Returns the value of a key, and marks it as used; None if it is not cached."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        try:
            self._entries.move_to_end(key)
        except KeyError:  # another thread has just dropped it
            return entry[0]
        return entry[0]

    def put(self, key: Key, value: Value) -> None:
        """Caches a value, and drops the least recently used ones beyond the bound."""
        size = ENTRY_BYTES + self._size_of(key, value)
        with self._lock:
            self._drop(key)
            if size > self.max_bytes:
                return
            self._entries[key] = value, size
            self.used_bytes += size
            while self.used_bytes > self.max_bytes:
                self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        """Drops all values."""
        with self._lock:
            self._entries.clear()
            self.used_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.used_bytes -= entry[1]


ALL_CACHES: WeakSet[BoundedCache[Any, Any]] = WeakSet()
"""All caches of this process, for measurements of memory."""


def cache_results(
    max_bytes: int,
    size_of: Callable[[Any, Any], int] | None = None,
    typed: bool = False,
    key_of: Callable[..., Hashable] | None = None,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Returns a decorator that caches a function's results for the arguments used last, in at most `max_bytes`.

    `typed` distinguishes 1 from True. `key_of` returns what stands for the arguments, if that is smaller than they
    are. Exceptions are not cached.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        cache: BoundedCache[Any, tuple[Result]] = BoundedCache(max_bytes, size_of)

        @wraps(function)
        def cached_function(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
            key: Hashable = (*arguments, *keywords.items()) if key_of is None else key_of(*arguments, **keywords)
            if typed:
                key = (key, *map(type, arguments))
            entry = cache.get(key)
            if entry is None:
                entry = (function(*arguments, **keywords),)
                cache.put(key, entry)
            return entry[0]

        cached_function.cache = cache  # type: ignore[attr-defined]
        return cached_function

    return decorate


def deep_size(value: object, excluded: tuple[type, ...] = ()) -> int:
    """Returns the bytes of a value and of all that it refers to, without objects of the types in `excluded`, which
    others hold anyway."""
    extra_bytes = EXTRA_BYTES.setdefault(excluded, {})
    seen: set[int] = set()
    waiting: list[object] = [value]
    total = 0
    while waiting:
        counted: list[object] = []
        for part in waiting:
            if id(part) in seen:
                continue
            seen.add(id(part))
            kind = type(part)
            extra = extra_bytes.get(kind)
            if extra is None:
                extra = extra_bytes[kind] = _extra_bytes(kind, UNCOUNTED_TYPES + excluded)
            if extra >= 0:
                counted.append(part)
                total += sys.getsizeof(part) + extra
                if extra == 0 and kind.__module__ == "numpy":
                    total += max(0, getattr(part, "nbytes", 0) - sys.getsizeof(part))  # a view holds more than itself
        waiting = gc.get_referents(*counted)
    return total


EXTRA_BYTES: dict[tuple[type, ...], dict[type, int]] = {}
"""By the types that are excluded: what `_extra_bytes` says of types seen so far. As many as the program has."""


def _extra_bytes(kind: type, uncounted: tuple[type, ...]) -> int:
    """Returns the bytes that an object of a type has besides its own size; -1 if it is not counted."""
    if issubclass(kind, uncounted):
        return -1
    return FIELD_TABLE_BYTES if kind.__dictoffset__ else 0
