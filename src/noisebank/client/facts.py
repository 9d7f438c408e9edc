"""`Facts`: JSON objects of a service that are no results or quotes, with their fields as attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from noisebank.core.records import Case
from noisebank.core.units import Precision

AMOUNTS = frozenset({"budget", "spent", "left", "cost", "wanted", "remaining", "naive", "view_limit", "view_used",
                     "view_left", "first_look", "limit", "used"})  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class Facts:
    """Any other JSON object of a service, with its fields as attributes and amounts as `Precision`."""

    what: str
    raw: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            value = self.raw[name]
        except KeyError:
            raise AttributeError(f"{self.what} has no {name}; it has {', '.join(self.raw)}") from None
        return _parse_fact(name, value)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.raw]

    def __repr__(self) -> str:
        return _facts_text(self.what, {name: _parse_fact(name, value) for name, value in self.raw.items()})

    def _repr_html_(self) -> str:
        return _facts_html(self.what, {name: _parse_fact(name, value) for name, value in self.raw.items()})


def _parse_fact(name: str, value: Any) -> Any:
    if name in AMOUNTS and isinstance(value, str):
        return Precision.parse_decimal(value)
    if name == "case" and isinstance(value, str):
        return Case[value]
    if isinstance(value, list):
        return tuple(Facts(name, item) if isinstance(item, dict) else item for item in value)
    return value


def _facts_text(what: str, facts: Mapping[str, Any]) -> str:
    return f"{what}({', '.join(f'{name}={_format_fact(value)}' for name, value in facts.items())})"


def _facts_html(what: str, facts: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(_format_fact(value))}</td></tr>" for name, value in facts.items()
    )
    return f"<table><thead><tr><th>{escape(what)}</th><th></th></tr></thead><tbody>{rows}</tbody></table>"


def _format_fact(value: Any) -> str:
    """Returns a value as text; of lists and objects only the length."""
    return f"<{len(value)}>" if isinstance(value, (dict, tuple)) else str(value)
