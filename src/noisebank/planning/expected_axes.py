"""What the owner expects to be asked, as the axes of a cube whose values questions will tell apart.

A look at these is bought with the first question that needs it, for the precision that this question needs: it has
not to be earned. A finer question later pays for what is missing only, so nothing is lost by beginning coarsely.
"""

from __future__ import annotations

from noisebank.core.errors import NoisebankError
from noisebank.planning.serving import COUNT_KEY, StatisticKey, find_cube_query
from noisebank.planning.strategies.kronecker import seen_axes
from noisebank.policy.expectations import Workload
from noisebank.policy.model import Policy
from noisebank.queries.cells import Cube
from noisebank.queries.selects import parse_select_aggregates


def expected_axes(policy: Policy, cube: Cube, statistic_key: StatisticKey) -> tuple[bool, ...]:
    """Returns for each column of a cube whether its values are expected to be told apart."""
    expected = [False] * len(cube.columns)
    for item in policy.expect:
        if isinstance(item, Workload):
            for index, name in enumerate(cube.columns):
                fits = item is Workload.MARGINALS or policy.columns[name].is_numeric
                expected[index] |= fits and statistic_key == COUNT_KEY
        else:
            for index, is_seen in enumerate(_example_axes(policy.resolve_sql(item), policy, cube, statistic_key)):
                expected[index] |= is_seen
    return tuple(expected)


def _example_axes(sql: str, policy: Policy, cube: Cube, statistic_key: StatisticKey) -> tuple[bool, ...]:
    """Returns which axes an example tells values of apart; none if the example is answered elsewhere."""
    seen = (False,) * len(cube.columns)
    try:
        questions = [question for item in parse_select_aggregates(sql, policy) for question in item.questions]
    except NoisebankError:  # another edition of the parser
        return seen
    for question in questions:
        served = find_cube_query(question.query, policy)
        if served is not None and served.cube.columns == cube.columns and served.statistic_key == statistic_key:
            for query in served.group_queries:
                seen = tuple(old or new for old, new in zip(seen, seen_axes(cube.shape, query), strict=True))
    return seen
