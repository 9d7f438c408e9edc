"""Vyper's optimizer, made to forget less: less than half the time for the same bytecode.

Vyper 0.4.3 optimizes a subtree again for each of its ancestors. One that came back unchanged under the same kind of
parent comes back unchanged again, so it is not walked a second time. `contract.mutants`, which compiles hundreds of
contracts, checks on the contract as it is that the bytecode is the artefact's.
"""

from __future__ import annotations

from typing import Any

from vyper.ir import optimizer

_walk = optimizer._optimize
_settled: dict[tuple[int, object, int], tuple[Any, list[Any], object]] = {}
"""By node and kind of parent: the node itself (so that no other can get its identity), its arguments and its value,
which must still be the same."""


def _optimize(node: Any, parent: Any) -> tuple[bool, Any]:
    place = (id(node), None, 0) if parent is None else (id(node), parent.value, len(parent.args))
    kept = _settled.get(place)
    if kept is not None and kept[2] == node.value and _same(kept[1], node.args):
        return False, node
    changed, made = _walk(node, parent)
    if not changed and made is node:
        _settled[place] = node, list(node.args), node.value
    return changed, made


def _same(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def hurry() -> None:
    """From now on, in this process."""
    optimizer._optimize = _optimize
