"""An exhibit by its name."""

from __future__ import annotations

from importlib import import_module

from noisebank.core.errors import BadRequest
from research.papers.exhibit import Exhibit
from research.papers.names import CROWD, EXHIBITS, LEARNING, PAPERS, RECORDED

TOGETHER = ("p2", "p4")
"""Papers whose exhibits share a module."""


def exhibit(name: str) -> Exhibit:
    """One of them. Loaded when it is needed: some pull in half of the product."""
    if name not in (*EXHIBITS, *CROWD):
        raise BadRequest("name", name, f"must be one of {', '.join((*EXHIBITS, *CROWD))}")
    paper = name.partition("-")[0]
    if name in CROWD:
        found = import_module("research.papers.p4_crowd").EXHIBITS[name]
    elif name in LEARNING:
        found = import_module("research.papers.p4_learning").EXHIBITS[name]
    elif name == "p4-incentives":
        found = import_module("research.papers.p4_incentives").EXHIBIT
    elif paper in TOGETHER:
        found = import_module(f"research.papers.{paper}").EXHIBITS[name]
    else:
        found = import_module(f"research.papers.{name.replace('-', '_')}").EXHIBIT
    assert isinstance(found, Exhibit)
    return found


def chosen(name: str) -> tuple[str, ...]:
    """`all`, a paper (`p0` to `p4`), or one name. Attackers train with torch: by their own name only."""
    if name == "all":
        return EXHIBITS + RECORDED
    if name in PAPERS:
        return tuple(each for each in EXHIBITS + RECORDED if each.startswith(f"{name}-"))
    return (exhibit(name).name,)
