"""Errors reach whoever waits for them: they survive pickling, and each reports itself under a name of its own."""

from __future__ import annotations

import inspect
import pickle
import pkgutil
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import pytest

import noisebank
from noisebank.core.errors import BadPolicy, BadRequest, BudgetExhausted, Mistake, NoisebankError, kind_of
from noisebank.core.units import Precision

OPTIONAL = ("flower_server", "torch_network", "__main__")
GIVEN: dict[str, Any] = {
    "mistakes": (Mistake(3, "columns.age", "has no bounds", "say bounds = [0, 120]"),), "origin": "people.toml",
    "clause": "HAVING", "advice": "filter afterwards", "parameter": "epsilon", "got": 7, "allowed": "must be small",
    "cost": Precision(5), "unit": "epsilon", "left": Precision(4), "budget": Precision(9),
    "limit": Precision(3), "used": Precision(2), "most": 10, "drawn": 11,
    "key": "monday", "reason": "E7", "detail": "no key", "problem": "not-signed-in", "status": 401, "what": "broken",
    "block": 9, "name": "not-found", "retry_after": 2.5, "purpose": "this", "package": "duckdb", "extra": "bank",
}  # fmt: skip


def every_error() -> list[type[NoisebankError]]:
    """The whole tree, also what is defined outside of core/errors.py."""
    for module in pkgutil.walk_packages(noisebank.__path__, "noisebank."):
        if not module.name.endswith(OPTIONAL):
            import_module(module.name)
    found, todo = [], [NoisebankError]
    while todo:
        found.append(todo.pop())
        todo += [kind for kind in found[-1].__subclasses__() if kind.__module__.startswith("noisebank")]
    return sorted(found, key=lambda kind: (kind.__module__, kind.__name__))


def made(kind: type[NoisebankError]) -> NoisebankError:
    """One of the kind, with every field set."""
    if kind.__init__ is Exception.__init__:
        return kind("something happened")
    names = list(inspect.signature(kind.__init__).parameters)[1:]
    return kind(**{name: GIVEN[name] for name in names})


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_an_error_survives_pickling(kind: type[NoisebankError]) -> None:
    error = made(kind)
    error.add_note("seen by a test")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind and str(back) == str(error) and back.args == error.args
    assert vars(back) == vars(error) and back.__notes__ == ["seen by a test"]


def test_every_error_names_itself() -> None:
    """A subclass that forgot its own `kind` would be reported under its parent's."""
    assert [kind for kind in every_error() if "kind" not in vars(kind)] == []
    assert kind_of(BadRequest("a", 1, "must be 2")) == "BadRequest" and kind_of(KeyError()) == "KeyError"


def raise_error(error: NoisebankError) -> None:
    raise error


def test_a_process_pool_hands_errors_over() -> None:
    """Before, the pool broke: its reader could not make the error again from its message alone."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for kind in (BudgetExhausted, BadPolicy, BadRequest):
            with pytest.raises(kind) as caught:
                pool.submit(raise_error, made(kind)).result()
            assert str(caught.value) == str(made(kind)) and vars(caught.value).keys() >= vars(made(kind)).keys()


@pytest.mark.parametrize(("count", "text"), [(1, "has 1 mistake:"), (2, "has 2 mistakes:")])
def test_mistakes_are_counted_and_listed_line_by_line(count: int, text: str) -> None:
    first, *rest = str(BadPolicy(GIVEN["mistakes"] * count, "people.toml")).splitlines()
    assert first == f"people.toml {text}"
    assert rest == ["  line 3: columns.age: has no bounds; say bounds = [0, 120]"] * count
