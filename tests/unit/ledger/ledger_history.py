"""A short history of a real chain with every kind of transaction, as exported lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from itertools import count

from noisebank.entropy import Entropy
from noisebank.errors import Tampered
from noisebank.ledger.block import Block, Genesis
from noisebank.ledger.embedded import EmbeddedChain
from noisebank.ledger.protocol import Claim, Opening, Role
from noisebank.ledger.replay import Replay
from noisebank.units import Precision
from support import memory_rooms


class Fixed(Entropy):
    """The same chain id every time."""

    def __init__(self, salt: int) -> None:
        self._salt = salt

    def token(self, size: int = 32) -> bytes:
        return bytes([self._salt]) * size


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def opening(budget: int = 100, salt: int = 1, delay: int = 3) -> Opening:
    return Opening(Precision(budget), word(salt), word(salt + 1), delay)


def claim(account: bytes, id: int, wanted: int, query: int = 3, limit: int = 10**9) -> Claim:
    return Claim(account, word(id), word(query), word(99), 1, Precision(wanted), Precision(limit))


def together(chain: EmbeddedChain, *actions: Callable[[], object]) -> None:
    """Runs actions on threads that all wait for the same group commit."""
    threads = [threading.Thread(target=action) for action in actions]
    gate = chain._commit
    gate._writing = True  # as if somebody were writing, until all have queued up
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 30
    while len(gate._waiting) < len(actions):
        assert time.monotonic() < deadline, "not everybody came to wait"
        time.sleep(0.001)
    with gate._change:
        gate._writing = False
        gate._change.notify_all()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def history(salt: int = 7) -> list[str]:
    """Openings, all four cases, a group, publications, budget and role changes; a second a block."""
    ticks = count(1_000)
    rooms = memory_rooms(Fixed(salt), clock=lambda: float(next(ticks)))
    chain = rooms.ledger
    account = chain.open_account(opening())
    chain.open_account(opening(budget=50, salt=5))
    chain.reserve(claim(account, 1, 10))
    chain.reserve(claim(account, 2, 30))
    together(chain, *(lambda id=id, wanted=wanted: chain.reserve(claim(account, id, wanted)) for id, wanted in
                      [(3, 10), (4, 20), (5, 40)]))  # fmt: skip
    chain.publish(account, word(1), word(77))
    chain.lower_budget(account, 90)
    chain.propose_raise(account, 200)
    chain.reserve(claim(account, 6, 1, query=4))
    chain.publish(account, word(6), word(78))
    chain.finish_raise(account)
    chain._transact(Role.OWNER, "propose_curator", account, "0x" + "cd" * 20)
    chain._transact(Role.OWNER, "propose_owner", account, "0x" + "ab" * 20)
    chain.reserve(claim(account, 7, 1, query=1))
    lines = list(chain.export())
    chain.close()
    rooms.vault.close()
    return lines


def replayed(lines: Iterable[str]) -> Replay:
    """Reads and executes a journal with every check."""
    first, *rest = lines
    state = Replay(Genesis.read(first))
    for number, line in enumerate(rest):
        state.apply(Block.read(line, state.genesis.chain_id, number))
    return state


class Checkpoint:
    """A replay that has read some blocks and can be asked again and again about the next one."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.state = replayed(lines)

    def refusal(self, line: str) -> Tampered | None:
        """Why this line cannot be the next block, if it cannot. The replay is as before, then."""
        state, evm = self.state, self.state.machine._evm
        nonces, contract, saved = dict(state._nonces), state.contract, evm.snapshot()
        try:
            state.apply(Block.read(line, state.genesis.chain_id, state.head.number + 1))
        except Tampered as tampered:
            evm.revert(saved)
            state._nonces, state.contract = nonces, contract
            return tampered
        return None
