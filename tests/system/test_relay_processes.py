"""`relay host` and `relay join` as processes: a full round, SIGKILL, what is on the wire, bad input and exit codes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from support.internals import Key, Message, SystemEntropy, quantize_vector, simulation_rng
from support.patience import patience

RELAY = [sys.executable, "-c", "from noisebank.cli.relay import relay_group; relay_group()"]


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def ended_processes():
    """Whatever a test has started ends with it."""
    yield
    for process in STARTED:
        if process.poll() is None:
            process.kill()
            process.communicate()
    STARTED.clear()


def start(*words: str) -> subprocess.Popen[str]:
    STARTED.append(subprocess.Popen([*RELAY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    return STARTED[-1]


def host(members: int, dimension: int, *more: str) -> tuple[subprocess.Popen[str], str]:
    """A host, and where it listens."""
    made = start("host", "-k", str(members), "-d", str(dimension), "--json", *more)
    assert made.stderr is not None
    found = re.search(r"listening on (\S+) as 0x", made.stderr.readline())
    assert found
    return made, found[1]


def vectors(folder: Path, members: int, dimension: int) -> np.ndarray:
    made = simulation_rng(members).uniform(-1.0, 1.0, (members, dimension))
    for number, vector in enumerate(made):
        np.save(folder / f"{number}.npy", vector)
    return made


def joined(folder: Path, where: str, number: int, *more: str) -> subprocess.Popen[str]:
    words = ("--vector", str(folder / f"{number}.npy"), "-b", "1.3", "--record", str(folder / f"{number}.wire"))
    return start("join", where, *words, "--json", *more)


def ended(process: subprocess.Popen[str]) -> tuple[int, dict, str]:
    out, err = process.communicate(timeout=patience())
    return process.returncode, json.loads(out or "{}"), err


def sent(folder: Path) -> list[bytes]:
    lines = [line for path in folder.glob("*.wire") for line in path.read_text().splitlines()]
    return [bytes.fromhex(json.loads(line)["bytes"]) for line in lines]


@pytest.mark.parametrize("mode", ["bas"])
def test_ten_processes_finish_a_round_of_ten_thousand_numbers(tmp_path, mode, record_property):
    x = vectors(tmp_path, 10, 10_000)
    began = time.monotonic()
    server, where = host(10, 10_000, "--mode", mode, "--out", str(tmp_path / "mean.json"))
    members = [joined(tmp_path, where, number) for number in range(10)]
    code, plain, err = ended(server)
    took = time.monotonic() - began
    assert code == 0 and plain["done"] and plain["members"] == 10, err
    record_property("seconds_in_all", took)
    record_property("seconds_after_joining", plain["seconds"])
    print(f"ten processes, d = 10,000: {plain['seconds']:.2f} s after joining, {took:.2f} s with starting them")
    error = np.square(np.array(json.loads((tmp_path / "mean.json").read_text())) - x.mean(axis=0)).mean()
    assert error == pytest.approx(plain["stddev"] ** 2, rel=0.1)
    for process in members:
        code, told, said = ended(process)
        assert code == 0 and told["done"] and told["attempts_sent"] == 1
        assert "Promised to this member" in said and "one curious member" in said
    raw = sent(tmp_path)
    passed = [Message.decode(part) for part in raw if b'"kind":"pass"' in part]
    assert len(passed) == 10 and {len(message.payload) for message in passed} == {8 * 10_000 + 16}
    everything = b"".join(raw)
    for vector in x:
        assert vector[:2].tobytes() not in everything
        assert quantize_vector(vector, 1, 10_000).steps[:2].tobytes() not in everything


@pytest.mark.parametrize(("mode", "delay"), [("bas", 0.3), ("masked", 0.35)])
def test_sigkill_ends_in_a_mean_of_the_others(tmp_path, mode, delay):
    x = vectors(tmp_path, 4, 1_000)
    server, where = host(4, 1_000, "--mode", mode, "--out", str(tmp_path / "mean.json"), "--patience", "30")
    members = [joined(tmp_path, where, number) for number in range(4)]
    assert server.stderr is not None
    while "4 of 4 joined" not in server.stderr.readline():
        pass
    time.sleep(delay)
    members[1].send_signal(signal.SIGKILL)
    code, plain, err = ended(server)
    assert code == 0 and plain["members"] in (3, 4), err
    counted = [0, 1, 2, 3] if plain["members"] == 4 else [0, 2, 3]
    error = np.square(np.array(json.loads((tmp_path / "mean.json").read_text())) - x[counted].mean(axis=0)).mean()
    assert error == pytest.approx(plain["stddev"] ** 2, rel=0.3)
    assert plain["attempts"] <= 2 and len(plain["left_out"]) == 4 - plain["members"]
    members[1].communicate()
    for number in (0, 2, 3):
        code, told, _ = ended(members[number])
        assert code == 0 and told["attempts_sent"] <= 2
    everything = b"".join(sent(tmp_path))
    assert all(quantize_vector(vector, 1, 1_000).steps[:2].tobytes() not in everything for vector in x)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("host", "-k", "3", "-d", "0"), "dimension"),
        (("host", "-k", "1", "-d", "4"), "members"),
        (("host", "-k", "3", "-d", "4", "--epsilon", "0"), "epsilon"),
        (("host", "-k", "3", "-d", "4", "--epsilon", "-1"), "epsilon"),
        (("host", "-k", "3", "-d", "4", "--epsilon", "nan"), "epsilon"),
        (("host", "-k", "3", "-d", "4", "--bound", "-2"), "bound"),
        (("host", "-k", "3", "-d", "4", "--patience", "0"), "patience"),
        (("host", "-k", "3", "-d", "4", "--listen", "nowhere"), "endpoint"),
        (("join", "127.0.0.1:1", "--vector", "missing.json", "-b", "1"), "vector"),
        (("join", "127.0.0.1:1", "--vector", "{good}", "-b", "-1"), "preference"),
        (("join", "127.0.0.1:1", "--vector", "{good}", "-b", "nan"), "preference"),
        (("join", "127.0.0.1:1", "--vector", "{good}", "-b", "1", "--max-epsilon", "0"), "epsilon"),
        (("join", "127.0.0.1:1", "--vector", "{good}", "-b", "1", "--trust", "x"), "trust"),
        (("join", "127.0.0.1:1", "--vector", "{good}", "-b", "1", "--advertise", "x"), "endpoint"),
        (("join", "127.0.0.1:1", "--vector", "{good}", "-b", "1", "--past", "missing.json"), "vector"),
        (("host", "-k", "3", "-d", "4", "--mode", "sar", "--skip", "1"), "skip"),
        (("host", "-k", "3", "-d", "4", "--mode", "sar", "--instead", "past"), "instead"),
    ],
)
def test_misuse_is_told_before_anything_happens(tmp_path, words, said):
    from click.testing import CliRunner

    from noisebank.cli.main import main

    good = tmp_path / "good.json"
    good.write_text("[0, 0.5, -1, 1]")
    found = CliRunner().invoke(main, ["relay", *(word.replace("{good}", str(good)) for word in words)])
    assert found.exit_code == 2 and said in found.output, found.output


def test_nobody_there_is_not_misuse(tmp_path):
    from click.testing import CliRunner

    from noisebank.cli.main import main

    (tmp_path / "v.txt").write_text("0.5, 0.25")
    found = CliRunner().invoke(
        main, ["relay", "join", "127.0.0.1:1", "--vector", str(tmp_path / "v.txt"), "-b", "1", "--json"]
    )
    assert found.exit_code == 1 and "nobody listens" in found.output


def test_a_host_without_members_says_how_it_ended():
    server, _ = host(2, 4, "--wait", "0.2")
    code, plain, _ = ended(server)
    assert code == 1 and not plain["done"] and plain["mean"] is None and "0 members are left" in plain["reason"]


def test_nan_and_wrong_lengths_never_join(tmp_path):
    server, where = host(2, 4, "--wait", str(patience()))
    (tmp_path / "nan.txt").write_text("0 nan 0 0")
    (tmp_path / "short.txt").write_text("0 0 0")
    wrong = [start("join", where, "--vector", str(tmp_path / name), "-b", "1") for name in ("nan.txt", "short.txt")]
    for process in wrong:
        _, err = process.communicate(timeout=patience())
        assert process.returncode == 2 and "vector" in err
    assert server.poll() is None, "it waits for others"


def test_numbers_outside_the_bound_are_clipped_and_it_is_said(tmp_path):
    server, where = host(2, 3, "--bound", "1", "--publish", "--mode", "masked")
    for number, text in enumerate(("5 0 -7.5", "0.5 0.5 0.5")):
        (tmp_path / f"{number}.txt").write_text(text)
    members = [
        start("join", where, "--vector", str(tmp_path / f"{n}.txt"), "-b", "1e-6", "--unprotected", "--json")
        for n in (0, 1)
    ]
    (code, first, said), (_, second, other) = (ended(process) for process in members)
    assert code == 0 and first["clipped"] == 2 and second["clipped"] == 0
    assert "2 of 3 numbers lie outside the bound of 1 and are clipped" in said and "clipped" not in other
    assert np.allclose(first["mean"], [0.75, 0.25, -0.25], atol=0.02)  # of 1, 0, -1: not of 5, 0, -7.5
    assert ended(server)[0] == 0


def test_the_same_key_twice_and_a_place_that_is_taken_are_refused(tmp_path):
    server, where = host(2, 2, "--wait", str(patience()))
    (tmp_path / "v.txt").write_text("0 0")
    Key(SystemEntropy().token()).save(tmp_path / "key")
    words = ("join", where, "--vector", str(tmp_path / "v.txt"), "-b", "1", "--key", str(tmp_path / "key"), "--json")
    first = start(*words)
    assert server.stderr is not None
    while "1 of 2 joined" not in server.stderr.readline():
        pass
    code, told, _ = ended(start(*words))  # its messages are numbered from 1 again: seen before, or joined before
    assert (
        code == 1
        and told["error"] == "Refused"
        and ("joined already" in told["message"] or "replay" in told["message"])
    )
    assert first.poll() is None and server.poll() is None, "nothing has changed for them"


def test_every_command_helps_with_an_example():
    from support.internals import relay_group

    for command in relay_group.commands.values():
        assert "Example:" in (command.help or "")
        assert any(option.name == "as_json" for option in command.params)
