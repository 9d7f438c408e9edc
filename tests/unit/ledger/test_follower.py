"""A follower reads final blocks of a node, waits for one that is behind, and halts if what was final has changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from noisebank.core.errors import LedgerHalted, OutcomeUnknown
from noisebank.ledger.follower import Follower


def block_hash(number: int, fork: int = 0) -> bytes:
    return bytes([fork]) * 16 + number.to_bytes(16, "big")


@dataclass
class ScriptedNode:
    """A node with empty blocks up to `newest`; from `forked_at` on they are those of another fork."""

    newest: int = 10
    forked_at: int = 1_000
    code: bytes = b"code"
    name: str = "http://node.example"
    ranges: list[tuple[int, int]] = field(default_factory=list)

    def block_number(self) -> int:
        return self.newest

    def block_hash(self, number: int) -> bytes | None:
        return None if number > self.newest else block_hash(number, int(number >= self.forked_at))

    def read_logs(self, address: str, first: int, last: int) -> list[dict[str, Any]]:
        self.ranges.append((first, last))
        return []

    def get_code(self, address: str) -> bytes:
        return self.code


@pytest.fixture
def node() -> ScriptedNode:
    return ScriptedNode()


@pytest.fixture
def follower(node: ScriptedNode) -> Follower:
    return Follower(cast(Any, node), "0x" + "1" * 40, 5, 3)


def test_each_final_block_is_read_once(node: ScriptedNode, follower: Follower) -> None:
    follower.sync(0)
    assert (follower.head.number, follower.head.digest) == (8, block_hash(8))  # two blocks follow it
    follower.sync(0)
    node.newest = 12
    follower.sync(0)
    assert node.ranges == [(5, 8), (9, 10)] and follower.head.digest == block_hash(10)


@pytest.mark.parametrize("newest", [10, 11])
@pytest.mark.parametrize("forked_at", [8, 9])
def test_only_a_final_block_may_not_change(node: ScriptedNode, follower: Follower, newest: int, forked_at: int) -> None:
    """Block 8 was final: if it changes, the follower halts for good, whether or not there are newer blocks."""
    follower.sync(0)
    node.forked_at, node.newest = forked_at, newest
    if forked_at > 8:
        follower.sync(0)
        assert follower.head.digest == block_hash(newest - 2, int(newest - 2 >= forked_at))
        return
    for _ in range(2):
        with pytest.raises(LedgerHalted, match="block 8 was final"):
            follower.sync(0)
        node.forked_at = 1_000  # that the old blocks are back changes nothing
    assert follower.head.number == 8


def test_a_node_that_is_behind_is_waited_for(node: ScriptedNode, follower: Follower) -> None:
    follower.sync(0)
    node.newest = 7
    with pytest.raises(OutcomeUnknown, match="lags behind"):
        follower.sync(0)
    node.code = b""
    with pytest.raises(LedgerHalted, match="no longer knows"):
        follower.sync(0)
