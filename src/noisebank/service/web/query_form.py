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
from noisebank.account.answers import standard_deviation
from noisebank.core.errors import BadQuery, BadRequest, NoisebankError, UnsupportedQuery
from noisebank.core.intervals import interval
from noisebank.core.units import Precision, exact
from noisebank.policy.model import Column, Kind
from noisebank.queries.derived import Derivation, items
from noisebank.queries.query import Question
from noisebank.queries.sensitivity import sensitivity
from noisebank.service.schemas import WishIn

WAYS = ("named", "built", "sql")
FUNCTIONS = {"count": "How many", "sum": "Sum of", "avg": "Average of"}
SIGNS = {"=": "is", "<>": "is not", "<": "below", "<=": "at most", ">": "above", ">=": "at least"}
CONFIDENCES = ("0.9", "0.95", "0.99")
CONDITIONS = (1, 2, 3)
RELATIVE = {"relative": "percent", "confidence": "sure", "floor": "floor", "precision": "floor"}
"""The form's fields by the parameters of a relative request."""
MOST_SQL = 10_000
DECADES = 4.0
"""The slider runs over this many powers of ten of price, up to the whole budget."""
PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(slots=True)
class Draft:
    """One form as it was filled in. `mistakes` has a message for each field that needs one."""

    fields: dict[str, str]
    mistakes: dict[str, str] = field(default_factory=dict)
    hint: str = ""
    """What is still missing; not yet a mistake."""

    def __getitem__(self, name: str) -> str:
        return self.fields.get(name, "")

    def wrong(self, name: str, message: str) -> None:
        """Set the message of a field, unless it has one."""
        self.mistakes.setdefault(name, message)


def fresh(account: Account) -> Draft:
    """Return the form as it is first shown."""
    query = next(iter(account.policy.queries), "")
    return Draft(
        {
            "how": "named" if query else "built", "named": query, "function": "count", "column": "", "group": "",
            "sql": account.policy.queries.get(query, f"SELECT COUNT(*) FROM {_name(account.name)}"),
            "by": "accuracy", "slide": "50", "within": "",
            "confidence": "0.95", "epsilon": "0.1", "delta": f"{float(account.policy.delta):g}", "moved": "slide",
            "percent": "5", "sure": "0.95", "floor": "",
        }
    )  # fmt: skip


def wished(draft: Draft, account: Account) -> WishIn | None:
    """Return the request that a form makes; None if something is missing or wrong, which the form then says."""
    sql = _sql(draft, account)
    if sql is None:
        return None
    if draft["by"] == "privacy":
        options = {
            name: _positive(draft, name, "0.5" if name == "epsilon" else "1e-6") for name in ("epsilon", "delta")
        }
    elif draft["by"] == "relative":
        percent = _positive(draft, "percent", "5")
        options = {"relative": percent and f"{percent}%", "confidence": _confidence(draft, "sure")}
        if draft["floor"].strip():  # else a share of what the policy allows
            options["floor"] = _positive(draft, "floor", "100")
    else:
        _slide(draft, account, sql)
        options = {"within": _positive(draft, "within", "10"), "confidence": _confidence(draft, "confidence")}
    if draft.mistakes or None in options.values():
        return None
    return WishIn.model_validate({"sql": sql, **options})


def blame(draft: Draft, error: NoisebankError) -> None:
    """Add the bank's error as a mistake of the field that it is about."""
    if isinstance(error, BadRequest) and draft["by"] == "relative" and error.parameter in RELATIVE:
        draft.wrong(RELATIVE[error.parameter], error.allowed)
    elif isinstance(error, BadRequest) and error.parameter in ("epsilon", "delta", "within", "confidence"):
        draft.wrong(error.parameter, error.allowed)
    elif isinstance(error, BadRequest) and error.parameter == "precision":
        draft.wrong("within" if draft["by"] != "privacy" else "epsilon", error.allowed)
    elif isinstance(error, UnsupportedQuery) and error.clause.startswith("relative accuracy"):
        draft.wrong(
            "percent", "this is for counts and sums, not for groups, derived answers or a constant: choose another way"
        )
    elif isinstance(error, UnsupportedQuery) and "within" in error.clause:
        draft.wrong("within", "how far off such an answer is depends on the data: choose a privacy loss instead")
    elif isinstance(error, (BadQuery, UnsupportedQuery)):
        draft.wrong(_way(draft), str(error))
    else:
        draft.wrong("form", str(error))


# -- the question ------------------------------------------------------------------------------


def _way(draft: Draft) -> str:
    return draft["how"] if draft["how"] in WAYS else "sql"


def _sql(draft: Draft, account: Account) -> str | None:
    way = _way(draft)
    if way == "named":
        if draft["named"] in account.policy.queries:
            return draft["named"]
        draft.wrong(
            "named", f"choose one of {', '.join(account.policy.queries) or 'none: this policy names no queries'}"
        )
        return None
    if way == "built":
        return built(draft, account)
    text = draft["sql"].strip()
    if not text:
        draft.hint = "Write a question in SQL to see its price."
    elif len(text) > MOST_SQL:
        draft.wrong("sql", f"at most {MOST_SQL} characters")
    return text or None if not draft.mistakes else None


def built(draft: Draft, account: Account) -> str | None:
    """Return SQL from the form's controls; only what the policy declares can be named."""
    columns = account.policy.columns
    what = "COUNT(*)"
    if draft["function"] in ("sum", "avg"):
        chosen = columns.get(draft["column"])
        if chosen is None:
            draft.wrong("column", f"choose a column to take the {draft['function']} of")
        elif chosen.low is None:
            draft.wrong("column", f"{chosen.name} has no bounds in the policy; choose a column that has")
        else:
            what = f"{draft['function'].upper()}({_name(chosen.name)})"
    elif draft["function"] != "count":
        draft.wrong("function", "choose how many, sum or average")
    where = [text for number in CONDITIONS if (text := _condition(draft, number, columns))]
    group = draft["group"]
    if group and (group not in columns or not groupable(columns[group])):
        draft.wrong("group", f"choose one of {', '.join(name for name in columns if groupable(columns[name]))}")
    if draft.mistakes:
        return None
    sql = f"SELECT {_name(group) + ', ' if group else ''}{what} FROM {_name(account.name)}"
    sql += f" WHERE {' AND '.join(where)}" if where else ""
    return sql + (f" GROUP BY {_name(group)}" if group else "")


def groupable(column: Column) -> bool:
    """Whether a GROUP BY over a column has declared groups."""
    return column.kind is Kind.BOOLEAN or bool(column.keys) or bool(column.bins)


def allowed(column: Column) -> str:
    """Return in words what may be compared with a column."""
    if column.kind is Kind.BOOLEAN:
        return "true or false"
    if column.kind is Kind.TEXT:
        keys = ", ".join(column.keys[:12]) + (" …" if len(column.keys) > 12 else "")
        return f"one of {keys}" if keys else "any text"
    if column.low is None or column.high is None:
        return "a number"
    return f"a number from {float(column.step * column.low):g} to {float(column.step * column.high):g}"


def _condition(draft: Draft, place: int, columns: Mapping[str, Column]) -> str | None:
    name, sign, value = (draft[f"where{place}_{part}"].strip() for part in ("column", "sign", "value"))
    if not name:
        return None
    box = f"where{place}_value"
    column = columns.get(name)
    if column is None:
        draft.wrong(box, f"{name} is no column; choose one from the list")
        return None
    if sign not in SIGNS or (not column.numeric and sign not in ("=", "<>")):
        draft.wrong(box, f"{name} can be compared with {'any sign' if column.numeric else '“is” and “is not”'} only")
        return None
    if not value:
        draft.hint = "Fill in the condition to see its price."
        draft.wrong(box, f"write {allowed(column)}")
        return None
    literal = _literal(column, value)
    if literal is None:
        draft.wrong(box, f"write {allowed(column)}")
        return None
    return f"{_name(name)} {sign} {literal}"


def _literal(column: Column, value: str) -> str | None:
    if column.kind is Kind.BOOLEAN:
        return value.upper() if value.lower() in ("true", "false") else None
    if column.kind is Kind.TEXT:
        if "\x00" in value or (column.keys and value not in column.keys):
            return None
        return "'" + value.replace("'", "''") + "'"
    try:
        number = exact(value.replace("\u202f", ""), "value")
    except BadRequest:
        return None
    return f"{float(number):.15g}" if number.denominator != 1 else str(number.numerator)


def _name(name: str) -> str:
    return name if PLAIN_NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"'


# -- how good ----------------------------------------------------------------------------------


def _confidence(draft: Draft, name: str) -> str:
    confidence = draft[name] or "0.95"
    if confidence not in CONFIDENCES:
        draft.wrong(name, f"choose one of {', '.join(CONFIDENCES)}")
    return confidence


def _positive(draft: Draft, name: str, example: str) -> str | None:
    text = draft[name].strip().replace("\u202f", "").replace(" ", "")
    if not text:
        draft.wrong(name, f"write a number above 0, for instance {example}")
        return None
    try:
        number = exact(text, name)
    except BadRequest:
        draft.wrong(name, f"write a number above 0, for instance {example}")
        return None
    below = {"delta": (1, "1e-6"), "percent": (100, "5")}.get(name)
    if number <= 0 or (below and number >= below[0]):
        draft.wrong(
            name, "write a number above 0" + (f" and below {below[0]}, for instance {below[1]}" if below else "")
        )
        return None
    return text


def _slide(draft: Draft, account: Account, sql: str) -> None:
    """Slider and distance mean the same: set the one that was not moved last from the other."""
    try:
        question = _linear(account, sql)
    except NoisebankError as error:
        blame(draft, error)
        return
    if question is None:
        return
    budget, text = account.state.budget, draft["confidence"] or "0.95"
    if text not in CONFIDENCES or not budget:
        return
    finest = half_width(account, question, budget, float(text))  # what the whole budget would buy
    if draft["moved"] == "slide" or not draft["within"].strip():
        try:
            position = min(100.0, max(0.0, float(draft["slide"] or "50")))
        except ValueError:
            draft.wrong("slide", "choose a place from 0 to 100")
            return
        draft.fields["within"] = rounded_up(finest * 10 ** (DECADES / 2 * (1 - position / 100)))
        return
    try:
        target = float(exact(draft["within"].strip().replace("\u202f", ""), "within"))
    except (BadRequest, OverflowError):
        return
    if target > 0:
        position = 100 * (1 - log10(target / finest) / (DECADES / 2))
        draft.fields["slide"] = f"{min(100.0, max(0.0, position)):.0f}"


def half_width(account: Account, question: Question, precision: Precision, confidence: float) -> float:
    """Return how far off an answer of this precision may be, in the answer's unit."""
    stddev = standard_deviation(sensitivity(question.query, account.policy), question.unit, precision)
    return interval(0.0, stddev, confidence)[1]


def rounded_up(value: float) -> str:
    """Return three digits, never less than the value.

    >>> rounded_up(123.41), rounded_up(0.0012345), rounded_up(98765.0)
    ('124', '0.00124', '98800')
    """
    power = floor(log10(value)) - 2
    return f"{ceil(value / 10**power - 1e-9) * 10**power:.{max(0, -power)}f}"


def _linear(account: Account, sql: str) -> Question | None:
    """Return the question, if its answer is one number (or one per group) with one noise; else None."""
    parsed = items(account.named(sql), account.policy)
    return parsed[0].questions[0] if len(parsed) == 1 and parsed[0].how is Derivation.LINEAR else None


def controls(account: Account) -> dict[str, Any]:
    """Return the choices that the form offers."""
    columns = account.policy.columns
    return {
        "queries": account.policy.queries,
        "columns": {name: allowed(column) for name, column in columns.items()},
        "numeric": [name for name, column in columns.items() if column.numeric and column.low is not None],
        "groups": [name for name, column in columns.items() if groupable(column)],
        "functions": FUNCTIONS, "signs": SIGNS, "confidences": CONFIDENCES, "conditions": CONDITIONS,
    }  # fmt: skip
