"""Two noise samples for one charge: retries, respellings, races, restored backups, altered vaults."""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import apsw

from assurance.crashes import (
    PLANTED,
    Asked,
    Crash,
    Fuse,
    Laboratory,
    Witness,
    ask_all_again,
    bank_with_account,
    model,
    opened,
    room_for,
    workload_of,
)
from assurance.kill9 import random_request
from assurance.planting import in_place_of, plant_part, replaces
from assurance.report import Finding
from noisebank import Account, NoisebankError, Result
from support.internals import (
    VAULT,
    AnswerLost,
    Case,
    KeyReused,
    PlainStrategy,
    Question,
    Refused,
    Reservation,
    SealedAnswer,
    Tampered,
    complete_reservations,
    to_canonical_json,
    workload_rng,
)

WORKLOADS = {"crash points": 12, "keys": 30, "races": 30, "backups": 60, "cut off": 60, "altered": 30}
"""At the full count. A workload has about five requests, a request about twelve crash points."""
RACERS = 2


@dataclass
class Bench:
    """Scenarios on copies of one bank; each says what went wrong."""

    room: Path
    start: Path
    random: Random
    kind: Any = Account
    tried: Counter[str] = field(default_factory=Counter)
    folders: int = 0

    def copy(self, folder: Path | None = None) -> Path:
        self.folders += 1
        copy = self.room / f"{self.kind.__name__} {self.folders}"
        shutil.copytree(folder or self.start, copy)
        return copy

    def bank(self, folder: Path, witness: Witness, fuse: Fuse | None = None) -> AbstractContextManager[Any]:
        return opened(folder, witness, fuse or Fuse(), self.kind)

    def asked_all(self, folder: Path, requests: list[Asked]) -> Witness:
        """Everything asked and answered, the bank closed."""
        witness = Witness()
        with self.bank(folder, witness) as bank:
            for asked in requests:
                witness.saw(asked.key, ask(bank.account(), asked))
        return witness

    # -- scenarios -----------------------------------------------------------------------------

    def crash_points(self) -> list[str]:
        """A retry after a crash at every point, each in another spelling of the same SQL."""
        laboratory = Laboratory(self.room / f"laboratory {self.folders}", self.kind, depth=1)
        laboratory.room.mkdir()
        self.folders += 1
        witness = laboratory.work(self.start, workload_of(self.random, "crash"), enough=10**9)
        self.tried["retries after a crash"] += laboratory.crashes
        return witness.wrong

    def keys(self) -> list[str]:
        """Every spelling of a request is the same request; any other one is refused for its key."""
        folder, requests = self.copy(), workload_of(self.random, "key")
        witness = self.asked_all(folder, requests)
        with self.bank(folder, witness) as bank:
            account = bank.account()
            for asked in requests:
                for spelling in range(len(asked.spellings)):
                    witness.saw(asked.key, ask(account, asked, spelling))
                    self.tried["respelled retries"] += 1
                other = random_request(self.random, asked.key)
                if (other.spellings, other.wanted) != (asked.spellings, asked.wanted):
                    self.tried["reused keys"] += 1
                    expect(witness, KeyReused, lambda account=account, other=other: ask(account, other))
            if witness.touches != sum(case_pays(asked, witness) for asked in requests):
                witness.blame("the data was touched again")
            ask_all_again(bank, witness, requests)
        return witness.wrong

    def races(self) -> list[str]:
        """The same key in several threads at once: one charge, the same bits for all."""
        folder, requests, witness = self.copy(), workload_of(self.random, "race"), Witness()
        with self.bank(folder, witness) as bank:
            for asked in requests:
                self.tried["races for one key"] += 1
                race(bank.account(), asked, witness)
            if witness.touches != sum(case_pays(asked, witness) for asked in requests if asked.key in witness.shown):
                witness.blame("the data was touched again")
            if not witness.wrong:
                ask_all_again(bank, witness, requests)
        return witness.wrong

    def backups(self) -> list[str]:
        """A vault from an old backup: what it lost is lost, and nothing is drawn in its place."""
        folder, requests = self.copy(), workload_of(self.random, "backup", more=3)
        kept = self.random.randint(1, len(requests) - 1)
        before = self.asked_all(folder, requests[:kept])
        backup = self.copy(folder)
        before.shown |= self.asked_all(folder, requests[kept:]).shown
        shutil.copy(backup / VAULT, folder / VAULT)
        self.tried["restored vaults"] += 1
        witness = Witness()
        with self.bank(folder, witness) as bank:
            account = bank.account()
            there = {receipt_id(before, asked) for asked in requests[:kept]}
            gone = {receipt_id(before, asked) for asked in requests} - there
            lost = [asked for asked in requests if receipt_id(before, asked) in gone]
            if bank.recovered["people"].lost != len(gone):
                witness.blame("recovery does not say how many answers are lost")
            spent = account.state.spent
            for asked in requests:  # a late repeat of an early record is not lost
                if asked in lost:
                    continue
                witness.saw(asked.key, ask(account, asked))
                if witness.shown[asked.key] != before.shown[asked.key]:
                    witness.blame("a second sample was shown for the same key")
            for asked in lost:
                expect(witness, AnswerLost, lambda asked=asked: ask(account, asked))
                # The same precision under a new key: the bits that were published, if they are still
                # there (a repeat), or none; a fresh draw would be the second sample of this precision.
                again = attempt(witness, lambda asked=asked: ask(account, replace(asked, key=f"{asked.key} again")))
                if again is not None and again.exact != before.shown[asked.key][0]:
                    witness.blame("a second sample of a lost answer")
            if (witness.touches, witness.draws, account.state.spent) != (0, 0, spent):
                witness.blame("a lost answer was measured, drawn or charged again")
        return witness.wrong

    def cut_off(self) -> list[str]:
        """Reserved, never published, and the vault from before: nobody saw a sample, so there is one."""
        folder, requests = self.copy(), workload_of(self.random, "cut off")
        done = requests[: self.random.randint(1, len(requests))]
        self.asked_all(folder, done[:-1])
        backup = self.copy(folder)
        heard = self.random.random() < 0.5  # whether the backup holds the request
        if heard:
            self._cut(backup, done[-1], "after save_request")
        self._cut(
            folder, done[-1], self.random.choice(("after reserve", "before seal", "after seal", "before publish"))
        )
        for file in folder.glob(f"{VAULT}*"):
            file.unlink()
        for file in backup.glob(f"{VAULT}*"):
            shutil.copy(file, folder)
        self.tried["reservations cut off"] += 1
        witness = Witness()
        with self.bank(folder, witness) as bank:
            found = bank.recovered["people"]
            open_ = model(done)[done[-1].key][0] is not Case.REPEAT  # a repeat is finished once it is reserved
            if (found.finished, found.unknown, found.waiting, found.lost) != (
                heard and open_,
                open_ and not heard,
                0,
                0,
            ):
                witness.blame(f"recovery found {found}")
            for asked in (done[-1], *done):
                witness.saw(asked.key, ask(bank.account(), asked))
            if witness.touches != case_pays(done[-1], witness):
                witness.blame("the data was touched again, or not at all")
        with self.bank(folder, witness) as bank:
            ask_all_again(bank, witness, done)
        return witness.wrong

    def _cut(self, folder: Path, asked: Asked, where: str) -> None:
        after = self.room / "cut"
        fuse = Fuse(name=where, save=lambda: shutil.copytree(folder, after))
        try:
            with self.bank(folder, Witness(), fuse) as bank:
                ask(bank.account(), asked)
        except Crash:
            shutil.rmtree(folder)
            after.rename(folder)

    def altered(self) -> list[str]:
        """A vault that says something else than the ledger is not believed, open or closed."""
        folder, requests = self.copy(), workload_of(self.random, "altered")
        before, victim = self.asked_all(folder, requests), self.random.choice(requests)
        closed, witness = self.copy(folder), Witness()
        self.tried["altered answers"] += 2
        alter(closed, before, victim)
        expect(witness, Tampered, lambda: self.bank(closed, Witness()).__enter__())
        with self.bank(folder, Witness()) as bank:
            alter(folder, before, victim)
            expect(witness, Tampered, lambda: ask(bank.account(), victim))
        return witness.wrong


def ask(account: Account, asked: Asked, spelling: int = 0) -> Result:
    return account.ask(asked.sql(spelling), sigma=asked.sigma, key=asked.key)


def case_pays(asked: Asked, witness: Witness) -> bool:
    """Whether this request had to look at the data."""
    return bool(witness.shown[asked.key][3])


def expect(witness: Witness, kind: type[NoisebankError], action: Callable[[], object]) -> None:
    """The action must be refused for exactly this reason."""
    try:
        action()
        witness.blame(f"{kind.__name__} was due, and an answer came")
    except kind:
        pass
    except NoisebankError as error:
        witness.blame(f"{kind.__name__} was due, and {type(error).__name__} came: {error}")


def attempt(witness: Witness, action: Callable[[], Result]) -> Result | None:
    try:
        return action()
    except Refused:
        return None
    except NoisebankError as error:
        witness.blame(f"{type(error).__name__} came: {error}")
        return None


def race(account: Account, asked: Asked, witness: Witness) -> None:
    """All threads begin together, each with its own spelling."""
    barrier = threading.Barrier(RACERS)
    answers: list[Result] = []

    def run(spelling: int) -> None:
        barrier.wait()
        try:
            answers.append(ask(account, asked, spelling))
        except BaseException as error:
            witness.blame(f"a racer failed: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(place,)) for place in range(RACERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in answers:
        witness.saw(asked.key, answer)


def receipt_id(before: Witness, asked: Asked) -> bytes:
    """The reservation whose answer was shown: a repeat shows the recorded one's."""
    return bytes.fromhex(json.loads(before.shown[asked.key][1])["id"])


def alter(folder: Path, before: Witness, victim: Asked) -> None:
    """Changes one sealed value by one step of its grid."""
    id = receipt_id(before, victim)
    database = apsw.Connection(str(folder / VAULT))
    with database:
        body = json.loads(database.execute("SELECT body FROM answers WHERE id = ?", (id,)).fetchone()[0])
        body["value"][0] += 1
        database.execute("UPDATE answers SET body = ? WHERE id = ?", (to_canonical_json(body), id))
    database.close()


# -- planted bugs ------------------------------------------------------------------------------


@in_place_of("noisebank.account.pipeline", "complete_reservations")
def measures_lost(context: Any, paid: Sequence[tuple[Reservation, Question]]) -> Any:
    """Measures an answer again that was published and lost."""
    outcomes = complete_reservations(context, paid)
    for index, (reservation, question) in enumerate(paid):
        if isinstance(outcomes[index], AnswerLost) and reservation.answer_digest is not None:
            (contents,) = context.plain.draw_contents([(reservation, question)])
            if isinstance(contents, NoisebankError):
                continue
            body = {"wanted": reservation.target.units, "sensitivity": "1", "unit": str(question.unit), **contents}
            sealed = SealedAnswer(reservation.id, context.id, reservation.query, body, context.entropy.token())
            (outcomes[index],) = context.vault.seal_many([sealed])
    return outcomes


class BlursBesideLost(PlainStrategy):
    """Draws a new blur although the vault has lost one of the same query."""

    @replaces
    def draw_contents(self, paid: Any) -> Any:
        self._context.lost_queries.clear()
        return super().draw_contents(paid)


class SpellingCounts(Account):
    """Takes another spelling for another request."""

    @replaces
    def ask(self, sql: str, *, key: str | None = None, **wished: Any) -> Any:
        return super().ask(sql, key=f"{key} {sql}", **wished)


class KeyAlone(Account):
    """Answers a key with whatever was asked under it before."""

    @replaces
    def ask(self, sql: str, *, key: str | None = None, **wished: Any) -> Any:
        row = self.vault._fetch_one("SELECT id FROM requests WHERE key = ?", (key,))
        request = self.vault.find_request(row[0]) if row else None
        if request is not None:
            return super().ask(request.body["sql"], key=key, **request.body["asked"])
        return super().ask(sql, key=key, **wished)


@in_place_of("noisebank.account.pipeline", "hold_locks")
def hold_nothing(*_: object) -> AbstractContextManager[Any]:
    """Lets two threads into the same query."""
    return nullcontext()


BUGS: dict[str, tuple[Any, str, str]] = {
    "a lost answer is measured again": (measures_lost, "backups", "AnswerLost was due"),
    "a blur is drawn beside a lost one": (BlursBesideLost, "backups", "a second sample of a lost answer"),
    "the id depends on the spelling": (SpellingCounts, "keys", "charged twice"),
    "a key answers another request": (KeyAlone, "keys", "KeyReused was due"),
    "no turns": (hold_nothing, "races", "a racer failed"),
    "draws again for a sealed answer": (PLANTED["draws again for a sealed answer"][0], "keys", "a second sample"),
}
"""Each with the scenario and the words that must find it."""


def second_sample(share: float) -> Finding:
    """Two noise samples for one charge."""
    random = workload_rng(6)
    wrong: list[str] = []
    with room_for("second") as name:
        room = Path(name)
        bench = Bench(room, bank_with_account(room), random)
        for scenario, count in WORKLOADS.items():
            for _ in range(max(1, round(count * share))):
                wrong += getattr(bench, scenario.replace(" ", "_"))()
        planted = {}
        for bug, (kind, scenario, words) in BUGS.items():
            bad = Bench(room, bench.start, random, kind)
            tries = (getattr(bad, scenario)() for _ in range(30))
            with plant_part(kind):
                planted[bug] = any(words in what for found in tries for what in found)
    return Finding(
        row="two noise samples for one charge",
        tried=", ".join(f"{count:,} {what}" for what, count in bench.tried.items()),
        figure=f"{len(wrong)} second samples, second charges or wrong refusals",
        violations=len(wrong),
        planted=planted,
        note="; ".join(dict.fromkeys(wrong)),
    )
