"""Parses window functions over the released table: totals, running sums, moving averages, LAG, LEAD and ranks.

All of it is computed from released numbers, so it costs nothing. Sums are those of linear combinations, so that they
are Gaussian again; the order of what is added up row by row is one of keys, which no noise can change. A rank by noisy
numbers has an interval of its own. Used by `queries.result_parser`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from noisebank.core.errors import UnsupportedQuery
from noisebank.queries.derived import list_linear, strip_parens
from noisebank.queries.result_expressions import (
    Expression,
    Frame,
    Key,
    OrderTerm,
    Ranking,
    Total,
    is_linear,
    is_noisy,
    reads_other_rows,
)

if TYPE_CHECKING:
    from noisebank.queries.result_parser import ResultParser

RANKINGS: dict[type[exp.Expr], str] = {
    exp.Rank: "RANK", exp.DenseRank: "DENSE_RANK", exp.RowNumber: "ROW_NUMBER"
}  # fmt: skip
ALLOWED = (
    "of window functions, SUM and AVG of counts or sums (also with ORDER BY keys and ROWS), LAG, LEAD, "
    "FIRST_VALUE, RANK, DENSE_RANK and ROW_NUMBER"
)
Ends = tuple[int | None, int | None]


class WindowParser:
    """Parses the window functions of one SELECT."""

    def __init__(self, results: ResultParser) -> None:
        self.results = results

    def parse_window(self, node: exp.Window) -> Expression:
        """Returns a function of other rows of the released table."""
        function = strip_parens(node.this)
        if node.args.get("alias") or node.args.get("first") is not None:
            raise self._refuse(node)
        inner = (each for each in function.find_all(exp.AggFunc) if each is not function)
        if isinstance(function, exp.AggFunc) and type(function) not in RANKINGS and not any(inner):
            text = node.sql(dialect="duckdb")[:60]
            raise UnsupportedQuery(f"{text}, OVER the table's rows", "sum what is shown: SUM(COUNT(*)) OVER ()")
        keys = tuple(sorted(self._parse_partition(node)))
        order = node.args.get("order")
        terms = [] if order is None else [self.results.parse_order(each, {}) for each in order.expressions]
        if type(function) in RANKINGS:
            return self._parse_ranking(node, RANKINGS[type(function)], keys, terms)
        if isinstance(function, (exp.Lag, exp.Lead)):
            distance = self._parse_distance(node, function)
            ends: Ends = (distance, distance)
            frame: Frame | None = Frame(tuple(terms), ends)
            if not terms or node.args.get("spec"):
                raise self._refuse(node)
        elif isinstance(function, exp.FirstValue) and terms and not node.args.get("spec"):
            frame = Frame(tuple(terms), (None, 0), is_first=True)
        elif isinstance(function, (exp.Sum, exp.Avg)):
            frame = self._parse_frame(node, terms, isinstance(function, exp.Avg))
        else:
            raise self._refuse(node)
        return Total(self._parse_summed(node, function.this), keys, self._check_order(node, frame))

    def _parse_summed(self, node: exp.Window, argument: exp.Expr) -> Expression:
        inner = self.results.parse_expression(argument)
        linear = is_linear(inner, list_linear(self.results.aggregates))
        if reads_other_rows(inner) or not is_noisy(inner) or not linear:
            raise UnsupportedQuery(node.sql(dialect="duckdb")[:60], "sum counts or sums: SUM(COUNT(*)) OVER ()")
        return inner

    def _parse_partition(self, node: exp.Window) -> list[str]:
        keys = []
        for each in node.args.get("partition_by") or []:
            key = self.results.find_key(each)
            if key is None:
                text = each.sql(dialect="duckdb")[:40]
                raise UnsupportedQuery(f"PARTITION BY {text}", "partition by keys of GROUP BY")
            keys.append(key)
        return keys

    def _parse_ranking(self, node: exp.Window, name: str, keys: tuple[str, ...], terms: Sequence[OrderTerm]) -> Ranking:
        if not terms or node.args.get("spec") or any(reads_other_rows(term.by) for term in terms):
            raise self._refuse(node)
        return Ranking(name, tuple(terms), keys)

    def _parse_distance(self, node: exp.Window, function: exp.Lag | exp.Lead) -> int:
        offset = function.args.get("offset")
        known = offset is None or (isinstance(offset, exp.Literal) and offset.is_int)
        if not known or function.args.get("default") is not None:
            raise UnsupportedQuery(node.sql(dialect="duckdb")[:60], "LAG(number, 1) has no default: use COALESCE")
        distance = 1 if offset is None else int(offset.name)
        return -distance if isinstance(function, exp.Lag) else distance

    def _parse_frame(self, node: exp.Window, terms: Sequence[OrderTerm], is_mean: bool) -> Frame | None:
        spec = node.args.get("spec")
        if spec is None:
            if not terms:
                return Frame((), (None, None), is_mean=True) if is_mean else None
            return Frame(tuple(terms), (None, 0), with_peers=True, is_mean=is_mean)
        if spec.args.get("kind") != "ROWS" or spec.args.get("exclude") or not terms:
            raise UnsupportedQuery(node.sql(dialect="duckdb")[:60], "frames are ROWS BETWEEN ... with ORDER BY a key")
        first = self._parse_end(node, spec.args.get("start"), spec.args.get("start_side"))
        end = spec.args.get("end")
        last = 0 if end is None else self._parse_end(node, end, spec.args.get("end_side"))
        return Frame(tuple(terms), (first, last), is_mean=is_mean)

    def _parse_end(self, node: exp.Window, end: object, side: object) -> int | None:
        """Returns the distance to the row; None for all rows on that side."""
        if end == "CURRENT ROW":
            return 0
        if end == "UNBOUNDED":
            return None
        if not isinstance(end, exp.Literal) or not end.is_int:
            raise self._refuse(node)
        return int(end.name) * (-1 if side == "PRECEDING" else 1)

    def _check_order(self, node: exp.Window, frame: Frame | None) -> Frame | None:
        """Refuses an order by noisy numbers: which rows are added up would be decided by noise."""
        if frame is not None and any(not isinstance(term.by, Key) for term in frame.order):
            raise UnsupportedQuery(node.sql(dialect="duckdb")[:60], "order what is added up by keys of GROUP BY")
        return frame

    def _refuse(self, node: exp.Window) -> UnsupportedQuery:
        return UnsupportedQuery(node.sql(dialect="duckdb")[:60], ALLOWED)
