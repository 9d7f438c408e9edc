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

from noisebank.core.digests import digest_tagged
from noisebank.core.errors import BadRequest
from noisebank.core.units import Precision, parse_exact
from noisebank.federated.fedsgd.design import Design
from noisebank.federated.fedsgd.models import SgdModel, get_model
from noisebank.federated.ldp import MECHANISM_NAMES, Category, Number, Schema
from noisebank.federated.ldp.levels import MAX_LEVELS
from noisebank.federated.ldp.parameters import check_epsilon

MAX_DEVICES = 1 << 20
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
        answer = self.design.target_attribute
        if self.model_kind.is_classifier and not (isinstance(answer, Category) and len(answer.values) == 2):
            raise BadRequest("target", answer.name, f"a {self.model} model needs a category of two values")
        if not self.model_kind.is_classifier and not isinstance(answer, Number):
            raise BadRequest("target", answer.name, "a linear model needs a number")
        if self.mechanism not in MECHANISM_NAMES:
            raise BadRequest("mechanism", self.mechanism, f"must be one of {', '.join(MECHANISM_NAMES)}")
        _check_integer("levels", self.levels, 1, MAX_LEVELS)
        _check_integer("devices", self.devices, 1, MAX_DEVICES)
        _check_integer("group", self.group, 1, self.devices)
        value = parse_exact(self.epsilon, "epsilon")
        check_epsilon(value)
        if Precision.floor(value) != Precision.ceil(value):
            raise BadRequest("epsilon", self.epsilon, "must be a whole number of 1e-18: it is charged exactly")
        for name in STEP_FIELDS:
            least = 0 if name in ("shrink", "tolerance") else Fraction(1, 10**9)
            if not least <= parse_exact(getattr(self, name), name) <= 10**9:
                raise BadRequest(name, getattr(self, name), "is outside its range")

    @property
    def model_kind(self) -> SgdModel:
        """The model, with its loss and errors."""
        return get_model(self.model)

    @property
    def dimension(self) -> int:
        """How many numbers a gradient has."""
        return self.design.dimension

    @property
    def group_count(self) -> int:
        """Number of full groups: devices that do not fill one are never asked."""
        return self.devices // self.group

    @property
    def device_charge(self) -> Precision:
        """What one participation costs a device."""
        return Precision.ceil(parse_exact(self.epsilon, "epsilon"))

    @cached_property
    def gradient_schema(self) -> Schema:
        """The schema of a gradient as a record of numbers in [-1, 1]: what a device reports on."""
        return Schema(tuple(Number(f"w{index}") for index in range(self.dimension)))

    def group_range(self, group: int) -> tuple[int, int]:
        """Returns (start, stop) of group number `group` (0, 1, ...): every device is in at most one group."""
        _check_integer("group number", group, 0, self.group_count - 1)
        return group * self.group, (group + 1) * self.group

    def to_json(self) -> dict[str, Any]:
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
            "attributes": [_attribute_to_json(attribute) for attribute in self.design.schema.attributes],
        }

    @staticmethod
    def from_json(plain: Mapping[str, Any]) -> Task:
        """Returns the task that `to_json` describes; unknown fields are refused."""
        fields = dict(plain)
        try:
            attributes = tuple(_attribute_from_json(entry) for entry in fields.pop("attributes"))
            design = Design(Schema(attributes), fields.pop("target"))
            return Task(design=design, **fields)
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
            raise BadRequest("task", "its description", "is no task of this version") from None

    @cached_property
    def digest(self) -> bytes:
        """Identifies the task on the ledger and on every device."""
        return digest_tagged("learning task 1", self.to_json())

    @property
    def guarantee(self) -> str:
        """The guarantee of a device that takes part, in a sentence."""
        return (
            f"each device: epsilon {self.epsilon}, delta 0 (pure local differential privacy) for its whole record, "
            "against everybody including the server, for all that it ever sends in this task; one participation"
        )


def _check_integer(parameter: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadRequest(parameter, ascii(value)[:40], f"must be a whole number in {low} .. {high}")


def _attribute_to_json(attribute: Number | Category) -> list[Any]:
    """Returns one attribute as texts; the repr of a float reads back as the same float."""
    if isinstance(attribute, Number):
        return ["number", attribute.name, repr(attribute.low), repr(attribute.high)]
    return ["category", attribute.name, *attribute.values]


def _attribute_from_json(entry: Any) -> Number | Category:
    kind, name, *rest = entry
    if not all(isinstance(part, str) for part in entry):
        raise TypeError
    if kind == "number":
        low, high = rest
        return Number(name, float(low), float(high))  # text of any length: what is too large is infinite, and refused
    if kind != "category":
        raise KeyError
    return Category(name, tuple(rest))
