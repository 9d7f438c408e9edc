"""How results print: one line in a terminal, a small table in a notebook. Text of the service is escaped in HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from noisebank.core.errors import BadRequest

if TYPE_CHECKING:
    from noisebank.client.results import Answer, Quote

MOST_ROWS = 20


def optional(name: str) -> Any:
    """Imports a module of the extra [client]; says how to install it if it is missing."""
    try:
        return import_module(name)
    except ImportError:
        raise BadRequest("output", name, "is not installed: pip install 'noisebank[client]'") from None


def answer_text(answer: Answer) -> str:
    """Returns one line."""
    case = f", {answer.case.name}" if answer.case else ""
    if answer.kind == "several":
        return f"Answers({', '.join(f'{part.name} = {_number(part.value)}' for part in answer.parts)}, {_paid(answer)})"
    if answer.groups:
        some = ", ".join(f"{'/'.join(group.keys)}: {group.value:.6g}" for group in answer.groups[:6])
        more = f", and {len(answer.groups) - 6} more" if len(answer.groups) > 6 else ""
        return f"GroupedAnswer({some}{more}; each ± {_number(answer.stddev)}{case}, {_paid(answer)})"
    if answer.kind == "derived":
        low, high = answer.bounds or (float("nan"), float("nan"))
        return (
            f"DerivedAnswer({answer.name} = {_number(answer.value)}, 95% in [{low:.6g}, {high:.6g}], {_paid(answer)})"
        )
    return f"Answer({_number(answer.value)} ± {answer.stddev:.3g}{case}, {_paid(answer)})"


def answer_html(answer: Answer) -> str:
    """Returns a table of the values, then what they cost."""
    if answer.groups:
        head = [*answer.by, "value", "±"]
        rows = [[*group.keys, f"{group.value:,.6g}", _number(answer.stddev)] for group in answer.groups]
    elif answer.kind == "several":
        head = ["result", "value", "±"]
        rows = [[part.name or "", _number(part.value), _number(part.stddev)] for part in answer.parts]
    else:
        low, high = answer.bounds or (float("nan"), float("nan"))
        head, rows = (
            ["value", "±", "95%"],
            [[_number(answer.value), _number(answer.stddev), f"{low:,.6g} … {high:,.6g}"]],
        )
    words = [answer.sql, answer.in_words, f"cost {answer.cost}, {answer.remaining} remains", answer.message or ""]
    return _table(head, rows) + _note(" · ".join(word for word in words if word))


def quote_text(quote: Quote) -> str:
    """Returns one line."""
    afford = "" if quote.affordable else ", more than is left"
    return f"Quote({quote.case.name}, cost {quote.cost} of {quote.left}{afford}, ± {_number(quote.stddev)})"


def quote_html(quote: Quote) -> str:
    """Returns a table of one row."""
    row = [quote.case.name, str(quote.cost), str(quote.left), _number(quote.stddev), f"{quote.share_after:.1%}"]
    return _table(["case", "cost", "left", "±", "of the budget afterwards"], [row]) + _note(
        f"{quote.sql} · {quote.in_words}"
    )


def facts_text(what: str, facts: Mapping[str, Any]) -> str:
    """Returns one line; of lists and objects only the length."""
    return f"{what}({', '.join(f'{name}={_short(value)}' for name, value in facts.items())})"


def facts_html(what: str, facts: Mapping[str, Any]) -> str:
    """Returns a table with one row per fact."""
    return _table([what, ""], [[name, _short(value)] for name, value in facts.items()])


def _short(value: Any) -> str:
    if isinstance(value, (dict, tuple)):
        return f"<{len(value)}>"
    return str(value)


def _paid(answer: Answer) -> str:
    return f"cost {answer.cost}, remaining {answer.remaining}"


def _number(value: float) -> str:
    return f"{value:.6g}"


def _table(head: Iterable[str], rows: list[list[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[:MOST_ROWS])
    more = _note(f"and {len(rows) - MOST_ROWS} more rows") if len(rows) > MOST_ROWS else ""
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{more}"


def _note(text: str) -> str:
    return f"<div><small>{escape(text)}</small></div>"
