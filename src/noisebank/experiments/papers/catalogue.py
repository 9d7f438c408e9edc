"""Which figures and tables there are, in the order of the papers."""

from __future__ import annotations

from importlib import import_module

from noisebank.errors import BadRequest
from noisebank.experiments.papers.exhibit import Exhibit

NAMES = (
    "p0-table2", "p0-figure5", "p0-figure6", "p0-blur", "p0-figure7", "p0-figure8-9", "p0-figure10",
    "p1-example", "p1-figure6", "p1-figure7", "p1-figure8", "p1-figure9", "p1-figure10", "p1-planner",
    "p3-table2", "p3-table3", "p3-figure7", "p3-figure8", "p3-relative",
    "budget",
)  # fmt: skip
PAPERS = {
    "p0": "Zhao et al., A blockchain-based approach for saving and tracking differential-privacy cost",
    "p1": "Xiao and Xiong, Online query answering with differential privacy: a utility-driven approach",
    "p3": "Islam, Rehmani, Chen, An optimized privacy-utility trade-off framework (OPU-TF-IoT)",
}


def exhibit(name: str) -> Exhibit:
    """One of them. Loaded when it is needed: some pull in half of the product."""
    if name not in NAMES:
        raise BadRequest("name", name, f"must be one of {', '.join(NAMES)}")
    module = import_module(f"noisebank.experiments.papers.{name.replace('-', '_')}")
    found = module.EXHIBIT
    assert isinstance(found, Exhibit)
    return found


def chosen(name: str) -> tuple[str, ...]:
    """`all`, a paper (`p0`, `p1`, `p3`), or one name."""
    if name == "all":
        return NAMES
    if name in PAPERS:
        return tuple(each for each in NAMES if each.startswith(f"{name}-"))
    return (exhibit(name).name,)
