"""Values and intervals of what a SELECT computes from released numbers.

A linear combination of released numbers is Gaussian, a ratio of two has Fieller's interval: both are exact. Elsewhere
the interval is a bound: of the k numbers and ratios that an expression is made of, each interval has the confidence
1 - (1 - c) / k, so all hold together with confidence c (Bonferroni), and interval arithmetic says what follows. A
function of one number maps its interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf

from noisebank.account.derived.aggregates import BoundedValue, NoisyPart, derive_value, gaussian_ratio_interval
from noisebank.account.derived.gaussians import Gaussian, make_constant
from noisebank.account.derived.interval_arithmetic import UNKNOWN, Interval, apply_function, make_interval
from noisebank.core.estimates import Estimate, make_estimate
from noisebank.core.intervals import confidence_interval
from noisebank.queries.derived import Aggregate, list_linear
from noisebank.queries.result_expressions import (
    Choice,
    Condition,
    Expression,
    Grouping,
    Key,
    Number,
    Operation,
    Ranking,
    Released,
    Text,
    Total,
    is_linear,
    is_noisy,
    list_totals,
)

Keys = Mapping[str, str | None]
"""The keys of a row by the policy's columns; None stands for all of them together."""


@dataclass(frozen=True)
class RowNumbers:
    """What one row was computed from: for each aggregate its parts, and the totals that the row goes into."""

    parts: Sequence[Sequence[NoisyPart]]
    totals: Mapping[Total, Gaussian | None]
    """None is NULL: there is no such row."""
    keys: Keys
    rankings: Mapping[Ranking, Callable[[float], Interval]] = field(default_factory=dict)
    """The row's ranks, each with its interval at a confidence."""
    summed_keys: frozenset[str] = frozenset()
    """The keys of which the row is about all values together."""


class ExpressionEvaluator:
    """Evaluates the expressions of one SELECT."""

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        self._aggregates = aggregates
        self._linear = list_linear(aggregates)

    # -- what an expression is, from the text alone ----------------------------------------------

    def is_gaussian(self, node: Expression) -> bool:
        """Whether an expression is a linear combination of released numbers."""
        return is_linear(node, self._linear)

    def list_atoms(self, node: Expression) -> list[Expression]:
        """Returns the parts of an expression whose intervals are known at any confidence, each once."""
        if isinstance(node, (Ranking, Grouping)):
            return [node]
        if not is_noisy(node):
            return []
        if self.is_gaussian(node) or isinstance(node, Released) or self._is_ratio(node):
            return [node]
        assert isinstance(node, Operation)
        return list(dict.fromkeys(atom for argument in node.arguments for atom in self.list_atoms(argument)))

    def _is_ratio(self, node: Expression) -> bool:
        """Whether an expression is a ratio of two linear combinations of released numbers."""
        if not isinstance(node, Operation) or node.function != "/":
            return False
        top, bottom = node.arguments
        return self.is_gaussian(top) and self.is_gaussian(_skip_null_if(bottom))

    # -- numbers ---------------------------------------------------------------------------------

    def evaluate_gaussian(self, node: Expression, row: RowNumbers) -> Gaussian:
        """Returns a linear combination of released numbers, with its noise."""
        if isinstance(node, Number):
            return make_constant(node.value)
        if isinstance(node, Released):
            return row.parts[node.aggregate][0].number
        if isinstance(node, Total):
            total = row.totals[node]
            assert total is not None  # what reads it is NULL
            return total
        assert isinstance(node, Operation)
        left, right = (self.evaluate_gaussian(argument, row) for argument in node.arguments)
        if node.function == "*":
            return right.scale_by(left.exact) if not left.terms else left.scale_by(right.exact)
        if node.function == "/":
            return left.scale_by(1 / right.exact)
        return left.plus(right if node.function == "+" else right.scale_by(Fraction(-1)))

    def evaluate(self, node: Expression, row: RowNumbers, confidence: float) -> Estimate:
        """Returns an expression's number in a row, with its interval."""
        if self.is_gaussian(node) and not _is_null(node, row):
            number = self.evaluate_gaussian(node, row)
            ends = confidence_interval(number.value, number.stddev, confidence)
            return make_estimate(number.value, *ends, number.stddev, number.exact)
        if isinstance(node, Released):
            derived = self._derive(node, row, confidence)
            return make_estimate(derived.value, derived.low, derived.high, label=derived.label)
        interval = self.evaluate_interval(node, row, confidence)
        return make_estimate(inf if interval.value is None else interval.value, interval.low, interval.high)

    def evaluate_interval(self, node: Expression, row: RowNumbers, confidence: float) -> Interval:
        """Returns an expression's number in a row, with an interval."""
        atoms = self.list_atoms(node)
        single = 1 - (1 - confidence) / max(1, len(atoms))
        return self._combine(node, {atom: self._bound_atom(atom, row, single) for atom in atoms})

    def evaluate_value(self, node: Expression | Key | Text | Choice, row: RowNumbers) -> float | str | None:
        """Returns an expression's number, or a key; None is NULL."""
        if isinstance(node, Choice):
            chosen = next((value for case, value in node.cases if self.holds(case, row)), node.default)
            return None if chosen is None else self.evaluate_value(chosen, row)
        if isinstance(node, Key):
            return row.keys[node.name]
        if isinstance(node, Text):
            return node.value
        return self.evaluate_interval(node, row, 0.5).value

    def holds(self, condition: Condition, row: RowNumbers) -> bool | None:
        """Returns whether a condition holds for the released numbers of a row; None is SQL's unknown."""
        arguments = condition.arguments
        if condition.operator in ("AND", "OR", "NOT"):
            cases = [self.holds(each, row) for each in arguments if isinstance(each, Condition)]
            return CONNECTIVES[condition.operator](cases)
        values = [self.evaluate_value(each, row) for each in arguments if not isinstance(each, Condition)]
        if condition.operator == "IS NULL":
            return values[0] is None
        left, right = values
        if left is None or right is None:
            return None
        if isinstance(left, str) is not isinstance(right, str):  # a key whose groups are numbers
            left, right = float(left), float(right)
        return COMPARISONS[condition.operator](left, right)

    def _derive(self, node: Released, row: RowNumbers, confidence: float) -> BoundedValue:
        return derive_value(self._aggregates[node.aggregate], row.parts[node.aggregate], confidence)

    def _bound_atom(self, node: Expression, row: RowNumbers, confidence: float) -> Interval:
        if isinstance(node, Ranking):
            return row.rankings[node](confidence)
        if isinstance(node, Grouping):
            bits = sum((key in row.summed_keys) << place for place, key in enumerate(reversed(node.keys)))
            return make_interval(bits, bits, bits)
        if _is_null(node, row):
            return UNKNOWN
        if self.is_gaussian(node):
            number = self.evaluate_gaussian(node, row)
            return make_interval(number.value, *confidence_interval(number.value, number.stddev, confidence))
        if isinstance(node, Released):
            derived = self._derive(node, row, confidence)
            return make_interval(derived.value, derived.low, derived.high)
        assert isinstance(node, Operation)
        top, bottom = (self.evaluate_gaussian(_skip_null_if(argument), row) for argument in node.arguments)
        value = top.value / bottom.value if bottom.value else None
        if bottom.value < 0:  # the same ratio
            top, bottom = top.scale_by(Fraction(-1)), bottom.scale_by(Fraction(-1))
        low, high = gaussian_ratio_interval(top, bottom, confidence)
        return make_interval(value, low, high, may_be_null=low == -inf)

    def _combine(self, node: Expression, atoms: Mapping[Expression, Interval]) -> Interval:
        """Returns what follows for an expression from the intervals of its atoms."""
        if node in atoms:
            return atoms[node]
        if isinstance(node, Number):
            return make_interval(float(node.value), float(node.value), float(node.value))
        assert isinstance(node, Operation)
        return apply_function(node.function, [self._combine(argument, atoms) for argument in node.arguments])


def _is_null(node: Expression, row: RowNumbers) -> bool:
    """Whether an expression reads a row that there is not: LAG has nothing before the first."""
    return any(row.totals[total] is None for total in list_totals(node))


def _skip_null_if(node: Expression) -> Expression:
    """Returns the number of NULLIF(number, 0): dividing by it and by zero are both NULL."""
    if isinstance(node, Operation) and node.function == "NULLIF" and node.arguments[1] == Number(Fraction(0)):
        return node.arguments[0]
    return node


def _all_hold(cases: Sequence[bool | None]) -> bool | None:
    return False if False in cases else None if None in cases else True


def _any_holds(cases: Sequence[bool | None]) -> bool | None:
    return True if True in cases else None if None in cases else False


CONNECTIVES: dict[str, Callable[[Sequence[bool | None]], bool | None]] = {
    "AND": _all_hold, "OR": _any_holds, "NOT": lambda cases: None if cases[0] is None else not cases[0]
}  # fmt: skip
COMPARISONS: dict[str, Callable[[float | str, float | str], bool]] = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: float(left) < float(right),
    "<=": lambda left, right: float(left) <= float(right),
    ">": lambda left, right: float(left) > float(right),
    ">=": lambda left, right: float(left) >= float(right),
}
