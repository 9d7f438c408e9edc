"""Caches with a bound in bytes: what a question leaves in memory is forgotten again, however many are asked.

There is one kind of cache. Whatever grows with questions that cost nothing is kept in one; what grows with entries of
the ledger is the books, and paid for.
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
Made = TypeVar("Made")
Given = ParamSpec("Given")
OVERHEAD = 200
"""Bytes of an entry's place in the table."""
FIELDS = 128
"""Bytes of the table of an object's fields."""
ELSEWHERE = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Enum)
"""Never counted: they are there once, whatever is cached."""


class BoundedCache(Generic[Key, Value]):
    """The values used last that fit into `max_bytes`. Safe for many threads.

    A value that alone needs more than the bound is not kept. `size_of` says what a key and its value take.
    """

    def __init__(self, max_bytes: int, size_of: Callable[[Key, Value], int] | None = None) -> None:
        self.max_bytes, self._size_of = max_bytes, size_of or (lambda key, value: deep_size((key, value)))
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._access = threading.Lock()
        self.bytes = 0
        EVERY_CACHE.add(self)

    def get(self, key: Key) -> Value | None:
        """What is kept under the key, which is then the last one used."""
        found = self._kept.get(key)
        if found is None:
            return None
        try:
            self._kept.move_to_end(key)
        except KeyError:  # another thread has just dropped it
            return found[0]
        return found[0]

    def put(self, key: Key, value: Value) -> None:
        """Keeps a value, and drops those that were not used for longest."""
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
        """Keeps nothing."""
        with self._access:
            self._kept.clear()
            self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def _drop(self, key: Key) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self.bytes -= found[1]


EVERY_CACHE: WeakSet[BoundedCache[Any, Any]] = WeakSet()
"""Of this process, for whoever counts."""


def remembering(
    max_bytes: int, size_of: Callable[[Any, Any], int] | None = None, typed: bool = False
) -> Callable[[Callable[Given, Made]], Callable[Given, Made]]:
    """The same function, which remembers what it returned for the arguments used last, in at most so many bytes.

    `typed` tells 1 from True. What it raises is not remembered.
    """

    def wrapped(function: Callable[Given, Made]) -> Callable[Given, Made]:
        cache: BoundedCache[Any, tuple[Made]] = BoundedCache(max_bytes, size_of)

        @wraps(function)
        def remembered(*arguments: Given.args, **named: Given.kwargs) -> Made:
            key: tuple[Any, ...] = (*arguments, *map(type, arguments)) if typed else arguments
            if named:
                key = (*key, *named.items())
            found = cache.get(key)
            if found is None:
                found = (function(*arguments, **named),)
                cache.put(key, found)
            return found[0]

        remembered.cache = cache  # type: ignore[attr-defined]
        return remembered

    return wrapped


def deep_size(value: object, elsewhere: tuple[type, ...] = ()) -> int:
    """Bytes of a value and of all that it alone holds; `elsewhere` are types of parts that others hold anyway."""
    left_out = ELSEWHERE + elsewhere
    seen: set[int] = set()
    waiting = [value]
    total = 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, left_out):
            continue
        seen.add(id(each))
        total += max(sys.getsizeof(each), getattr(each, "nbytes", 0)) + (FIELDS if type(each).__dictoffset__ else 0)
        waiting += gc.get_referents(each)
    return total
