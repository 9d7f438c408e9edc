"""Options that commands about learning share; milliseconds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from noisebank.cli.learn_options import explain_busy_port, find_task, parse_endpoint
from noisebank.core.errors import BadRequest

ONE, TWO = bytes.fromhex("ab12" * 16), bytes.fromhex("ab34" * 16)


def registry(*tasks: bytes) -> Any:
    return SimpleNamespace(list_tasks=lambda: list(tasks))


@pytest.mark.parametrize(
    ("tasks", "text", "task"),
    [((ONE,), None, ONE), ((ONE, TWO), "ab1", ONE), ((ONE, TWO), "0xAB34", TWO), ((TWO, ONE), ONE.hex(), ONE)],
)
def test_a_task_is_named_by_the_beginning_of_its_id(tasks: tuple[bytes, ...], text: str | None, task: bytes) -> None:
    assert find_task(registry(*tasks), text) == task


@pytest.mark.parametrize(
    ("tasks", "text", "words"),
    [((), None, "task is missing: .*has none"), ((ONE, TWO), None, "ab12ab12ab12, ab34ab34ab34"),
     ((ONE, TWO), "ab", "name"),
     ((ONE,), "cd", "task = cd: name one task")],
)  # fmt: skip
def test_none_or_several_are_listed(tasks: tuple[bytes, ...], text: str | None, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        find_task(registry(*tasks), text)


def test_an_endpoint_is_a_name_and_a_port() -> None:
    assert parse_endpoint("127.0.0.1:7000") == ("127.0.0.1", 7000) and parse_endpoint("a-b.c:65535") == ("a-b.c", 65535)
    for text in ("", "host", "host:", ":7", "host:65536", "host:123456", "ho st:7", "host:7 ", "x" * 99):
        with pytest.raises(BadRequest) as refused:
            parse_endpoint(text)
        assert refused.value.parameter == "listen" and len(str(refused.value)) < 140


def test_a_busy_port_is_said_in_words() -> None:
    with explain_busy_port("h:1"):
        pass
    for error, words in ((OSError(98, "Address already in use"), "Address already in use"), (OSError("odd"), "odd")):
        with pytest.raises(BadRequest, match=f"listen = h:1: cannot be listened on .{words}"), explain_busy_port("h:1"):
            raise error
