"""The terms of a task, what it trains and how: one canonical document, stored by its CID, its digest on the ledger."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from noisebank.core.digests import to_canonical_json
from noisebank.core.errors import BadRequest
from noisebank.core.units import parse_exact
from noisebank.federated.blockfl.models import max_weight_count
from noisebank.federated.blockfl.network import NORMS, NetworkShape
from noisebank.ledger.abi import ADDRESS_PATTERN

FORMAT = "noisebank terms 1"
MODES = ("paper", "sound", "none")
"""paper: noise on each feature, as in chapter 5. sound: DP-SGD, charged on the ledger. none: no noise at all."""
NUMBER_PATTERN = re.compile(r"[0-9]{1,20}(\.[0-9]{1,30})?(e-?[0-9]{1,2})?")
RANGES = {
    "epsilon": (Fraction(1, 100), Fraction(100)),
    "delta": (Fraction(1, 10**15), Fraction(1, 10)),
    "rate": (Fraction(1, 10**6), Fraction(100)),
    "momentum": (Fraction(0), 1 - Fraction(1, 10**4)),
    "clip": (Fraction(1, 1000), Fraction(1000)),
}
"""Bounds of a poster's numbers: within them 32-bit floats neither underflow nor overflow."""
MAX_LAYERS, MAX_CLASSES = 8, 1000
MAX_BATCH_GRADIENTS = 2**28
"""sound: numbers in the per-example gradients of a batch; a gigabyte."""
FIELDS = {
    "format", "name", "side", "channels", "widths", "classes", "norm", "mode", "epsilon", "delta", "batch", "epochs",
    "rate", "momentum", "clip", "ledger",
}  # fmt: skip


@dataclass(frozen=True)
class TaskTerms:
    """What all members must do alike. Numbers that are no integers are texts, to be exact: `rate` is "0.05"."""

    name: str
    shape: NetworkShape
    norm: str = "bounded"
    mode: str = "paper"
    epsilon: str = "2"
    """paper: of one feature in one pass. sound: of one example over the whole task."""
    delta: str = "1e-5"
    batch: int = 64
    epochs: int = 2
    """Passes over a member's own data per round."""
    rate: str = "0.05"
    momentum: str = "0.9"
    clip: str = "5"
    """Clipping norm. paper: of the whole gradient. sound: of each example's gradient."""
    ledger: str = ""
    """sound: address of the budget ledger on the task's chain."""

    def __post_init__(self) -> None:
        for parameter, value, allowed in (("mode", self.mode, MODES), ("norm", self.norm, NORMS)):
            if value not in allowed:
                raise BadRequest(parameter, value, f"must be one of {', '.join(allowed)}")
        if self.mode == "sound" and self.norm != "fixed":
            raise BadRequest("norm", self.norm, "a sound task needs `fixed`: others mix the examples of a batch")
        if not isinstance(self.name, str) or len(self.name) > 1000:
            raise BadRequest("name", str(self.name)[:40], "must be text of at most 1000 characters")
        for parameter, (low, high) in RANGES.items():
            text = getattr(self, parameter)
            if not isinstance(text, str) or not NUMBER_PATTERN.fullmatch(text):
                raise BadRequest(parameter, str(text)[:40], "must be written like 8, 0.05 or 1e-5")
            if not low <= parse_exact(text, parameter) <= high:
                raise BadRequest(parameter, text[:40], f"must lie in {float(low):g} .. {float(high):g}")
        for parameter, count, least, most in (("batch", self.batch, 2, 4096), ("epochs", self.epochs, 1, 1000)):
            if type(count) is not int or not least <= count <= most:
                raise BadRequest(parameter, str(count)[:40], f"must be a whole number in {least} .. {most}")
        self._check_shape()
        if self.ledger and not (isinstance(self.ledger, str) and ADDRESS_PATTERN.fullmatch(self.ledger)):
            raise BadRequest("ledger", str(self.ledger)[:80], "must be an address, 0x and 40 hexadecimal digits")

    def _check_shape(self) -> None:
        shape = self.shape
        sizes = (shape.side, *shape.channels, *shape.widths, shape.classes)
        if not all(type(size) is int and 0 < size < 2**16 for size in sizes) or len(shape.channels) != 2:
            raise BadRequest("network", "its sizes", "must be whole numbers, with two convolutions")
        if not 2 <= shape.classes <= MAX_CLASSES or len(shape.widths) > MAX_LAYERS:
            raise BadRequest("network", f"{shape.classes} classes", f"2 .. {MAX_CLASSES}, at most {MAX_LAYERS} layers")
        if shape.side % 4 or shape.weight_count > max_weight_count():
            raise BadRequest(
                "network", shape.weight_count, f"has at most {max_weight_count()} weights, its side a 4 in it"
            )
        if self.mode == "sound" and self.batch * shape.weight_count > MAX_BATCH_GRADIENTS:
            raise BadRequest("batch", self.batch, "times the network's weights is at most 2^28 in a sound task")

    @property
    def feature_bound(self) -> float:
        """sqrt(batch - 1): features lie in [-bound, bound]."""
        return float((self.batch - 1) ** 0.5)

    def to_bytes(self) -> bytes:
        """Return the canonical JSON of the terms."""
        return to_canonical_json(
            {
                "format": FORMAT, "name": self.name, "side": self.shape.side, "channels": list(self.shape.channels),
                "widths": list(self.shape.widths), "classes": self.shape.classes, "norm": self.norm,
                "mode": self.mode, "epsilon": self.epsilon, "delta": self.delta, "batch": self.batch,
                "epochs": self.epochs, "rate": self.rate, "momentum": self.momentum, "clip": self.clip,
                "ledger": self.ledger,
            }
        ).encode()  # fmt: skip


def read_terms(content: bytes) -> TaskTerms:
    """Return the terms in `content`; `BadRequest` if they are none, or not canonical."""
    try:
        document: Any = json.loads(content)
        if set(document) != FIELDS or document["format"] != FORMAT:
            raise ValueError("other fields")
        shape = NetworkShape(
            document["side"], tuple(document["channels"]), tuple(document["widths"]), document["classes"]
        )
        rest = {name: document[name] for name in FIELDS - {"format", "side", "channels", "widths", "classes"}}
        terms = TaskTerms(shape=shape, **rest)
        if terms.to_bytes() != content:
            raise ValueError("another spelling")
    except (ValueError, TypeError, KeyError, RecursionError, BadRequest):
        raise BadRequest("terms", content[:40], f"are no {FORMAT!r}") from None
    return terms
