"""How results print: one line in a terminal, a small table in a notebook. Text of the service is escaped in HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from noisebank.core.errors import BadRequest

if TYPE_CHECKING:
    from noisebank.client.results import Answer, Quote

MAX_ROWS = 20


def import_optional(name: str) -> Any:
    """Imports a module of the extra [client]; says how to install it if it is missing."""
    try:
        return import_module(name)
    except ImportError:
        raise BadRequest("output", name, "is not installed: pip install 'noisebank[client]'") from None


def answer_text(answer: Answer) -> str:
    """Returns one line."""
    case = f", {answer.case.name}" if answer.case else ""
    if answer.kind == "several":
        parts = ", ".join(f"{part.name} = {_format_number(part.value)}" for part in answer.parts)
        return f"Answers({parts}, {_format_cost(answer)})"
    if answer.groups:
        some = ", ".join(f"{'/'.join(group.keys)}: {group.value:.6g}" for group in answer.groups[:6])
        more = f", and {len(answer.groups) - 6} more" if len(answer.groups) > 6 else ""
        return f"GroupedAnswer({some}{more}; each ± {_format_number(answer.stddev)}{case}, {_format_cost(answer)})"
    if answer.kind == "derived":
        low, high = answer.bounds or (float("nan"), float("nan"))
        value = _format_number(answer.value)
        return f"DerivedAnswer({answer.name} = {value}, 95% in [{low:.6g}, {high:.6g}], {_format_cost(answer)})"
    return f"Answer({_format_number(answer.value)} ± {answer.stddev:.3g}{case}, {_format_cost(answer)})"


def answer_html(answer: Answer) -> str:
    """Returns a table of the values, then what they cost."""
    if answer.groups:
        head = [*answer.by, "value", "±"]
        rows = [[*group.keys, f"{group.value:,.6g}", _format_number(answer.stddev)] for group in answer.groups]
    elif answer.kind == "several":
        head = ["result", "value", "±"]
        rows = [[part.name or "", _format_number(part.value), _format_number(part.stddev)] for part in answer.parts]
    else:
        low, high = answer.bounds or (float("nan"), float("nan"))
        head, rows = (
            ["value", "±", "95%"],
            [[_format_number(answer.value), _format_number(answer.stddev), f"{low:,.6g} … {high:,.6g}"]],
        )
    words = [answer.sql, answer.in_words, f"cost {answer.cost}, {answer.remaining} remains", answer.message or ""]
    return _table_html(head, rows) + _note_html(" · ".join(word for word in words if word))


def quote_text(quote: Quote) -> str:
    """Returns one line."""
    afford = "" if quote.affordable else ", more than is left"
    return f"Quote({quote.case.name}, cost {quote.cost} of {quote.left}{afford}, ± {_format_number(quote.stddev)})"


def quote_html(quote: Quote) -> str:
    """Returns a table of one row."""
    row = [quote.case.name, str(quote.cost), str(quote.left), _format_number(quote.stddev), f"{quote.share_after:.1%}"]
    return _table_html(["case", "cost", "left", "±", "of the budget afterwards"], [row]) + _note_html(
        f"{quote.sql} · {quote.in_words}"
    )


def facts_text(what: str, facts: Mapping[str, Any]) -> str:
    """Returns one line; of lists and objects only the length."""
    return f"{what}({', '.join(f'{name}={_format_fact(value)}' for name, value in facts.items())})"


def facts_html(what: str, facts: Mapping[str, Any]) -> str:
    """Returns a table with one row per fact."""
    return _table_html([what, ""], [[name, _format_fact(value)] for name, value in facts.items()])


def _format_fact(value: Any) -> str:
    if isinstance(value, (dict, tuple)):
        return f"<{len(value)}>"
    return str(value)


def _format_cost(answer: Answer) -> str:
    return f"cost {answer.cost}, remaining {answer.remaining}"


def _format_number(value: float) -> str:
    return f"{value:.6g}"


def _table_html(head: Iterable[str], rows: list[list[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[:MAX_ROWS])
    more = _note_html(f"and {len(rows) - MAX_ROWS} more rows") if len(rows) > MAX_ROWS else ""
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{more}"


def _note_html(text: str) -> str:
    return f"<div><small>{escape(text)}</small></div>"
