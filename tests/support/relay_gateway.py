"""Relay processes behind gateways: every byte between them passes the test, which kills one of them for real.

Each process runs the command line (`relay host`, `relay join`) and is forked from a server that has the imports done;
its keys and seeds are written down, so that the test can open every sealed sum. Killing is SIGKILL.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from noisebank.federated.relay import RelayTerms
from support.internals import Message, RelayPlan, Tampered, make_plan, read_entry, simulation_rng
from support.patience import FACTOR, patience, wait_until
from support.relay import Played

FORKING = multiprocessing.get_context("forkserver")
ANYWHERE = "127.0.0.1:0"
"""Everybody listens where the system lets it: a port chosen before is a port that somebody may take."""


def run_relay(words: list[str], folder: str, name: str) -> None:
    """In a process of its own: the command; what it prints, the tokens it draws and where it listens kept in files."""
    from support.internals import MessageServer, SystemEntropy, relay_group

    for number, ending in ((1, "out"), (2, "err")):
        kept = os.open(f"{folder}/{name}.{ending}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(kept, number)
    drawn = SystemEntropy.token

    def token(self: SystemEntropy, size: int = 32) -> bytes:
        made = drawn(self, size)
        with Path(folder, f"{name}.tokens").open("a") as file:
            file.write(made.hex() + "\n")
        return made

    SystemEntropy.token = token  # type: ignore[method-assign]
    begun = MessageServer.__init__

    def begin(self: MessageServer, *args: Any, **kwargs: Any) -> None:
        begun(self, *args, **kwargs)
        Path(folder, f"{name}.new").write_text(self.endpoint)
        Path(folder, f"{name}.new").rename(Path(folder, f"{name}.at"))  # whole, or not there

    MessageServer.__init__ = begin  # type: ignore[method-assign]
    relay_group.main(words, prog_name="relay")


@dataclass(frozen=True)
class Moment:
    """When to kill whom: `when` the `nth` message of this kind passes. `victim` is its "sender" or "receiver".

    asked: the request has left its sender and not arrived yet. lost: the same, and it never arrives. heard: it was
    answered; the answer has reached nobody. told: the answer has reached the sender.
    """

    kind: str
    when: str
    victim: str
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.victim} of {self.kind} {self.nth} {self.when}"


@dataclass
class Seen:
    """One request on the wire; the reply, if there was one."""

    request: Message
    raw: bytes
    answer: bytes = b""


class Gateways:
    """In front of the host and of every member. Passes everything on, remembers it, kills at the moment."""

    def __init__(self, moment: Moment | None) -> None:
        self.moment, self.killed, self.seen = moment, "", list[Seen]()
        self.processes: dict[str, Any] = {}
        """By name: host, 0, 1, ... Names of addresses are learned from the joins."""
        self.names: dict[str, str] = {}
        self._lock, self._counts, self._open = threading.Lock(), dict[str, int](), True
        self._servers: dict[str, socket.socket] = {}

    def front(self, name: str, behind: Callable[[], str]) -> str:
        """A gateway in front of whoever listens at `behind`."""
        server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._servers[name] = server
        threading.Thread(target=self._serve, args=(server, name, behind), daemon=True).start()
        return f"127.0.0.1:{server.getsockname()[1]}"

    def close(self) -> None:
        self._open = False
        for server in self._servers.values():
            server.close()

    def _serve(self, server: socket.socket, name: str, behind: Callable[[], str]) -> None:
        while self._open:
            try:
                link, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(link, name, behind), daemon=True).start()

    def _pass_on(self, link: socket.socket, name: str, behind: Callable[[], str]) -> None:
        with link, contextlib.suppress(OSError):
            link.settimeout(patience())
            head, raw = _read(link)
            message = Message.decode(raw)
            with self._lock:
                seen = Seen(message, raw)
                self.seen.append(seen)
                nth = self._counts[message.kind] = self._counts.get(message.kind, 0) + 1
                if message.kind == "join":
                    self.names[message.sender] = str(len(self.names))
            self._strike(message, nth, "asked", name)
            if self._strike(message, nth, "lost", name):
                return
            where, port = behind().rsplit(":", 1)
            with socket.create_connection((where, int(port)), timeout=patience()) as onward:
                onward.sendall(head + raw)
                answered, seen.answer = _read(onward)
            self._strike(message, nth, "heard", name)
            link.sendall(answered + seen.answer)
            link.shutdown(socket.SHUT_WR)
            link.recv(1)  # the asker has read it all and hung up
            self._strike(message, nth, "told", name)

    def _strike(self, message: Message, nth: int, when: str, receiver: str) -> bool:
        aim = self.moment
        if aim is None or self.killed or (aim.kind, aim.when, aim.nth) != (message.kind, when, nth):
            return False
        self.killed = receiver if aim.victim == "receiver" else self.names.get(message.sender, "host")
        self._servers[self.killed].close()  # nobody listens there any more
        os.kill(self.processes[self.killed].pid, signal.SIGKILL)
        return True


def _read(link: socket.socket) -> tuple[bytes, bytes]:
    """Head and body of one HTTP message."""
    raw = b""
    while b"\r\n\r\n" not in raw:
        part = link.recv(2**16)
        if not part:
            raise ConnectionError
        raw += part
    head, _, body = raw.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head.lower())[1])  # type: ignore[index]
    while len(body) < length:
        part = link.recv(2**16)
        if not part:
            raise ConnectionError
        body += part
    return head + b"\r\n\r\n", body


@dataclass
class Ended:
    """How a round between processes ended, and all that passed the gateways."""

    gateways: Gateways
    played: Played
    codes: dict[str, int | None]
    said: dict[str, dict[str, Any]]
    errors: dict[str, str] = field(default_factory=dict)


def _waits(moment: Moment | None) -> tuple[str, str]:
    """Returns how long the host waits for members, and a member for the round: short only where nobody will come."""
    long, short = str(patience()), str(40 * FACTOR)
    if moment is None or moment.kind != "join":
        return long, long
    return short if moment.when == "lost" else long, short if moment.victim == "receiver" else long


def round_of(folder: Path, words: list[str], moment: Moment | None, users: int = 3, dimension: int = 300) -> Ended:
    """Host and members as processes; waits until all have ended."""
    FORKING.set_forkserver_preload(["support.relay_gateway", "noisebank.cli.relay", "opendp.prelude", "rich.table"])
    x = simulation_rng(users).uniform(-1.0, 1.0, (users, dimension))
    gateways = Gateways(moment)
    host_wait, member_wait = _waits(moment)
    host = ["host", "-k", str(users), "-d", str(dimension), "--listen", ANYWHERE, "--json", "--wait", host_wait, *words]

    def start(name: str, command: list[str]) -> None:
        gateways.processes[name] = FORKING.Process(target=run_relay, args=(command, str(folder), name), daemon=True)
        gateways.processes[name].start()

    def until(done: Callable[[], bool], name: str) -> None:
        """Waits for something that the process brings about, as long as it lives."""
        errors = (folder / f"{name}.err").read_text
        lives = gateways.processes[name].is_alive
        wait_until(lambda: done() or gateways.killed or not lives(), lambda: f"{name} does it: {errors()}")
        assert done() or gateways.killed, f"{name} has ended: {errors()}"

    try:
        front = gateways.front("host", (folder / "host.at").read_text)
        start("host", host)
        until((folder / "host.at").exists, "host")
        for number in range(users):
            np.save(folder / f"{number}.npy", x[number])
            advertised = gateways.front(str(number), (folder / f"{number}.at").read_text)
            start(str(number), ["join", front, "--vector", str(folder / f"{number}.npy"), "-b", "1.3", "--json",
                                "--listen", ANYWHERE, "--advertise", advertised, "--wait", member_wait])  # fmt: skip
            until(lambda: len(gateways.names) > number, str(number))  # noqa: B023 - names in joining order
        for process in gateways.processes.values():
            process.join(patience(300))
        codes = {name: process.exitcode for name, process in gateways.processes.items()}
    finally:
        for process in gateways.processes.values():
            process.kill()
        gateways.close()
    said = {name: json.loads((folder / f"{name}.out").read_text() or "{}") for name in gateways.processes}
    errors = {name: (folder / f"{name}.err").read_text() for name in gateways.processes}
    return Ended(gateways, _played(gateways, folder, x), codes, said, errors)


def _played(gateways: Gateways, folder: Path, x: np.ndarray) -> Played:
    """What passed, in the form that the checks on the wire know. Plans are computed from the public messages."""
    wire = [(seen.request.to, seen.raw) for seen in gateways.seen]
    wire += [("reply", seen.answer) for seen in gateways.seen if seen.answer]
    tokens = [bytes.fromhex(line) for path in folder.glob("*.tokens") for line in path.read_text().split()]
    by_name = {name: address for address, name in gateways.names.items()}
    owners = [_Named(by_name.get(str(number), "")) for number in range(len(x))]
    return Played(None, [], x, owners, None, _plans(gateways.seen), wire, tokens)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Named:
    address: str


def _plans(seen: list[Seen]) -> dict[int, RelayPlan]:
    terms, rosters, plans = None, dict[int, dict[str, Any]](), dict[int, RelayPlan]()
    for one in seen:
        message = one.request
        if message.kind == "hello" and one.answer:
            with contextlib.suppress(Tampered):
                terms = RelayTerms.from_json(Message.decode(one.answer).body["terms"])
        elif message.kind == "roster":
            rosters[message.attempt] = message.body
        elif message.kind == "plan" and terms is not None:
            roster = rosters[message.attempt]
            entries = [read_entry(bytes.fromhex(raw), message.round, message.attempt) for raw in roster["entries"]]
            seeds = [bytes.fromhex(seed) for seed in message.body["seeds"]]
            host_key = bytes.fromhex(roster["host_key"])
            plans[message.attempt] = make_plan(terms, message.round, message.attempt, entries, seeds, host_key)
    return plans
