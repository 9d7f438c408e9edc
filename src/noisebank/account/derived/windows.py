"""Functions of other rows of the released table: totals, running sums, moving averages, LAG, LEAD and ranks.

A sum of released numbers is Gaussian. A rank is bounded: the numbers of all rows have intervals that hold together
(Bonferroni), and a row is at least behind all those whose intervals lie before its own, at most behind all that do not
lie after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from noisebank.account.derived.expressions import ExpressionEvaluator, RowNumbers
from noisebank.account.derived.gaussians import Gaussian, sum_gaussians
from noisebank.account.derived.interval_arithmetic import Interval, make_interval
from noisebank.queries.result_expressions import (
    Choice,
    Frame,
    Key,
    OrderTerm,
    Ranking,
    Total,
    list_rankings,
    list_totals,
)
from noisebank.queries.selects import SelectList

SortRows = Callable[[Sequence[RowNumbers], Sequence[OrderTerm]], list[RowNumbers]]
Labels = Mapping[str, Sequence[str]]


def add_windows(
    select: SelectList, rows: Sequence[RowNumbers], evaluator: ExpressionEvaluator, sort: SortRows
) -> list[RowNumbers]:
    """Returns the rows with what each of them takes from others."""
    expressions = [*(column.expression for column in select.items), *(term.by for term in select.order)]
    nodes = [node for node in expressions if node is not None]
    totals = dict.fromkeys(total for node in nodes for total in list_totals(node))
    rankings = dict.fromkeys(ranking for node in nodes for ranking in list_rankings(node))
    if not totals and not rankings:
        return list(rows)
    sums: list[dict[Total, Gaussian | None]] = [{} for _ in rows]
    for total in totals:
        for members in _split_rows(rows, total.keys):
            _add_total(total, rows, members, evaluator, sort, sums)
    summed = [replace(row, totals=own) for row, own in zip(rows, sums, strict=True)]
    ranks: list[dict[Ranking, Callable[[float], Interval]]] = [{} for _ in rows]
    for ranking in rankings:
        for members in _split_rows(rows, ranking.keys):
            _add_ranks(ranking, summed, members, evaluator, sort, ranks)
    return [replace(row, rankings=own) for row, own in zip(summed, ranks, strict=True)]


def _split_rows(rows: Sequence[RowNumbers], keys: Sequence[str]) -> list[list[int]]:
    partitions: dict[tuple[str | None, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        partitions[tuple(row.keys[name] for name in keys)].append(index)
    return list(partitions.values())


def _sort_members(
    rows: Sequence[RowNumbers], members: Sequence[int], order: Sequence[OrderTerm], sort: SortRows
) -> list[int]:
    places = {id(rows[index]): index for index in members}
    return [places[id(row)] for row in sort([rows[index] for index in members], order)]


def _add_total(
    total: Total,
    rows: Sequence[RowNumbers],
    members: Sequence[int],
    evaluator: ExpressionEvaluator,
    sort: SortRows,
    sums: list[dict[Total, Gaussian | None]],
) -> None:
    numbers = {index: evaluator.evaluate_gaussian(total.summed, rows[index]) for index in members}
    frame = total.frame
    if frame is None:
        whole = sum_gaussians(numbers.values())
        for index in members:
            sums[index][total] = whole
        return
    ordered = _sort_members(rows, members, frame.order, sort)
    peers = _end_peers(rows, ordered, frame)
    for place, index in enumerate(ordered):
        first, last = frame.ends
        start = 0 if first is None else max(0, place + first)
        stop = len(ordered) if last is None else place + last + 1
        inside = ordered[start : max(0, peers[place] if frame.with_peers else stop)]
        inside = ordered[:1] if frame.is_first else inside
        if not inside:
            sums[index][total] = None
            continue
        number = sum_gaussians(numbers[each] for each in inside)
        sums[index][total] = number.scale_by(Fraction(1, len(inside))) if frame.is_mean else number


def _end_peers(rows: Sequence[RowNumbers], ordered: Sequence[int], frame: Frame) -> list[int]:
    """Returns for each place the place after the last row that has the same keys in ORDER BY."""
    names = [term.by.name for term in frame.order if isinstance(term.by, Key)]
    labels = [tuple(rows[index].keys[name] for name in names) for index in ordered]
    last = {label: place for place, label in enumerate(labels)}
    return [last[label] + 1 for label in labels]


def _add_ranks(
    ranking: Ranking,
    rows: Sequence[RowNumbers],
    members: Sequence[int],
    evaluator: ExpressionEvaluator,
    sort: SortRows,
    ranks: list[dict[Ranking, Callable[[float], Interval]]],
) -> None:
    ordered = _sort_members(rows, members, ranking.order, sort)
    values = [tuple(evaluator.evaluate_value(term.by, rows[index]) for term in ranking.order) for index in ordered]
    distinct = 0
    for place, index in enumerate(ordered):
        is_tie = place > 0 and values[place] == values[place - 1]
        distinct += not is_tie
        number = {"ROW_NUMBER": place + 1, "DENSE_RANK": distinct}.get(
            ranking.function, values.index(values[place]) + 1
        )
        bound = _RankBound(ranking, number, rows[index], [rows[each] for each in ordered], evaluator)
        ranks[index][ranking] = bound.find_interval


class _RankBound:
    """The rank of one row, and which ranks it may truly have."""

    def __init__(
        self,
        ranking: Ranking,
        number: int,
        row: RowNumbers,
        others: Sequence[RowNumbers],
        evaluator: ExpressionEvaluator,
    ) -> None:
        self.ranking, self.number, self.row, self.others, self.evaluator = ranking, number, row, others, evaluator

    def find_interval(self, confidence: float) -> Interval:
        """Returns the rank of the released number, and bounds of the true one's."""
        term = self.ranking.order[0]
        if isinstance(term.by, (Key, Choice)):
            if len(self.ranking.order) == 1:  # keys have no noise
                return make_interval(self.number, self.number, self.number)
            return make_interval(self.number, 1, len(self.others))
        single = 1 - (1 - confidence) / len(self.others)
        own = self.evaluator.evaluate_interval(term.by, self.row, single)
        ahead = behind = 0
        for other in self.others:
            if other is self.row:
                continue
            interval = self.evaluator.evaluate_interval(term.by, other, single)
            before = interval.low > own.high if term.descending else interval.high < own.low
            after = interval.high < own.low if term.descending else interval.low > own.high
            ahead, behind = ahead + before, behind + after
        least = 1 + (min(ahead, 1) if self.ranking.function == "DENSE_RANK" else ahead)
        return make_interval(self.number, least, len(self.others) - behind)
