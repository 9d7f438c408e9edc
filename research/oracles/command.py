"""`oracles`: recompute what our numbers are held against."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import click

from research.oracles.reuse import Values

PAGES = Path("docs") / "results" / "papers.json"
SLACK = 0.006
"""Of a value that is compared: the references are rounded to two to four digits."""


def list_oracles() -> dict[str, list[tuple[str, str, float, float]]]:
    """By oracle: exhibit, number, what it is held against, and the tolerance that ours has."""
    found: dict[str, list[tuple[str, str, float, float]]] = {}
    for exhibit, one in json.loads(PAGES.read_text()).items():
        for number in one["numbers"]:
            if "." in number.get("oracle", ""):
                row = (exhibit, number["name"], float(number["expected"]), float(number["spread"]))
                found.setdefault(number["oracle"], []).append(row)
    return found


def compute(oracle: str, quick: bool) -> Values:
    """Its values."""
    module, function = oracle.split(".")
    run: Callable[[bool], Values] = getattr(import_module(f"research.oracles.{module}"), function)
    return run(quick)


def compare(oracle: str, rows: list[tuple[str, str, float, float]], quick: bool) -> list[dict[str, object]]:
    """What the exhibits hold ours against, beside what comes out now: within its rounding, both scatters, or the
    tolerance that ours has anyhow."""
    values, result = compute(oracle, quick), []
    for exhibit, name, expected, spread in rows:
        value = values.get(name)
        if value is None and len(values) == 1 and oracle in ("relay.variances",):
            value = next(iter(values.values()))
        if value is None:
            result.append(
                {"exhibit": exhibit, "number": name, "expected": expected, "recomputed": None, "agrees": None}
            )
            continue
        allowed = max(
            _half_unit(expected),
            SLACK * abs(expected),
            5.0 * value[1] + SLACK * abs(expected),
            spread if value[1] else 0.0,
            1e-9,
        )
        agrees = abs(value[0] - expected) <= allowed
        result.append({"exhibit": exhibit, "number": name, "expected": expected, "recomputed": round(value[0], 8),
                       "standard error": round(value[1], 8), "agrees": agrees})  # fmt: skip
    return result


def _half_unit(value: float) -> float:
    """Half a unit of the last decimal that the reference has; none if it is a whole number."""
    digits = f"{value:.12g}".partition(".")[2]
    return 0.5 * 10.0 ** -len(digits) if digits and "e" not in digits else 0.0


@click.command("oracles")
@click.argument("names", nargs=-1)
@click.option("--quick", is_flag=True, help="Fewer seeds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
def oracles(names: tuple[str, ...], quick: bool, as_json: bool) -> None:
    """Recompute what our numbers are held against, by code that imports nothing of noisebank; NAMES choose some.

    Compares with docs/results/papers.json. "not in a quick run": only a full one computes it.

    Example:  python -m research oracles reuse.figure5 --quick
    """
    known = list_oracles()
    off, found = 0, {}
    for oracle in names or tuple(known):
        if oracle not in known:
            raise click.BadParameter(f"{oracle}: must be one of {', '.join(known)}")
        found[oracle] = compare(oracle, known[oracle], quick)
        wrong = [row for row in found[oracle] if row["agrees"] is False]
        lacking = sum(row["agrees"] is None for row in found[oracle])
        off += len(wrong)
        if not as_json:
            more = f", {lacking} not computed" if lacking else ""
            click.echo(f"{oracle}: {len(found[oracle]) - len(wrong) - lacking} of {len(found[oracle])} agree{more}")
            for row in wrong:
                click.echo(f"  {row['exhibit']}, {row['number']}: {row['recomputed']}, not {row['expected']}")
    if as_json:
        click.echo(json.dumps(found, indent=1))
    sys.exit(1 if off else 0)
