"""Advice on cubes: which one answers a question, or why none does; which ones would have answered past questions."""

from __future__ import annotations

from collections import Counter
from math import prod

from noisebank.account.account import Account
from noisebank.core.errors import NoisebankError
from noisebank.policy.model import MAX_CELLS
from noisebank.queries.cells import Cube, NotCellAligned
from noisebank.queries.computed import is_computed
from noisebank.queries.query import Function, Query


def explain_cube(account: Account, query: Query) -> str:
    """Returns a sentence that says which cube answers a query, or why none does."""
    cube_query = account.cubes.find_cube_query(query)
    if cube_query is not None:
        over, cells = ", ".join(cube_query.cube.columns), cube_query.cube.cell_count
        return f"the cube over {over} ({cells} cells): charged by cells, inferred from all answers there"
    if len(query.parts) > 1 or query.parts[0].function is Function.SQUARES:
        return "plain reuse: cubes hold counts, and sums of one column"
    names = needed_columns(query)
    if not names:
        return (
            "plain reuse: it is about everybody, and the policy has no cube"
            if not account.policy.cubes
            else ("plain reuse: this account's cubes are not declared on the ledger")
        )
    if any(is_computed(name) for name in query.column_names()):
        return "plain reuse: no cube has what it computes from single rows"
    without = [name for name in names if not account.policy.columns[name].piece_count]
    if without:
        return f"plain reuse: {', '.join(without)} has no keys or bins, so no cube can have it"
    if prod(account.policy.columns[name].piece_count for name in names) > MAX_CELLS:
        return f"plain reuse: a cube over {', '.join(names)} would have more than {MAX_CELLS} cells"
    if not _has_whole_cells(account, query, names):
        return f"plain reuse: its condition cuts through a bin of {', '.join(names)}"
    return f"plain reuse: no cube has {', '.join(names)}; cubes = [{list(names)}] in the policy would serve it"


def needed_columns(query: Query) -> tuple[str, ...]:
    """Returns the columns that a cube must have to answer a query."""
    return tuple(sorted(set(query.by).union(*(p.column_names() for part in query.parts for _, p in part.weights))))


def suggest_cubes(account: Account, max_count: int = 3) -> list[tuple[tuple[str, ...], int, int]]:
    """Returns cubes that would have answered questions of plain reuse: columns, cells, number of questions; best first.

    Reads the questions only, never an answer or the table.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    for reservation in account.ledger.list_reservations(account.id):
        request = account.vault.find_request(reservation.id)
        if request is None or reservation.cube or reservation.version != account.secrets.version:
            continue
        try:
            query = account.context.question_of(request).query
        except NoisebankError:
            continue
        names = needed_columns(query)
        simple = len(query.parts) == 1 and query.parts[0].function is not Function.SQUARES
        computed = any(is_computed(name) for name in query.column_names())
        if names and simple and not computed and account.cubes.find_cube_query(query) is None:
            pieces = [account.policy.columns[name].piece_count for name in names]
            if 0 < prod(pieces) <= MAX_CELLS and _has_whole_cells(account, query, names):
                counts[names] += 1
    best = counts.most_common(max_count)
    return [(names, prod(account.policy.columns[name].piece_count for name in names), count) for names, count in best]


def _has_whole_cells(account: Account, query: Query, names: tuple[str, ...]) -> bool:
    cube = Cube.for_columns(names, account.policy.columns)
    try:
        for part in query.parts:
            for _, predicate in part.weights:
                cube.cell_mask(predicate)
    except NotCellAligned:
        return False
    return True
