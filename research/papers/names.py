"""Which figures and tables there are, in the order of the papers. Loads nothing: the command line lists them."""

from __future__ import annotations

EXHIBITS = (
    "p0-table2", "p0-figure5", "p0-figure6", "p0-blur", "p0-figure7", "p0-figure8-9", "p0-figure10",
    "p1-example", "p1-figure6", "p1-figure7", "p1-figure8", "p1-figure9", "p1-figure10", "p1-planner",
    "p2-figure3", "p2-figure4", "p2-figure5", "p2-figure6", "p2-figure7", "p2-figure8", "p2-claims", "p2-trust",
    "p2-processes",
    "p3-figure1", "p3-table2", "p3-table3", "p3-figure7", "p3-figure8", "p3-relative",
    "p4-table3-1", "p4-figure3-2", "p4-figure3-3", "p4-figure3-4", "p4-figure3-5", "p4-figure3-6", "p4-figure3-7",
    "p4-means", "p4-figure3-8", "p4-figure3-9", "p4-figure3-10", "p4-figure3-11", "p4-figure3-12", "p4-figure3-13",
    "p4-figure3-14", "p4-figure3-15", "p4-learning", "p4-incentives",
    "budget",
)  # fmt: skip
CROWD = (
    "p4-figure5-3", "p4-figure5-4", "p4-figure5-5", "p4-figure5-6", "p4-figure5-7", "p4-figure5-8", "p4-attackers",
)  # fmt: skip
"""Those of P4 about learning by a crowd, from recorded trainings; `research.blockfl.page` writes their own page."""
RECORDED = tuple(name for name in CROWD if name != "p4-attackers")
"""Those that train nothing when they are reproduced, so that they need no torch."""
LEARNING = (
    "p4-figure3-8", "p4-figure3-9", "p4-figure3-10", "p4-figure3-12", "p4-figure3-13", "p4-figure3-14", "p4-figure3-15",
    "p4-learning",
)  # fmt: skip
"""Those of P4 that train models."""
PAPERS = {
    "p0": "Zhao et al., A blockchain-based approach for saving and tracking differential-privacy cost",
    "p1": "Xiao and Xiong, Online query answering with differential privacy: a utility-driven approach",
    "p2": "Li, Huang, Zeng, Chen, Chen, Chained-DP: can we recycle privacy budget?",
    "p3": "Islam, Rehmani, Chen, An optimized privacy-utility trade-off framework (OPU-TF-IoT)",
    "p4": "Zhao Yang, Privacy-preserving data analytics (thesis)",
}
