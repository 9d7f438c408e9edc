"""What each privacy mode protects and what not, as a member sees it before training (`describe_guarantee`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from noisebank.core.units import parse_exact
from noisebank.federated.blockfl.terms import TaskTerms


@dataclass(frozen=True)
class CrowdGuarantee:
    """What one task guarantees to one member."""

    mode: str
    protects: str
    not_protected: tuple[str, ...]
    epsilon: float
    """Of a whole example over the whole task; infinite if there is no guarantee."""
    delta: float

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee as a JSON object."""
        return {
            "mode": self.mode,
            "protects": self.protects,
            "not_protected": list(self.not_protected),
            "epsilon_of_an_example": None if self.epsilon == float("inf") else self.epsilon,
            "delta": self.delta,
        }


def describe_guarantee(terms: TaskTerms, round_count: int) -> CrowdGuarantee:
    """Return what these terms guarantee, and what they do not."""
    epsilon = float(parse_exact(terms.epsilon, "epsilon"))
    if terms.mode == "none":
        return CrowdGuarantee("none", "nothing", ("no noise is added anywhere",), float("inf"), 0.0)
    if terms.mode == "sound":
        return CrowdGuarantee(
            "sound",
            f"every example of this member: ({terms.epsilon}, {terms.delta})-differential privacy of all models that "
            "it submits in the task, charged on its account on the ledger before the first batch",
            (
                "several examples of one person count several times",
                "the number of examples and the member's address are public",
                "one example against another: epsilon is for one that is there or not, and may be twice as large here",
                "a copy of the member's folder elsewhere: each copy keeps a book of its own",
            ),
            epsilon,
            float(parse_exact(terms.delta, "delta")),
        )
    features, looks = terms.shape.feature_count, terms.epochs * round_count
    return CrowdGuarantee(
        "paper",
        f"one feature of one image against the edge worker, in one pass: epsilon {terms.epsilon}, if only that "
        "feature changes and the batch's smallest and largest values do not",
        (
            f"an image: it changes all {features} features, epsilon {epsilon * features:g} in one pass and "
            f"{epsilon * features * looks:g} over {terms.epochs} epochs x {round_count} rounds (basic composition)",
            "the labels, which the edge worker sees as they are",
            "the submitted convolutions, which have seen the raw images and are public without any noise of their own",
            "the smallest and largest values of a batch, which scale everybody else's features",
        ),
        float("inf"),
        0.0,
    )
