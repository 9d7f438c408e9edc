"""A history of a real chain with every kind of transaction, as exported lines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import cache
from itertools import count

from noisebank.core.entropy import Entropy
from noisebank.core.errors import Tampered
from noisebank.core.records import WHOLE_WEIGHT, CellRun
from noisebank.core.units import Precision
from noisebank.ledger.abi import budget_ledger, encode_values
from noisebank.ledger.block import Block, Genesis
from noisebank.ledger.embedded import EmbeddedLedger, create_chain
from noisebank.ledger.encoding import encode_publish_many, encode_reserve_many
from noisebank.ledger.evm import Event, Log, decode_events
from noisebank.ledger.journal import Journal
from noisebank.ledger.protocol import OWNER_ANALYST, AccountOpening, Claim, Role, Seal
from noisebank.ledger.replay import Replay
from noisebank.ledger.signing import Key
from support.banks import CURATOR, OWNER
from support.patience import join_threads, wait_until

NEXT, HEIR = Key(b"\x03" * 32), Key(b"\x04" * 32)
"""Who takes over as curator and as owner."""
KEYS = {Role.CURATOR: CURATOR, Role.OWNER: OWNER}
ANALYST = b"\x63" * 32
HALF = WHOLE_WEIGHT // 2


class Fixed(Entropy):
    """The same chain id every time."""

    def __init__(self, salt: int) -> None:
        self._salt = salt

    def token(self, size: int = 32) -> bytes:
        return bytes([self._salt]) * size


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def opening(budget: int = 100, salt: int = 1, delay: int = 3) -> AccountOpening:
    return AccountOpening(Precision(budget), word(salt), word(salt + 1), delay)


def claim(
    account: bytes,
    id: int,
    wanted: int,
    query: int = 3,
    limit: int = 10**9,
    analyst: bytes = OWNER_ANALYST,
    cube: int = 0,
    runs: tuple[CellRun, ...] = (),
    about: int = 1,
) -> Claim:
    return Claim(account, word(id), word(query), analyst, about, Precision(wanted), Precision(limit), cube, runs)


def seal(id: int, answer: int = 77) -> Seal:
    return Seal(word(id), word(answer))


def together(chain: EmbeddedLedger, *actions: Callable[[], object]) -> None:
    """Runs actions on threads that all wait for the same group commit, in this order, or end before it."""
    threads = [threading.Thread(target=action) for action in actions]
    gate = chain._commit
    with gate._writing:  # as if somebody were writing, until all have queued up
        for place, thread in enumerate(threads, 1):
            thread.start()
            begun = threads[:place]
            wait_until(
                lambda: len(gate._waiting) + sum(not each.is_alive() for each in begun) >= len(begun),  # noqa: B023
                "everybody has come to wait", poll=0.001,
            )  # fmt: skip
    join_threads(threads)


def send(chain: EmbeddedLedger, data: bytes) -> tuple[Event, ...]:
    """A call of the curator's that `Ledger` has no method for: a batch."""
    return decode_events(budget_ledger(), chain._send_call(Role.CURATOR, data))


def log_of(event: Event) -> Log:
    """An event as the contract would log it."""
    signature = next(each for each in budget_ledger().events.values() if each.name == event.name)
    hot = [name for (name, _), indexed in zip(signature.inputs, signature.indexed, strict=True) if indexed]
    topics = [encode_values([kind], [event.arguments[name]]) for name, kind in signature.inputs if name in hot]
    plain = [event.arguments[name] for name, _ in signature.inputs if name not in hot]
    return (signature.digest, *topics), encode_values(signature.data_types, plain)


@cache
def history(salt: int = 7) -> tuple[str, ...]:
    """Openings, all cases, groups, batches, cubes, views, versions, budgets, hand-overs; a second a block."""
    ticks = count(1_000)
    clock = lambda: float(next(ticks))  # noqa: E731
    journal = Journal(":memory:")
    create_chain(journal, CURATOR, Fixed(salt), clock)
    chain = EmbeddedLedger(journal, KEYS, clock)
    account = chain.open_account(opening(budget=1_000))
    other = chain.open_account(opening(budget=50, salt=5))
    chain.reserve(claim(account, 1, 10))
    chain.reserve(claim(account, 2, 30))
    together(chain, *(lambda id=id, wanted=wanted: chain.reserve(claim(account, id, wanted)) for id, wanted in
                      [(3, 10), (4, 20), (5, 40)]))  # fmt: skip
    chain.publish(account, seal(1))
    chain.set_limit(account, ANALYST, 300)
    chain.reserve(claim(account, 6, 12, query=4), claim(account, 7, 15, query=4, analyst=ANALYST, about=2))
    chain.publish(account, seal(6), seal(7, 78))
    _work_on_a_cube(chain, account)
    chain.reserve(claim(other, 30, 7, about=3))
    chain.pause_account(account)
    chain.resume_account(account)
    chain.lower_budget(account, 900)
    chain.propose_raise(account, 2_000)
    chain.reserve(claim(account, 40, 1, query=5))
    chain.publish(account, seal(40))
    chain.finish_raise(account)
    chain.open_version(account, word(21), word(22))
    chain.reserve(claim(account, 50, 10, analyst=ANALYST))
    chain.call_as_owner("propose_curator", account, NEXT.address)
    chain.call_as_owner("propose_owner", account, HEIR.address)
    again = EmbeddedLedger(journal, {Role.SEALER: CURATOR, Role.CURATOR: NEXT, Role.OWNER: HEIR}, clock)
    again.accept_role(Role.OWNER, account)
    again.call_as_owner("propose_curator", account, NEXT.address)  # the old owner's proposal is gone
    again.accept_role(Role.CURATOR, account)
    again.reserve(claim(account, 60, 25, analyst=ANALYST))
    again.set_limit(account, ANALYST, 310)
    again.reserve(claim(account, 61, 1, query=1))
    lines = tuple(again.export_journal())
    again.close()
    return lines


def _work_on_a_cube(chain: EmbeddedLedger, account: bytes) -> None:
    cube = chain.add_cube(account, 8)
    low, high = (CellRun(0, 4),), (CellRun(2, 6, HALF), CellRun(7, 8))
    chain.reserve(claim(account, 10, 20, cube=cube, runs=low), claim(account, 11, 20, cube=cube, runs=high))
    chain.reserve(claim(account, 12, 0, cube=cube, analyst=ANALYST))
    send(
        chain,
        encode_reserve_many(
            [
                [claim(account, 13, 30, cube=cube, runs=low), claim(account, 14, 5, query=6)],
                [claim(account, 15, 5, query=7), claim(account, 1, 5, query=8)],  # an id that is used: refused
                [claim(account, 16, 5, query=9, analyst=ANALYST)],
            ]
        ),
    )
    send(chain, encode_publish_many(account, [[seal(10), seal(11)], [seal(12), seal(15)], [seal(13), seal(14)]]))


def replayed(lines: Iterable[str]) -> Replay:
    """Reads and executes a journal with every check."""
    first, *rest = lines
    state = Replay(Genesis.from_canonical_json(first))
    for number, line in enumerate(rest):
        state.apply_block(Block.from_canonical_json(line, state.genesis.chain_id, number))
    return state


def told(lines: Iterable[str]) -> list[list[Event]]:
    """What was logged, by block."""
    first, *rest = lines
    state = Replay(Genesis.from_canonical_json(first))
    found = []
    for number, line in enumerate(rest):
        results = state.apply_block(Block.from_canonical_json(line, state.genesis.chain_id, number))
        found.append([event for logs in results for event in decode_events(budget_ledger(), logs)])
    return found


def block_with(lines: Iterable[str], name: str) -> int:
    """The first block in which such an event was logged."""
    return next(number for number, logged in enumerate(told(lines)) if name in {event.name for event in logged})


class Checkpoint:
    """A replay that has read some blocks and can be asked again and again about the next one."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.state = replayed(lines)

    def refusal(self, line: str) -> Tampered | None:
        """Why this line cannot be the next block, if it cannot. The replay is as before, then."""
        state, evm = self.state, self.state.evm._evm
        nonces, contracts, saved = dict(state._nonces), dict(state.contracts), evm.snapshot()
        contract = state.contract
        try:
            state.apply_block(Block.from_canonical_json(line, state.genesis.chain_id, state.head.number + 1))
        except Tampered as tampered:
            evm.revert(saved)
            state._nonces, state.contracts, state.contract = nonces, contracts, contract
            return tampered
        return None
