"""The public terms of a learning task: model, attributes, epsilon, mechanism, groups; fixed by a digest.

The digest is the account's policy on the ledger, so everybody can check that a device was charged for the task that it
was shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from noisebank.core.digests import tagged
from noisebank.core.errors import BadRequest
from noisebank.core.units import Precision, exact
from noisebank.federated.fedsgd.design import Design
from noisebank.federated.fedsgd.models import Model, model_named
from noisebank.federated.ldp import NAMES, Category, Number, Schema
from noisebank.federated.ldp.levels import MAX_LEVELS
from noisebank.federated.ldp.parameters import checked_epsilon

MOST_DEVICES = 1 << 20
"""As many as one cube on the ledger has cells."""
STEP_FIELDS = ("rate", "shrink", "radius", "tolerance")


@dataclass(frozen=True)
class Task:
    """One task of LDP-FedSGD (Algorithm 1). Numbers of the descent are texts, since digests exclude floats.

    The server's step after group t is  w - rate/sqrt(t) (mean report + shrink w),  projected to the ball of `radius`.
    The finished model is the mean over the second half of the steps, which averages out most of the noise.
    """

    name: str
    design: Design
    model: str = "logistic"
    epsilon: str = "1"
    mechanism: str = "best"
    levels: int = 1000
    """2 levels + 1 outputs of a piecewise report; Laplace has a grid of its own."""
    group: int = 1000
    devices: int = 1000
    rate: str = "1"
    shrink: str = "0.0001"
    radius: str = "10"
    tolerance: str = "0"
    """Stop when a step moves the model by no more than this."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 0 < len(self.name) <= 100 or not self.name.isprintable():
            raise BadRequest("name", ascii(self.name)[:40], "must have 1 to 100 printable characters")
        for text in ("model", "epsilon", "mechanism", *STEP_FIELDS):
            if not isinstance(getattr(self, text), str):
                raise BadRequest(
                    text, ascii(getattr(self, text))[:40], "must be a text: a digest has no place for floats"
                )
        answer = self.design.answer
        if self.kind.classifies and not (isinstance(answer, Category) and len(answer.values) == 2):
            raise BadRequest("target", answer.name, f"a {self.model} model needs a category of two values")
        if not self.kind.classifies and not isinstance(answer, Number):
            raise BadRequest("target", answer.name, "a linear model needs a number")
        if self.mechanism not in NAMES:
            raise BadRequest("mechanism", self.mechanism, f"must be one of {', '.join(NAMES)}")
        _whole("levels", self.levels, 1, MAX_LEVELS)
        _whole("devices", self.devices, 1, MOST_DEVICES)
        _whole("group", self.group, 1, self.devices)
        value = exact(self.epsilon, "epsilon")
        checked_epsilon(value)
        if Precision.floor(value) != Precision.ceil(value):
            raise BadRequest("epsilon", self.epsilon, "must be a whole number of 1e-18: it is charged exactly")
        for name in STEP_FIELDS:
            least = 0 if name in ("shrink", "tolerance") else Fraction(1, 10**9)
            if not least <= exact(getattr(self, name), name) <= 10**9:
                raise BadRequest(name, getattr(self, name), "is outside its range")

    @property
    def kind(self) -> Model:
        """The model, with its loss and errors."""
        return model_named(self.model)

    @property
    def dimension(self) -> int:
        """How many numbers a gradient has."""
        return self.design.dimension

    @property
    def groups(self) -> int:
        """Number of full groups: devices that do not fill one are never asked."""
        return self.devices // self.group

    @property
    def charge(self) -> Precision:
        """What one participation costs a device."""
        return Precision.ceil(exact(self.epsilon, "epsilon"))

    @cached_property
    def gradient_schema(self) -> Schema:
        """The schema of a gradient as a record of numbers in [-1, 1]: what a device reports on."""
        return Schema(tuple(Number(f"w{index}") for index in range(self.dimension)))

    def members(self, group: int) -> tuple[int, int]:
        """Returns (start, stop) of group number `group` (0, 1, ...): every device is in at most one group."""
        _whole("group number", group, 0, self.groups - 1)
        return group * self.group, (group + 1) * self.group

    def public(self) -> dict[str, Any]:
        """Returns all terms as texts and whole numbers."""
        return {
            "name": self.name,
            "model": self.model,
            "epsilon": self.epsilon,
            "mechanism": self.mechanism,
            "levels": self.levels,
            "group": self.group,
            "devices": self.devices,
            "rate": self.rate,
            "shrink": self.shrink,
            "radius": self.radius,
            "tolerance": self.tolerance,
            "target": self.design.target,
            "attributes": [_plain(attribute) for attribute in self.design.schema.attributes],
        }

    @staticmethod
    def from_public(plain: Mapping[str, Any]) -> Task:
        """Returns the task that `to_json` describes; unknown fields are refused."""
        fields = dict(plain)
        try:
            attributes = tuple(_attribute(entry) for entry in fields.pop("attributes"))
            design = Design(Schema(attributes), fields.pop("target"))
            return Task(design=design, **fields)
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
            raise BadRequest("task", "its description", "is no task of this version") from None

    @cached_property
    def digest(self) -> bytes:
        """Identifies the task on the ledger and on every device."""
        return tagged("learning task 1", self.public())

    @property
    def guarantee(self) -> str:
        """The guarantee of a device that takes part, in a sentence."""
        return (
            f"each device: epsilon {self.epsilon}, delta 0 (pure local differential privacy) for its whole record, "
            "against everybody including the server, for all that it ever sends in this task; one participation"
        )


def _whole(parameter: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadRequest(parameter, ascii(value)[:40], f"must be a whole number in {low} .. {high}")


def _plain(attribute: Number | Category) -> list[Any]:
    """Returns one attribute as texts; the repr of a float reads back as the same float."""
    if isinstance(attribute, Number):
        return ["number", attribute.name, repr(attribute.low), repr(attribute.high)]
    return ["category", attribute.name, *attribute.values]


def _attribute(entry: Any) -> Number | Category:
    kind, name, *rest = entry
    if not all(isinstance(part, str) for part in entry):
        raise TypeError
    if kind == "number":
        low, high = rest
        return Number(name, float(low), float(high))  # text of any length: what is too large is infinite, and refused
    if kind != "category":
        raise KeyError
    return Category(name, tuple(rest))
