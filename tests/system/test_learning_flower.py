"""LDP-FedSGD as Flower components: in one process with misbehaving nodes, and over Flower's own network."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisebank import open_bank
from support.banks import memory_rooms
from support.internals import BankParts, Device, Refused, enrol, list_enrolled
from support.learning import RECORD, task
from support.paths import TESTS
from support.patience import patience, wait_until

pytestmark = [pytest.mark.flower, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
APP = TESTS / "flower_app"
Answer = Callable[[Any], Any]
"""A message in, a reply out; None for a node that never replies."""


@pytest.fixture
def flower() -> Any:
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # read when Flower is imported
    found = pytest.importorskip("flwr") if os.environ.get("CI") != "true" else importlib.import_module("flwr")
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1  # as Flower sets it for a server's task
    return found


class Hall:
    """A Grid without a network: nodes are functions of this process."""

    def __init__(self, nodes: dict[int, Answer]) -> None:
        self.nodes, self.sent = nodes, []

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Any]:
        replies = []
        for message in messages:
            self.sent.append(message.metadata.dst_node_id)
            reply = self.nodes[message.metadata.dst_node_id](message)
            replies += [] if reply is None else reply if isinstance(reply, list) else [reply]
        return replies


def node(device: Any, number: int) -> Answer:
    """A real ClientApp around a device."""
    from flwr.app import Context, RecordDict

    from support.internals import client_app

    app = client_app(lambda context: device)
    context = Context(run_id=1, node_id=number, node_config={}, state=RecordDict(), run_config={})

    def answer(message: Any) -> Any:
        return from_node(app(message, context), number)

    return answer


def from_node(reply: Any, number: int) -> Any:
    """What the network would have written on it."""
    reply.metadata.__dict__["_src_node_id"] = number
    return reply


def phones(rooms: BankParts, count: int) -> dict[int, Answer]:
    return {i: node(Device(rooms, enrol(rooms, f"p{i}", 1), [RECORD], 1), i) for i in range(1, count + 1)}


def test_every_node_reports_once_and_the_model_moves(flower: Any) -> None:
    from support.internals import LdpFedSgd

    rooms = memory_rooms()
    hall, strategy = Hall(phones(rooms, 20)), LdpFedSgd(task(), patience=0)
    result = strategy.start(hall)
    assert sorted(hall.sent) == list(range(1, 21)) and strategy.report_count == 20 and not strategy.left_out
    assert strategy.learned_model.group_count == 4 and np.any(result.arrays.to_numpy_ndarrays()[0])
    assert all(float(account.state.spent) == 1.0 for account in list_enrolled(rooms))
    with pytest.raises(Refused, match="have not taken part"):
        strategy.start(hall)


def test_a_second_task_server_gets_nothing_more_from_devices_that_took_part(flower: Any) -> None:
    from support.internals import LdpFedSgd

    hall = Hall(phones(memory_rooms(), 20))
    LdpFedSgd(task(), patience=0).start(hall)
    other = LdpFedSgd(task(), patience=0)  # forgets whom it has asked
    other.descent.weights = np.full(4, 0.5)
    other.start(hall)
    assert other.report_count == 0 and len(other.left_out) == 20
    assert all("AlreadyTookPart" in why for why in other.left_out.values())


def test_nodes_that_fail_lie_or_answer_for_others_are_left_out_by_name(flower: Any) -> None:
    from flwr.app import ConfigRecord, Error, Message, RecordDict

    from support.internals import LdpFedSgd

    rooms = memory_rooms()
    nodes = phones(rooms, 12)
    honest = dict(nodes)

    def replied(content: Any, source: int) -> Answer:
        def answer(message: Any) -> Any:
            return from_node(Message(content, reply_to=message), source)

        return answer

    def broken(message: Any) -> Any:
        return from_node(Message(Error(code=0, reason="power"), reply_to=message), 1)

    def twice(message: Any) -> Any:
        return [honest[6](message), honest[6](message)]

    nodes[1] = broken
    nodes[2] = lambda message: None
    nodes[3] = replied(RecordDict({"report": ConfigRecord({"report": b"x" * 20})}), 3)
    nodes[4] = replied(RecordDict({"report": ConfigRecord({"report": "text"})}), 4)
    nodes[5] = replied(RecordDict({"hello": ConfigRecord({"a": 1})}), 5)
    nodes[6] = twice
    nodes[7] = replied(RecordDict({"report": ConfigRecord({"report": b""})}), 99)
    strategy = LdpFedSgd(task(group=12, devices=12), patience=0)
    strategy.start(Hall(nodes))
    reasons = strategy.left_out
    assert set(reasons) == {"1", "2", "3", "4", "5", "6", "7", "99"}
    assert "power" in reasons["1"] and reasons["2"] == reasons["7"] == "did not reply" and "twice" in reasons["6"]
    assert strategy.report_count == 6, "of the node that answered twice one report counts"


def test_orders_that_are_no_orders_are_refused(flower: Any) -> None:
    from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

    from support.internals import TrainingOrder, read_order, read_reply, write_order

    good = TrainingOrder(task(), 1, np.arange(4.0))
    again = read_order(write_order(good))
    assert again.digest == good.digest
    phone = phones(memory_rooms(), 1)[1]
    for content in (
        RecordDict(),
        RecordDict({"order": ConfigRecord({"task": "{}", "group": 0}), "model": ArrayRecord([np.zeros(4)])}),
        RecordDict({"order": ConfigRecord({"task": "[" * 9999, "group": 0}), "model": ArrayRecord([np.zeros(4)])}),
        RecordDict({"order": write_order(good)["order"], "model": ArrayRecord([np.zeros(3)])}),
    ):
        report, why = read_reply(phone(Message(content, dst_node_id=1, message_type="train")).content)
        assert report is None and why.startswith("BadRequest")


# -- over the network ------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(log: Path, *command: str, **environment: str) -> Iterator[None]:
    """A process and what it starts; all of it is gone afterwards."""
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **environment}, start_new_session=True
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(patience())
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.timeout(600)
def test_four_nodes_over_flowers_own_network(flower: Any, tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    port, out = free_port(), tmp_path / "out.json"
    home = tmp_path / "home"
    home.mkdir()
    connection = f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    (home / "config.toml").write_text(connection)
    shutil.copytree(APP, tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {
        "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "LDP_OUT": str(out),
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    with ExitStack() as stack:
        link = (str(tools / "flower-superlink"), "--insecure", "--host", "127.0.0.1", "--port", str(port))
        log = tmp_path / "link.log"
        stack.enter_context(running(log, *link, "--disable-runtime-dependency-installation", **environment))
        wait_until(lambda: re.search("Uvicorn running|startup complete", log.read_text()), log.read_text)
        for place in range(4):
            config = f'place={place} folder="{tmp_path / f"bank{place}"}"'
            arguments = ("--insecure", "--superlink", f"127.0.0.1:{port}", "--port", str(free_port()))
            command = (str(tools / "flower-supernode"), *arguments, "--node-config", config)
            # A home of its own, as on a machine of its own: a node takes an app for installed whose files another
            # process is still copying.
            own_home = {"FLWR_HOME": str(tmp_path / f"home{place}")}
            stack.enter_context(running(tmp_path / f"node{place}.log", *command, **environment | own_home))
        done = subprocess.run(
            [str(tools / "flwr"), "run", str(tmp_path / "app"), "here", "--format", "json"],
            env={**os.environ, **environment}, capture_output=True, text=True, timeout=patience(240),
        )  # fmt: skip
        assert done.returncode == 0 and json.loads(done.stdout)["success"], done.stdout + done.stderr
        wait_until(out.exists, lambda: log.read_text()[-3000:], seconds=240)
    outcome = json.loads(out.read_text())
    assert outcome["counted"] == 4 and outcome["groups"] == 2 and not outcome["left_out"], outcome
    assert len(outcome["model"]) == 2  # whether it moved is up to the noise: two reports can cancel out
    for place in range(4):
        with open_bank(tmp_path / f"bank{place}") as bank:
            (account,) = list_enrolled(bank.parts)
            assert float(account.state.spent) == 2.0 and len(bank.ledger.list_reservations(account.id)) == 1
