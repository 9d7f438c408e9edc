"""What the owner expects to be asked of a cube, as shapes of questions.

A look at these is bought with the first question that needs it, for the precision that this question needs: it has
not to be earned. A finer question later pays for what is missing only, so nothing is lost by beginning coarsely.
"""

from __future__ import annotations

from noisebank.core.errors import NoisebankError
from noisebank.planning.serving import COUNT_KEY, StatisticKey, cube_statistic, find_cube_query
from noisebank.planning.strategies.workloads import Shape, find_shape, shapes_of_sets, shapes_of_values
from noisebank.policy.expectations import Workload
from noisebank.policy.model import Policy
from noisebank.queries.cells import Cube
from noisebank.queries.selects import parse_select_aggregates


def expected_shapes(policy: Policy, cube: Cube, statistic_key: StatisticKey) -> frozenset[Shape]:
    """Returns the shapes of the questions about one statistic of a cube that are expected."""
    axes, shapes = cube_statistic(policy, cube, statistic_key).axes, frozenset[Shape]()
    wide = [False] * len(axes)
    for item in policy.expect:
        if not isinstance(item, Workload):
            shapes |= _example_shapes(policy.resolve_sql(item), policy, cube, statistic_key)
        elif statistic_key == COUNT_KEY and item is Workload.VALUES:
            shapes |= shapes_of_values(axes)
        elif statistic_key == COUNT_KEY:
            for index, axis in enumerate(axes):
                wide[index] |= item is Workload.MARGINALS or axis.ordered
    return shapes | shapes_of_sets(axes, wide)


def _example_shapes(sql: str, policy: Policy, cube: Cube, statistic_key: StatisticKey) -> frozenset[Shape]:
    """Returns the shapes of an example's groups; none if the example is answered elsewhere."""
    try:
        questions = [question for item in parse_select_aggregates(sql, policy) for question in item.questions]
    except NoisebankError:  # another edition of the parser
        return frozenset()
    axes, shapes = cube_statistic(policy, cube, statistic_key).axes, set[Shape]()
    for question in questions:
        served = find_cube_query(question.query, policy)
        if served is not None and served.cube.columns == cube.columns and served.statistic_key == statistic_key:
            shapes |= {find_shape(axes, query) for query in served.group_queries}
    return frozenset(shapes)
