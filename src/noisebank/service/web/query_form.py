"""The console's form: turns its fields into a request, and mistakes into messages at the fields they are about.

Nothing that was typed is lost: the form goes back into the page as it came. `web.console` shows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, floor, log10
from typing import Any

from noisebank.account.account import Account
from noisebank.core.calendar import format_clock, parse_clock
from noisebank.core.errors import BadQuery, BadRequest, NoisebankError, UnsupportedQuery
from noisebank.core.estimates import standard_deviation
from noisebank.core.intervals import confidence_interval
from noisebank.core.units import Precision, parse_exact
from noisebank.policy.model import Column, Kind
from noisebank.queries.query import Question
from noisebank.queries.selects import parse_select_list
from noisebank.queries.sensitivity import l2_sensitivity
from noisebank.service.schemas import QuoteIn

INPUT_MODES = ("named", "built", "sql")
FUNCTIONS = {"count": "How many", "sum": "Sum of", "avg": "Average of"}
SIGNS = {"=": "is", "<>": "is not", "<": "below", "<=": "at most", ">": "above", ">=": "at least"}
CONFIDENCES = ("0.9", "0.95", "0.99")
CONDITIONS = (1, 2, 3)
RELATIVE_FIELDS = {"relative": "percent", "confidence": "sure", "floor": "floor", "precision": "floor"}
"""The form's fields by the parameters of a relative request."""
SPEND_FIELDS = {"spend": "share", "confidence": "surely", "precision": "share"}
DATA_DEPENDENT = (
    "how much noise this allows depends on the data, so the slider cannot say: write a number above 0, or choose Budget"
)
MAX_SQL_CHARACTERS = 10_000
SLIDER_DECADES = 4.0
"""The slider runs over this many powers of ten of price, up to the whole budget."""
PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(slots=True)
class QueryForm:
    """One form as it was filled in. `mistakes` has a message for each field that needs one."""

    fields: dict[str, str]
    mistakes: dict[str, str] = field(default_factory=dict)
    hint: str = ""
    """What is still missing; not yet a mistake."""

    def __getitem__(self, name: str) -> str:
        return self.fields.get(name, "")

    def add_mistake(self, name: str, message: str) -> None:
        """Set the message of a field, unless it has one."""
        self.mistakes.setdefault(name, message)


def new_form(account: Account) -> QueryForm:
    """Return the form as it is first shown."""
    query = next(iter(account.context.policy.queries), "")
    return QueryForm(
        {
            "how": "named" if query else "built", "named": query, "function": "count", "column": "", "group": "",
            "sql": account.context.policy.queries.get(query, f"SELECT COUNT(*) FROM {_quote_name(account.name)}"),
            "by": "accuracy", "slide": "50", "within": "",
            "confidence": "0.95", "epsilon": "0.1", "delta": f"{float(account.context.policy.delta):g}",
            "moved": "slide", "percent": "5", "sure": "0.95", "floor": "", "share": "1", "surely": "0.95",
        }
    )  # fmt: skip


def parse_form(form: QueryForm, account: Account) -> QuoteIn | None:
    """Return the request that a form makes; None if something is missing or wrong, which the form then says."""
    sql = _form_sql(form, account)
    if sql is None:
        return None
    if form["by"] == "privacy":
        options = {
            name: _parse_positive(form, name, "0.5" if name == "epsilon" else "1e-6") for name in ("epsilon", "delta")
        }
    elif form["by"] == "relative":
        percent = _parse_positive(form, "percent", "5")
        options = {"relative": percent and f"{percent}%", "confidence": _parse_confidence(form, "sure")}
        if form["floor"].strip():  # else a share of what the policy allows
            options["floor"] = _parse_positive(form, "floor", "100")
    elif form["by"] == "spend":
        share = _parse_positive(form, "share", "1")
        options = {"spend": share and f"{share}%", "confidence": _parse_confidence(form, "surely")}
    else:
        _sync_slider(form, account, sql)
        options = {"within": _parse_positive(form, "within", "10"), "confidence": _parse_confidence(form, "confidence")}
    if form.mistakes or None in options.values():
        return None
    return QuoteIn.model_validate({"sql": sql, **options})


def assign_error(form: QueryForm, error: NoisebankError) -> None:
    """Add the bank's error as a mistake of the field that it is about."""
    names = {"relative": RELATIVE_FIELDS, "spend": SPEND_FIELDS}.get(form["by"], {})
    if isinstance(error, BadRequest) and error.parameter in names:
        form.add_mistake(names[error.parameter], error.allowed)
    elif isinstance(error, BadRequest) and error.parameter in ("epsilon", "delta", "within", "confidence"):
        form.add_mistake(error.parameter, error.allowed)
    elif isinstance(error, BadRequest) and error.parameter == "precision":
        form.add_mistake("within" if form["by"] != "privacy" else "epsilon", error.allowed)
    elif isinstance(error, (BadQuery, UnsupportedQuery)):
        form.add_mistake(_input_mode(form), str(error))
    else:
        form.add_mistake("form", str(error))


# -- the question ------------------------------------------------------------------------------


def _input_mode(form: QueryForm) -> str:
    return form["how"] if form["how"] in INPUT_MODES else "sql"


def _form_sql(form: QueryForm, account: Account) -> str | None:
    way = _input_mode(form)
    if way == "named":
        if form["named"] in account.context.policy.queries:
            return form["named"]
        form.add_mistake(
            "named",
            f"choose one of {', '.join(account.context.policy.queries) or 'none: this policy names no queries'}",
        )
        return None
    if way == "built":
        return build_sql(form, account)
    text = form["sql"].strip()
    if not text:
        form.hint = "Write a question in SQL to see its price."
    elif len(text) > MAX_SQL_CHARACTERS:
        form.add_mistake("sql", f"at most {MAX_SQL_CHARACTERS} characters")
    return text or None if not form.mistakes else None


def build_sql(form: QueryForm, account: Account) -> str | None:
    """Return SQL from the form's controls; only what the policy declares can be named."""
    columns = account.context.policy.columns
    what = "COUNT(*)"
    if form["function"] in ("sum", "avg"):
        chosen = columns.get(form["column"])
        if chosen is None:
            form.add_mistake("column", f"choose a column to take the {form['function']} of")
        elif chosen.low is None:
            form.add_mistake("column", f"{chosen.name} has no bounds in the policy; choose a column that has")
        else:
            what = f"{form['function'].upper()}({_quote_name(chosen.name)})"
    elif form["function"] != "count":
        form.add_mistake("function", "choose how many, sum or average")
    where = [text for number in CONDITIONS if (text := _build_condition(form, number, columns))]
    group = form["group"]
    if group and (group not in columns or not is_groupable(columns[group])):
        form.add_mistake("group", f"choose one of {', '.join(name for name in columns if is_groupable(columns[name]))}")
    if form.mistakes:
        return None
    sql = f"SELECT {_quote_name(group) + ', ' if group else ''}{what} FROM {_quote_name(account.name)}"
    sql += f" WHERE {' AND '.join(where)}" if where else ""
    return sql + (f" GROUP BY {_quote_name(group)}" if group else "")


def is_groupable(column: Column) -> bool:
    """Whether a GROUP BY over a column has declared groups."""
    return column.kind is Kind.BOOLEAN or bool(column.keys) or bool(column.bins)


def describe_values(column: Column) -> str:
    """Return in words what may be compared with a column."""
    if column.kind is Kind.BOOLEAN:
        return "true or false"
    if column.is_keyed:
        keys = ", ".join(column.key_names[:12]) + (" …" if len(column.keys) > 12 else "")
        return f"one of {keys}" if keys else "any text"
    if column.low is None or column.high is None:
        return "a number" if column.is_numeric else "a date"
    if column.is_date:
        low, high = (format_clock(bound * column.step_days) for bound in column.bounds)
        return f"a date from {low} to {high}"
    return f"a number from {float(column.step * column.low):g} to {float(column.step * column.high):g}"


def _build_condition(form: QueryForm, number: int, columns: Mapping[str, Column]) -> str | None:
    name, sign, value = (form[f"where{number}_{part}"].strip() for part in ("column", "sign", "value"))
    if not name:
        return None
    box = f"where{number}_value"
    column = columns.get(name)
    if column is None:
        form.add_mistake(box, f"{name} is no column; choose one from the list")
        return None
    ordered = column.is_numeric or column.is_date
    if sign not in SIGNS or (not ordered and sign not in ("=", "<>")):
        form.add_mistake(box, f"{name} can be compared with {'any sign' if ordered else '“is” and “is not”'} only")
        return None
    if not value:
        form.hint = "Fill in the condition to see its price."
        form.add_mistake(box, f"write {describe_values(column)}")
        return None
    literal = _sql_literal(column, value)
    if literal is None:
        form.add_mistake(box, f"write {describe_values(column)}")
        return None
    return f"{_quote_name(name)} {sign} {literal}"


def _sql_literal(column: Column, value: str) -> str | None:
    if column.kind is Kind.BOOLEAN:
        return value.upper() if value.lower() in ("true", "false") else None
    if column.keys and column.kind is not Kind.TEXT:
        return value if value in column.key_names else None
    if column.kind is Kind.TEXT:
        if "\x00" in value or (column.keys and value not in column.keys):
            return None
        return "'" + value.replace("'", "''") + "'"
    if column.is_date:
        return None if parse_clock(value) is None else f"'{value.strip()}'"
    try:
        number = parse_exact(value.replace("\u202f", ""), "value")
    except BadRequest:
        return None
    return f"{float(number):.15g}" if number.denominator != 1 else str(number.numerator)


def _quote_name(name: str) -> str:
    return name if PLAIN_NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"'


# -- how good ----------------------------------------------------------------------------------


def _parse_confidence(form: QueryForm, name: str) -> str:
    confidence = form[name] or "0.95"
    if confidence not in CONFIDENCES:
        form.add_mistake(name, f"choose one of {', '.join(CONFIDENCES)}")
    return confidence


def _parse_positive(form: QueryForm, name: str, example: str) -> str | None:
    text = form[name].strip().replace("\u202f", "").replace(" ", "")
    if not text:
        form.add_mistake(name, f"write a number above 0, for instance {example}")
        return None
    try:
        number = parse_exact(text, name)
    except BadRequest:
        form.add_mistake(name, f"write a number above 0, for instance {example}")
        return None
    below = {"delta": (1, "1e-6"), "percent": (100, "5")}.get(name)
    if number <= 0 or (below and number >= below[0]):
        form.add_mistake(
            name, "write a number above 0" + (f" and below {below[0]}, for instance {below[1]}" if below else "")
        )
        return None
    return text


def _sync_slider(form: QueryForm, account: Account, sql: str) -> None:
    """Slider and distance mean the same: set the one that was not moved last from the other."""
    try:
        question = _linear_question(account, sql)
    except NoisebankError as error:
        assign_error(form, error)
        return
    if question is None:
        if not form["within"].strip():
            form.add_mistake("within", DATA_DEPENDENT)
        return
    budget, text = account.state.budget, form["confidence"] or "0.95"
    if text not in CONFIDENCES or not budget:
        return
    finest = interval_half_width(account, question, budget, float(text))  # what the whole budget would buy
    if form["moved"] == "slide" or not form["within"].strip():
        try:
            position = min(100.0, max(0.0, float(form["slide"] or "50")))
        except ValueError:
            form.add_mistake("slide", "choose a place from 0 to 100")
            return
        form.fields["within"] = round_up(finest * 10 ** (SLIDER_DECADES / 2 * (1 - position / 100)))
        return
    try:
        target = float(parse_exact(form["within"].strip().replace("\u202f", ""), "within"))
    except (BadRequest, OverflowError):
        return
    if target > 0:
        position = 100 * (1 - log10(target / finest) / (SLIDER_DECADES / 2))
        form.fields["slide"] = f"{min(100.0, max(0.0, position)):.0f}"


def interval_half_width(account: Account, question: Question, precision: Precision, confidence: float) -> float:
    """Return how far off an answer of this precision may be, in the answer's unit."""
    stddev = standard_deviation(l2_sensitivity(question.query, account.context.policy), question.unit, precision)
    return confidence_interval(0.0, stddev, confidence)[1]


def round_up(value: float) -> str:
    """Return three digits, never less than the value.

    >>> round_up(123.41), round_up(0.0012345), round_up(98765.0)
    ('124', '0.00124', '98800')
    """
    power = floor(log10(value)) - 2
    return f"{ceil(value / 10**power - 1e-9) * 10**power:.{max(0, -power)}f}"


def _linear_question(account: Account, sql: str) -> Question | None:
    """Return the question, if its answer is one number (or one per group) with one noise; else None."""
    select = parse_select_list(account.named(sql), account.context.policy)
    return select.aggregates[0].questions[0] if select.is_plain_question else None


def form_choices(account: Account) -> dict[str, Any]:
    """Return the choices that the form offers."""
    columns = account.context.policy.columns
    return {
        "queries": account.context.policy.queries,
        "columns": {name: describe_values(column) for name, column in columns.items()},
        "numeric": [name for name, column in columns.items() if column.is_numeric and column.low is not None],
        "groups": [name for name, column in columns.items() if is_groupable(column)],
        "functions": FUNCTIONS, "signs": SIGNS, "confidences": CONFIDENCES, "conditions": CONDITIONS,
    }  # fmt: skip
