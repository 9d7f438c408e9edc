"""How many noise draws of a measurement one person can affect: what the proof of the discreteness margin counts.

A measurement is a vector: one draw per group, or per row of a look. Between neighbouring tables only
those coordinates differ that a row of the one person falls into; the others have the same law on both tables and need
no margin. Everything here follows from the policy and the query, or from public fields of the ledger alone.
Proof: docs/proofs/discrete_gaussian.md.
"""

from __future__ import annotations

from noisebank.planning.serving import LookQuery
from noisebank.policy.model import Neighbours, Policy
from noisebank.queries.cells import policy_cubes
from noisebank.queries.groups import MAX_GROUPS, group_count
from noisebank.queries.query import GROUPED_BIT, Query, is_single_draw


def changed_rows(policy: Policy) -> int:
    """Returns how many rows may differ between neighbours: one person's rows, twice that for replace-one."""
    return policy.max_rows * (2 if policy.neighbours is Neighbours.REPLACE_ONE else 1)


def touched_draws(query: Query, policy: Policy) -> int:
    """Returns the draws that one person can affect in one fresh measurement of the query, plain or in a cube."""
    if isinstance(query, LookQuery):
        return query.draw_count  # every row reads all cells
    return min(group_count(query, policy), changed_rows(policy))  # a row lies in one group at most


def max_draws(policy: Policy, category: int, whole_cube: bool) -> int:
    """Returns the most draws of a measurement with these public facts: with the bit of groups it may be a look."""
    if is_single_draw(category, whole_cube):
        return 1
    grouped = min(MAX_GROUPS, changed_rows(policy)) if category & GROUPED_BIT else 1
    return max([grouped, *(cube.cell_count for cube in policy_cubes(policy))])
