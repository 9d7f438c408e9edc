"""The edge worker: trains the classifying layers for devices, in a process of its own.

It is sent noisy features, labels and starting weights, and nothing else; it returns the gradient at the features.
Messages are a line of JSON with sizes, then raw little-endian arrays.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebank.core.errors import BadRequest, OutcomeUnknown
from noisebank.federated.blockfl.network import Classifier, Floats, Sgd, Shape, joined, split

MOST_LINE, MOST_BODY = 4096, 2**27
Tap = Callable[[str, bytes], None]


class Wire:
    """Framed messages over a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = connection.makefile("rwb")

    def send(self, head: dict[str, Any], *bodies: NDArray[Any]) -> None:
        """One message."""
        raw = [np.ascontiguousarray(body).tobytes() for body in bodies]
        self._file.write(json.dumps({**head, "sizes": [len(part) for part in raw]}).encode() + b"\n")
        for part in raw:
            self._file.write(part)
        self._file.flush()

    def receive(self) -> tuple[dict[str, Any], list[bytes]]:
        """One message; ConnectionError if the other side is gone or talks nonsense."""
        line = self._file.readline(MOST_LINE)
        if not line.endswith(b"\n"):
            raise ConnectionError("the other side has hung up")
        try:
            head = json.loads(line)
            sizes = [int(size) for size in head.pop("sizes")]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConnectionError("no message of ours") from None
        if any(size < 0 for size in sizes) or sum(sizes) > MOST_BODY:
            raise ConnectionError("a message that is too long")
        bodies = [self._file.read(size) for size in sizes]
        if any(len(body) != size for body, size in zip(bodies, sizes, strict=True)):
            raise ConnectionError("a message that is cut off")
        return head, bodies

    def close(self) -> None:
        """Hangs up."""
        self._file.close()
        self._connection.close()


class EdgeWorker:
    """Serves many devices, each on a thread of its own."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, tap: Tap = lambda kind, body: None) -> None:
        self._tap = tap
        self._listener = socket.create_server((host, port))
        self.endpoint = f"{host}:{self._listener.getsockname()[1]}"
        self._closed = False

    def serve(self) -> None:
        """Until closed."""
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._session, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Takes no more devices."""
        self._closed = True
        self._listener.close()

    def _session(self, connection: socket.socket) -> None:
        wire = Wire(connection)
        try:
            self._train(wire)
        except (OSError, ValueError, KeyError, TypeError, MemoryError):
            return  # a device that is gone or talks nonsense: its own loss
        finally:
            wire.close()

    def _train(self, wire: Wire) -> None:
        head, bodies = wire.receive()
        shape = Shape(int(head["side"]), tuple(head["channels"]), tuple(head["widths"]), int(head["classes"]))
        weights = split(np.frombuffer(bodies[0], dtype="<f4"), shape.edge_parts)
        part = Classifier(weights)
        descent = Sgd(weights, float(head["rate"]), float(head["momentum"]), float(head["clip"]))
        while True:
            head, bodies = wire.receive()
            if head["kind"] == "done":
                wire.send({"kind": "weights"}, joined(part.weights).astype("<f4"))
                return
            for kind, body in zip(("features", "labels"), bodies, strict=True):
                self._tap(kind, body)
            features = np.frombuffer(bodies[0], dtype="<f4").reshape(-1, shape.features)
            loss, gradients, at_features = part.gradients(features, np.frombuffer(bodies[1], dtype="<i8"))
            descent.step(gradients)
            wire.send({"kind": "gradient", "loss": loss}, at_features.astype("<f4"))


class EdgeSession:
    """A device's side of one training."""

    def __init__(self, endpoint: str, shape: Shape, weights: Floats, rate: float, momentum: float, clip: float) -> None:
        host, _, port = endpoint.rpartition(":")
        if not host or not port.isdecimal():
            raise BadRequest("edge", endpoint[:80], "the address of an edge worker looks like host:port")
        try:
            self._wire = Wire(socket.create_connection((host, int(port)), timeout=60))
            self._wire.send(
                {
                    "side": shape.side, "channels": shape.channels, "widths": shape.widths, "classes": shape.classes,
                    "rate": rate, "momentum": momentum, "clip": clip,
                },
                weights.astype("<f4"),
            )  # fmt: skip
        except OSError as error:
            raise OutcomeUnknown(f"the edge worker {endpoint} does not answer ({error})") from None

    def step(self, features: Floats, labels: NDArray[np.int64]) -> tuple[float, Floats]:
        """Trains one batch there; loss and the gradient at the features."""
        head, bodies = self._asked({"kind": "batch"}, features.astype("<f4"), labels.astype("<i8"))
        return float(head["loss"]), np.frombuffer(bodies[0], dtype="<f4").reshape(features.shape)

    def finish(self) -> Floats:
        """The trained weights."""
        _, bodies = self._asked({"kind": "done"})
        self._wire.close()
        return np.frombuffer(bodies[0], dtype="<f4")

    def _asked(self, head: dict[str, Any], *bodies: NDArray[Any]) -> tuple[dict[str, Any], list[bytes]]:
        try:
            self._wire.send(head, *bodies)
            return self._wire.receive()
        except OSError as error:
            raise OutcomeUnknown(f"the edge worker is gone in the middle of a training ({error})") from None


class NearSession:
    """The same without a worker: for simulations, where nobody is protected from anybody."""

    def __init__(self, shape: Shape, weights: Floats, rate: float, momentum: float, clip: float) -> None:
        self._part = Classifier(split(weights, shape.edge_parts))
        self._descent = Sgd(self._part.weights, rate, momentum, clip)

    def step(self, features: Floats, labels: NDArray[np.int64]) -> tuple[float, Floats]:
        """Trains one batch; loss and the gradient at the features."""
        loss, gradients, at_features = self._part.gradients(features, labels)
        self._descent.step(gradients)
        return loss, at_features

    def finish(self) -> Floats:
        """The trained weights."""
        return joined(self._part.weights).astype(np.float32)
