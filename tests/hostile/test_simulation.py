"""The simulated network, clock and threads: everything follows from the seed, and time passes only while all wait."""

from __future__ import annotations

import queue
import threading

import pytest

from hostile.simulation import Simulation, Stuck
from noisebank.core.errors import BadRequest, OutcomeUnknown, Refused
from noisebank.federated.relay.transport import PeerUnreachable

NEVER = threading.Event()


def interleaving(seed: int) -> str:
    """The steps of three threads in the order in which they came."""
    simulation, steps = Simulation(seed), list[str]()

    def work(name: str) -> None:
        for _ in range(4):
            steps.append(name)
            simulation.block(lambda: True)

    for name in "abc":
        simulation.start_thread(lambda name=name: work(name))
    simulation.finish()
    return "".join(steps)


def test_the_seed_says_whose_turn_it_is():
    assert interleaving(1) == interleaving(1)
    assert len({interleaving(seed) for seed in range(20)}) > 10


def test_time_jumps_to_the_next_deadline():
    simulation, ended = Simulation(0), list[float]()
    for seconds in (3_000.0, 2.0):
        simulation.start_thread(
            lambda seconds=seconds: ended.append(simulation.wait_for_event(NEVER, seconds) or simulation.monotonic())
        )
    assert not simulation.wait_for_event(NEVER, 1.0) and simulation.monotonic() == 1.0
    simulation.finish()
    assert ended == [2.0, 3_000.0]


def test_an_event_and_a_job_end_a_wait_at_once():
    simulation, event, jobs = Simulation(0), threading.Event(), queue.Queue[int]()

    def work() -> None:
        simulation.wait_for_event(NEVER, 5.0)
        event.set()
        jobs.put(7)

    worker = simulation.start_thread(work)
    assert simulation.wait_for_event(event, 100.0) and simulation.take_job(jobs) == 7
    worker.join(100.0)
    assert simulation.monotonic() == 5.0


def test_replies_refusals_and_silence():
    simulation = Simulation(0)

    def handle(raw: bytes) -> bytes:
        if raw == b"late":
            simulation.wait_for_event(NEVER, 3.0)
        if raw == b"bad":
            raise BadRequest("message", "bad", "must be good")
        if raw == b"broken":
            raise ZeroDivisionError
        return raw[::-1]

    with simulation.listen("127.0.0.1:0", handle, 1.0) as listener:
        assert simulation.ask(listener.endpoint, b"abc", 1.0) == b"cba"
        assert simulation.ask(f"localhost:{listener.port}", b"late", 4.0) == b"etal" and simulation.monotonic() == 3.0
        with pytest.raises(OutcomeUnknown, match="did not answer"):
            simulation.ask(listener.endpoint, b"late", 2.0)
        assert simulation.monotonic() == 5.0
        for raw, reason in ((b"bad", "must be good"), (b"broken", "could not be handled"), (bytes(20), "too long")):
            listener.max_message = 10
            with pytest.raises(Refused, match=reason):
                simulation.ask(listener.endpoint, raw, 1.0)
    assert simulation.monotonic() == 6.0  # the late reply was still under way
    with pytest.raises(PeerUnreachable):
        simulation.ask(listener.endpoint, b"abc", 1.0)
    simulation.finish()


def test_nobody_waits_for_ever():
    simulation = Simulation(0)
    simulation.start_thread(lambda: simulation.take_job(queue.Queue()))
    with pytest.raises(Stuck):
        simulation.finish()


def test_what_a_thread_raises_is_not_lost():
    simulation = Simulation(0)
    simulation.start_thread(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        simulation.finish()
