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
OVERHEAD = 200
"""Bytes of an entry in the cache's own table."""
FIELDS = 128
"""Bytes of the dictionary of an object's fields."""
ELSEWHERE = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Enum)
"""Types whose objects are not counted: they exist once, whatever is cached."""


class BoundedCache(Generic[Key, Value]):
    """Keeps the most recently used values that fit into `max_bytes`. Thread-safe.

    A value that alone exceeds the bound is not kept. `size_of` returns the bytes of a key and its value.
    """

    def __init__(self, max_bytes: int, size_of: Callable[[Key, Value], int] | None = None) -> None:
        self.max_bytes, self._size_of = max_bytes, size_of or (lambda key, value: deep_size((key, value)))
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._access = threading.Lock()
        self.bytes = 0
        EVERY_CACHE.add(self)

    def get(self, key: Key) -> Value | None:
        """Returns the value of a key, and marks it as used; None if it is not cached."""
        entry = self._kept.get(key)
        if entry is None:
            return None
        try:
            self._kept.move_to_end(key)
        except KeyError:  # another thread has just dropped it
            return entry[0]
        return entry[0]

    def put(self, key: Key, value: Value) -> None:
        """Caches a value, and drops the least recently used ones beyond the bound."""
        size = OVERHEAD + self._size_of(key, value)
        with self._access:
            self._drop(key)
            if size > self.max_bytes:
                return
            self._kept[key] = value, size
            self.bytes += size
            while self.bytes > self.max_bytes:
                self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Drops all values."""
        with self._access:
            self._kept.clear()
            self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def _drop(self, key: Key) -> None:
        entry = self._kept.pop(key, None)
        if entry is not None:
            self.bytes -= entry[1]


EVERY_CACHE: WeakSet[BoundedCache[Any, Any]] = WeakSet()
"""All caches of this process, for measurements of memory."""


def remembering(
    max_bytes: int, size_of: Callable[[Any, Any], int] | None = None, typed: bool = False
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Returns a decorator that caches a function's results for the arguments used last, in at most `max_bytes`.

    `typed` distinguishes 1 from True. Exceptions are not cached.
    """

    def wrapped(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        cache: BoundedCache[Any, tuple[Result]] = BoundedCache(max_bytes, size_of)

        @wraps(function)
        def remembered(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
            key: tuple[Any, ...] = (*arguments, *map(type, arguments)) if typed else arguments
            if keywords:
                key = (*key, *keywords.items())
            entry = cache.get(key)
            if entry is None:
                entry = (function(*arguments, **keywords),)
                cache.put(key, entry)
            return entry[0]

        remembered.cache = cache  # type: ignore[attr-defined]
        return remembered

    return wrapped


def deep_size(value: object, elsewhere: tuple[type, ...] = ()) -> int:
    """Returns the bytes of a value and of all that it refers to, without objects of the types in `excluded`, which
    others hold anyway."""
    uncounted = ELSEWHERE + elsewhere
    seen: set[int] = set()
    waiting = [value]
    total = 0
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, uncounted):
            continue
        seen.add(id(part))
        total += max(sys.getsizeof(part), getattr(part, "nbytes", 0)) + (FIELDS if type(part).__dictoffset__ else 0)
        waiting += gc.get_referents(part)
    return total
