"""Strands: they share commits, wait for each other and for threads, and nobody is lost or served twice."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core import entropy
from noisebank.core.durability import GroupCommit, PendingItem
from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import BudgetExhausted, NoisebankError
from noisebank.core.records import Case
from noisebank.engines.duckdb_engine import DuckDBEngine
from noisebank.engines.statement import is_plain_count
from noisebank.runtime import gathering, strands
from noisebank.runtime.gathering import Gather, apart
from noisebank.runtime.strands import LONG_TURN, MOST_PASSED, SHORT_TURN, Loom, Mutex, Sleep, Work, let_others
from noisebank.runtime.turns import Turns
from support.banks import memory_account, write_people
from support.patience import patience, wait_until


def woven(works: Sequence[Callable[[], None]], most: int = 100) -> None:
    """All of them as strands of one thread; what one of them raises is raised here."""
    errors: list[BaseException] = []

    def careful(work: Callable[[], None], last: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)
            last()

        return run

    async def run() -> None:
        loom, left, ended = Loom(most, asyncio.get_running_loop()), [len(works)], asyncio.Event()

        def last() -> None:
            left[0] -= 1
            if not left[0]:
                ended.set()

        for work in works:
            loom.begin(careful(work, last))
        await asyncio.wait_for(ended.wait(), patience())
        loom.close()

    asyncio.run(run())
    if errors:
        raise errors[0]


def test_strands_share_a_commit() -> None:
    sizes: list[int] = []

    def commit(turns: Sequence[PendingItem[int, int]]) -> None:
        sizes.append(len(turns))
        for turn in turns:
            turn.outcome = turn.item * 2

    first: GroupCommit[int, int] = GroupCommit(commit)
    second: GroupCommit[int, int] = GroupCommit(commit)
    found: dict[int, tuple[int, int]] = {}

    def walk(number: int) -> Callable[[], None]:
        return lambda: found.update({number: (first(number), second(number + 1))})

    woven(_after(walk, 20))
    assert found == {number: (2 * number, 2 * number + 2) for number in range(20)}
    assert sum(sizes) == 40
    assert max(sizes) >= 19


def _after(walk: Callable[[int], Callable[[], None]], count: int) -> list[Callable[[], None]]:
    """The first strand holds the thread for a moment, so that the others are there when it goes on."""

    def first() -> None:
        time.sleep(0.05)
        walk(0)()

    return [first, *[walk(number) for number in range(1, count)]]


def test_strands_and_threads_share_a_commit() -> None:
    def commit(turns: Sequence[PendingItem[int, int]]) -> None:
        time.sleep(0.001)
        for turn in turns:
            turn.outcome = turn.item

    group: GroupCommit[int, int] = GroupCommit(commit)
    found: Counter[int] = Counter()
    threads = [threading.Thread(target=lambda n=n: found.update([group(n)])) for n in range(100, 110)]
    for thread in threads:
        thread.start()
    woven([lambda n=n: found.update([group(n) + 0 * group(n)]) for n in range(30)])  # type: ignore[misc]
    for thread in threads:
        thread.join(patience())
    assert found == Counter([*range(30), *range(100, 110)])


@pytest.mark.parametrize("inside", [let_others, lambda: apart(lambda: time.sleep(0.001))])
def test_a_mutex_is_held_by_one_thread_or_strand(inside: Callable[[], object]) -> None:
    mutex, held, most, done = Mutex(), [0], [0], Counter[str]()

    def once(kind: str) -> None:
        mutex.acquire()
        held[0] += 1
        most[0] = max(most[0], held[0])
        inside()
        held[0] -= 1
        mutex.release()
        done[kind] += 1

    threads = [threading.Thread(target=once, args=("thread",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    woven([lambda: once("strand")] * 25)
    for thread in threads:
        thread.join(patience())
    assert (most[0], done) == (1, Counter(strand=25, thread=8))


def test_turns_of_strands_do_not_lock_each_other_out() -> None:
    turns, order = Turns(), []

    def walk(number: int) -> None:
        with turns([b"a", b"b"] if number % 2 else [b"b", b"a"]):
            let_others()
            order.append(number)
            let_others()
            order.append(number)

    woven([lambda n=n: walk(n) for n in range(12)])  # type: ignore[misc]
    assert order == [number for number in range(12) for _ in range(2)]


def test_what_takes_long_lets_others_go_on() -> None:
    order: list[str] = []
    other = threading.Event()

    def long() -> None:
        assert apart(lambda: other.wait(patience()))
        order.append("long")

    def short() -> None:
        order.append("short")
        other.set()

    woven([long, short])
    assert order == ["short", "long"]
    with pytest.raises(ZeroDivisionError):
        woven([lambda: apart(lambda: print(1 // 0))])


def test_helpers_are_kept_for_a_while_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when one of them gives up just as somebody counts on it."""
    monkeypatch.setattr(gathering, "IDLE_SECONDS", 0.001)
    helpers, done = gathering.Helpers(), []
    for turn in range(300):
        for number in range(3):
            helpers.put(lambda number=number: done.append(number))  # type: ignore[misc]
        time.sleep(0.001 * (turn % 4) / 2)
    wait_until(lambda: len(done) == 900 and not helpers._free, lambda: f"all is done: {len(done)}, {helpers._free}")
    assert Counter(done) == Counter({0: 300, 1: 300, 2: 300}) and helpers._free == 0


def test_nobody_who_is_woken_by_another_thread_sleeps_on() -> None:
    done: list[int] = []

    def walk(number: int) -> None:
        done.append(sum(apart(lambda: 1) for _ in range(5)))

    woven([lambda n=n: walk(n) for n in range(60)])  # type: ignore[misc]
    assert done == [5] * 60


def test_no_more_than_so_many_at_once() -> None:
    inside, most = [0], [0]

    def walk() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        let_others()
        inside[0] -= 1

    woven([walk] * 50, most=7)
    assert (inside[0], most[0]) == (0, 7)


class Later:
    """A loop that is turned by hand."""

    def __init__(self) -> None:
        self.works: deque[Work] = deque()

    def call_soon(self, work: Work) -> None:
        self.works.append(work)

    def call_soon_threadsafe(self, work: Work) -> None:
        self.works.append(work)

    def turn(self) -> None:
        for _ in range(len(self.works)):
            self.works.popleft()()


def test_what_was_begun_is_finished_though_the_loop_turns_no_more() -> None:
    loom, done = Loom(3, Later()), []

    def walk(number: int) -> None:
        let_others()
        done.append(number + apart(lambda: 100))

    for number in range(10):
        loom.begin(lambda number=number: walk(number))  # type: ignore[misc]
    loom.close()
    assert sorted(done) == list(range(100, 110))


def test_the_loop_reads_on_between_many_steps() -> None:
    host, done = Later(), []
    loom = Loom(10, host)

    def walk(number: int) -> None:
        time.sleep(SHORT_TURN / 4)
        done.append(number)

    for number in range(30):
        loom.begin(lambda number=number: walk(number))  # type: ignore[misc]
    seen = []
    while host.works:
        host.turn()
        seen.append(len(done))
    assert seen[0] <= 5 and seen[-1] == 30 and len(seen) >= 6
    loom.close()


@pytest.mark.parametrize(("elsewhere", "least"), [(0.0, 1), (0.05, 5), (5.0, 10)])
def test_strands_may_take_as_long_as_the_loop_did(
    elsewhere: float, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of SHORT_TURN each: as many as fit into what the loop took, but it is never kept from reading for long."""
    clock = [100.0]
    monkeypatch.setattr(strands, "monotonic", lambda: clock[0])
    host, done = Later(), []
    loom = Loom(100, host)

    def walk() -> None:
        clock[0] += SHORT_TURN
        done.append(clock[0])

    for _ in range(60):
        loom.begin(walk)
    host.turn()
    for _ in range(2):  # its own time does not count
        before = len(done)
        clock[0] += elsewhere
        host.turn()
        assert least <= len(done) - before <= least + 1 <= LONG_TURN / SHORT_TURN + 1
    loom.close()
    assert len(done) == 60


def test_who_comes_after_all_others_is_not_passed_by_for_ever() -> None:
    """New strands that come after all others, too, would be newer than the first one each time."""
    host, order = Later(), []
    loom = Loom(100, host)

    def old() -> None:
        let_others()
        order.append("old")

    def new() -> None:
        if len(order) < 50:
            loom.begin(new)
        let_others()
        order.append("new")

    loom.begin(old)
    loom.begin(new)
    while "old" not in order:
        host.turn()
    assert order.count("new") <= MOST_PASSED
    loom.close()


def test_a_strand_that_is_resumed_too_late_does_nothing_twice() -> None:
    host, order = Later(), []
    loom, sleeps = Loom(1, host), []

    def first() -> None:
        sleeps.append(Sleep())
        sleeps[0].wait()
        order.append("first")

    def second() -> None:
        sleeps.append(Sleep())
        sleeps[1].wait()
        order.append("second")

    loom.begin(first)
    loom.begin(second)
    host.turn()
    strand = sleeps[0]._strand
    loom.resume(strand)  # for no reason: it rests on
    host.turn()
    assert order == []
    sleeps[0].wake()
    loom.resume(strand)  # once more than it needs: the second work, in the same strand, must not take it for its own
    for _ in range(5):
        host.turn()
    assert order == ["first"] and sleeps[1]._strand is strand
    sleeps[1].wake()
    loom.close()
    assert order == ["first", "second"]


def test_a_gather_that_fails_for_all_is_tried_for_each() -> None:
    sizes: list[int] = []

    def halves(items: list[int]) -> list[int]:
        sizes.append(len(items))
        if any(item % 2 for item in items):
            raise ValueError("odd")
        return [item // 2 for item in items]

    gather: Gather[int, int] = Gather(halves)
    found: dict[int, int | str] = {}

    def walk(number: int) -> None:
        try:
            found[number] = gather(number)
        except ValueError as error:
            found[number] = str(error)

    woven(_after(lambda n: lambda: walk(n), 10))
    assert found == {number: "odd" if number % 2 else number // 2 for number in range(10)}
    assert max(sizes) > 1
    assert gather(8) == 4  # not in a strand


def test_noise_that_is_drawn_together_is_handed_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[float, int]] = []
    drawn = iter(range(10_000))

    def sampler(scale: float) -> Callable[[list[int]], list[int]]:
        def draw(zeros: list[int]) -> list[int]:
            calls.append((scale, len(zeros)))
            return [next(drawn) for _ in zeros]

        return draw

    monkeypatch.setattr(entropy, "_vector_sampler", sampler)
    source, found = SystemEntropy(), []
    woven(_after(lambda n: lambda: found.append(source.discrete_gaussians(2.0 ** (n % 3), 1 + n % 2)), 30))
    assert sorted(map(len, found)) == [1] * 15 + [2] * 15
    handed = [value for values in found for value in values]
    assert len(set(handed)) == len(handed) == 45
    assert sum(count for _, count in calls) == 45
    assert len(calls) < 15


CONDITIONS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "age <= {}",
                "income > -{}",
                "children < {}",
                "smoker AND age > {}",
                "town = 'north' OR age < {}",
                "NOT age = {}",
            ]
        ),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=12,
)


def _as_parquet(table: Path) -> None:
    types = "{'age': 'INTEGER', 'income': 'BIGINT', 'smoker': 'BOOLEAN', 'children': 'TINYINT'}"
    rows = f"(SELECT * FROM read_csv('{table}', types = {types}))"
    duckdb.execute(f"COPY {rows} TO '{table.with_suffix('.parquet')}' (FORMAT parquet)")


@pytest.fixture(scope="module", params=["csv", "parquet"])
def people(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DuckDBEngine:
    """With values out of bounds, and missing ones in columns that do not allow them; as text, and as whole numbers."""
    folder = tmp_path_factory.mktemp("people")
    policy = write_people(folder, neighbours="add-remove", lines=["1,2,true,north,3"])
    table = folder / "people.csv"
    if request.param == "parquet":
        policy.write_text(policy.read_text().replace("people.csv", "people.parquet"))
        _as_parquet(table)
    account = memory_account(policy)
    lines = [
        f"{7 * i % 131 or ''},{i * 37 % 900 - 200},{i % 3 > 0},{'north' if i % 2 else '?'},{i % 11 or ''}"
        for i in range(300)
    ]
    table.write_text("\n".join([table.read_text().splitlines()[0], *lines]) + "\n")  # would not be opened
    _as_parquet(table)
    assert isinstance(account.engine, DuckDBEngine)
    account.engine.parsed = account.parse  # type: ignore[attr-defined]
    return account.engine


@settings(deadline=None, max_examples=25)
@given(asked=CONDITIONS)
def test_counts_that_are_read_together_are_the_same(people: DuckDBEngine, asked: list[tuple[str, int]]) -> None:
    parse = people.parsed  # type: ignore[attr-defined]
    queries = [parse(f"SELECT count(*) FROM people WHERE {text.format(number)}").query for text, number in asked]
    queries.append(parse("SELECT count(*) FROM people").query)
    assert all(is_plain_count(query) for query in queries)
    assert people._run_counts(queries) == [people._run_counts([query])[0] for query in queries]


def test_counts_that_are_read_together_are_saturated(tmp_path: Path) -> None:
    """More rows than the policy's cap: the count stays at the cap, or one more row than that would tell."""
    lines = [f"{20 + i % 60},5,true,north,1" for i in range(900)]
    account = memory_account(write_people(tmp_path, neighbours="add-remove", lines=lines))
    with (tmp_path / "people.csv").open("a") as table:
        table.write("\n".join(lines[:400]) + "\n")  # an account would not be opened for so many
    queries = [
        account.parse(f"SELECT count(*) FROM people{where}").query for where in ("", " WHERE smoker", " WHERE age > 70")
    ]
    assert isinstance(account.engine, DuckDBEngine)
    assert account.engine._run_counts(queries) == [account.engine._run_counts([query])[0] for query in queries]
    assert account.engine._run_counts(queries)[:2] == [1_000, 1_000]


def test_counts_of_an_empty_table_are_read_together(tmp_path: Path) -> None:
    account = memory_account(write_people(tmp_path, neighbours="add-remove", lines=["30,5,true,north,1"]))
    table = tmp_path / "people.csv"
    table.write_text(table.read_text().splitlines()[0] + "\n")
    queries = [account.parse(f"SELECT count(*) FROM people{where}").query for where in ("", " WHERE smoker")]
    assert isinstance(account.engine, DuckDBEngine)
    assert account.engine._run_counts(queries) == [0, 0]


def test_only_plain_counts_are_read_together(people: DuckDBEngine) -> None:
    parse = people.parsed  # type: ignore[attr-defined]
    for text in ("sum(age)", "count(*) + 2 * count(children)", "2 * count_if(age > 3) - count_if(age > 5)"):
        assert not is_plain_count(parse(f"SELECT {text} FROM people WHERE income > 3").query)
    assert not is_plain_count(parse("SELECT town, count(*) FROM people GROUP BY town").query)


def test_answers_of_strands_are_those_of_the_one_path(tmp_path: Path) -> None:
    """Many at once, several of the same question, more than the budget pays for: books and answers stay right."""
    account = memory_account(write_people(tmp_path, epsilon="1", neighbours="add-remove"))
    found: dict[int, object] = {}

    def walk(number: int) -> None:
        try:
            found[number] = account.ask(
                f"SELECT count(*) FROM people WHERE age <= {20 + number % 10}",
                sigma=str(30 - number // 10),
                key=f"{number}",
            )
        except NoisebankError as error:
            found[number] = error

    woven(_after(lambda n: lambda: walk(n), 60))
    assert len(found) == 60
    answers = {number: made for number, made in found.items() if not isinstance(made, NoisebankError)}
    assert answers
    assert all(isinstance(made, BudgetExhausted) for made in found.values() if isinstance(made, NoisebankError))
    reservations = account.ledger.list_reservations(account.id)
    assert len(reservations) == len(answers)
    assert (
        sum(each.fresh_precision.units for each in reservations)
        == account.state.spent.units
        <= account.state.budget.units
    )
    assert {each.case for each in reservations} >= {Case.FIRST, Case.REFINE}
    for number, made in answers.items():
        again = account.ask(
            f"SELECT count(*) FROM people WHERE age <= {20 + number % 10}",
            sigma=str(30 - number // 10),
            key=f"{number}",
        )
        assert again.exact == made.exact  # type: ignore[attr-defined]
