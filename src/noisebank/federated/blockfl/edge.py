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
from noisebank.federated.blockfl.network import (
    Classifier,
    Floats,
    MomentumSgd,
    NetworkShape,
    join_weights,
    split_weights,
)

MAX_LINE_BYTES, MAX_BODY_BYTES = 4096, 2**27
MessageObserver = Callable[[str, bytes], None]


class MessageSocket:
    """Framed messages over a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = connection.makefile("rwb")

    def send_message(self, head: dict[str, Any], *bodies: NDArray[Any]) -> None:
        """Send one message."""
        contents = [np.ascontiguousarray(body).tobytes() for body in bodies]
        self._file.write(json.dumps({**head, "sizes": [len(content) for content in contents]}).encode() + b"\n")
        for content in contents:
            self._file.write(content)
        self._file.flush()

    def receive_message(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return the next message; ConnectionError if the other side is gone or sends something else."""
        line = self._file.readline(MAX_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise ConnectionError("the other side has hung up")
        try:
            head = json.loads(line)
            sizes = [int(size) for size in head.pop("sizes")]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConnectionError("no message of ours") from None
        if any(size < 0 for size in sizes) or sum(sizes) > MAX_BODY_BYTES:
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

    def __init__(
        self, host: str = "127.0.0.1", port: int = 0, observe: MessageObserver = lambda kind, body: None
    ) -> None:
        self._observe = observe
        self._listener = socket.create_server((host, port))
        self.endpoint = f"{host}:{self._listener.getsockname()[1]}"
        self._closed = False

    def serve_devices(self) -> None:
        """Accept devices until closed."""
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._run_session, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Accept no more devices."""
        self._closed = True
        self._listener.close()

    def _run_session(self, connection: socket.socket) -> None:
        channel = MessageSocket(connection)
        try:
            self._train_classifier(channel)
        except (OSError, ValueError, KeyError, TypeError, MemoryError):
            return  # the device is gone or sends nonsense: its own loss, others go on
        finally:
            channel.close()

    def _train_classifier(self, channel: MessageSocket) -> None:
        head, bodies = channel.receive_message()
        shape = NetworkShape(int(head["side"]), tuple(head["channels"]), tuple(head["widths"]), int(head["classes"]))
        weights = split_weights(np.frombuffer(bodies[0], dtype="<f4"), shape.edge_shapes)
        classifier = Classifier(weights)
        descent = MomentumSgd(weights, float(head["rate"]), float(head["momentum"]), float(head["clip"]))
        while True:
            head, bodies = channel.receive_message()
            if head["kind"] == "done":
                channel.send_message({"kind": "weights"}, join_weights(classifier.weights).astype("<f4"))
                return
            for kind, body in zip(("features", "labels"), bodies, strict=True):
                self._observe(kind, body)
            features = np.frombuffer(bodies[0], dtype="<f4").reshape(-1, shape.feature_count)
            loss, gradients, at_features = classifier.compute_gradients(features, np.frombuffer(bodies[1], dtype="<i8"))
            descent.step(gradients)
            channel.send_message({"kind": "gradient", "loss": loss}, at_features.astype("<f4"))


class EdgeSession:
    """A device's side of one training; `OutcomeUnknown` if the worker does not answer."""

    def __init__(
        self, endpoint: str, shape: NetworkShape, weights: Floats, rate: float, momentum: float, clip: float
    ) -> None:
        host, _, port = endpoint.rpartition(":")
        if not host or not port.isdecimal():
            raise BadRequest("edge", endpoint[:80], "the address of an edge worker looks like host:port")
        try:
            self._channel = MessageSocket(socket.create_connection((host, int(port)), timeout=60))
            self._channel.send_message(
                {
                    "side": shape.side, "channels": shape.channels, "widths": shape.widths, "classes": shape.classes,
                    "rate": rate, "momentum": momentum, "clip": clip,
                },
                weights.astype("<f4"),
            )  # fmt: skip
        except OSError as error:
            raise OutcomeUnknown(f"the edge worker {endpoint} does not answer ({error})") from None

    def train_batch(self, features: Floats, labels: NDArray[np.int64]) -> tuple[float, Floats]:
        """Train one batch at the worker; return the loss and the gradient at the features."""
        head, bodies = self._exchange_messages({"kind": "batch"}, features.astype("<f4"), labels.astype("<i8"))
        return float(head["loss"]), np.frombuffer(bodies[0], dtype="<f4").reshape(features.shape)

    def finish(self) -> Floats:
        """End the session and return the trained weights."""
        _, bodies = self._exchange_messages({"kind": "done"})
        self._channel.close()
        return np.frombuffer(bodies[0], dtype="<f4")

    def _exchange_messages(self, head: dict[str, Any], *bodies: NDArray[Any]) -> tuple[dict[str, Any], list[bytes]]:
        try:
            self._channel.send_message(head, *bodies)
            return self._channel.receive_message()
        except OSError as error:
            raise OutcomeUnknown(f"the edge worker is gone in the middle of a training ({error})") from None


class LocalSession:
    """The same without a worker, in this process: for simulations, which protect nobody."""

    def __init__(self, shape: NetworkShape, weights: Floats, rate: float, momentum: float, clip: float) -> None:
        self._part = Classifier(split_weights(weights, shape.edge_shapes))
        self._descent = MomentumSgd(self._part.weights, rate, momentum, clip)

    def train_batch(self, features: Floats, labels: NDArray[np.int64]) -> tuple[float, Floats]:
        """Train one batch; return the loss and the gradient at the features."""
        loss, gradients, at_features = self._part.compute_gradients(features, labels)
        self._descent.step(gradients)
        return loss, at_features

    def finish(self) -> Floats:
        """End the session and return the trained weights."""
        return join_weights(self._part.weights).astype(np.float32)
