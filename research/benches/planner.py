"""How far a budget goes: prices of pools of questions beside the optimum, of ranges and prefixes beside other
mechanisms; whether anything is dearer than plain; memory and time of the planner.

Prices are in prices of a single question at the target accuracy. Questions come in random order; a pool is charged
as the contract charges (16 runs of cells a measurement), and with 64 runs.
"""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.core.units import UNITS_PER_PRECISION, Precision
from noisebank.planning.linear import LinearQuery, query_from_weights, range_query
from noisebank.planning.strategies.axes import Axis, SquareRootRows, price_of
from noisebank.planning.strategies.kronecker import find_strategy
from research.benches.histories import Desk, Fairness, play
from research.benches.trees import bound_of_prefixes, bound_of_ranges, tree_prices

POOLS = ("2x3x5", "3x4x6", "2x3x4x5", "5x5x5")
ONE = Precision(UNITS_PER_PRECISION)
Moved = Callable[[int, int], None]


def bench_planner(
    pool: str | None = None, quick: bool = False, moved: Moved = lambda done, total: None
) -> dict[str, Any]:
    """All figures; `pool` names one pool to run, instead of all."""
    names = (pool,) if pool else POOLS[:2] if quick else POOLS
    orders, steps = (2 if quick else 5), len(names) + 4
    found: dict[str, Any] = {"unit": "pools: times the optimum; the optimum: prices of one question", "pools": {}}
    for number, name in enumerate(names, 1):
        found["pools"][name] = price_pool(tuple(map(int, name.split("x"))), orders)
        moved(number, steps)
    fairness = judge_histories(10 if quick else 60)
    found["never_dearer_than_plain"] = fairness.is_fair
    found["histories"] = {
        "requests": fairness.requests,
        "dearer_than_plain": fairness.dearer_than_plain,
        "below_the_loss": fairness.below_the_loss,
        "worst_total_over_plain": round(fairness.worst_total, 3),
    }
    moved(steps - 3, steps)
    sizes = (1024,) if quick else (1024, 4096)
    found["ranges"] = {str(size): price_ranges(size, prefixes=False) for size in sizes}
    found["ranges"]["answered_of_2000"] = answer_ranges(1024, 2000)
    found["prefixes"] = {str(size): price_ranges(size, prefixes=True) for size in sizes}
    moved(steps - 2, steps)
    found["cpu_ms"] = {str(size): time_free_answers(size) for size in (1024, 4096, 65_536)}
    moved(steps - 1, steps)
    found["memory_mb"] = measure_memory(4096, 5_000 if quick else 100_000)
    moved(steps, steps)
    return found


def pool_of(sizes: tuple[int, ...]) -> list[LinearQuery]:
    """All products of subsets: counts of people whose values lie in a set, for each attribute."""
    subsets = [[np.array(bits) for bits in product((0, 1), repeat=size) if any(bits)] for size in sizes]
    questions = []
    for chosen in product(*subsets):
        weights = np.ones(1, dtype=np.int64)
        for part in chosen:
            weights = np.kron(weights, part)
        questions.append(query_from_weights(weights)[0])
    return questions


def price_pool(sizes: tuple[int, ...], orders: int) -> dict[str, Any]:
    """What all questions of a pool cost in random order, as multiples of the optimum."""
    axes, questions = tuple(Axis(size, False) for size in sizes), pool_of(sizes)
    optimum = find_strategy(axes, (True,) * len(sizes)).price
    found: dict[str, Any] = {"cells": prod(sizes), "questions": len(questions), "optimum": round(optimum, 4)}
    kinds: dict[str, dict[str, Any]] = {
        "online": {}, "online_64": {"max_runs": 64}, "expected": {"expected": (True,) * len(sizes)}
    }  # fmt: skip
    for name, options in kinds.items():
        spent = [_ask_pool(Desk(axes, **options), questions, order) / optimum for order in range(orders)]
        found[name], found[f"{name}_max"] = round(statistics.mean(spent), 4), round(max(spent), 4)
    if prod(sizes) <= 72:
        replaced = [_ask_pool(Desk(axes, replace_one=True), questions, order) for order in range(min(orders, 2))]
        found["online_replace_one_p1"] = round(statistics.mean(replaced), 4)
    return found


def _ask_pool(desk: Desk, questions: list[LinearQuery], order: int) -> float:
    for index in simulation_rng(order).permutation(len(questions)).tolist():
        if desk.look_count and not desk.knowledge.required_precision(questions[index], ONE)[1]:
            continue  # free, and nothing more is earned that is needed
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
    began = _resident_mb()
    for number in range(1, count + 1):
        low, high = sorted(generator.choice(size + 1, 2, replace=False).tolist())
        query = range_query(size, low, high)
        desk.knowledge.estimate_planned(desk.knowledge.plan_query(query, ONE, 0.0))
        if number in (count // 2, count):
            gc.collect()
            found["after_half" if number < count else "after_all"] = round(_resident_mb() - began, 1)
    return found


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
