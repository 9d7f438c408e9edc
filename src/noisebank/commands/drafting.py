"""policy draft, policy check: before an account is opened."""

from __future__ import annotations

from pathlib import Path

import click

from noisebank.commands.options import as_json, guarded


@click.group()
def policy() -> None:
    """Draft and check policies."""


@policy.command("draft")
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Write it here instead of showing it; never overwrites.")
@as_json
@guarded
def draft(table: Path, out: Path | None, as_json: bool) -> None:
    """Write a commented policy for TABLE from its schema: names and types, never values.

    Example:  noisebank policy draft survey.parquet --out survey.toml
    """
    from noisebank import console
    from noisebank.drafting import draft_policy
    from noisebank.errors import BadRequest

    text = draft_policy(table, None if out is None else out.parent)
    if out is not None:
        try:
            with out.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise BadRequest("out", out, f"cannot be written ({error.strerror})") from None
    if as_json:
        console.show_json({"policy": text, "written": None if out is None else str(out)})
    else:
        console.say(f"written to {out}: fill in what is marked, then: noisebank policy check {out}" if out else text)


@policy.command("check")
@click.argument("path", type=click.Path(path_type=Path))
@as_json
@guarded
def check(path: Path, as_json: bool) -> None:
    """Check the policy at PATH and its named queries. The table is not read.

    Example:  noisebank policy check survey.toml
    """
    from noisebank import console
    from noisebank.policy_file import read_policy
    from noisebank.privacy.calibration import budget_precision
    from noisebank.queries.derived import check_queries

    found = read_policy(path)
    check_queries(found)
    shown = {
        "name": found.name,
        "columns": len(found.columns),
        "queries": sorted(found.queries),
        "budget": str(budget_precision(found.epsilon, found.delta)),
        "digest": found.digest.hex(),
    }
    console.show_json(shown) if as_json else console.facts(
        f"{path} is a valid policy", [(k, str(v)) for k, v in shown.items()]
    )
