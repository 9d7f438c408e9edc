"""Says what a SELECT means here where other databases take the same text for something else."""

from __future__ import annotations

from sqlglot import exp

from noisebank.policy.model import Kind, Policy

ROUNDED = (exp.Floor, exp.Ceil, exp.Round, exp.Trunc, exp.IntDiv)


def list_hints(select: exp.Select, policy: Policy) -> tuple[str, ...]:
    """Returns sentences for whoever gets the answer."""
    for node in select.find_all(exp.Div):
        if _divides_whole_numbers(node, policy):
            text = str(node.sql(dialect="duckdb"))[:60]
            return (f"{text} is not rounded; PostgreSQL divides whole numbers without rest: FLOOR({text})",)
    return ()


def _divides_whole_numbers(node: exp.Div, policy: Policy) -> bool:
    """Whether a whole number of a row is divided by one, and the quotient is not rounded at once."""
    divisor = node.expression.unnest()
    literals = [divisor, *node.this.find_all(exp.Literal)]
    if not isinstance(divisor, exp.Literal) or any(not each.is_string and not each.is_int for each in literals):
        return False
    if node.find(exp.AggFunc) or node.find_ancestor(*ROUNDED) is not None:
        return False
    kinds = {name.lower(): column.kind for name, column in policy.columns.items()}
    names = [each.name.lower() for each in node.this.find_all(exp.Column)]
    return bool(names) and all(kinds.get(name) in (Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP) for name in names)
