"""What a task trains and how: one canonical document, stored by its content identifier and named on the ledger."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from noisebank.digests import canonical
from noisebank.errors import BadRequest
from noisebank.federated.crowd.models import most_weights
from noisebank.federated.crowd.network import NORMS, Shape
from noisebank.units import exact

FORMAT = "noisebank terms 1"
MODES = ("paper", "sound", "none")
"""paper: noise on each feature, as in chapter 5. sound: DP-SGD, charged on the ledger. none: no noise at all."""
FIELDS = {
    "format", "name", "side", "channels", "widths", "classes", "norm", "mode", "epsilon", "delta", "batch", "epochs",
    "rate", "momentum", "clip", "ledger",
}  # fmt: skip


@dataclass(frozen=True)
class Terms:
    """Everything that all members must do alike. Numbers that are no integers are texts: `rate` is "0.05"."""

    name: str
    shape: Shape
    norm: str = "bounded"
    mode: str = "paper"
    epsilon: str = "2"
    """paper: of one feature in one pass. sound: of one example over the whole task."""
    delta: str = "1e-5"
    batch: int = 64
    epochs: int = 2
    """Passes over a member's own data in a round."""
    rate: str = "0.05"
    momentum: str = "0.9"
    clip: str = "5"
    """paper: of the whole gradient. sound: of each example's gradient."""
    ledger: str = ""
    """sound: where the budget ledger lies on the task's chain."""

    def __post_init__(self) -> None:
        for parameter, value, allowed in (("mode", self.mode, MODES), ("norm", self.norm, NORMS)):
            if value not in allowed:
                raise BadRequest(parameter, value, f"must be one of {', '.join(allowed)}")
        if self.mode == "sound" and self.norm != "fixed":
            raise BadRequest("norm", self.norm, "a sound task needs `fixed`: others mix the examples of a batch")
        for parameter in ("epsilon", "rate", "clip"):
            if exact(getattr(self, parameter), parameter) <= 0:
                raise BadRequest(parameter, getattr(self, parameter), "must be positive")
        if not 0 < exact(self.delta, "delta") < 1:
            raise BadRequest("delta", self.delta, "must lie between 0 and 1")
        if not 0 <= exact(self.momentum, "momentum") < 1:
            raise BadRequest("momentum", self.momentum, "must lie in [0, 1)")
        if not (2 <= self.batch <= 4096 and 1 <= self.epochs <= 1000):
            raise BadRequest("batch, epochs", f"{self.batch}, {self.epochs}", "must lie in 2 .. 4096 and 1 .. 1000")
        if self.shape.side % 4 or self.shape.count > most_weights():
            raise BadRequest("network", self.shape.count, f"has at most {most_weights()} weights, its side a 4 in it")

    @property
    def bound(self) -> float:
        """sqrt(N - 1): features lie in [-bound, bound]."""
        return float((self.batch - 1) ** 0.5)

    def encode(self) -> bytes:
        """The one spelling."""
        return canonical(
            {
                "format": FORMAT, "name": self.name, "side": self.shape.side, "channels": list(self.shape.channels),
                "widths": list(self.shape.widths), "classes": self.shape.classes, "norm": self.norm,
                "mode": self.mode, "epsilon": self.epsilon, "delta": self.delta, "batch": self.batch,
                "epochs": self.epochs, "rate": self.rate, "momentum": self.momentum, "clip": self.clip,
                "ledger": self.ledger,
            }
        ).encode()  # fmt: skip


def read_terms(content: bytes) -> Terms:
    """The terms in `content`; `BadRequest` if they are none."""
    try:
        plain: Any = json.loads(content)
        if set(plain) != FIELDS or plain["format"] != FORMAT:
            raise ValueError("other fields")
        shape = Shape(plain["side"], tuple(plain["channels"]), tuple(plain["widths"]), plain["classes"])
        if not all(type(n) is int and 0 < n < 2**16 for n in (shape.side, *shape.channels, *shape.widths)):
            raise ValueError("a size that is none")
        rest = {name: plain[name] for name in FIELDS - {"format", "side", "channels", "widths", "classes"}}
        found = Terms(shape=shape, **rest)
        if found.encode() != content:
            raise ValueError("another spelling")
    except (ValueError, TypeError, KeyError, RecursionError):
        raise BadRequest("terms", content[:40], f"are no {FORMAT!r}") from None
    return found
