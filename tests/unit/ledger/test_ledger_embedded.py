"""The embedded chain: durable, replayed at start, one block for all who waited."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger_history import claim, opening, replayed, seal, together, word
from noisebank.core.durability import GroupCommit, PendingItem
from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import (
    BadBank,
    BudgetExhausted,
    LedgerRefused,
    OutcomeUnknown,
    PriceMoved,
    Tampered,
)
from noisebank.core.records import Case
from noisebank.core.units import Precision
from noisebank.ledger.block import Block, Genesis
from noisebank.ledger.embedded import EmbeddedLedger, create_chain
from noisebank.ledger.journal import Journal
from noisebank.ledger.protocol import Claim, Reservation, Role
from noisebank.ledger.signing import Key
from support.banks import CURATOR, OWNER
from support.patience import join_threads, patience, wait_until

KEYS = {Role.CURATOR: CURATOR, Role.OWNER: OWNER}


class Clock:
    """Says what it is told."""

    def __init__(self, now: float = 1_000.9) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Failing(Journal):
    """A journal whose disk fails on command, before or after it has written."""

    broken: str = ""

    def append(self, block: Block) -> None:
        if self.broken == "before":
            raise OSError("disk full")
        super().append(block)
        if self.broken == "after":
            raise OSError("power failing")


def new_chain(
    journal: Journal | None = None, clock: Callable[[], float] | None = None, **options: object
) -> EmbeddedLedger:
    journal = journal or Journal(":memory:")
    clock = clock or Clock()
    create_chain(journal, CURATOR, SystemEntropy(), clock)
    return EmbeddedLedger(journal, KEYS, clock, **options)  # type: ignore[arg-type]


def blocks(chain: EmbeddedLedger) -> list[Block]:
    _, *lines = chain.export_journal()
    return [Block.from_canonical_json(line, chain.chain_id, number) for number, line in enumerate(lines)]


def reserve(chain: EmbeddedLedger, one: Claim) -> Reservation:
    (made,) = chain.reserve(one)
    return made


@pytest.fixture
def chain() -> EmbeddedLedger:
    return new_chain()


# -- the ledger -----------------------------------------------------------------------------------


def test_new_chain_begins_with_the_contract(chain: EmbeddedLedger):
    (block,) = blocks(chain)
    (creation,) = block.transactions
    assert (creation.to, creation.signature) == ("", b""), "the seal is the curator's signature"
    assert block.recover_sealer() == CURATOR.address
    assert chain.head().number == 0
    assert chain.head().digest == chain.block_digest(0) == block.digest


def test_chains_have_ids_of_their_own():
    assert len({new_chain().chain_id for _ in range(20)}) == 20


def test_four_cases(chain: EmbeddedLedger):
    account = chain.open_account(opening())
    made = [reserve(chain, claim(account, id, wanted)) for id, wanted in enumerate([10, 30, 30, 20, 5], 1)]
    assert [one.case for one in made] == [Case.FIRST, Case.REFINE, Case.REPEAT, Case.BLUR, Case.BLUR]
    assert [one.fresh_precision.units for one in made] == [10, 20, 0, 0, 0]
    assert [one.reused_id for one in made] == [None, word(1), word(2), word(2), word(1)]
    assert [one.spent_after.units for one in made] == [10, 30, 30, 30, 30]
    assert chain.get_account(account).remaining_budget == Precision(70)
    assert chain.list_reservations(account) == tuple(made)
    assert [record.id for record in chain.list_records(account, word(3))] == [word(1), word(2)]


def test_result_names_its_block_and_time(chain: EmbeddedLedger):
    account = chain.open_account(opening())
    made = reserve(chain, claim(account, 1, 10))
    assert (made.block, made.time) == (chain.head().number, 1_000)
    (published,) = chain.publish(account, seal(1))
    assert (published.answer_digest, published.published_block, published.block) == (
        word(77),
        made.block + 1,
        made.block,
    )
    assert chain.find_reservation(account, word(1)) == published


def test_owner_lowers_and_raises_after_the_delay():
    clock = Clock()
    chain = new_chain(clock=clock)
    account = chain.open_account(opening(delay=60))
    chain.lower_budget(account, 40)
    event = chain.propose_raise(account, 90)
    assert (event.arguments["ready"], event.arguments["budget"]) == (1_060, 90)
    clock.now = 1_059.99
    with pytest.raises(LedgerRefused, match="raise not ready"):
        chain.finish_raise(account)
    assert chain.get_account(account).budget == Precision(40)
    clock.now = 1_060
    chain.finish_raise(account)
    assert chain.get_account(account).budget == Precision(90)


def test_refusals_leave_no_block_and_no_nonce(chain: EmbeddedLedger):
    account = chain.open_account(opening(budget=100))
    chain.reserve(claim(account, 1, 10))
    before, state = list(chain.export_journal()), chain.get_account(account)
    with pytest.raises(BudgetExhausted) as exhausted:
        chain.reserve(claim(account, 2, 101))
    assert (exhausted.value.asked, exhausted.value.left) == (Precision(91), Precision(90))
    with pytest.raises(PriceMoved) as moved:
        chain.reserve(claim(account, 2, 50, limit=39))
    assert moved.value.limit == Precision(39)
    with pytest.raises(LedgerRefused, match="ledger: id already used"):
        chain.reserve(claim(account, 1, 10))
    with pytest.raises(LedgerRefused, match="ledger: no such reservation"):
        chain.publish(account, seal(2))
    with pytest.raises(LedgerRefused, match="ledger: below what is spent"):
        chain.lower_budget(account, 9)
    assert list(chain.export_journal()) == before
    assert chain.get_account(account) == state
    assert chain.find_reservation(account, word(2)) is None
    chain.reserve(claim(account, 2, 20))
    replayed(chain.export_journal())


def test_unknown_account_is_named(chain: EmbeddedLedger):
    with pytest.raises(BadBank, match="no account 000000000000"):
        chain.get_account(bytes(32))
    with pytest.raises(LedgerRefused, match="not the curator"):
        chain.reserve(claim(bytes(32), 1, 1))


def test_nonces_count_for_each_key(chain: EmbeddedLedger):
    account = chain.open_account(opening())
    chain.open_account(opening())
    for id in range(1, 4):
        chain.reserve(claim(account, id, 10 * id))
    sent = [transaction for block in blocks(chain) for transaction in block.transactions]
    assert [one.nonce for one in sent if one.signature] == [0, 1]
    assert [one.nonce for one in sent if not one.signature] == [0, 1, 2, 3]
    assert {one.recover_sender() for one in sent if one.signature} == {OWNER.address}


# -- time -----------------------------------------------------------------------------------------


def test_time_never_decreases_though_the_clock_does():
    clock = Clock(1_000)
    chain = new_chain(clock=clock)
    account = chain.open_account(opening())
    for id, now in enumerate([1_010, 500, 0, 1_009, 1_011.5], 1):
        clock.now = now
        chain.reserve(claim(account, id, id))
    assert [block.time for block in blocks(chain)] == [1_000, 1_000, 1_010, 1_010, 1_010, 1_010, 1_011]
    replayed(chain.export_journal())


def test_time_never_decreases_over_a_restart(tmp_path: Path):
    chain = new_chain(Journal(tmp_path / "journal"), Clock(2_000))
    account = chain.open_account(opening())
    chain.close()
    again = EmbeddedLedger(Journal(tmp_path / "journal"), KEYS, Clock(1_000))
    assert reserve(again, claim(account, 1, 1)).time == 2_000
    again.close()


def test_clock_set_back_cannot_ready_or_revive_a_raise():
    clock = Clock(1_000)
    chain = new_chain(clock=clock)
    account = chain.open_account(opening(delay=60))
    chain.propose_raise(account, 900)
    clock.now = 1_060 + 7 * 86400
    chain.reserve(claim(account, 1, 1))
    clock.now = 1_061
    with pytest.raises(LedgerRefused, match="raise expired"):
        chain.finish_raise(account)


# -- restart --------------------------------------------------------------------------------------


def test_restart_replays_to_the_same_state(tmp_path: Path):
    chain = new_chain(Journal(tmp_path / "journal"))
    account = chain.open_account(opening())
    for id, wanted in enumerate([10, 30, 20], 1):
        chain.reserve(claim(account, id, wanted))
    chain.publish(account, seal(2))
    chain.lower_budget(account, 90)
    lines, head, state = list(chain.export_journal()), chain.head(), chain.get_account(account)
    made, changes, contract = chain.list_reservations(account), chain.books.list_changes(account), chain.contract
    chain.close()

    again = EmbeddedLedger(Journal(tmp_path / "journal"), KEYS, Clock())
    assert list(again.export_journal()) == lines
    assert (again.head(), again.get_account(account), again.contract) == (head, state, contract)
    assert (again.list_reservations(account), again.books.list_changes(account)) == (made, changes)
    assert reserve(again, claim(account, 9, 40)).fresh_precision == Precision(10)
    again.open_account(opening())
    replayed(again.export_journal())
    again.close()


def test_restart_refuses_a_journal_that_was_changed(tmp_path: Path):
    journal = Journal(tmp_path / "journal")
    chain = new_chain(journal)
    account = chain.open_account(opening())
    chain.reserve(claim(account, 1, 10))
    journal._database.execute("UPDATE lines SET line = replace(line, ',100,10]', ',100,9]') WHERE number = 2")
    chain.close()
    with pytest.raises(Tampered, match="block 2") as refusal:
        EmbeddedLedger(Journal(tmp_path / "journal"), KEYS)
    assert refusal.value.block == 2


def test_restart_refuses_a_journal_with_a_hole(tmp_path: Path):
    journal = Journal(tmp_path / "journal")
    chain = new_chain(journal)
    account = chain.open_account(opening())
    chain.reserve(claim(account, 1, 10))
    journal._database.execute("DELETE FROM lines WHERE number = 1")
    chain.close()
    with pytest.raises(Tampered, match="block 1"):
        EmbeddedLedger(Journal(tmp_path / "journal"), KEYS)


def test_crash_between_first_line_and_contract_is_finished_at_start():
    journal = Journal(":memory:")
    create_chain(journal, CURATOR, SystemEntropy(), Clock())
    assert len(list(journal.read_lines())) == 1
    chain = EmbeddedLedger(journal, KEYS, Clock())
    assert chain.head().number == 0
    assert chain.open_account(opening())


def test_empty_journal_is_no_chain():
    with pytest.raises(BadBank, match="empty"):
        EmbeddedLedger(Journal(":memory:"), KEYS)


# -- keys -----------------------------------------------------------------------------------------


def test_owners_key_is_needed_only_for_the_owners_business(tmp_path: Path):
    chain = new_chain(Journal(tmp_path / "journal"))
    account = chain.open_account(opening())
    chain.close()
    again = EmbeddedLedger(Journal(tmp_path / "journal"), {Role.CURATOR: CURATOR}, Clock())
    again.reserve(claim(account, 1, 10))
    again.publish(account, seal(1))
    before = list(again.export_journal())
    for act in (
        lambda: again.open_account(opening()),
        lambda: again.lower_budget(account, 50),
        lambda: again.propose_raise(account, 500),
        lambda: again.finish_raise(account),
    ):
        with pytest.raises(BadBank, match=r"needs the owner's key.*--owner-key"):
            act()
    assert list(again.export_journal()) == before
    again.close()


def test_chain_needs_the_key_that_seals_it(tmp_path: Path):
    new_chain(Journal(tmp_path / "journal")).close()
    for keys in ({Role.CURATOR: OWNER}, {Role.CURATOR: Key(b"\x05" * 32), Role.OWNER: OWNER}):
        with pytest.raises(BadBank, match="not the one that seals"):
            EmbeddedLedger(Journal(tmp_path / "journal"), keys)
    with pytest.raises(BadBank, match="needs the curator's key"):
        EmbeddedLedger(Journal(tmp_path / "journal"), {Role.OWNER: OWNER})


def test_another_owners_key_cannot_touch_the_account(tmp_path: Path):
    chain = new_chain(Journal(tmp_path / "journal"))
    account = chain.open_account(opening())
    chain.close()
    thief = EmbeddedLedger(Journal(tmp_path / "journal"), {**KEYS, Role.OWNER: Key(b"\x05" * 32)}, Clock())
    for act in (lambda: thief.lower_budget(account, 50), lambda: thief.propose_raise(account, 500)):
        with pytest.raises(LedgerRefused, match="not the owner"):
            act()
    thief.close()


# -- group commit ---------------------------------------------------------------------------------


def test_all_who_wait_share_one_block(chain: EmbeddedLedger):
    account = chain.open_account(opening(budget=10**6))
    before, made = chain.head().number, {}

    def run(id: int) -> None:
        made[id] = reserve(chain, claim(account, id, 10, query=id))

    together(chain, *(lambda id=id: run(id) for id in range(1, 31)))
    assert chain.head().number == before + 1
    assert len(blocks(chain)[-1].transactions) == 30
    assert sorted(made) == list(range(1, 31))
    assert {one.block for one in made.values()} == {before + 1}
    assert all(one == chain.find_reservation(account, word(id)) for id, one in made.items())
    assert sorted(one.spent_after.units for one in made.values()) == [10 * n for n in range(1, 31)]
    replayed(chain.export_journal())


def test_refusals_and_results_of_one_group_do_not_mix(chain: EmbeddedLedger):
    account = chain.open_account(opening(budget=100))
    results: dict[int, object] = {}

    def run(id: int) -> None:
        try:
            results[id] = reserve(chain, claim(account, id, 30, query=id)).fresh_precision.units
        except BudgetExhausted as refusal:
            results[id] = refusal

    together(chain, *(lambda id=id: run(id) for id in range(1, 11)))
    assert sum(result == 30 for result in results.values()) == 3
    assert sum(isinstance(result, BudgetExhausted) for result in results.values()) == 7
    assert len(blocks(chain)[-1].transactions) == 3
    assert chain.get_account(account).spent == Precision(90)
    assert {made.id for made in chain.list_reservations(account)} == {
        word(id) for id, got in results.items() if got == 30
    }


def test_threads_on_a_slow_disk_make_fewer_blocks_than_transactions(tmp_path: Path):
    class Slow(Journal):
        def append(self, block: Block) -> None:
            pause.wait(0.005)
            super().append(block)

    pause = threading.Event()
    chain = new_chain(Slow(tmp_path / "journal"))
    account = chain.open_account(opening(budget=10**9))
    before = chain.head().number
    start = threading.Barrier(16, timeout=patience())
    made: list[object] = []

    def work(worker: int) -> None:
        start.wait()
        for n in range(8):
            id = 100 * worker + n + 1
            made.append(chain.reserve(claim(account, id, 5, query=id)))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(16)]
    for thread in threads:
        thread.start()
    join_threads(threads)
    assert len(made) == 128
    assert chain.head().number - before < 128
    assert chain.get_account(account).spent == Precision(640)
    assert len(chain.list_reservations(account)) == 128
    replayed(chain.export_journal())
    chain.close()


def test_no_result_leaves_before_its_block_is_on_disk(tmp_path: Path):
    path = tmp_path / "journal"
    chain = new_chain(Journal(path))
    account = chain.open_account(opening())
    for id in range(1, 4):
        made = reserve(chain, claim(account, id, 10 * id))
        other = Journal(path)
        assert made.id.hex() in list(other.read_lines())[made.block + 1]
        other.close()
    chain.close()


# -- failing commits ------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
def test_failed_append_ends_the_process_and_nothing_is_committed_after_it(tmp_path: Path, moment: str):
    ended: list[str] = []
    journal = Failing(tmp_path / "journal")
    chain = new_chain(journal, on_failure=ended.append)
    account = chain.open_account(opening())
    head, lines = chain.head(), len(list(chain.export_journal()))
    journal.broken = moment
    with pytest.raises(OutcomeUnknown):
        chain.reserve(claim(account, 1, 10))
    assert len(ended) == 1 and "commit failed" in ended[0]
    on_disk = lines + (moment == "after")
    assert len(list(chain.export_journal())) == on_disk

    journal.broken = ""
    for act in (
        lambda: chain.reserve(claim(account, 2, 10)),
        lambda: chain.publish(account, seal(1)),
        lambda: chain.open_account(opening()),
        lambda: chain.lower_budget(account, 50),
    ):
        with pytest.raises(OutcomeUnknown):
            act()
    assert len(list(chain.export_journal())) == on_disk
    assert chain.head() == head and chain.find_reservation(account, word(1)) is None
    chain.close()

    again = EmbeddedLedger(Journal(tmp_path / "journal"), KEYS, Clock())
    assert (again.find_reservation(account, word(1)) is not None) == (moment == "after")
    again.close()


def test_every_caller_of_a_failed_group_gets_unknown_even_the_refused():
    ended: list[str] = []
    journal = Failing(":memory:")
    chain = new_chain(journal, on_failure=ended.append)
    account = chain.open_account(opening(budget=100))
    outcomes: dict[int, object] = {}

    def run(id: int, wanted: int) -> None:
        try:
            outcomes[id] = chain.reserve(claim(account, id, wanted, query=id))
        except Exception as error:
            outcomes[id] = error

    journal.broken = "before"
    together(chain, *(lambda id=id: run(id, 30 if id % 2 else 500) for id in range(1, 11)))
    assert len(outcomes) == 10
    assert all(isinstance(outcome, OutcomeUnknown) for outcome in outcomes.values())
    assert len(ended) == 1


def test_default_end_is_the_end_of_the_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    codes: list[int] = []
    monkeypatch.setattr("os._exit", codes.append)
    journal = Failing(":memory:")
    chain = new_chain(journal)
    account = chain.open_account(opening())
    journal.broken = "before"
    with pytest.raises(OutcomeUnknown):
        chain.reserve(claim(account, 1, 10))
    assert codes == [70]
    assert "disk full" in capsys.readouterr().err


def test_caller_whose_group_was_taken_by_an_interrupted_one_gets_unknown(monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C between taking the waiting turns and committing them must not look like a result."""

    def commit(turns: list[PendingItem[int, int]]) -> None:
        for turn in turns:
            turn.outcome = 10 * turn.item

    group: GroupCommit[int, int] = GroupCommit(commit, on_failure=lambda _: None)  # type: ignore[arg-type]
    waiting: PendingItem[int, int] = PendingItem(1)
    group._waiting.append(waiting)

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(group, "_commit_group", interrupted)
        with pytest.raises(KeyboardInterrupt):
            group(2)
    assert waiting.is_done and not waiting.is_committed  # its caller raises OutcomeUnknown
    assert group(3) == 30


def test_a_caller_who_finds_its_turn_done_but_not_committed_gets_unknown():
    group: GroupCommit[int, int] = GroupCommit(lambda turns: None, on_failure=lambda _: None)
    group._commit_group = lambda turns: None  # type: ignore[method-assign]  # interrupted without a trace
    with pytest.raises(OutcomeUnknown):
        group(1)


def test_callers_who_wait_share_one_commit():
    sizes: list[int] = []

    def commit(turns: list[PendingItem[int, int]]) -> None:
        sizes.append(len(turns))
        if len(sizes) == 1:
            wait_until(lambda: len(group._waiting) == 15, "all others wait")

    group: GroupCommit[int, int] = GroupCommit(commit)  # type: ignore[arg-type]
    threads = [threading.Thread(target=lambda: group(1)) for _ in range(16)]
    for thread in threads:
        thread.start()
    join_threads(threads)
    assert sizes == [1, 15]


# -- export ---------------------------------------------------------------------------------------


def test_export_is_all_that_a_verifier_needs(chain: EmbeddedLedger):
    account = chain.open_account(opening())
    chain.reserve(claim(account, 1, 10))
    state = replayed(chain.export_journal())
    assert state.head == chain.head()
    assert state.books.list_accounts() == chain.books.list_accounts()
    assert state.genesis == Genesis(chain.chain_id, CURATOR.address, 1_000)


def test_export_holds_no_key(chain: EmbeddedLedger):
    chain.open_account(opening())
    text = "\n".join(chain.export_journal())
    for key in (CURATOR, OWNER):
        assert key._key.secret.hex() not in text
