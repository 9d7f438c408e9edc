"""Terminal output of whatever `Account.ask` returns: one answer, groups, derived numbers, several of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from noisebank.account.answers import Answer, GroupedAnswer
from noisebank.account.derived import FROM_COUNTS, Answers, DerivedAnswer
from noisebank.cli import render
from noisebank.core.wording import CASE_DESCRIPTIONS
from noisebank.queries.derived import Derivation

Result = Answer | DerivedAnswer | Answers


def show_result(result: Result) -> None:
    """Prints a result of `Account.ask`."""
    if isinstance(result, Answers):
        for name, item in zip(result.names, result.items, strict=True):
            render.out.print(f"[bold]{escape(name)}[/bold]")
            show_result(item)
        render.print_line(f"together {result.cost} precision; {result.remaining} left")
    elif isinstance(result, DerivedAnswer):
        _show_derived(result)
    elif isinstance(result, GroupedAnswer):
        _show_table(result.sql, result.by, [(group.keys, f"{group.value:.8g}") for group in result.groups])
        render.show_facts("", [("noise", f"each value ± {result.stddev:.4g}"), *_cost_rows(result)])
    else:
        render.show_answer(result)


def result_to_json(result: Result) -> dict[str, Any]:
    """Returns a JSON object, for --json."""
    if isinstance(result, Answers):
        items = {name: result_to_json(item) for name, item in zip(result.names, result.items, strict=True)}
        return {"sql": result.sql, "results": items, "cost": result.cost, "remaining": result.remaining}
    if isinstance(result, DerivedAnswer):
        return _derived_to_json(result)
    fields = render.answer_to_json(result)
    if isinstance(result, GroupedAnswer):
        fields |= {"value": None, "exact": None, "interval": None, "by": list(result.by)}
        fields["groups"] = [
            {"keys": list(group.keys), "value": group.value, "exact": str(group.exact)} for group in result.groups
        ]
    return fields


def write_receipts(path: Path, result: Result) -> None:
    """Writes one receipt per part: to PATH, then PATH.2, PATH.3, ..."""
    items = result.items if isinstance(result, Answers) else (result,)
    parts = [part for item in items for part in (item.parts if isinstance(item, DerivedAnswer) else (item,))]
    for number, part in enumerate(parts, 1):
        target = path if number == 1 else path.with_name(f"{path.name}.{number}")
        target.write_text(part.receipt.to_canonical_json() + "\n")


def _show_derived(answer: DerivedAnswer) -> None:
    if answer.by:
        _show_table(answer.sql, answer.by, [(group.keys, f"{group.value:.8g}") for group in answer.groups])
        render.show_facts("", [("made of", _describe_parts(answer)), *_cost_rows(answer)])
        return
    low, high = answer.interval()
    rows = [("answer", f"{answer.value:.8g}"), ("95% interval", f"{low:.8g} to {high:.8g}")]
    if answer.how is Derivation.MODE:
        rows = [("most frequent", answer.key), ("its count", f"{answer.value:.8g}"), rows[1]]
    elif answer.how in FROM_COUNTS:
        rows.insert(1, ("in the bin", answer.key))
    render.show_facts(answer.sql, [*rows, ("made of", _describe_parts(answer)), *_cost_rows(answer)])


def _derived_to_json(answer: DerivedAnswer) -> dict[str, Any]:
    grouped = bool(answer.by)
    fields: dict[str, Any] = {
        "sql": answer.sql,
        "name": answer.name,
        "derived": answer.how.value,
        "value": None if grouped else answer.value,
        "interval": None if grouped else list(answer.interval()),
        "confidence": 0.95,
        "case": answer.case.name,
        "cost": answer.cost,
        "remaining": answer.remaining,
        "parts": [result_to_json(part) for part in answer.parts],
        "receipts": [json.loads(part.receipt.to_canonical_json()) for part in answer.parts],
    }
    if grouped:
        fields |= {"by": list(answer.by)}
        fields["groups"] = [{"keys": list(group.keys), "value": group.value} for group in answer.groups]
    if answer.how in FROM_COUNTS:
        fields["key"] = answer.key
    return fields


def _describe_parts(answer: DerivedAnswer) -> str:
    kind = "cumulative counts over the declared bins" if answer.how in FROM_COUNTS else f"{len(answer.parts)} queries"
    if answer.how is Derivation.MODE:
        kind = "counts of all declared keys"
    return f"{kind}; each is on the ledger by itself"


def _cost_rows(answer: Answer | DerivedAnswer) -> list[tuple[str, str]]:
    return [
        ("case", f"{answer.case.name}: {CASE_DESCRIPTIONS[answer.case]}"),
        ("cost", f"{answer.cost} precision; {answer.remaining} left"),
        ("receipt", f"block {answer.receipt.block}, {answer.receipt.id.hex()[:16]}"),
    ]


def _show_table(title: str, by: tuple[str, ...], rows: list[tuple[tuple[str, ...], str]]) -> None:
    table = Table(title=escape(title), title_justify="left")
    for name in by:
        table.add_column(escape(name))
    table.add_column("value", justify="right")
    for keys, value in rows:
        table.add_row(*(escape(key) for key in keys), value)
    render.out.print(table)
