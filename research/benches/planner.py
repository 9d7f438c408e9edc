"""How far a budget goes: prices of pools of questions beside the optimum, of ranges and prefixes beside other
mechanisms; whether anything is dearer than plain; memory and time of the planner.

Prices are in prices of a single question at the target accuracy. Questions come in random order; a pool is charged
as the contract charges (16 runs of cells a measurement), and with 64 runs.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebank.core.entropy import simulation_rng
from noisebank.core.errors import BadRequest
from noisebank.core.units import UNITS_PER_PRECISION, Precision
from noisebank.planning.linear import LinearQuery, query_from_weights, range_query
from noisebank.planning.strategies.axes import Axis, SquareRootRows, price_of
from noisebank.planning.strategies.kronecker import find_strategy
from research.benches.histories import Desk, Fairness, play
from research.benches.planner_bank import measure_bank, resident_mb
from research.benches.planner_coverage import cover_banks
from research.benches.planner_values import price_values
from research.benches.trees import bound_of_prefixes, bound_of_ranges, tree_prices

MAX_POOL_CELLS, MAX_POOL_QUESTIONS, MAX_REPLACED_CELLS = 1024, 30_000, 72
"""Larger pools take too long to ask, to list, and where one person takes another's place."""
POOLS = ("2x3x5", "3x4x6", "2x3x4x5", "5x5x5")
ONE = Precision(UNITS_PER_PRECISION)
Moved = Callable[[int, int], None]


def bench_planner(
    pool: str | None = None, quick: bool = False, moved: Moved = lambda done, total: None, parts: Sequence[str] = ()
) -> dict[str, Any]:
    """All figures, or those of some parts; `pool` names one pool to run, instead of all."""
    names = POOLS[: 2 if quick else None] if pool is None else ("x".join(map(str, parse_pool(pool))),)
    sizes = (1024,) if quick else (512, 1000, 1024, 2048, 4096)
    found: dict[str, Any] = {"unit": "pools: times the optimum; the optimum: prices of one question"}
    work: dict[str, Callable[[], dict[str, Any]]] = {
        "pools": lambda: {"pools": {name: price_pool(parse_pool(name), 2 if quick else 5) for name in names}},
        "values": lambda: {"values": price_values(1 if quick else 3)},
        "histories": lambda: judge_fairness(10 if quick else 60),
        "ranges": lambda: {
            "ranges": {
                **{str(size): price_ranges(size, prefixes=False) for size in sizes},
                "answered_of_2000": answer_ranges(1024, 2000),
            },
            "prefixes": {str(size): price_ranges(size, prefixes=True) for size in sizes},
        },
        "time": lambda: {"cpu_ms": {str(size): time_free_answers(size) for size in (1024, 4096, 65_536)}},
        "memory": lambda: {"memory_mb": measure_memory(4096, 5_000 if quick else 100_000)},
        "bank": lambda: {"bank": measure_bank(quick)},
        "coverage": lambda: {"coverage": cover_banks(3, 2) if quick else cover_banks(60)},
    }
    chosen = parts or tuple(work)
    for number, part in enumerate(chosen, 1):
        found |= work[part]()
        moved(number, len(chosen))
    return found


def judge_fairness(count: int) -> dict[str, Any]:
    """Whether anything was dearer than plain, in random histories and adversarial orders."""
    fairness = judge_histories(count)
    histories = {
        "requests": fairness.requests,
        "dearer_than_plain": fairness.dearer_than_plain,
        "below_the_loss": fairness.below_the_loss,
        "worst_total_over_plain": round(fairness.worst_total, 3),
    }
    return {"never_dearer_than_plain": fairness.is_fair, "histories": histories}


def parse_pool(text: str) -> tuple[int, ...]:
    """Returns the numbers of keys, one per column."""
    parts = [part.strip() for part in text.lower().replace("×", "x").split("x")]
    if not all(part.isascii() and part.isdigit() and 1 <= len(part) <= 4 and int(part) for part in parts):
        raise BadRequest("pool", text, "write how many keys each column has, at least 1, e.g. 2x3x5")
    sizes = tuple(map(int, parts))
    if prod(sizes) > MAX_POOL_CELLS:
        raise BadRequest("pool", text, f"has {prod(sizes)} cells: at most {MAX_POOL_CELLS} are asked about here")
    if prod(sizes) == 1:
        raise BadRequest("pool", text, "has one cell: write at least one column with 2 keys")
    return sizes


def count_questions(sizes: tuple[int, ...]) -> int:
    """Returns how many products of sets of keys there are."""
    return prod(2**size - 1 for size in sizes)


def pool_of(sizes: tuple[int, ...], keys: tuple[int, ...] | None = None) -> list[LinearQuery]:
    """All products of subsets: counts of people whose values lie in a set, for each attribute; of very many, 20,000.

    `keys` are those of each attribute that are asked about: the first ones, all unless said otherwise.
    """
    asked, questions = keys or sizes, []
    if count_questions(asked) <= MAX_POOL_QUESTIONS:
        subsets = [[np.array(bits) for bits in product((0, 1), repeat=size) if any(bits)] for size in asked]
        pool: Iterator[tuple[NDArray[np.int64], ...]] = product(*subsets)
    else:
        pool = _sample_products(asked, 20_000)
    for chosen in pool:
        weights = np.ones(1, dtype=np.int64)
        for part, size in zip(chosen, sizes, strict=True):
            weights = np.kron(weights, np.concatenate((part, np.zeros(size - len(part), dtype=np.int64))))
        questions.append(query_from_weights(weights)[0])
    return questions


def _sample_products(sizes: tuple[int, ...], count: int) -> Iterator[tuple[NDArray[np.int64], ...]]:
    generator = simulation_rng(4)
    for _ in range(count):
        chosen = []
        for size in sizes:
            part = generator.integers(0, 2, size)
            while not part.any():
                part = generator.integers(0, 2, size)
            chosen.append(part)
        yield tuple(chosen)


def price_pool(sizes: tuple[int, ...], orders: int) -> dict[str, Any]:
    """What all questions of a pool cost in random order, as multiples of the optimum."""
    axes, questions, everything = tuple(Axis(size, False) for size in sizes), pool_of(sizes), (True,) * len(sizes)
    optimum = find_strategy(axes, everything).price
    found: dict[str, Any] = {"cells": prod(sizes), "questions": count_questions(sizes), "optimum": round(optimum, 4)}
    if len(questions) < count_questions(sizes):
        found["questions_asked"] = len(questions)
    kinds: dict[str, dict[str, Any]] = {
        "online": {},
        "online_64": {"max_runs": 64},
        "expected": {"expected": everything},
    }
    for name, options in kinds.items():
        spent = [_ask_pool(Desk(axes, **options), questions, order) / optimum for order in range(orders)]
        found[name], found[f"{name}_max"] = round(statistics.mean(spent), 4), round(max(spent), 4)
    return found | _price_beside(sizes, questions, min(orders, 2))


def _price_beside(sizes: tuple[int, ...], questions: list[LinearQuery], orders: int) -> dict[str, float]:
    """The same pool where keys are not complete (one more cell per column, asked by nobody), in multiples of its own
    optimum; and where one person takes another's place, counts and sums, in prices of one question."""
    wider = tuple(size + 1 for size in sizes)
    axes, wide = (tuple(Axis(size, False) for size in each) for each in (sizes, wider))
    optimum = find_strategy(axes, (True,) * len(axes)).price
    incomplete = pool_of(wider, sizes)
    beside = {
        "online_incomplete": [_ask_pool(Desk(wide), incomplete, order) / optimum for order in range(orders)],
    }
    if prod(sizes) <= MAX_REPLACED_CELLS and len(questions) <= MAX_POOL_QUESTIONS:
        proper = [query for query in questions if query.support != (0, prod(sizes)) or len(query.runs) > 1]
        for name, values in (("counts", (1,)), ("sums", (0, 1))):
            statistic = tuple(map(Fraction, values))
            beside[f"online_replace_one_{name}_p1"] = [
                _ask_pool(Desk(axes, replace_one=True, values=statistic), proper, order) for order in range(orders)
            ]
    return {name: round(statistics.mean(spent), 4) for name, spent in beside.items()}


def _ask_pool(desk: Desk, questions: list[LinearQuery], order: int) -> float:
    for index in simulation_rng(order).permutation(len(questions)).tolist():
        desk.ask(questions[index], ONE)
    return desk.spent / UNITS_PER_PRECISION


def judge_histories(count: int) -> Fairness:
    """Random histories and the adversary's orders, both kinds of neighbours, with the exact loss beside."""
    fairness = Fairness()
    for seed in range(count):
        for replace_one in (False, True):
            sizes = ((2, 3, 4), (6,), (3, 4), (2, 2, 3))[seed % 4]
            for asked in adversarial_orders(sizes, seed):
                desk = Desk(tuple(Axis(size, False) for size in sizes), replace_one, exact=True, seed=seed)
                play(desk, asked, fairness)
    return fairness


def adversarial_orders(
    sizes: tuple[int, ...], seed: int, length: int = 60
) -> Iterator[list[tuple[LinearQuery, Precision]]]:
    """Orders that make an online planner regret: small questions first, one axis after another, finer and finer."""
    pool, generator = pool_of(sizes), simulation_rng(seed)
    shuffled = [pool[index] for index in generator.permutation(len(pool)).tolist()]
    counts = {query: int(query.dense_weights.sum()) for query in pool}
    yield [(query, ONE) for query in shuffled[:length]]
    yield [(query, ONE) for query in sorted(shuffled, key=counts.__getitem__)[:length]]
    yield [(query, ONE) for query in sorted(shuffled, key=lambda query: -counts[query])[:length]]
    yield [(query, Precision.ceil(ONE.exact * round(10 ** generator.uniform(0, 2)))) for query in shuffled[:length]]
    yield [(query, Precision(ONE.units * 4 ** (place // 15))) for place, query in enumerate(shuffled[:length])]
    yield [(query, Precision(ONE.units * 100 // (1 + 2 * place))) for place, query in enumerate(shuffled[:length])]
    through = [query for query in shuffled if query.dense_weights[0]], [q for q in shuffled if not q.dense_weights[0]]
    yield [(query, ONE) for query in (*through[0][: length // 2], *through[1][: length // 2])]
    again = generator.integers(0, min(12, len(shuffled)), length).tolist()
    yield [(shuffled[index], Precision(ONE.units * int(generator.integers(1, 9)))) for index in again]


def price_ranges(size: int, prefixes: bool) -> dict[str, float]:
    """Mean and largest variance times the price, beside binary trees (H2), the best trees (Hb) and a lower bound."""
    rows, generator = SquareRootRows(size), simulation_rng(1)
    price = price_of(rows)
    ends = [(0, stop) for stop in generator.integers(1, size + 1, 400).tolist()] if prefixes else [
        sorted(generator.choice(size + 1, 2, replace=False).tolist()) for _ in range(400)
    ]  # fmt: skip
    weights = [range_query(size, low, high).dense_weights for low, high in ends]
    variances = [float(halved @ halved) for halved in map(rows.solve_transposed, weights)]
    trees = tree_prices(size, weights)
    bound = bound_of_prefixes(size) if prefixes else bound_of_ranges(size)
    return {
        "mean": round(price * statistics.mean(variances), 3),
        "largest": round(price * max(variances), 3),
        "H2": round(trees[2], 3),
        "Hb": round(min(trees.values()), 3),
        "bound": round(bound, 3),
    }


def answer_ranges(size: int, count: int, seed: int = 0) -> int:
    """How many random ranges a budget answers at a standard deviation of 5 over its root."""
    budget, generator = Precision(25 * UNITS_PER_PRECISION), simulation_rng(seed)
    desk, answered = Desk((Axis(size, True),), seed=seed), 0
    for _ in range(count):
        low, high = np.sort(generator.integers(0, size, 2)).tolist()
        before = desk.spent
        desk.ask(range_query(size, low, high + 1), ONE)
        if desk.spent > budget.units:
            desk.charged -= desk.spent - before  # the rest is refused
            break
        answered += 1
    return answered


def time_free_answers(size: int, count: int = 40) -> float:
    """Milliseconds of CPU to plan and answer a free range after a look and 32 paid questions; the median."""
    desk, generator = Desk((Axis(size, True),), expected=(True,)), simulation_rng(2)
    desk.ask(range_query(size, 0, size // 2), ONE)
    knowledge = desk.knowledge
    for _ in range(32):
        low, high = sorted(generator.choice(size + 1, 2, replace=False).tolist())
        plan = knowledge.plan_query(range_query(size, low, high), Precision(2 * ONE.units), 0.0)
        if plan.fresh_precision:
            knowledge.add_measurement(plan, 0.0)
    spent = []
    for _ in range(count):
        low, high = sorted(generator.choice(size + 1, 2, replace=False).tolist())
        began = time.process_time()
        knowledge.estimate_planned(knowledge.plan_query(range_query(size, low, high), ONE, 0.0))
        spent.append(1000 * (time.process_time() - began))
    return round(statistics.median(spent), 3)


def measure_memory(size: int, count: int) -> dict[str, float]:
    """Megabytes above the start, after half and after all of many distinct questions of which one look answers all."""
    desk, generator = Desk((Axis(size, True),), expected=(True,)), simulation_rng(3)
    desk.ask(range_query(size, 0, size // 2), ONE)
    found = {"questions": float(count)}
    began = resident_mb()
    for number in range(1, count + 1):
        low, high = sorted(generator.choice(size + 1, 2, replace=False).tolist())
        query = range_query(size, low, high)
        desk.knowledge.estimate_planned(desk.knowledge.plan_query(query, ONE, 0.0))
        if number in (count // 2, count):
            gc.collect()
            found["after_half" if number < count else "after_all"] = round(resident_mb() - began, 1)
    return found
