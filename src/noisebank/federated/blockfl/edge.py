"""The edge worker trains the classifying layers for devices, in a process of its own (`learn edge`).

`EdgeWorker` is the worker's side, `EdgeSession` the device's. The worker receives noisy features, labels and starting
weights, nothing else, and returns the gradient at the features. A message is one line of JSON with the sizes of its
bodies, then the bodies: raw little-endian arrays.
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
        """Send one message."""
        contents = [np.ascontiguousarray(body).tobytes() for body in bodies]
        self._file.write(json.dumps({**head, "sizes": [len(content) for content in contents]}).encode() + b"\n")
        for content in contents:
            self._file.write(content)
        self._file.flush()

    def receive(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return the next message; ConnectionError if the other side is gone or sends something else."""
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
        """Close the connection."""
        self._file.close()
        self._connection.close()


class EdgeWorker:
    """Serves many devices, each on a thread of its own. The observer sees every body that a device sends."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, tap: Tap = lambda kind, body: None) -> None:
        self._tap = tap
        self._listener = socket.create_server((host, port))
        self.endpoint = f"{host}:{self._listener.getsockname()[1]}"
        self._closed = False

    def serve(self) -> None:
        """Accept devices until closed."""
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._session, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Accept no more devices."""
        self._closed = True
        self._listener.close()

    def _session(self, connection: socket.socket) -> None:
        channel = Wire(connection)
        try:
            self._train(channel)
        except (OSError, ValueError, KeyError, TypeError, MemoryError):
            return  # the device is gone or sends nonsense: its own loss, others go on
        finally:
            channel.close()

    def _train(self, wire: Wire) -> None:
        head, bodies = wire.receive()
        shape = Shape(int(head["side"]), tuple(head["channels"]), tuple(head["widths"]), int(head["classes"]))
        weights = split(np.frombuffer(bodies[0], dtype="<f4"), shape.edge_parts)
        classifier = Classifier(weights)
        descent = Sgd(weights, float(head["rate"]), float(head["momentum"]), float(head["clip"]))
        while True:
            head, bodies = wire.receive()
            if head["kind"] == "done":
                wire.send({"kind": "weights"}, joined(classifier.weights).astype("<f4"))
                return
            for kind, body in zip(("features", "labels"), bodies, strict=True):
                self._tap(kind, body)
            features = np.frombuffer(bodies[0], dtype="<f4").reshape(-1, shape.features)
            loss, gradients, at_features = classifier.gradients(features, np.frombuffer(bodies[1], dtype="<i8"))
            descent.step(gradients)
            wire.send({"kind": "gradient", "loss": loss}, at_features.astype("<f4"))


class EdgeSession:
    """A device's side of one training; `OutcomeUnknown` if the worker does not answer."""

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
        """Train one batch at the worker; return the loss and the gradient at the features."""
        head, bodies = self._asked({"kind": "batch"}, features.astype("<f4"), labels.astype("<i8"))
        return float(head["loss"]), np.frombuffer(bodies[0], dtype="<f4").reshape(features.shape)

    def finish(self) -> Floats:
        """End the session and return the trained weights."""
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
    """The same without a worker, in this process: for simulations, which protect nobody."""

    def __init__(self, shape: Shape, weights: Floats, rate: float, momentum: float, clip: float) -> None:
        self._part = Classifier(split(weights, shape.edge_parts))
        self._descent = Sgd(self._part.weights, rate, momentum, clip)

    def step(self, features: Floats, labels: NDArray[np.int64]) -> tuple[float, Floats]:
        """Train one batch; return the loss and the gradient at the features."""
        loss, gradients, at_features = self._part.gradients(features, labels)
        self._descent.step(gradients)
        return loss, at_features

    def finish(self) -> Floats:
        """End the session and return the trained weights."""
        return joined(self._part.weights).astype(np.float32)
